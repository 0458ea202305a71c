// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/plans/approval"
)

// proofTimer is when to look again whether the admission policies are in force that were not.
const proofTimer = 10 * time.Second

// verify decides whether the plan is approved, rejected, or still waits.
func (r *Reconciler) verify(ctx context.Context, s *scope) outcome.Outcome {
	if s.started() || s.ended() {
		return outcome.Done()
	}
	// An approval that was not seen before counts if the policies are in force now, after it was read.
	verdict, err := r.decide(ctx, s.plan, s.now, approval.HasUnseenApproval(s.plan))
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonAdmissionNotEnforced, err)
	}
	s.verdict = verdict
	for _, d := range s.verdict.Decisions {
		log.FromContext(ctx).Info("Decided", "verdict", d.Verdict, "by", d.By, "verified", d.Verified, "reason", d.Reason, "planDigest", s.plan.Spec.Digest)
	}
	switch s.verdict.State {
	case approval.Approved, approval.Rejected:
		return outcome.Done()
	case approval.Waiting:
		return r.whileWaiting(ctx, s)
	case approval.Ended:
		s.obsolete = &ending{s.verdict.Reason, s.verdict.Message}
		return outcome.Done()
	default:
		s.obsolete = &ending{v1alpha1.ReasonSpecInvalid, "the approval could not be decided: this is a bug"}
		return outcome.Done()
	}
}

// decide gathers what vouches for the plan's approvals, and weighs them. fresh asks the API server now.
func (r *Reconciler) decide(ctx context.Context, plan *v1alpha1.UpdatePlan, now time.Time, fresh bool) (approval.Verdict, error) {
	in := approval.Input{Plan: plan, Cluster: r.settings.Cluster, Now: now}
	var err error
	if in.Admission, err = r.admission.Prove(ctx, plan, fresh); err != nil {
		return approval.Verdict{}, err
	}
	return approval.Verify(in), nil
}

// authorised reports, right before an apply is started, whether it is still approved: nothing that was found before counts.
func (r *Reconciler) authorised(ctx context.Context, plan *v1alpha1.UpdatePlan) outcome.Outcome {
	verdict, err := r.decide(ctx, plan, r.now(), true)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonAdmissionNotEnforced, err)
	case !verdict.Allows():
		return outcome.Wait(v1alpha1.ReasonWaitingForApproval, verdict.Message, time.Second)
	}
	return outcome.Done()
}

// untilExpiry is when to look at the plan again, so that it does not seem to wait when its time is over. Timers are moved by up
// to a tenth: one that is long is set short of the end, and set again then.
func (s *scope) untilExpiry() time.Duration {
	left := max(s.plan.Spec.NotAfter.Sub(s.now), time.Second)
	if left > 10*time.Second {
		return left * 10 / 11
	}
	return left * 11 / 10
}
