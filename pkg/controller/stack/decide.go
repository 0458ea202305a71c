// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
)

// decide finds out whether a preview is due, and why.
func (r *Reconciler) decide(ctx context.Context, s *scope) outcome.Outcome {
	if o := r.stampRequests(ctx, s); o.Kind != outcome.KindDone {
		return o
	}
	if s.stack.Status.Operation != nil {
		return outcome.Done()
	}
	if s.plan != nil && planstate.Of(s.plan) == planstate.Applying {
		// One operation at a time. The plan's end wakes this loop.
		return outcome.Wait(v1alpha1.ReasonApplying, fmt.Sprintf("UpdatePlan %q is being applied", s.plan.Name), 0)
	}
	trigger := why(s)
	if trigger == nil {
		return outcome.Done()
	}
	if wait := r.pause(s); wait > 0 {
		last := s.stack.Status.LastPreview
		return outcome.RetryAfter(v1alpha1.ReasonPreviewFailed, errors.New(last.Message), r.atMostPoll(s, wait))
	}
	s.trigger = trigger
	return outcome.Done()
}

// why says why a preview is due; nil when none is.
func why(s *scope) *v1alpha1.PlanTrigger {
	last := s.stack.Status.LastPreview
	switch {
	case demand.Of(s.stack) == demand.Destroy && (last == nil || last.InputsDigest != s.inputsDigest):
		return whyDestroy(s, last)
	case last == nil:
		return &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSpecChanged, Message: "the Stack is new"}
	case last.InputsDigest != s.inputsDigest:
		return whatMoved(s, last)
	case aboutDrift(s) != nil:
		return aboutDrift(s)
	case last.Result == v1alpha1.PreviewFailed, last.Result == v1alpha1.PreviewInterrupted:
		// What made it due the first time is still why; that it took several tries says nothing of the change.
		if last.Trigger != nil {
			return last.Trigger.DeepCopy()
		}
		return &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRetry, Message: "the last preview did not succeed"}
	case last.Result == v1alpha1.PreviewNoChanges:
		return nil
	default:
		return whyAgain(s, last)
	}
}

// whyAgain says why the same inputs are previewed again after their plan has ended.
func whyAgain(s *scope, last *v1alpha1.PreviewStatus) *v1alpha1.PlanTrigger {
	if s.plan == nil || conditions.Reason(s.plan.Status.Conditions, v1alpha1.ConditionObsolete) == v1alpha1.ReasonDeleted {
		return &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRetry, Message: fmt.Sprintf("UpdatePlan %q was deleted", last.Plan)}
	}
	if again, known := afterDriftPlan(s.plan); known {
		return again
	}
	switch planstate.Of(s.plan) {
	case planstate.Obsolete, planstate.Failed:
		return retryOf(s.plan)
	default:
		return nil
	}
}

// retryOf says why another plan follows one that ended, and whose rest it is: that of the plan itself when it was applied in part
// or cut off, or that of the one that it was to complete.
func retryOf(plan *v1alpha1.UpdatePlan) *v1alpha1.PlanTrigger {
	reason, _ := planstate.Reason(plan)
	trigger := &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRetry, Message: fmt.Sprintf("UpdatePlan %q ended as %s", plan.Name, reason)}
	switch {
	case reason == v1alpha1.ReasonPartiallyApplied, reason == v1alpha1.ReasonInterrupted:
		trigger.Completes = &v1alpha1.CompletedPlan{Name: plan.Name, Digest: plan.Spec.Digest, Result: reason}
		trigger.Message += ": this plan completes it"
		if steps := plan.Status.Operation.Steps; steps != nil {
			trigger.Message += fmt.Sprintf(" (%d steps were done, %d were not)", steps.DoneCount, steps.NotDoneCount)
		}
	case plan.Spec.Trigger.Completes != nil:
		trigger.Completes = plan.Spec.Trigger.Completes.DeepCopy()
		trigger.Message += fmt.Sprintf(": this plan completes UpdatePlan %q in its place", trigger.Completes.Name)
	}
	return trigger
}

// whatMoved says what differs from what was last previewed.
func whatMoved(s *scope, last *v1alpha1.PreviewStatus) *v1alpha1.PlanTrigger {
	trigger := &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRequested}
	var words []string
	if last.Generation != s.stack.Generation {
		trigger.Type = v1alpha1.TriggerSpecChanged
		words = append(words, fmt.Sprintf("the Stack's spec went from generation %d to %d", last.Generation, s.stack.Generation))
	}
	if last.ConfigDigest != s.configDigest {
		trigger.Type = v1alpha1.TriggerConfigChanged
		words = append(words, "configuration, environment or options changed"+entriesMoved(s))
	}
	if last.Operation == v1alpha1.PlanOperationDestroy {
		words = append(words, fmt.Sprintf("the annotation %s is gone: what the Stack's spec says is wanted again", v1alpha1.AnnotationDestroy))
	} else if last.Revision != s.revision.Commit {
		trigger.Type = v1alpha1.TriggerSourceChanged
		words = append(words, fmt.Sprintf("the source went from commit %.12s to %.12s", last.Revision, s.revision.Commit))
	}
	if len(words) == 0 {
		words = append(words, fmt.Sprintf("the annotation %s asked for it", v1alpha1.AnnotationRequestPlan))
	}
	trigger.Message = conditions.Shorten(strings.Join(words, "; "), 1024)
	return trigger
}

// entriesMoved names the entries that differ from those of the last plan, when that is what was last previewed.
func entriesMoved(s *scope) string {
	if s.plan == nil || s.plan.Spec.Binding.ConfigDigest != s.stack.Status.LastPreview.ConfigDigest {
		return ""
	}
	if words := plans.ConfigChanges(s.plan.Spec.Binding.ConfigEntries, s.configEntries, ""); words != "" {
		return ": " + words
	}
	return ""
}

// atMostPoll shortens a pause so that a new commit, which may be the cure, is seen as soon as always.
func (r *Reconciler) atMostPoll(s *scope, pause time.Duration) time.Duration {
	if poll := r.poll(s.stack); poll > 0 {
		return min(pause, poll)
	}
	return pause
}

// pause is how long to wait before a failed preview of the same inputs is tried again.
func (r *Reconciler) pause(s *scope) time.Duration {
	last := s.stack.Status.LastPreview
	if last == nil || last.InputsDigest != s.inputsDigest || last.Failures == 0 {
		return 0
	}
	wait := r.settings.RetryInterval
	for i := int32(1); i < last.Failures && wait < r.settings.RetryMaxInterval; i++ {
		wait *= 2
	}
	return last.EndedAt.Add(min(wait, r.settings.RetryMaxInterval)).Sub(s.now)
}
