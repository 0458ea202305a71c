// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plangate/plangate/workspace"
)

// CLI drives the real `pulumi`.
type CLI struct {
	binary string
	env    []string
	grace  time.Duration

	mu      sync.Mutex
	version string
	stat    string
}

var _ Driver = (*CLI)(nil)

// New returns a driver of the given binary, or of `pulumi` on the PATH when it is empty. Env is the environment of calls
// that are for no stack. Grace is how long an interrupted call may take to end in order.
func New(binary string, env []string, grace time.Duration) *CLI {
	if binary == "" {
		binary = "pulumi"
	}
	return &CLI{binary: binary, env: env, grace: grace}
}

// Error is a call of the CLI that failed.
type Error struct {
	// Command is what was called: "stack export".
	Command string
	// Code is the exit code.
	Code int
	// Text is what the CLI said. It may hold secrets.
	Text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("running %q: exit code %d: %s", "pulumi "+e.Command, e.Code, strings.TrimSpace(e.Text))
}

// Version asks the CLI once, and again when the binary changed.
func (c *CLI) Version(ctx context.Context) (string, error) {
	path, err := c.path()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("finding %q: %w", c.binary, err)
	}
	stat := fmt.Sprint(path, info.Size(), info.ModTime())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stat == stat {
		return c.version, nil
	}
	out, err := c.text(ctx, Target{Dir: os.TempDir(), Env: c.env}, "", "version")
	if err != nil {
		return "", err
	}
	c.version, c.stat = strings.TrimSpace(out), stat
	return c.version, nil
}

