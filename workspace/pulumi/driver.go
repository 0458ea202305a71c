// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pulumi drives the Pulumi CLI: preview --save-plan, up --plan, stack export. It knows the CLI's exit codes, texts
// and engine events, and turns them into a workspace.Outcome.
//
// The CLI sends its engine events to a socket of ours, one stream for each phase: a preview has one, an up has the
// constrained preview's and then, if that was not refused, the real update's. The flag is a debugging one (--event-log with
// PULUMI_DEBUG_COMMANDS), but the same that Pulumi's own Automation API uses, and a file in its place would be truncated
// between the phases.
package pulumi

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/plangate/plangate/workspace"
)

// ErrNoStack says that the stack does not exist in the backend.
var ErrNoStack = errors.New("the stack does not exist")

// Target is a stack, and all that a call of the CLI needs to reach it.
type Target struct {
	// Dir is the project's folder, with Pulumi.yaml.
	Dir string
	// Project is the project's name.
	Project string
	// Stack is "name", "project/name" or "organization/project/name".
	Stack string
	// ConfigFile is the rendered configuration of the stack, outside the checkout. Not used by Export.
	ConfigFile string
	// Scratch is a folder for this operation alone.
	Scratch string
	// Env is the whole environment of the CLI, KEY=VALUE.
	Env []string
}

// Request is one preview or update.
type Request struct {
	Target
	// PlanFile is where a preview saves its plan, and where an update reads it. Required, but for a destroy.
	PlanFile string
	// Refresh reads the real resources first.
	Refresh bool
	// Targets limits it to these URNs, and to what depends on them if TargetDependents says so. None: all resources.
	Targets          []string
	TargetDependents bool
	// Expendable says that nothing is lost when the call is killed: it is not given time to end in order.
	Expendable bool
	// OnStart is called with the process of the CLI.
	OnStart func(pid int)
	// OnEvent is called for each engine event as it comes, with its JSON. Phases start at 1.
	OnEvent func(phase int, event []byte)
	// Gate is asked when the preview of an update or a destroy has told all, and before anything real is begun: the CLI waits for
	// the answer, with the stack's lock in its hand. False: it is killed where it stands, and its lock is left. Nil: it goes on.
	Gate func() bool
	// OnLine is called for each line of the output, as it comes. It may hold secrets.
	OnLine func(line string)
}

// Run is how a call of the CLI ended. Output and Events may hold secrets.
type Run struct {
	// ExitCode is the CLI's; -1 when a signal ended it.
	ExitCode int
	// Interrupted says that it was asked to stop.
	Interrupted bool
	// Output is the end of what it wrote.
	Output string
	// Events are the engine events, one line each, of all phases.
	Events []byte
	// Tally is what the events tell.
	Tally Tally
	// ConfigChanged says that the CLI wrote to the configuration file.
	ConfigChanged bool
}

// Driver drives the CLI. Each call ends soon after its context is done: the CLI is interrupted, and killed when it does not
// end in the grace period.
type Driver interface {
	// Version is the CLI's, "v3.276.0".
	Version(ctx context.Context) (string, error)
	// Export reads the stack's deployment: the JSON of apitype.DeploymentV3. ErrNoStack: there is no such stack.
	Export(ctx context.Context, t Target) (json.RawMessage, error)
	// Init creates the stack, with the secrets provider of the configuration file.
	Init(ctx context.Context, t Target) error
	// Preview runs a preview that saves its plan.
	Preview(ctx context.Context, r Request) (*Run, error)
	// Up runs an update that is constrained to a plan. It never runs one without.
	Up(ctx context.Context, r Request) (*Run, error)
	// Look reads the real resources and changes nothing: `refresh --preview-only`. Its events tell what was found.
	Look(ctx context.Context, r Request) (*Run, error)
	// TakeOver reads the real resources of the request's Targets, of which there must be some, into the state: `refresh`.
	TakeOver(ctx context.Context, r Request) (*Run, error)
	// PreviewDestroy shows what a destroy of the stack would do, and changes nothing.
	PreviewDestroy(ctx context.Context, r Request) (*Run, error)
	// Destroy deletes all that the state holds. The program is not run.
	Destroy(ctx context.Context, r Request) (*Run, error)
	// Locks reads the stack's locks. ErrLocksHidden: the backend shows them only to an update that they stop.
	Locks(ctx context.Context, t Target) ([]workspace.Lock, error)
	// Unlock removes locks of the stack: those alone where Locks shows them, and all where it does not. Only for locks that are
	// known to be dead, or that somebody who may wants to be gone.
	Unlock(ctx context.Context, t Target, locks []workspace.Lock) error
	// Outputs reads the stack's outputs, secrets in clear, and the names of the secret ones.
	Outputs(ctx context.Context, t Target) (map[string]json.RawMessage, []string, error)
	// Encrypt encrypts a value with the secrets provider of the configuration file, in that file.
	Encrypt(ctx context.Context, t Target, key, value string) error
	// Decrypt decrypts what the secrets provider of the configuration file has encrypted, in the same order.
	Decrypt(ctx context.Context, t Target, ciphertexts []string) ([]string, error)
}
