// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/workspace"
)

// waits is the plan that waits, if it has some time left.
func (w *world) waits(left time.Duration) *v1alpha1.UpdatePlan {
	p := w.latest()
	if p == nil || planstate.Of(p) != planstate.Waiting || p.Spec.NotAfter.Sub(w.clock) < left {
		return nil
	}
	return p
}

// changes counts the operations that were started, but for looks at the real resources, which come when they are due.
func (w *world) changes() int {
	n := 0
	for _, r := range w.ops {
		if r.op.Type != workspace.DriftCheck {
			n++
		}
	}
	return n
}

// quietCommit is a commit, in a quiet world, that touches nothing of the project: no preview, no new plan, and the plan that
// waits goes on waiting.
func (w *world) quietCommit() {
	was, operations := w.latest(), w.changes()
	if was != nil && planstate.Of(was) == planstate.Waiting && w.waits(20*time.Minute) == nil {
		return // it expires by the way
	}
	w.pushOf(false)
	w.settle(15 * time.Minute)
	is := w.latest()
	switch {
	case w.changes() != operations:
		w.fail("a commit that touches nothing of the project was previewed")
	case (was == nil) != (is == nil), was != nil && (was.Name != is.Name || planstate.Of(was) != planstate.Of(is)):
		w.fail("a commit that touches nothing of the project ended a plan or made one")
	}
	o := w.stack()
	source := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionSourceReady)
	if demand.Of(o) == demand.Destroy {
		return // the source is not looked at
	}
	if o.Status.ObservedRevision != w.head || !strings.Contains(source.Message, w.head) || !strings.Contains(source.Message, "touches nothing under") {
		w.fail("the Stack does not show the newest commit, or that it touches nothing: %s", text(source))
	}
}

// quietState is somebody else who changes the state, in a quiet world: the plan that waits ends, and another is made.
func (w *world) quietState() {
	was := w.waits(30 * time.Minute)
	if was == nil {
		return
	}
	w.changeState()
	w.settle(2 * stateCheck)
	is, _ := w.api.objects[keyOf(was)].(*v1alpha1.UpdatePlan)
	if is == nil || planstate.Of(is) != planstate.Obsolete {
		w.fail("%s waits though somebody else has changed the state: %s", was.Name, text(is))
	}
	reason, message := planstate.Reason(is)
	if reason != v1alpha1.ReasonStale || !strings.Contains(message, "changed urn:x") {
		w.fail("%s does not say what was changed: %s %s", was.Name, reason, message)
	}
	if next := w.latest(); next.Name == was.Name || next.Spec.Trigger.Type != v1alpha1.TriggerRetry {
		w.fail("no new plan came after %s", was.Name)
	}
}

// quiet is a world in which nothing goes wrong, with a plan that waits.
func quiet(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(seed)
	w.calm()
	w.settle(time.Minute)
	if w.waits(0) == nil {
		t.Fatalf("no plan waits: %s", text(w.stack().Status))
	}
	return w
}

// promised runs what fails by panicking.
func promised(t *testing.T, w *world, do func()) {
	t.Helper()
	defer func() {
		if d := recover(); d != nil {
			t.Errorf("%v\n%s", d, strings.Join(w.trace, "\n"))
		}
	}()
	do()
}

func TestABurstOfEditsMakesOnePlanAndEndsTheOneThatWaitsOnce(t *testing.T) {
	for _, gap := range []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(gap.String(), func(t *testing.T) {
			w := quiet(t, uint64(gap)) //nolint:gosec // any number will do
			promised(t, w, func() {
				before := w.latest()
				for i := range 50 {
					w.editStack("edit", func(o *v1alpha1.Stack) { o.Spec.Config["size"] = apiextensionsv1.JSON{Raw: fmt.Append(nil, 100+i)} })
					w.settle(gap) // everything that can happen until the next edit does, previews that end at once included
				}
				w.settle(time.Minute)
				after := w.latest()
				if n := after.Spec.Sequence - before.Spec.Sequence; n != 1 || w.plansN != 2 {
					t.Errorf("50 edits made %d plans, %d in all", n, w.plansN)
				}
				if w.ends[v1alpha1.ReasonSuperseded] != 1 || planstate.Of(after) != planstate.Waiting {
					t.Errorf("plans ended as %v, the last is %s", w.ends, text(after.Status.Conditions))
				}
				w.checkSettled(false)
			})
		})
	}
}

func TestAStackThatNeverStandsStillSaysSo(t *testing.T) {
	w := quiet(t, 1)
	promised(t, w, func() {
		for i := range 20 {
			w.editStack("edit", func(o *v1alpha1.Stack) { o.Spec.Config["size"] = apiextensionsv1.JSON{Raw: fmt.Append(nil, 100+i)} })
			w.settle(500 * time.Millisecond)
		}
		ready := meta.FindStatusCondition(w.stack().Status.Conditions, v1alpha1.ConditionReady)
		if !strings.Contains(ready.Message, "previews were dropped since") {
			t.Errorf("the Stack does not say that it does not stand still: %s", text(ready))
		}
		w.settle(time.Minute)
		if u := w.stack().Status.Unsettled; u != nil {
			t.Errorf("it stands still and says %s", text(u))
		}
	})
}

func TestAPlanOfAnEarlierCommitWithTheSameProjectIsApplied(t *testing.T) {
	w := quiet(t, 2)
	promised(t, w, func() {
		plan := w.latest()
		w.pushOf(false)
		w.approve(plan) // before anybody has seen the commit
		w.settle(time.Minute)
		now, _ := w.api.objects[keyOf(plan)].(*v1alpha1.UpdatePlan)
		if planstate.Of(now) != planstate.Applied {
			t.Errorf("it ended as %s", text(now.Status))
		}
		w.checkSettled(false)
	})
}

func TestAPlanOfAnEarlierCommitWithAnotherProjectIsNot(t *testing.T) {
	w := quiet(t, 3)
	promised(t, w, func() {
		plan := w.latest()
		w.pushOf(true)
		w.approve(plan)
		w.settle(time.Minute)
		now, _ := w.api.objects[keyOf(plan)].(*v1alpha1.UpdatePlan)
		if state := planstate.Of(now); state == planstate.Applied || w.applies > 0 {
			t.Errorf("it was applied: %s", text(now.Status))
		}
		w.checkSettled(false)
	})
}

func TestTheStateIsLookedAtOnlyWhileAPlanWaitsAndItsPodIsUp(t *testing.T) {
	w := quiet(t, 4)
	promised(t, w, func() {
		needed := func() string {
			return w.api.objects[key{"Workspace", name}].GetAnnotations()[v1alpha1.AnnotationNeededAt]
		}
		was := needed()
		w.settle(25 * time.Minute)
		if w.looks != 2 {
			t.Errorf("%d looks in 25 minutes, want 2", w.looks)
		}
		if is := needed(); is != was {
			t.Errorf("a look counts as use: needed at %s, then at %s", was, is)
		}
		if check := w.latest().Status.StateCheck; check == nil || check.CheckedAt == nil || w.clock.Sub(check.CheckedAt.Time) > stateCheck+time.Minute {
			t.Errorf("the plan does not say when the state was looked at: %s", text(check))
		}
		w.approve(w.latest())
		w.settle(25 * time.Minute)
		if w.looks != 2 {
			t.Errorf("the state of an applied plan was looked at: %d looks", w.looks)
		}
	})
}
