// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/plangate/plangate/plans/redact"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/checkout"
	"github.com/plangate/plangate/workspace/pulumi"
	"github.com/plangate/plangate/workspace/stackconfig"
)

const (
	messageLimit = 4096
	logTailLimit = 8192
	maxMentioned = 10
)

// execution is what the steps of one operation fill in.
type execution struct {
	*Server
	op   *workspace.Operation
	o    *operation
	mask *redact.Mask
	out  *workspace.Result

	target   pulumi.Target
	checkout *checkout.Checkout
	project  *stackconfig.Project
	root     *os.Root
	// deployment is the state. Nil: the stack does not exist.
	deployment json.RawMessage
	state      pulumi.State
	run        *pulumi.Run
	// planned counts the steps of an Apply's plan, or of a Destroy's list.
	planned int
	// found is what a look at the real resources has told: one digest for each that is drifted. Nil: there was none.
	found map[string]string
	// watched is what the run was watched by that changes something.
	watched *watch
	// look are the events of an Accept's look, masked.
	look []byte
	// list is what a destroy takes away.
	list pulumi.DestroyList
	// trail is what a real update has told so far, on disk. lost says that it could not be written.
	trail *os.File
	lost  bool
}

// stop is an operation that ends early.
type stop struct {
	outcome workspace.Outcome
	reason  string
	err     error
}

func (s *stop) Error() string { return s.err.Error() }

// errTimedOut is why an operation is stopped that runs too long.
var errTimedOut = errors.New("it runs longer than it may")

func timedOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimedOut) }

func fail(reason string, err error) error { return &stop{workspace.Failed, reason, err} }

// execute runs an operation to its end. Whatever happens, it returns a result.
func (s *Server) execute(ctx context.Context, o *operation, op *workspace.Operation) *workspace.Result {
	x := &execution{
		Server: s, op: op, o: o, mask: redact.NewMask(secretsOf(op)),
		out: &workspace.Result{ID: op.ID, Type: op.Type, StartedAt: o.startedAt},
	}
	defer x.cleanUp()
	if op.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, op.Timeout, errTimedOut)
		defer cancel()
	}
	x.finish(ctx, x.steps(ctx))
	return x.out
}

func (x *execution) steps(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			x.config.Log.Info("The operation panicked", "operation", x.op.ID, "stack", string(debug.Stack()))
			err = fail(workspace.ReasonInternal, errors.New("the agent panicked: this is a bug; see its log"))
		}
	}()
	steps := x.stepsOf()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil && x.run == nil {
			return ctx.Err()
		}
	}
	return nil
}

// stepsOf are the steps of an operation's type. What changes something begins with its approval.
func (x *execution) stepsOf() []func(context.Context) error {
	source := x.checkOut
	if !x.op.Type.NeedsSource() {
		source = x.standIn
	}
	steps := []func(context.Context) error{x.prepare, source, x.lookForLocks, x.readState, x.renderConfig, x.gatherFacts}
	switch x.op.Type {
	case workspace.PreviewDestroy:
		steps = append(steps, x.listDestroy, x.previewDestroy)
	case workspace.Destroy:
		steps = append([]func(context.Context) error{x.approved}, append(steps, x.listDestroy, x.compare, x.compareList, x.destroy)...)
	case workspace.Preview:
		steps = append(steps, x.initStack, x.preview, x.probe)
	case workspace.DriftCheck:
		steps = append(steps, x.checkDrift)
	case workspace.Apply:
		steps = append([]func(context.Context) error{x.approved}, append(steps, x.compare, x.compareDrift, x.apply, x.readOutputs)...)
	case workspace.Accept:
		steps = append([]func(context.Context) error{x.approved}, append(steps, x.compare, x.compareDrift, x.accept)...)
	}
	return steps
}

