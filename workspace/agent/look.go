// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/plans/pulumiplan/live"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

// refreshes tells whether the operation's previews read the real resources first.
func (x *execution) refreshes() bool {
	return x.op.Options.Refresh || x.op.Type == workspace.DriftCheck
}

// checkDrift looks at the real resources. It never creates the stack: of one that does not exist, nothing can have drifted.
func (x *execution) checkDrift(ctx context.Context) error {
	if x.deployment == nil {
		x.out.Outcome, x.out.Facts.RefreshedDigest = workspace.Succeeded, drift.NothingDrifted
		return nil
	}
	err := x.preview(ctx)
	if err == nil {
		x.findPlugins(nil) // those that would read the same again, which is all that an Accept does
	}
	return err
}

// see reads what the run has told of the real resources, and keeps it to compare with.
func (x *execution) see(plan []byte) error {
	reading, err := live.Read(live.Input{Events: x.mask.Events(x.run.Events), Plan: plan})
	if err != nil {
		return fail(workspace.ReasonInternal, err)
	}
	report := drift.Build(reading)
	x.seen = &report
	if reading.Ended && report.Unseen == 0 {
		x.out.Facts.RefreshedDigest = report.Bound()
		x.remember(pulumi.State{Digest: report.Bound(), Resources: report.Sums()})
	}
	return nil
}

// lookAgain reads the real resources once more, right before a plan is applied that was made with knowledge of them: Pulumi
// itself would overwrite what has moved since without a word.
func (x *execution) lookAgain(ctx context.Context) error {
	if x.op.Expect.RefreshedDigest == "" {
		return nil
	}
	x.say("Looking whether the real resources are still as they were when the plan was made")
	plan := filepath.Join(x.target.Scratch, "look.json")
	run, err := x.driver.Preview(ctx, pulumi.Request{Target: x.target, PlanFile: plan, Refresh: true, OnStart: x.noteProcess})
	if err != nil {
		return fail(workspace.ReasonPulumiUnavailable, err)
	}
	saved, readErr := os.ReadFile(plan) //nolint:gosec // G304: a file of ours
	return x.compareSeen(run, saved, pulumi.JudgePreview(run, readErr == nil && len(saved) > 0))
}

// lookBeforeAccepting reads the real resources once more, without the program.
func (x *execution) lookBeforeAccepting(ctx context.Context) error {
	x.say("Looking whether the real resources are still what was accepted")
	run, err := x.driver.Look(ctx, pulumi.Request{Target: x.target, OnStart: x.noteProcess})
	if err != nil {
		return fail(workspace.ReasonPulumiUnavailable, err)
	}
	return x.compareSeen(run, nil, pulumi.JudgeTakeOver(run, 0))
}

func (x *execution) noteProcess(pid int) {
	if err := x.journal.Note(x.op.ID, pid); err != nil {
		x.config.Log.Error(err, "Could not note Pulumi's process")
	}
}

// compareSeen ends the operation unless the look succeeded and found what the plan was made for.
func (x *execution) compareSeen(run *pulumi.Run, plan []byte, verdict pulumi.Verdict) error {
	x.run = run
	if verdict.Outcome != workspace.Succeeded {
		return &stop{verdict.Outcome, verdict.Reason, errors.New("nothing was changed: looking at the real resources: " + verdict.Message)}
	}
	if err := x.see(plan); err != nil {
		return err
	}
	was, is := x.op.Expect.RefreshedDigest, x.seen.Bound()
	if was == is {
		return nil
	}
	return x.stale(is, x.moved(was))
}

// stale ends an operation because the world has moved on.
func (x *execution) stale(is, detail string) error {
	was := x.op.Expect.RefreshedDigest
	x.out.Mismatches = append(x.out.Mismatches, workspace.Mismatch{Field: "refreshedDigest", Was: was, Is: is, Detail: detail})
	return &stop{workspace.Stale, workspace.ReasonExpectationsNotMet,
		fmt.Errorf("not applied: refreshedDigest: was %s, is %s (%s)", short(was), short(is), detail)}
}

