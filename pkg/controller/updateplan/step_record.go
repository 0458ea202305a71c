// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/locks"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/workspace"
)

// maxMessage bounds status.operation.message.
const maxMessage = 4096

// record writes down how the operation ended, and the stack's outputs; and then, in a loop of its own, the record of it.
func (r *Reconciler) record(ctx context.Context, s *scope) outcome.Outcome {
	if !s.ended() && s.result == nil {
		return outcome.Done()
	}
	if s.result != nil && s.plan.Status.Operation.Result == "" {
		shown, note, err := r.keepOutputs(ctx, s)
		if err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		}
		if err := r.reportSteps(ctx, s); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		}
		finish(s)
		s.plan.Status.Operation.Outputs = shown
		if note != "" {
			s.plan.Status.Operation.Message = conditions.Shorten(s.plan.Status.Operation.Message+"; "+note, maxMessage)
		}
	}
	if planstate.Ended(s.before) {
		return r.takePlace(ctx, s)
	}
	// The record is made from what is written down: that comes first.
	if op := s.plan.Status.Operation; op != nil {
		log.FromContext(ctx).Info("Ended a plan", "operation", op.ID, "result", op.Result, "done", op.Done, "total", op.Total, "planDigest", s.plan.Spec.Digest)
	} else {
		log.FromContext(ctx).Info("Ended a plan without applying it", "planDigest", s.plan.Spec.Digest)
	}
	return outcome.Wait(v1alpha1.ReasonNotRecorded, "the plan has ended", turnPause)
}

// finish copies the agent's result into the plan's operation.
func finish(s *scope) {
	op, res := s.plan.Status.Operation, s.result
	op.Result, op.Message = ended(res)
	if text := stepWords(op.Steps); text != "" {
		op.Message = text + "; " + op.Message
	}
	s.plan.Status.Lock = nil
	s.plan.Status.ReleasedLocks = locks.Released(s.plan.Status.ReleasedLocks, res.Released)
	if !res.EndedAt.IsZero() {
		at := metav1.NewTime(res.EndedAt)
		op.EndedAt = &at
	}
	progress(op, res)
	for _, v := range res.Violations[:min(20, len(res.Violations))] {
		op.Violations = append(op.Violations, conditions.Shorten(v, 1024))
	}
	for _, m := range res.Mismatches[:min(20, len(res.Mismatches))] {
		op.Mismatches = append(op.Mismatches, v1alpha1.Mismatch{
			Field: boundName(m.Field), Was: conditions.Shorten(m.Was, 512), Is: conditions.Shorten(m.Is, 512), Detail: conditions.Shorten(m.Detail, 1024),
		})
	}
	if res.Outcome == workspace.Stale {
		op.Message = "nothing was changed: " + words(op.Mismatches)
	}
	op.Message = conditions.Shorten(op.Message, maxMessage-maxHint) + hint(s.plan)
	op.Permalink, op.LogTail = conditions.Shorten(res.Permalink, 2048), conditions.Shorten(res.LogTail, 8192)
}

// maxHint bounds what hint says.
const maxHint = 256

// hint says what could tell why a plan was violated.
func hint(plan *v1alpha1.UpdatePlan) string {
	switch n := plan.Spec.Summary.Unstable; {
	case plan.Status.Operation.Result != v1alpha1.ReasonViolated:
		return ""
	case n > 0:
		return fmt.Sprintf(" (the plan named %d unstable inputs, which differed between two previews already)", n)
	case plan.Spec.Enforcement == v1alpha1.EnforcementProbe:
		return ""
	default:
		return " (if it was the program that differed from one run to the next: spec.plan.enforcement: Probe on the Stack names such inputs in the next plan)"
	}
}

// boundName is the binding's name for what the agent compared.
func boundName(field string) string {
	if field == "commit" {
		return "revision"
	}
	return conditions.Shorten(field, 128)
}

// progress copies how far the operation is.
func progress(op *v1alpha1.ApplyOperation, res *workspace.Result) {
	op.Done = int32(res.Steps.Done) //nolint:gosec // resources of one stack
	if res.Steps.Total > 0 {
		op.Total = int32(res.Steps.Total) //nolint:gosec // resources of one stack
	}
}

// ended turns an outcome into the plan's words.
func ended(res *workspace.Result) (reason, message string) {
	message = res.Message
	switch res.Outcome {
	case workspace.Succeeded:
		if res.Type == workspace.Destroy {
			return v1alpha1.ReasonApplied, "all that the plan lists was destroyed"
		}
		return v1alpha1.ReasonApplied, "all of the plan was applied"
	case workspace.Stale:
		return v1alpha1.ReasonStale, message
	case workspace.Violated:
		return v1alpha1.ReasonViolated, "nothing was changed: " + message
	case workspace.Partial:
		return v1alpha1.ReasonPartiallyApplied, message
	case workspace.Cancelled:
		if res.Steps.Done > 0 {
			return v1alpha1.ReasonPartiallyApplied, "it was stopped in order: " + message
		}
		return v1alpha1.ReasonApplyFailed, "it was stopped before anything was changed: " + message
	case workspace.Failed:
		return v1alpha1.ReasonApplyFailed, message
	default:
		return v1alpha1.ReasonInterrupted, message
	}
}

// release lets a plan go once it has ended and that is recorded.
func (r *Reconciler) release(ctx context.Context, s *scope) outcome.Outcome {
	if !planstate.Recorded(s.plan) {
		return r.endDeleted(ctx, s)
	}
	if o := r.chained(ctx, s); o.Kind != outcome.KindDone {
		return o
	}
	if err := apply.RemoveFinalizer(ctx, r.client, s.plan, v1alpha1.Finalizer); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.gone = true
	return outcome.Done()
}

// endDeleted ends a plan that is being deleted, and records that. The finalizer goes in the next loop.
func (r *Reconciler) endDeleted(ctx context.Context, s *scope) outcome.Outcome {
	step := r.supersede
	if s.started() {
		step = r.apply
	}
	if o := step(ctx, s); o.Kind != outcome.KindDone {
		return o
	}
	if !s.ended() && s.result == nil {
		s.obsolete = &ending{v1alpha1.ReasonDeleted, "somebody deleted the plan before it was applied"}
	}
	if o := r.record(ctx, s); o.Kind != outcome.KindDone {
		return o
	}
	return outcome.Wait(v1alpha1.ReasonDeleting, "the end of the plan was recorded", time.Millisecond)
}
