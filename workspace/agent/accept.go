// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"fmt"
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
		x.out.Outcome, x.out.Facts.DriftDigest = workspace.Succeeded, pulumi.Drift(nil).Digest
		return nil
	}
	if err := x.preview(ctx); err != nil {
		return err
	}
	x.findPlugins(nil) // those that would read the same again, which is all that an Accept does
	if x.out.Outcome == workspace.Failed && x.sawAll() {
		// What the program wants is not known, but what is there is.
		found := pulumi.Drift(x.run.Events)
		x.out.Facts.DriftDigest = found.Digest
		x.remember(found)
	}
	return nil
}

// sawAll tells whether a run that failed has read all real resources before.
func (x *execution) sawAll() bool {
	reading, err := live.Read(live.Input{Events: x.mask.Events(x.run.Events), Failure: x.out.Message})
	if err != nil || !slices.ContainsFunc(reading.Resources, func(r drift.Resource) bool { return r.Read }) {
		return false
	}
	unread := slices.ContainsFunc(reading.Obstacles, func(o drift.Obstacle) bool { return o.Reading })
	return !unread && drift.Build(reading).Unseen == 0
}

// lookAgain reads the real resources right before an operation changes something that is bound to how they are: as its preview
// did, or, to accept what is there, without the program.
func (x *execution) lookAgain(ctx context.Context) (*pulumi.Run, pulumi.Verdict, error) {
	request := x.request(filepath.Join(x.target.Scratch, "again.json"))
	request.OnEvent = nil
	if x.op.Type == workspace.Accept {
		run, err := x.driver.Look(ctx, request)
		if err != nil {
			return nil, pulumi.Verdict{}, err
		}
		x.look = x.mask.Events(run.Events)
		return run, pulumi.JudgeTakeOver(run, 0), nil
	}
	run, err := x.driver.Preview(ctx, request)
	if err != nil {
		return nil, pulumi.Verdict{}, err
	}
	return run, pulumi.JudgePreview(run, true), nil
}

// accept takes into the state what is on the list: the real values of some resources, if all that is drifted is on it, and is as
// it says. Nothing real is changed.
func (x *execution) accept(ctx context.Context) error {
	list, err := drift.ParseAcceptance(x.op.Plan)
	if err != nil {
		return fail(workspace.ReasonPlanInvalid, err)
	}
	reading, err := live.Read(live.Input{Events: x.look})
	if err != nil {
		return fail(workspace.ReasonInternal, err)
	}
	if is := drift.Build(reading).Bound(); is != list.Digest {
		x.out.Mismatches = append(x.out.Mismatches, workspace.Mismatch{
			Field: "driftDigest", Was: list.Digest, Is: is, Detail: "what is drifted is not what the list names",
		})
		return x.mismatched()
	}
	if err := x.clearWay(ctx); err != nil {
		return err
	}
	request := x.request("")
	request.Targets = nil
	for _, r := range list.Resources {
		request.Targets = append(request.Targets, r.URN)
	}
	return x.throughLocks(ctx, func() (pulumi.Verdict, error) {
		run, err := x.guarded(ctx, x.driver.TakeOver, request)
		if err != nil {
			return pulumi.Verdict{}, err
		}
		x.planned = len(list.Resources)
		verdict := pulumi.JudgeTakeOver(run, x.watched.count())
		if moved := x.watched.moved(); moved != "" {
			// The state may have taken over what nobody has accepted: that is never called nothing.
			verdict = violated(verdict, workspace.Partial, moved)
		}
		return verdict, nil
	})
}

// watch looks at what a run reads in the world, and stops it when that is not what was seen right before.
type watch struct {
	// sums are what was seen. Nil: nothing is compared.
	sums map[string]string
	stop context.CancelCauseFunc
	x    *execution

	mu    sync.Mutex
	seen  map[string]bool
	other []string
}

func (x *execution) watch(stop context.CancelCauseFunc) *watch {
	return &watch{sums: x.found, stop: stop, x: x, seen: map[string]bool{}}
}

// take looks at one event.
func (w *watch) take(event []byte) {
	if w.sums == nil {
		return
	}
	urn, sum, judged := w.x.sum(event)
	if urn == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case judged && sum != w.sums[urn]:
		w.other = append(w.other, urn)
		w.stop(&stop{workspace.Stale, workspace.ReasonExpectationsNotMet, fmt.Errorf("not applied: the real resources moved right before: %s", urn)})
	case w.sums[urn] != "":
		w.seen[urn] = true
	}
}

func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// moved names the resources that had moved.
func (w *watch) moved() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.other)
	return strings.Join(slices.Compact(w.other), ", ")
}

// sums are one digest for each resource that the events tell to be drifted. Never nil.
func (x *execution) sums(events []byte) map[string]string {
	found := map[string]string{}
	for line := range bytes.Lines(events) {
		if urn, sum, _ := x.sum(line); sum != "" {
			found[urn] = sum
		}
	}
	return found
}

// sum is what the end of a resource's refresh tells of it: whose it is, a digest if it is drifted, and whether the provider said
// what counts. "": the event is another one.
func (x *execution) sum(event []byte) (urn, sum string, judged bool) {
	if !bytes.Contains(event, []byte(`"op":"refresh"`)) || !bytes.Contains(event, []byte(`"resOutputsEvent"`)) {
		return "", "", false
	}
	reading, err := live.Read(live.Input{Events: x.mask.Events(event)})
	if err != nil || len(reading.Resources) != 1 {
		return "", "", false
	}
	r := reading.Resources[0]
	return r.URN, drift.Build(reading).Sums()[r.URN], r.Live == nil || r.Judged
}

// violated says how a run ended that was stopped because the world moved under it. least is what it comes to when no more is known
// to have been done.
func violated(v pulumi.Verdict, least workspace.Outcome, moved string) pulumi.Verdict {
	text := "the world moved while the plan was applied: " + moved
	if v.Outcome == workspace.Succeeded || v.Outcome == workspace.Partial {
		least = workspace.Partial
	}
	v.Outcome, v.Reason = least, workspace.ReasonPlanViolated
	v.Message = strings.TrimSpace(text + "\n" + v.Message)
	v.Violations = append(v.Violations, text)
	return v
}