// finish turns an error into the outcome, and masks and bounds all texts.
func (x *execution) finish(ctx context.Context, err error) {
	out := x.out
	var s *stop
	switch {
	case err == nil:
	case timedOut(ctx) && x.run == nil:
		out.Outcome, out.Reason, out.Message = workspace.Cancelled, workspace.ReasonTimedOut, "nothing was changed"
	case ctx.Err() != nil && x.run == nil:
		out.Outcome, out.Reason, out.Message = workspace.Cancelled, workspace.ReasonCancelled, "it was asked to stop before Pulumi ran"
	case errors.As(err, &s):
		out.Outcome, out.Reason, out.Message = s.outcome, s.reason, s.Error()
	default:
		out.Outcome, out.Reason, out.Message = workspace.Failed, workspace.ReasonInternal, err.Error()
	}
	if timedOut(ctx) && out.Outcome != workspace.Succeeded {
		if out.Reason == workspace.ReasonCancelled {
			out.Reason = workspace.ReasonTimedOut
		}
		out.Message = fmt.Sprintf("it ran longer than %s (spec.timeout) and was stopped: %s", x.op.Timeout, out.Message)
	}
	if x.run != nil {
		out.LogTail = end(x.mask.Text(x.run.Output), logTailLimit)
		out.Events = x.mask.Events(x.run.Events)
		out.Permalink = permalink(x.run.Output)
	}
	x.o.excuse(out)
	out.Message = cut(x.mask.Text(out.Message), messageLimit)
	out.Violations = x.mask.Texts(out.Violations)
	out.EndedAt = x.config.Now().UTC()
}

// cleanUp removes all that was made for this operation alone.
func (x *execution) cleanUp() {
	if x.root != nil {
		_ = x.root.Close()
	}
	if x.trail != nil {
		_ = x.trail.Close()
	}
	if x.target.Scratch != "" {
		_ = os.RemoveAll(x.target.Scratch)
	}
	x.env.tidy()
}

func (x *execution) prepare(ctx context.Context) error {
	if x.op.Type.Mutates() && digestOf(x.op.Plan) != x.op.PlanDigest {
		return fail(workspace.ReasonPlanInvalid, fmt.Errorf("checking plan: its digest is %q and not %q", digestOf(x.op.Plan), x.op.PlanDigest))
	}
	x.planned = pulumi.PlannedSteps(x.op.Plan)
	version, err := x.driver.Version(ctx)
	if err != nil {
		return fail(workspace.ReasonPulumiUnavailable, err)
	}
	scratch, err := os.MkdirTemp(x.env.scratch(), "op-")
	if err != nil {
		return fmt.Errorf("making folder: %w", err)
	}
	x.out.Facts = &workspace.Facts{PulumiVersion: version}
	x.target = pulumi.Target{
		Stack: x.op.Stack, Scratch: scratch,
		// The CLI would keep an access token in its home, for whoever comes next.
		Env:        append(x.env.of(x.op), "PULUMI_CREDENTIALS_PATH="+scratch),
		ConfigFile: filepath.Join(scratch, "Pulumi."+pulumi.ShortName(x.op.Stack)+".yaml"),
	}
	return nil
}

func (x *execution) checkOut(ctx context.Context) error {
	x.say("Checking out " + short(x.op.Source.Commit))
	got, err := x.checkouts.Get(ctx, x.op.Source)
	switch {
	case errors.Is(err, checkout.ErrInvalid):
		return x.partly(fail(workspace.ReasonProgramInvalid, err))
	case err != nil:
		return x.partly(fail(workspace.ReasonSourceUnavailable, err))
	}
	if x.root, err = os.OpenRoot(got.Root); err != nil {
		return fmt.Errorf("opening checkout: %w", err)
	}
	x.checkout, x.target.Dir = got, got.Path()
	if x.project, err = stackconfig.LoadProject(x.root, got.Dir); err != nil {
		return x.partly(fail(workspace.ReasonProgramInvalid, err))
	}
	x.target.Project, x.out.Project = x.project.Name, x.project.Name
	return nil
}

// partly forgets facts that are not whole.
func (x *execution) partly(err error) error {
	x.out.Facts = nil
	return err
}

func (x *execution) readState(ctx context.Context) error {
	deployment, err := x.driver.Export(ctx, x.target)
	if errors.Is(err, pulumi.ErrNoStack) {
		return nil
	}
	if err != nil {
		return x.partly(fail(pulumi.ReasonOf(err.Error(), workspace.ReasonBackendUnavailable), err))
	}
	x.deployment = deployment
	return nil
}

