// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

// compare refuses to apply when anything is not as it was when the plan was made.
func (x *execution) compare(context.Context) error {
	want, is := x.op.Expect, x.out.Facts
	add := func(field, was, now, detail string) {
		if was != now {
			x.out.Mismatches = append(x.out.Mismatches, workspace.Mismatch{Field: field, Was: was, Is: now, Detail: detail})
		}
	}
	add("commit", want.Commit, is.Commit, "")
	add("tree", want.Tree, is.Tree, "")
	add("stateDigest", want.StateDigest, is.StateDigest, x.stateDetail(want.StateDigest))
	add("pulumiVersion", want.PulumiVersion, is.PulumiVersion, "")
	if was, now := pluginsBut(want.Plugins, is.Plugins), pluginsBut(is.Plugins, want.Plugins); was != now {
		add("plugins", was, now, "other provider plugins would apply the plan than previewed it")
	}
	return x.mismatched()
}

// compareDrift refuses to apply when the real resources are read and are not what the preview of the plan found them to be:
// Pulumi would put them back from where nobody saw them. It costs a preview, and only where resources are read.
func (x *execution) compareDrift(ctx context.Context) error {
	want, is := x.op.Expect.DriftDigest, x.out.Facts
	if want == "" {
		return nil // the preview did not read them; whether this may is a matter of the options that the operator binds
	}
	var now pulumi.State
	if x.op.Options.Refresh {
		x.say("Reading the real resources again")
		run, verdict, err := x.lookAgain(ctx)
		if err != nil {
			return fail(workspace.ReasonPulumiUnavailable, err)
		}
		if verdict.Outcome != workspace.Succeeded {
			return &stop{verdict.Outcome, verdict.Reason, fmt.Errorf("reading the real resources again, before anything was applied: %s", verdict.Message)}
		}
		now = pulumi.Drift(run.Events)
		is.DriftDigest, x.found = now.Digest, x.sums(run.Events)
	}
	if want != is.DriftDigest {
		detail := "the real resources would not be read, and the plan would not put them back"
		if now.Digest != "" {
			detail = x.moved(want, pulumi.State{}, now)
		}
		x.out.Mismatches = append(x.out.Mismatches, workspace.Mismatch{Field: "driftDigest", Was: want, Is: is.DriftDigest, Detail: detail})
	}
	return x.mismatched()
}

// mismatched ends the operation when anything was found moved.
func (x *execution) mismatched() error {
	if len(x.out.Mismatches) == 0 {
		return nil
	}
	fields := make([]string, 0, len(x.out.Mismatches))
	for _, m := range x.out.Mismatches {
		text := fmt.Sprintf("%s: was %s, is %s", m.Field, short(m.Was), short(m.Is))
		if m.Detail != "" {
			text += " (" + m.Detail + ")"
		}
		fields = append(fields, text)
	}
	return &stop{workspace.Stale, workspace.ReasonExpectationsNotMet, fmt.Errorf("not applied: %s", strings.Join(fields, "; "))}
}

// pluginsBut shows the plugins that are not among the others.
func pluginsBut(all, others []workspace.Plugin) string {
	var texts []string
	for _, p := range all {
		if !slices.Contains(others, p) {
			p.Digest = short(p.Digest)
			texts = append(texts, pulumi.PluginText(p))
		}
	}
	return cut(strings.Join(texts, ", "), 512)
}

// stateDetail names the resources that differ from the state that the preview saw, when it is remembered.
func (x *execution) stateDetail(wanted string) string {
	return x.moved(wanted, pulumi.State{Digest: pulumi.EmptyState}, x.state)
}

// moved names the resources that differ from those of a remembered digest. empty is the one that need not be remembered.
func (x *execution) moved(wanted string, empty, is pulumi.State) string {
	was := empty
	if wanted != empty.Digest && json.Unmarshal(x.states.Get(wanted), &was) != nil {
		return ""
	}
	return strings.Join(pulumi.Differences(was, is, maxMentioned), ", ")
}