// path finds the binary on the PATH of the environment that it will run in.
func (c *CLI) path() (string, error) {
	if filepath.IsAbs(c.binary) {
		return c.binary, nil
	}
	for _, dir := range filepath.SplitList(getenv(c.env, "PATH")) {
		path := filepath.Join(dir, c.binary)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("finding %q: it is not on the PATH", c.binary)
}

// Export reads a file backend's state directly, which takes a millisecond where the CLI takes half a second, and asks the
// CLI for all others and whenever the file is not as it is expected.
func (c *CLI) Export(ctx context.Context, t Target) (json.RawMessage, error) {
	if deployment, err := exportFile(t); err == nil || errors.Is(err, ErrNoStack) {
		return deployment, err
	}
	out, err := c.text(ctx, t, "", "stack", "export", "-s", t.Stack)
	var failed *Error
	if errors.As(err, &failed) && strings.Contains(failed.Text, "no stack named") {
		return nil, ErrNoStack
	}
	if err != nil {
		return nil, err
	}
	var export struct {
		Deployment json.RawMessage `json:"deployment"`
	}
	if err := json.Unmarshal([]byte(out), &export); err != nil {
		return nil, fmt.Errorf("decoding exported state: %w", err)
	}
	return export.Deployment, nil
}

// Init runs `stack init` in a folder of its own, because it has no --config-file and would write into the checkout.
func (c *CLI) Init(ctx context.Context, t Target) error {
	dir, err := os.MkdirTemp(t.Scratch, "init-")
	if err != nil {
		return fmt.Errorf("making folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config, err := os.ReadFile(t.ConfigFile)
	if err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	project, err := yaml.Marshal(map[string]string{"name": t.Project, "runtime": "yaml"})
	if err != nil {
		return fmt.Errorf("encoding project: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Pulumi.yaml"), project, 0o600); err != nil {
		return fmt.Errorf("writing project: %w", err)
	}
	own := filepath.Join(dir, "Pulumi."+ShortName(t.Stack)+".yaml")
	if err := os.WriteFile(own, config, 0o600); err != nil { //nolint:gosec // G703: a short name has no slash
		return fmt.Errorf("writing configuration: %w", err)
	}
	var head struct {
		SecretsProvider string `json:"secretsprovider"`
	}
	if err := yaml.Unmarshal(config, &head); err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	args := []string{"stack", "init", "-s", t.Stack, "--no-select"}
	if head.SecretsProvider != "" {
		args = append(args, "--secrets-provider", head.SecretsProvider)
	}
	t.Dir = dir
	_, err = c.text(ctx, t, "", args...)
	return err
}

// Preview saves a plan.
func (c *CLI) Preview(ctx context.Context, r Request) (*Run, error) {
	args := []string{"preview", "--save-plan", r.PlanFile}
	r.Env = append(append([]string(nil), r.Env...), "PULUMI_SKIP_CHECKPOINTS=true")
	return c.engine(ctx, r, args)
}

// Up applies a plan, after Pulumi's own constrained preview: never with --skip-preview.
func (c *CLI) Up(ctx context.Context, r Request) (*Run, error) {
	if info, err := os.Stat(r.PlanFile); err != nil || info.Size() == 0 {
		return nil, fmt.Errorf("reading plan %q: there is none, and nothing is applied without", r.PlanFile)
	}
	return c.engine(ctx, r, []string{"up", "--yes", "--plan", r.PlanFile})
}

// Look runs a refresh that ends before it would write the state.
func (c *CLI) Look(ctx context.Context, r Request) (*Run, error) {
	r.Refresh = false
	return c.engine(ctx, r, []string{"refresh", "--preview-only"})
}

// TakeOver runs a refresh of some resources.
func (c *CLI) TakeOver(ctx context.Context, r Request) (*Run, error) {
	if len(r.Targets) == 0 {
		return nil, errors.New("refreshing: no resources were named, and all of them are never taken over")
	}
	r.Refresh, r.TargetDependents = false, false
	return c.engine(ctx, r, []string{"refresh", "--yes", "--skip-preview"})
}

// flags are those that must be the same for a preview and the update by its plan.
func (r *Request) flags() []string {
	var flags []string
	if r.Refresh {
		flags = append(flags, "--refresh")
	}
	for _, urn := range r.Targets {
		flags = append(flags, "--target="+urn)
	}
	if r.TargetDependents && len(r.Targets) > 0 {
		flags = append(flags, "--target-dependents")
	}
	return flags
}

func (c *CLI) engine(ctx context.Context, r Request, args []string) (*Run, error) {
	before, err := os.ReadFile(r.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	binary, err := c.path()
	if err != nil {
		return nil, err
	}
	var pid atomic.Int64
	events, err := newEventServer(&r, func() {
		if p := int(pid.Load()); p > 0 {
			_ = syscall.Kill(-p, syscall.SIGKILL)
		}
	})
	if err != nil {
		return nil, err
	}
	events.refreshing = args[0] == "refresh"
	args = append(args, "-s", r.Stack, "--config-file", r.ConfigFile, "--event-log", events.flag(),
		"--non-interactive", "--color", "never")
	args = append(args, r.flags()...)
	env := append(append([]string(nil), r.Env...), "PULUMI_DEBUG_COMMANDS=true")
	onStart := func(p int) {
		pid.Store(int64(p))
		if r.OnStart != nil {
			r.OnStart(p)
		}
	}
	e, err := run(ctx, binary, call{args: args, dir: r.Dir, env: env, onStart: onStart, onLine: r.OnLine, grace: c.grace, expendable: r.Expendable})
	raw, tally := events.close()
	if err != nil {
		return nil, err
	}
	after, err := os.ReadFile(r.ConfigFile)
	changed := err != nil || sha256.Sum256(before) != sha256.Sum256(after)
	return &Run{ExitCode: e.code, Interrupted: e.interrupted, Output: e.output, Events: raw, Tally: tally, ConfigChanged: changed}, nil //nolint:nilerr // a file that cannot be read was changed
}

// Locks reads the locks of a file backend.
func (c *CLI) Locks(_ context.Context, t Target) ([]workspace.Lock, error) { return readLocks(t) }

// Unlock removes locks of a file backend one by one; of all others the CLI can remove only all.
func (c *CLI) Unlock(ctx context.Context, t Target, locks []workspace.Lock) error {
	err := removeLocks(t, locks)
	if !errors.Is(err, ErrLocksHidden) {
		return err
	}
	_, err = c.text(ctx, t, "", "cancel", "--yes", "-s", t.Stack)
	return err
}

// Outputs reads the outputs from the state, and asks the CLI only when one is secret: each start of it takes a third of a second.
func (c *CLI) Outputs(ctx context.Context, t Target) (map[string]json.RawMessage, []string, error) {
	deployment, err := c.Export(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	known, secret, err := rootOutputs(deployment)
	if err != nil || !secret {
		return known, nil, err
	}
	all, err := c.outputs(ctx, t, "--show-secrets")
	if err != nil {
		return nil, nil, err
	}
	var secrets []string
	for name, value := range all {
		// A ciphertext is never the plain value; what somebody has changed since counts as secret, too.
		if !bytes.Equal(plainJSON(value), known[name]) {
			secrets = append(secrets, name)
		}
	}
	sort.Strings(secrets)
	return all, secrets, nil
}

func (c *CLI) outputs(ctx context.Context, t Target, flags ...string) (map[string]json.RawMessage, error) {
	out, err := c.text(ctx, t, "", append([]string{"stack", "output", "--json", "-s", t.Stack}, flags...)...)
	if err != nil {
		return nil, err
	}
	var outputs map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &outputs); err != nil {
		return nil, fmt.Errorf("decoding outputs: %w", err)
	}
	for name, value := range outputs {
		var compact bytes.Buffer
		if json.Compact(&compact, value) == nil {
			outputs[name] = compact.Bytes()
		}
	}
	return outputs, nil
}

// Encrypt sets a secret in the configuration file; the value goes over stdin, because arguments can be read by others.
func (c *CLI) Encrypt(ctx context.Context, t Target, key, value string) error {
	_, err := c.text(ctx, t, value, "config", "set", key, "--secret", "--config-file", t.ConfigFile, "-s", t.Stack)
	return err
}

func (c *CLI) text(ctx context.Context, t Target, stdin string, args ...string) (string, error) {
	full := append(append([]string(nil), args...), "--non-interactive", "--color", "never")
	binary, err := c.path()
	if err != nil {
		return "", err
	}
	e, err := run(ctx, binary, call{args: full, dir: t.Dir, env: t.Env, stdin: stdin, grace: c.grace, stdoutOnly: true})
	if err != nil {
		return "", err
	}
	if e.code != 0 {
		return "", &Error{Command: strings.Join(args[:min(2, len(args))], " "), Code: e.code, Text: e.stderr + e.output}
	}
	return e.output, nil
}