func (x *execution) renderConfig(ctx context.Context) error {
	backend := x.op.Backend
	if backend == "" {
		backend = x.op.Env["PULUMI_BACKEND_URL"]
	}
	managed := backend == "" || strings.HasPrefix(backend, "https://") || strings.HasPrefix(backend, "http://")
	plain, secret := x.op.Config, x.op.SecretConfig
	if !x.op.Type.NeedsSource() {
		plain, secret = nil, nil // providers are configured from the state
	}
	rendered, err := x.configs.Render(ctx, stackconfig.Input{
		Project: x.project, Stack: pulumi.ShortName(x.op.Stack), Config: plain, SecretConfig: secret,
		StateProvider: stackconfig.ProviderOf(x.deployment), FallbackSalt: x.op.FallbackSalt, Env: x.op.Env,
		File: x.target.ConfigFile, ManagedBackend: managed,
		Encrypt: func(ctx context.Context, key, value string) error { return x.driver.Encrypt(ctx, x.target, key, value) },
	})
	switch {
	case errors.Is(err, stackconfig.ErrSecrets):
		return x.partly(fail(workspace.ReasonSecretsUnavailable, err))
	case errors.Is(err, stackconfig.ErrInvalid):
		return x.partly(fail(workspace.ReasonConfigInvalid, err))
	case err != nil:
		return x.partly(fail(workspace.ReasonInternal, err))
	}
	x.out.Salt = rendered.Salt
	return nil
}

func (x *execution) gatherFacts(context.Context) error {
	state, err := pulumi.Digest(x.deployment)
	if err != nil {
		return x.partly(fail(workspace.ReasonBackendUnavailable, err))
	}
	x.state = state
	if x.out.Pending, err = pulumi.PendingOf(x.deployment); err != nil {
		return x.partly(fail(workspace.ReasonBackendUnavailable, err))
	}
	x.out.Facts.StateDigest = state.Digest
	if !x.op.Type.NeedsSource() {
		x.findPlugins(nil) // the state names all of them
		return nil
	}
	x.out.Facts.Commit, x.out.Facts.Tree = x.checkout.Commit, x.checkout.Tree
	switch x.op.Type {
	case workspace.Apply:
		x.findPlugins(x.op.Plan)
	case workspace.Accept:
		x.findPlugins(nil)
	}
	return nil
}

// findPlugins finds the plugins that the state and a plan need: after a preview, when its plan names them and all are there,
// and before an apply.
func (x *execution) findPlugins(plan []byte) {
	x.out.Facts.Plugins = x.plugins.Find(x.target, x.deployment, plan, x.project.Providers())
}

// initStack creates a stack that does not exist: Pulumi previews no other. It holds no resources, so nothing real changes.
func (x *execution) initStack(ctx context.Context) error {
	if x.deployment != nil {
		return nil
	}
	x.say("Creating the stack " + x.op.Stack)
	if err := x.driver.Init(ctx, x.target); err != nil {
		return fail(pulumi.ReasonOf(err.Error(), workspace.ReasonBackendUnavailable), err)
	}
	return nil
}

func (x *execution) preview(ctx context.Context) error {
	saved, verdict, err := x.previewTo(ctx, filepath.Join(x.target.Scratch, "plan.json"))
	if err != nil {
		return err
	}
	x.take(verdict)
	if verdict.Outcome != workspace.Succeeded {
		return nil
	}
	x.out.Plan = saved
	x.findPlugins(saved)
	if x.refreshes() {
		drift := pulumi.Drift(x.run.Events)
		x.out.Facts.DriftDigest = drift.Digest
		x.remember(drift)
	}
	x.remember(x.state)
	return nil
}

// remember keeps the digests of single resources, so that an Apply can name what moved.
func (x *execution) remember(s pulumi.State) {
	raw, err := json.Marshal(s)
	if err == nil {
		err = x.states.Keep(s.Digest, raw)
	}
	if err != nil {
		x.config.Log.Error(err, "Could not keep the digests of the state")
	}
}

// configKept refuses a plan that was made with another configuration than the rendered one: the CLI writes to the file when
// it misses something, for example a salt, and the plan's secrets could then never be read.
func (x *execution) configKept(v pulumi.Verdict) pulumi.Verdict {
	if !x.run.ConfigChanged {
		return v
	}
	return pulumi.Verdict{
		Outcome: workspace.Failed, Reason: workspace.ReasonConfigInvalid,
		Message: "Pulumi changed the configuration file that was rendered for it; the committed stack file may lack its secrets provider",
	}
}