// apply runs the constrained update. A lock that may be removed is, once; any other ends the operation with nothing changed.
func (x *execution) apply(ctx context.Context) error {
	if x.deployment == nil {
		// It was there for the preview. (Its state then was empty, like none.)
		return fail(workspace.ReasonBackendUnavailable, fmt.Errorf("applying to stack %q: %w", x.op.Stack, pulumi.ErrNoStack))
	}
	plan := filepath.Join(x.target.Scratch, "plan.json")
	if err := os.WriteFile(plan, x.op.Plan, 0o600); err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	if err := x.clearWay(ctx); err != nil {
		return err
	}
	return x.throughLocks(ctx, func() (pulumi.Verdict, error) {
		run, err := x.guarded(ctx, x.driver.Up, x.request(plan))
		if err != nil {
			return pulumi.Verdict{}, err
		}
		verdict := pulumi.JudgeUp(run)
		if moved := x.watched.moved(); moved != "" {
			verdict = violated(verdict, workspace.Violated, moved)
		}
		return verdict, nil
	})
}

// throughLocks runs something real. A lock that may be removed is, once, and it is run again; any other ends the operation.
func (x *execution) throughLocks(ctx context.Context, try func() (pulumi.Verdict, error)) error {
	for attempt := 1; ; attempt++ {
		verdict, err := try()
		if err != nil {
			return err
		}
		released := x.freed(ctx, verdict)
		if attempt > 1 || !released {
			x.take(verdict)
			return nil
		}
		if err := x.compareState(ctx); err != nil {
			return err
		}
	}
}

// freed removes the locks that a run met before it did anything, if they may be removed.
func (x *execution) freed(ctx context.Context, verdict pulumi.Verdict) bool {
	if verdict.Reason != workspace.ReasonLocked || x.run.Tally.Started > 0 {
		return false
	}
	x.out.Locks = pulumi.Locks(x.run.Output + "\n" + strings.Join(x.run.Tally.Errors, "\n"))
	released, err := x.release(ctx, x.out.Locks)
	return released && err == nil
}

// guarded runs the constrained update, the destroy, or what takes the world's values into the state, once. As soon as it tells
// something it holds the lock, and nobody can move the state any more: if somebody did since it was compared, or if what it reads
// in the world is not what was read right before, it is stopped, at the latest when its own preview has ended.
func (x *execution) guarded(ctx context.Context, start func(context.Context, pulumi.Request) (*pulumi.Run, error), request pulumi.Request) (*pulumi.Run, error) {
	guarded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var compare sync.Once
	var moved *stop
	still := func() bool {
		compare.Do(func() {
			if err := x.guard(ctx); err != nil {
				cancel(err)
			}
		})
		var is *stop
		return !errors.As(context.Cause(guarded), &is)
	}
	told, noted, watch, pid := request.OnEvent, request.OnStart, x.watch(cancel), 0
	x.watched = watch
	request.OnEvent = func(phase int, event []byte) {
		still()
		told(phase, event)
		watch.take(event)
	}
	request.OnStart = func(p int) {
		pid = p
		noted(p)
	}
	if x.op.Type != workspace.Accept { // which has no preview of its own: what it read it writes down in peace
		request.Gate = still
	}
	run, err := start(guarded, request)
	if err != nil {
		return nil, fail(workspace.ReasonPulumiUnavailable, err)
	}
	x.run = run
	nothing := run.Tally.Started == 0
	if x.op.Type == workspace.Accept {
		nothing = watch.count() == 0 && watch.moved() == "" // what is read goes into the state
	}
	if errors.As(context.Cause(guarded), &moved) && nothing {
		x.dropLock(context.WithoutCancel(ctx), pid)
		return nil, moved
	}
	return run, nil
}

// readOutputs reads the outputs after a success. Not to have them does not make the success a failure.
func (x *execution) readOutputs(ctx context.Context) error {
	if x.out.Outcome != workspace.Succeeded {
		return nil
	}
	outputs, secrets, err := x.driver.Outputs(context.WithoutCancel(ctx), x.target)
	if err != nil {
		x.out.OutputsLost = true
		x.say("Could not read the outputs: " + err.Error())
		return nil //nolint:nilerr // the update was done, and that is what counts
	}
	x.out.Outputs, x.out.SecretOutputs = outputs, secrets
	return nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// short is enough of an id for a person.
func short(id string) string {
	if hash, ok := strings.CutPrefix(id, "sha256:"); ok && len(hash) > 12 {
		return "sha256:" + hash[:12] + "…"
	}
	if len(id) == 40 || len(id) == 64 {
		return id[:12]
	}
	return id
}
