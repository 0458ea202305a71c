// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package planstate reads from an UpdatePlan's status where it stands in its life.
//
// It must never say that a plan may be applied: that is decided by plans/approval and by the bound facts.
package planstate

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/plans"
)

// State is where a plan stands. The zero value is invalid.
type State int

// The states, in the order of a plan's life.
const (
	// Waiting for an approval.
	Waiting State = iota + 1
	// Approved, and not started yet.
	Approved
	// Applying: the intent to apply is written down, the end is not.
	Applying
	// Applied whole.
	Applied
	// Rejected by somebody.
	Rejected
	// Obsolete before it was started.
	Obsolete
	// Failed: the attempt ended in another way than applied whole.
	Failed
)

// Of tells where a plan stands.
func Of(plan *v1alpha1.UpdatePlan) State {
	c, op := plan.Status.Conditions, plan.Status.Operation
	switch {
	case op != nil && op.Result == v1alpha1.ReasonApplied:
		return Applied
	case op != nil && op.Result != "":
		return Failed
	case op != nil:
		return Applying
	case conditions.IsTrue(c, v1alpha1.ConditionObsolete):
		return Obsolete
	case conditions.Is(c, v1alpha1.ConditionApproved, metav1.ConditionFalse):
		return Rejected
	case conditions.IsTrue(c, v1alpha1.ConditionApproved):
		return Approved
	default:
		return Waiting
	}
}

// Ended reports whether nothing can happen to the plan any more.
func Ended(plan *v1alpha1.UpdatePlan) bool {
	s := Of(plan)
	return s >= Applied
}

// Recorded reports whether the plan has ended and that is recorded: there is nothing left to do.
func Recorded(plan *v1alpha1.UpdatePlan) bool {
	return Ended(plan) && conditions.IsTrue(plan.Status.Conditions, v1alpha1.ConditionRecorded)
}

// Record is the record of a plan's end at a place in its Stack's chain. It is made from the plan alone, as its status was
// written, so that whoever makes it again gets the same one.
func Record(plan *v1alpha1.UpdatePlan, index int64, previous string) plans.Record {
	outcome, message := Reason(plan)
	return plans.NewRecord(plans.RecordInput{
		Plan: plan, Outcome: outcome, Message: message, EndedAt: EndedAt(plan), Index: index, Previous: previous,
	})
}

// EndedAt is when the plan ended: when the agent said so, or else when the operator wrote it down.
func EndedAt(plan *v1alpha1.UpdatePlan) time.Time {
	kind := v1alpha1.ConditionApplied
	switch Of(plan) {
	case Obsolete:
		kind = v1alpha1.ConditionObsolete
	case Rejected:
		kind = v1alpha1.ConditionApproved
	default:
		if op := plan.Status.Operation; op != nil && op.EndedAt != nil {
			return op.EndedAt.Time
		}
	}
	if c := meta.FindStatusCondition(plan.Status.Conditions, kind); c != nil {
		return c.LastTransitionTime.Time
	}
	return plan.CreationTimestamp.Time
}

// Reason is why the plan stands where it stands, as a condition's reason, and the words for it.
func Reason(plan *v1alpha1.UpdatePlan) (reason, message string) {
	c := plan.Status.Conditions
	switch Of(plan) {
	case Applied, Failed:
		return plan.Status.Operation.Result, plan.Status.Operation.Message
	case Applying:
		return v1alpha1.ReasonApplying, conditions.Message(c, v1alpha1.ConditionApplied)
	case Obsolete:
		return conditions.Reason(c, v1alpha1.ConditionObsolete), conditions.Message(c, v1alpha1.ConditionObsolete)
	case Rejected:
		return v1alpha1.ReasonRejected, conditions.Message(c, v1alpha1.ConditionApproved)
	case Approved:
		return v1alpha1.ReasonApproved, conditions.Message(c, v1alpha1.ConditionApproved)
	default:
		if why := plans.Impossible(&plan.Spec); why != "" {
			return v1alpha1.ReasonProtected, why
		}
		return v1alpha1.ReasonWaitingForApproval, plan.Status.Requirements
	}
}
