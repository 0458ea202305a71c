// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/journal"
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
	was, remembered := x.remembered(wanted)
	if wanted == pulumi.EmptyState {
		was.Digest = wanted
	} else if !remembered {
		return ""
	}
	return strings.Join(pulumi.Differences(was, x.state, maxMentioned), ", ")
}

// remembered are the digests of an earlier look at the state, or at the real resources.
func (x *execution) remembered(digest string) (pulumi.State, bool) {
	var was pulumi.State
	err := json.Unmarshal(x.states.Get(digest), &was)
	return was, err == nil
}

// apply runs the constrained update. A lock that a cut-off operation of this agent left is released, once.
func (x *execution) apply(ctx context.Context) error {
	if x.deployment == nil {
		// It was there for the preview. (Its state then was empty, like none.)
		return fail(workspace.ReasonBackendUnavailable, fmt.Errorf("applying to stack %q: %w", x.op.Stack, pulumi.ErrNoStack))
	}
	plan := filepath.Join(x.target.Scratch, "plan.json")
	if err := os.WriteFile(plan, x.op.Plan, 0o600); err != nil {
		return fmt.Errorf("writing plan: %w", err)
	}
	for attempt := 1; ; attempt++ {
		run, verdict, err := x.up(ctx, plan)
		if err != nil {
			return fail(workspace.ReasonPulumiUnavailable, err)
		}
		x.run = run
		if attempt > 1 || verdict.Reason != workspace.ReasonLocked || !x.ownDeadLock(run) {
			x.take(verdict)
			return nil
		}
		x.say("Releasing the lock of an operation that was cut off")
		if err := x.driver.Unlock(ctx, x.target); err != nil {
			x.take(verdict)
			return nil //nolint:nilerr // still locked: the verdict says by whom
		}
	}
}

// up runs the constrained update once. When the real resources were looked at before, it is stopped if it finds others.
func (x *execution) up(ctx context.Context, plan string) (*pulumi.Run, pulumi.Verdict, error) {
	request := x.request(plan)
	if x.seen == nil {
		run, err := x.driver.Up(ctx, request)
		if err != nil {
			return nil, pulumi.Verdict{}, err
		}
		return run, pulumi.JudgeUp(run), nil
	}
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	g, count := x.newGuard(cancel), request.OnEvent
	request.OnEvent = func(phase int, event []byte) {
		count(phase, event)
		g.take(phase, event)
	}
	run, err := x.driver.Up(watched, request)
	if err != nil {
		return nil, pulumi.Verdict{}, err
	}
	verdict := pulumi.JudgeUp(run)
	if moved := g.moved(); moved != "" {
		verdict = g.verdict(verdict, moved)
	}
	return run, verdict, nil
}

// ownDeadLock says whether all locks are left over from Applies of this agent that were cut off: same stack, host and
// process, and taken while that operation ran. Their processes are dead: the agent killed them when it started.
func (x *execution) ownDeadLock(run *pulumi.Run) bool {
	locks := pulumi.Locks(run.Output + "\n" + strings.Join(run.Tally.Errors, "\n"))
	if len(locks) == 0 || run.Tally.Started > 0 {
		return false
	}
	for _, lock := range locks {
		if !x.isOwnDead(lock) {
			return false
		}
	}
	return true
}

func (x *execution) isOwnDead(lock pulumi.Lock) bool {
	return slices.ContainsFunc(x.journal.All(), func(r journal.Record) bool {
		sameStack := r.Type == workspace.Apply && r.Stack == x.op.Stack && r.Backend == withoutUser(x.op.Backend)
		sameProcess := r.PID != 0 && r.PID == lock.PID && r.Host == lock.Host
		return sameStack && sameProcess && r.Result != nil && mayLeaveLock[r.Result.Outcome] && x.heldDuring(lock, &r)
	})
}

// mayLeaveLock are the ends after which a lock can be left: a process that had to be killed leaves its own, too.
var mayLeaveLock = map[workspace.Outcome]bool{workspace.Interrupted: true, workspace.Cancelled: true, workspace.Partial: true}

// heldDuring says whether the lock was taken while the operation ran. The lock's time has whole seconds.
func (x *execution) heldDuring(lock pulumi.Lock, r *journal.Record) bool {
	until := r.Result.EndedAt
	if until.IsZero() {
		until = x.started
	}
	return !lock.At.Before(r.StartedAt.Truncate(time.Second)) && !lock.At.After(until.Add(time.Second))
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
