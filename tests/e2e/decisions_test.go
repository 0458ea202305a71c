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
		err := w.tryAnnotate(plan.DeepCopy(), v1alpha1.AnnotationApprove, value)
		if want := "what is said must be exactly " + plan.Spec.Digest + " by " + approver; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not refused with %q: %v", value, want, err)
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
	if err := w.tryAnnotate(plan, v1alpha1.AnnotationApprove, plan.Spec.Digest); err == nil || !strings.Contains(err.Error(), "has ended: Rejected") {
		t.Errorf("approving what was rejected: %v", err)
	}

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
	if err := cluster.client.Create(w.ctx(), copied.DeepCopy()); err == nil || !strings.Contains(err.Error(), "only the operator creates UpdatePlans") {
		t.Errorf("making a copy: %v", err)
	}
	// Somebody has got hold of the operator's token.
	if err := cluster.operator.Create(w.ctx(), copied); err != nil {
		t.Fatal(err)
	}
	// Either somebody is faster than the operator, or the API server says that the copy has ended.
	if err := w.tryAnnotate(copied, v1alpha1.AnnotationApprove, copied.Spec.Digest); err != nil && !strings.Contains(err.Error(), "the plan has ended") {
		t.Fatal(err)
	}
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

// Who makes a Stack does not approve its plan, who may not approve does not, and the record names who did.
func TestADecisionIsInTheNameOfWhoMadeIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "x"}))
	w.create(w.newStack())
	plan := w.plan()
	if len(plan.Spec.Authors) != 1 {
		t.Fatalf("the plan does not say who wrote the change: %q", plan.Spec.Authors)
	}
	for user, want := range map[string]string{
		plan.Spec.Authors[0] + " --as-group=system:masters": "an author of a change cannot approve it",
		"mallory@example.com":                               "User \"mallory@example.com\" cannot ",
		"system:serviceaccount:flux-system:kustomize-controller --as-group=system:masters": "service accounts and system users do not decide by annotation",
	} {
		out, err := w.tryShell(strings.Replace(plan.Status.HowToApprove, "kubectl ", "kubectl --as="+user+" ", 1))
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s approves: %v\n%s", user, err, out)
		}
	}
	decisions := w.applied(plan).Status.Decisions
	if len(decisions) != 1 || decisions[0].By != approver || !decisions[0].Verified || decisions[0].Method != v1alpha1.MethodAnnotation {
		t.Errorf("the record does not say who approved: %+v", decisions)
	}
}
