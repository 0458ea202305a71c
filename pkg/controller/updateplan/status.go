// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval"
)

// writeStatus computes the status from the scope and writes it, once.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, stopped outcome.Stopped) error {
	computeStatus(s, stopped)
	if err := apply.Status(ctx, r.client, s.before, s.plan, fieldOwner); err != nil {
		return err
	}
	countMismatches(s)
	r.tellReleased(s)
	for _, d := range s.verdict.Decisions {
		if d.Verdict == v1alpha1.DecisionRefused {
			countRefused(d)
			events.Emit(r.recorder, s.plan, "Warning", "ApprovalRefused", "Verify", d.Reason)
		}
	}
	s.verdict.Decisions = nil
	events.Transition(r.recorder, s.plan, v1alpha1.ConditionReady, "Reconcile", s.before.Status.Conditions, s.plan.Status.Conditions, isWarning)
	return nil
}

func isWarning(reason string) bool {
	switch reason {
	case v1alpha1.ReasonWaitingForApproval, v1alpha1.ReasonApproved, v1alpha1.ReasonApplying, v1alpha1.ReasonApplied, v1alpha1.ReasonSuperseded,
		v1alpha1.ReasonRejected, v1alpha1.ReasonStackGone, v1alpha1.ReasonDeleted:
		return false
	default:
		return true
	}
}

// computeStatus writes into the plan what the loop found.
func computeStatus(s *scope, stopped outcome.Stopped) {
	status := &s.plan.Status
	status.ObservedGeneration = s.plan.Generation
	if len(status.Diff) == 0 { // the spec never changes, so neither does what is said of it
		status.Diff = plans.DiffLines(&s.plan.Spec)
	}
	status.Decisions = approval.Record(status.Decisions, s.verdict.Decisions)
	if s.verdict.Unguarded && status.UnguardedSince == nil {
		since := metav1.NewTime(s.now)
		status.UnguardedSince = &since
	}
	if s.result != nil && status.Operation != nil && status.Operation.Result == "" {
		progress(status.Operation, s.result)
	}
	set := conditions.Setter{Conditions: &status.Conditions, Generation: s.plan.Generation, Now: metav1.NewTime(s.now)}
	setApproved(set, s)
	setObsolete(set, s)
	setApplied(set, s)
	setRecorded(set, s, stopped.Outcome)
	setReady(set, s, stopped.Outcome)
	setHowTo(s)
}

func setApproved(set conditions.Setter, s *scope) {
	switch {
	case s.verdict.State == approval.Approved:
		set.True(v1alpha1.ConditionApproved, v1alpha1.ReasonApproved, s.verdict.Message)
	case s.verdict.State == approval.Rejected:
		set.False(v1alpha1.ConditionApproved, v1alpha1.ReasonRejected, s.verdict.Message)
	case s.verdict.State == approval.Waiting:
		set.Unknown(v1alpha1.ConditionApproved, s.verdict.Reason, s.verdict.Message)
	case conditions.Reason(s.plan.Status.Conditions, v1alpha1.ConditionApproved) == "":
		set.Unknown(v1alpha1.ConditionApproved, v1alpha1.ReasonWaitingForApproval, "nobody has decided on the plan")
	}
	if s.verdict.Requirements != "" {
		s.plan.Status.Requirements, s.plan.Status.Policy = s.verdict.Requirements, s.verdict.Policy
	}
}

func setObsolete(set conditions.Setter, s *scope) {
	op := s.plan.Status.Operation
	switch {
	case s.obsolete != nil:
		set.True(v1alpha1.ConditionObsolete, s.obsolete.reason, s.obsolete.message)
	case op != nil && outlived(op.Result):
		set.True(v1alpha1.ConditionObsolete, op.Result, op.Message)
	case !conditions.IsTrue(s.plan.Status.Conditions, v1alpha1.ConditionObsolete):
		set.False(v1alpha1.ConditionObsolete, v1alpha1.ReasonCurrent, "nothing that the plan is tied to was seen to move")
	}
}

