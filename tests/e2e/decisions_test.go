// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

func (w *world) read(plan *v1alpha1.UpdatePlan) *v1alpha1.UpdatePlan {
	w.t.Helper()
	now := &v1alpha1.UpdatePlan{}
	if err := cluster.client.Get(w.ctx(), client.ObjectKeyFromObject(plan), now); err != nil {
		w.t.Fatalf("reading UpdatePlan %q: %v", plan.Name, err)
	}
	return now
}

func TestOnlyTheWholeDigestApproves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "x"}))
	w.create(w.newStack())
	plan := w.plan()
	for _, value := range []string{
		"sha256:" + strings.Repeat("0", 64), plan.Spec.Digest[:20], strings.ToUpper(plan.Spec.Digest), plan.Spec.Digest + " ", "yes", plan.Name,
	} {
		known := len(w.read(plan).Status.Decisions)
		w.annotate(plan, v1alpha1.AnnotationApprove, value)
		eventually(t, "the refusal of "+value, slow, func() error {
			now := w.read(plan)
			if len(now.Status.Decisions) == known {
				return has(now, "a decision")
			}
			return nil
		})
		decisions := w.read(plan).Status.Decisions
		if last := decisions[len(decisions)-1]; last.Verdict != v1alpha1.DecisionRefused || last.Reason == "" {
			t.Errorf("%q was not refused with a reason: %+v", value, last)
		}
		if err := has(w.read(plan), v1alpha1.ReasonWaitingForApproval); err != nil {
			t.Errorf("after %q the plan no longer waits: %v", value, err)
		}
	}
	if got := w.file("a"); got != "" {
		t.Errorf("something was applied: %q", got)
	}
}

func TestARejectedPlanIsNeverAppliedAndANewOneComesOnlyOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "x"}))
	w.create(w.newStack())
	plan := w.plan()
	w.annotate(plan, v1alpha1.AnnotationReject, plan.Spec.Digest+" not on a Friday")
	rejected := w.becomes(plan, v1alpha1.ReasonRejected)
	if got := meta.FindStatusCondition(rejected.Status.Conditions, v1alpha1.ConditionApproved); got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, "not on a Friday") {
		t.Errorf("the plan does not say why it was rejected: %+v", got)
	}
	w.condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRejected)
	w.annotate(plan, v1alpha1.AnnotationApprove, plan.Spec.Digest)

	w.annotate(w.stack(), v1alpha1.AnnotationRequestPlan, "please")
	next := w.plan(plan)
	if next.Spec.Trigger.Type != v1alpha1.TriggerRequested {
		t.Errorf("the next plan's trigger is %s, want Requested", next.Spec.Trigger.Type)
	}
	if still := w.read(plan); has(still, v1alpha1.ReasonRejected) != nil || still.Status.Operation != nil {
		t.Errorf("an approval after the rejection counted: %+v", still.Status)
	}
	w.applied(next)
	if got := w.file("a"); got != "x" {
		t.Errorf("the file holds %q", got)
	}
}

func TestASuspendedStackAppliesNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "x"}))
	w.create(w.newStack())
	plan := w.plan()
	w.edit(func(s *v1alpha1.StackSpec) { s.Suspend = true })
	w.condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonSuspended)
	w.becomes(plan, v1alpha1.ReasonSuperseded)
	if got := w.file("a"); got != "" {
		t.Errorf("something was applied: %q", got)
	}
	w.edit(func(s *v1alpha1.StackSpec) { s.Suspend = false })
	w.applied(w.plan(plan))
}

func TestAnUpdatePlanIsImmutableAndACopyOfItIsNeverApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "x"}))
	w.create(w.newStack())
	plan := w.plan()
	changed := plan.DeepCopy()
	changed.Spec.Binding.Revision = strings.Repeat("0", 40)
	if err := cluster.client.Update(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "never changes") {
		t.Errorf("editing the plan's spec: %v", err)
	}
	copied := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Name: "web-99-copy", Namespace: w.namespace}, Spec: *plan.Spec.DeepCopy()}
	w.create(copied)
	w.annotate(copied, v1alpha1.AnnotationApprove, copied.Spec.Digest)
	eventually(t, "the copy to be refused", slow, func() error {
		now := w.read(copied)
		if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionObsolete); c == nil || c.Status != metav1.ConditionTrue {
			return has(now, "obsolete")
		}
		return nil
	})
	if got := w.file("a"); got != "" {
		t.Errorf("the copy was applied: %q", got)
	}
}
