// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fake has a Pulumi for tests: it does nothing, remembers what it was asked, and ends as it is told.
package fake

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

// Driver is a fake pulumi.Driver. Set its fields before it is used.
type Driver struct {
	// VersionErr is the answer of Version.
	VersionErr error
	// State is what Export returns. Nil: there is no such stack.
	State json.RawMessage
	// ExportErr, InitErr, UnlockErr and OutputsErr are answers of their methods.
	ExportErr, InitErr, UnlockErr, OutputsErr error
	// Held is what Locks returns. Nil: the backend shows none.
	Held []workspace.Lock
	// Plan is what a Preview saves. Nil: nothing is saved.
	Plan []byte
	// Plans are what Previews save, in order, before Plan.
	Plans [][]byte
	// DecryptErr is the answer of Decrypt; without it a ciphertext's plain text is what stands behind its last colon.
	DecryptErr error
	// Runs are the answers of Preview and Up, in order; after the last, an empty success.
	Runs []*pulumi.Run
	// RunErr is an error of Preview and Up.
	RunErr error
	// Block makes Preview and Up wait until it is closed, or the context ends.
	Block chan struct{}
	// OutputValues and SecretOutputs are the answer of Outputs.
	OutputValues  map[string]json.RawMessage
	SecretOutputs []string
	// OnRun is called with each request of Preview and Up.
	OnRun func(r pulumi.Request)

	mu    sync.Mutex
	calls []string
}

var _ pulumi.Driver = (*Driver)(nil)

// Calls are the names of the methods that were called, without Version.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.calls...)
}

func (d *Driver) called(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, name)
}

// Version is that of no real Pulumi.
func (d *Driver) Version(context.Context) (string, error) { return "v3.0.0-fake", d.VersionErr }

// Export returns State.
func (d *Driver) Export(context.Context, pulumi.Target) (json.RawMessage, error) {
	d.called("Export")
	if d.State == nil && d.ExportErr == nil {
		return nil, pulumi.ErrNoStack
	}
	return d.State, d.ExportErr
}

// Init creates nothing.
func (d *Driver) Init(context.Context, pulumi.Target) error {
	d.called("Init")
	return d.InitErr
}

// Preview saves Plan.
func (d *Driver) Preview(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	d.called("Preview")
	plan := d.Plan
	d.mu.Lock()
	if len(d.Plans) > 0 {
		plan, d.Plans = d.Plans[0], d.Plans[1:]
	}
	d.mu.Unlock()
	if plan != nil {
		if err := os.WriteFile(r.PlanFile, plan, 0o600); err != nil {
			return nil, err
		}
	}
	return d.run(ctx, r)
}

// PreviewDestroy shows nothing.
func (d *Driver) PreviewDestroy(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	d.called("PreviewDestroy")
	return d.run(ctx, r)
}

// Destroy destroys nothing.
func (d *Driver) Destroy(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	d.called("Destroy")
	return d.run(ctx, r)
}

// Up applies nothing.
func (d *Driver) Up(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	d.called("Up")
	return d.run(ctx, r)
}

func (d *Driver) run(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	if d.OnRun != nil {
		d.OnRun(r)
	}
	if r.OnStart != nil {
		r.OnStart(os.Getpid())
	}
	if d.Block != nil {
		select {
		case <-d.Block:
		case <-ctx.Done():
			return &pulumi.Run{ExitCode: 1, Interrupted: true}, nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.Runs) == 0 {
		return &pulumi.Run{Tally: pulumi.Tally{Phases: 1}}, d.RunErr
	}
	run := d.Runs[0]
	d.Runs = d.Runs[1:]
	return run, d.RunErr
}

// Look looks at nothing.
func (d *Driver) Look(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	d.called("Look")
	return d.run(ctx, r)
}

// TakeOver takes nothing over.
func (d *Driver) TakeOver(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	d.called("TakeOver")
	return d.run(ctx, r)
}

// Locks returns Held.
func (d *Driver) Locks(context.Context, pulumi.Target) ([]workspace.Lock, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Held == nil {
		return nil, pulumi.ErrLocksHidden
	}
	return d.Held, nil
}

// Unlock removes locks from Held.
func (d *Driver) Unlock(_ context.Context, _ pulumi.Target, locks []workspace.Lock) error {
	d.called("Unlock")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Held = slices.DeleteFunc(d.Held, func(l workspace.Lock) bool { return slices.Contains(locks, l) })
	return d.UnlockErr
}

// Outputs returns OutputValues.
func (d *Driver) Outputs(context.Context, pulumi.Target) (map[string]json.RawMessage, []string, error) {
	d.called("Outputs")
	return d.OutputValues, d.SecretOutputs, d.OutputsErr
}

// Encrypt encrypts nothing.
func (d *Driver) Encrypt(context.Context, pulumi.Target, string, string) error {
	d.called("Encrypt")
	return nil
}

// Decrypt decrypts "anything:plain" to "plain".
func (d *Driver) Decrypt(_ context.Context, _ pulumi.Target, ciphertexts []string) ([]string, error) {
	d.called("Decrypt")
	plain := make([]string, len(ciphertexts))
	for i, c := range ciphertexts {
		plain[i] = c[strings.LastIndex(c, ":")+1:]
	}
	return plain, d.DecryptErr
}
