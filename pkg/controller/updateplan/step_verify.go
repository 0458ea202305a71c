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
	verdict, err := r.decide(ctx, s.plan, question{now: s.now, proof: approval.HasUnseenApproval(s.plan)})
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonWaitingForApproval, err)
	}
	s.verdict = verdict.Verdict
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

// untilExpiry is when to look at the plan again, so that it does not seem to wait when its time is over. Timers are moved by up
// to a tenth: one that is long is set short of the end, and set again then.
func (s *scope) untilExpiry() time.Duration {
	left := max(s.plan.Spec.NotAfter.Sub(s.now), time.Second)
	if left > 10*time.Second {
		return left * 10 / 11
	}
	return left * 11 / 10
}
