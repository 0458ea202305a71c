// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

func TestOf(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	operation := func(result string) func(*v1alpha1.UpdatePlanStatus) {
		return func(s *v1alpha1.UpdatePlanStatus) { s.Operation = &v1alpha1.ApplyOperation{ID: "id", Result: result} }
	}
	fresh := func() *builder.UpdatePlanBuilder { return builder.UpdatePlan("ns", "web-1") }
	tests := map[string]struct {
		reason string
		plan   *builder.UpdatePlanBuilder
		want   State
		ended  bool
		why    string
	}{
		"a new plan":       {reason: "nobody has looked at it", plan: fresh(), want: Waiting, why: v1alpha1.ReasonWaitingForApproval},
		"a waiting plan":   {reason: "nobody has decided", plan: fresh().Condition("Approved", unknown, "WaitingForApproval", ""), want: Waiting, why: v1alpha1.ReasonWaitingForApproval},
		"an approved plan": {reason: "nothing was started", plan: fresh().Condition("Approved", yes, "Approved", ""), want: Approved, why: v1alpha1.ReasonApproved},
		"a rejected plan":  {reason: "somebody ended it", plan: fresh().Condition("Approved", no, "Rejected", ""), want: Rejected, ended: true, why: v1alpha1.ReasonRejected},
		"an obsolete plan that was approved": {
			reason: "the world moved first", plan: fresh().Condition("Approved", yes, "Approved", "").Condition("Obsolete", yes, "Superseded", ""),
			want: Obsolete, ended: true, why: v1alpha1.ReasonSuperseded,
		},
		"an intent": {reason: "from here on something may have happened", plan: fresh().Condition("Approved", yes, "Approved", "").Status(operation("")), want: Applying, why: v1alpha1.ReasonApplying},
		"an intent of an obsolete plan": {
			reason: "an operation that may run is never taken for ended", plan: fresh().Condition("Obsolete", yes, "Superseded", "").Status(operation("")),
			want: Applying, why: v1alpha1.ReasonApplying,
		},
		"applied":                     {reason: "all was done", plan: fresh().Status(operation("Applied")), want: Applied, ended: true, why: v1alpha1.ReasonApplied},
		"partly applied":              {reason: "not all was done", plan: fresh().Status(operation("PartiallyApplied")), want: Failed, ended: true, why: v1alpha1.ReasonPartiallyApplied},
		"a word that nobody knows":    {reason: "an unknown word is never success", plan: fresh().Status(operation("Splendid")), want: Failed, ended: true, why: "Splendid"},
		"a condition nobody knows of": {reason: "it says nothing", plan: fresh().Condition("Blessed", yes, "Yes", ""), want: Waiting, why: v1alpha1.ReasonWaitingForApproval},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := tc.plan.Obj()
			reason, _ := Reason(plan)
			if got := Of(plan); got != tc.want || Ended(plan) != tc.ended || reason != tc.why {
				t.Errorf("%s: Of() = %v, Ended() = %t, Reason() = %q; want %v, %t, %q", tc.reason, got, Ended(plan), reason, tc.want, tc.ended, tc.why)
			}
		})
	}
}