// outlived reports whether an operation ended because the plan could no longer be applied, with nothing changed.
func outlived(result string) bool {
	switch result {
	case v1alpha1.ReasonStale, v1alpha1.ReasonSuperseded, v1alpha1.ReasonExpired, v1alpha1.ReasonStackGone, v1alpha1.ReasonArtifactInvalid:
		return true
	default:
		return false
	}
}

func setApplied(set conditions.Setter, s *scope) {
	op := s.plan.Status.Operation
	switch {
	case op == nil:
		set.Unknown(v1alpha1.ConditionApplied, v1alpha1.ReasonNotApplied, "nothing was started")
	case op.Result == v1alpha1.ReasonApplied:
		set.True(v1alpha1.ConditionApplied, op.Result, fmt.Sprintf("%s (%d of %d steps)", op.Message, op.Done, op.Total))
	case op.Result != "":
		set.False(v1alpha1.ConditionApplied, op.Result, op.Message)
	default:
		set.Unknown(v1alpha1.ConditionApplied, v1alpha1.ReasonApplying, fmt.Sprintf("operation %s: %d of %d steps", op.ID, op.Done, op.Total))
	}
}

func setRecorded(set conditions.Setter, s *scope, o outcome.Outcome) {
	switch {
	case s.recorded, conditions.IsTrue(s.plan.Status.Conditions, v1alpha1.ConditionRecorded):
		set.True(v1alpha1.ConditionRecorded, v1alpha1.ReasonRecorded, "the end of the plan was recorded")
	case planstate.Ended(s.plan) && o.Kind == outcome.KindRetry:
		set.Unknown(v1alpha1.ConditionRecorded, v1alpha1.ReasonNotRecorded, "the plan has ended; recording it failed: "+o.Message)
	case planstate.Ended(s.plan):
		set.Unknown(v1alpha1.ConditionRecorded, v1alpha1.ReasonNotRecorded, "the plan has ended; that is not recorded yet")
	default:
		set.Keep(v1alpha1.ConditionRecorded, v1alpha1.ReasonNotRecorded, "the plan has not ended")
	}
}

func setReady(set conditions.Setter, s *scope, o outcome.Outcome) {
	defer set.Renew(v1alpha1.ConditionReconciling)()
	reason, message := planstate.Reason(s.plan)
	switch planstate.Of(s.plan) {
	case planstate.Applied:
		set.True(v1alpha1.ConditionReady, reason, message)
	case planstate.Waiting:
		set.False(v1alpha1.ConditionReady, reason, conditions.Message(s.plan.Status.Conditions, v1alpha1.ConditionApproved))
	case planstate.Approved, planstate.Applying:
		if o.Kind == outcome.KindWait || o.Kind == outcome.KindRetry {
			message = o.Message
		}
		if o.Kind == outcome.KindWait && o.Reason == v1alpha1.ReasonLocked {
			reason = v1alpha1.ReasonLocked
		}
		set.Unknown(v1alpha1.ConditionReady, reason, message)
		set.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonProgressing, message)
	default:
		set.False(v1alpha1.ConditionReady, reason, message)
	}
}

// setHowTo prints the ready commands while they can be used.
func setHowTo(s *scope) {
	if planstate.Of(s.plan) == planstate.Waiting {
		s.plan.Status.HowToApprove, s.plan.Status.HowToReject = approval.ApproveCommand(s.plan), approval.RejectCommand(s.plan)
		if plans.Impossible(&s.plan.Spec) != "" {
			s.plan.Status.HowToApprove = ""
		}
		return
	}
	s.plan.Status.HowToApprove, s.plan.Status.HowToReject = "", ""
	if s.ended() && planstate.Of(s.plan) != planstate.Applied && !conditions.IsTrue(s.plan.Status.Conditions, v1alpha1.ConditionApproved) {
		s.plan.Status.Requirements = "none: the plan has ended"
	}
}