// moved names the resources of which the world has moved on since the plan was made; or, when that is not remembered, all that
// are drifted now.
func (x *execution) moved(wanted string) string {
	is := pulumi.State{Digest: x.seen.Bound(), Resources: x.seen.Sums()}
	was, remembered := x.remembered(wanted)
	if wanted == drift.NothingDrifted {
		was, remembered = pulumi.State{}, true
	}
	if !remembered {
		urns := slices.Sorted(maps.Keys(is.Resources))
		if len(urns) == 0 {
			return "nothing is drifted any more"
		}
		return "drifted now: " + strings.Join(urns[:min(len(urns), maxMentioned)], ", ")
	}
	var words []string
	for _, difference := range pulumi.Differences(was, is, maxMentioned) {
		// Differences speak of lists: what was added to the list of what is drifted has moved in the world.
		difference = strings.Replace(difference, "added ", "changed since: ", 1)
		difference = strings.Replace(difference, "changed urn:", "changed again: urn:", 1)
		words = append(words, strings.Replace(difference, "removed ", "back as it was: ", 1))
	}
	return strings.Join(words, ", ")
}

// accept takes the values that are on the list into the state.
func (x *execution) accept(ctx context.Context) error {
	list, err := drift.ParseAcceptance(x.op.Plan)
	if err != nil {
		return fail(workspace.ReasonPlanInvalid, err)
	}
	if list.Digest != x.seen.Bound() {
		return x.stale(x.seen.Bound(), x.moved(list.Digest))
	}
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	g := x.newGuard(cancel)
	request := x.request("")
	request.Refresh = false
	for _, r := range list.Resources {
		request.Targets = append(request.Targets, r.URN)
	}
	request.OnEvent = g.take
	run, err := x.driver.TakeOver(watched, request)
	if err != nil {
		return fail(workspace.ReasonPulumiUnavailable, err)
	}
	x.run = run
	verdict := pulumi.JudgeTakeOver(run, g.count())
	if moved := g.moved(); moved != "" {
		verdict = g.verdict(verdict, moved)
	}
	x.take(verdict)
	x.out.Steps = workspace.Steps{Done: g.count(), Total: len(list.Resources)}
	return nil
}

// guard watches what a run reads in the world, and stops it when that is not what was seen right before.
type guard struct {
	sums map[string]string
	stop context.CancelFunc
	mask *pulumi.Mask

	mu    sync.Mutex
	seen  map[string]bool
	other []string
}

func (x *execution) newGuard(stop context.CancelFunc) *guard {
	return &guard{sums: x.seen.Sums(), stop: stop, mask: x.mask, seen: map[string]bool{}}
}

// take looks at one event.
func (g *guard) take(_ int, event []byte) {
	if !bytes.Contains(event, []byte(`"op":"refresh"`)) || !bytes.Contains(event, []byte(`"resOutputsEvent"`)) {
		return
	}
	reading, err := live.Read(live.Input{Events: g.mask.Events(event)})
	if err != nil || len(reading.Resources) != 1 {
		return
	}
	r := reading.Resources[0]
	if r.Live != nil && !r.Judged {
		return // without the program's side it cannot be told what counts
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if drift.Build(reading).Sums()[r.URN] != g.sums[r.URN] {
		g.other = append(g.other, r.URN)
		g.stop()
		return
	}
	if g.sums[r.URN] != "" {
		g.seen[r.URN] = true
	}
}

func (g *guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.seen)
}

func (g *guard) moved() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.other)
	return strings.Join(slices.Compact(g.other), ", ")
}

// verdict says how a run ended that was stopped because the world moved under it.
func (g *guard) verdict(v pulumi.Verdict, moved string) pulumi.Verdict {
	text := "the world moved while the plan was applied: " + moved
	switch v.Outcome {
	case workspace.Succeeded, workspace.Partial:
		v.Outcome, v.Reason = workspace.Partial, workspace.ReasonPlanViolated
	default:
		v.Outcome, v.Reason = workspace.Violated, workspace.ReasonPlanViolated
	}
	v.Message = strings.TrimSpace(text + "\n" + v.Message)
	v.Violations = append(v.Violations, text)
	return v
}
