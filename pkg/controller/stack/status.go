// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/workspaces"
)

// writeStatus computes the status from the scope and writes it, once.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, stopped outcome.Stopped) error {
	computeStatus(s, stopped)
	if err := apply.Status(ctx, r.client, s.before, s.stack, fieldOwner); err != nil {
		return err
	}
	r.tellUnlock(s)
	events.Transition(r.recorder, s.stack, v1alpha1.ConditionReady, "Reconcile", s.before.Status.Conditions, s.stack.Status.Conditions, isWarning)
	if conditions.Reason(s.stack.Status.Conditions, v1alpha1.ConditionDrifted) != v1alpha1.ReasonNotYetObserved {
		events.Transition(r.recorder, s.stack, v1alpha1.ConditionDrifted, "LookForDrift", s.before.Status.Conditions, s.stack.Status.Conditions, isDriftWarning)
	}
	return nil
}

func isWarning(reason string) bool {
	switch reason {
	case v1alpha1.ReasonSourceUnavailable, v1alpha1.ReasonSpecInvalid, v1alpha1.ReasonSecretUnavailable, v1alpha1.ReasonWorkspaceFailed,
		v1alpha1.ReasonPreviewFailed, v1alpha1.ReasonPublishFailed, v1alpha1.ReasonReconcileError:
		return true
	default:
		return false
	}
}

// computeStatus writes into the Stack what the loop found.
func computeStatus(s *scope, stopped outcome.Stopped) {
	s.stack.Status.ObservedGeneration = s.stack.Generation
	setPlans(s, stopped)
	setRecords(s, stopped)
	setLocks(s, stopped)
	set := conditions.Setter{Conditions: &s.stack.Status.Conditions, Generation: s.stack.Generation, Now: metav1.NewTime(s.now)}
	setSourceReady(set, s, stopped)
	setWorkspaceReady(set, s, stopped)
	setPreviewed(set, s, stopped)
	setDrifted(set, s)
	setReady(set, s, stopped)
}

// setPlans tells which plan waits, and what the last applied one left. A loop that could not look leaves all as it is.
func setPlans(s *scope, stopped outcome.Stopped) {
	if stopped.Step == stepLook {
		return
	}
	status := &s.stack.Status
	status.CurrentPlan = nil
	if s.plan == nil {
		return
	}
	ref := &v1alpha1.PlanReference{Name: s.plan.Name, UID: string(s.plan.UID), Digest: s.plan.Spec.Digest, Revision: s.plan.Spec.Binding.Revision}
	switch state := planstate.Of(s.plan); {
	case state == planstate.Applied:
		status.LastAppliedPlan = ref
		status.Outputs = s.plan.Status.Operation.Outputs
		status.OutputsSecret = v1alpha1.OutputsSecretName(s.stack.Name)
	case !planstate.Ended(s.plan):
		status.CurrentPlan = ref
	}
}

// before reports whether the run stopped before a step, so that the step said nothing in this loop.
func before(stopped outcome.Stopped, step string) bool {
	order := []string{stepLook, stepGround, stepSource, stepInputs, stepDecide, stepWorkspace, stepProject, stepPreview, stepPublish, stepPrune, stepDrift, stepFinalize}
	for _, name := range order {
		if name == step {
			return false
		}
		if name == stopped.Step {
			return true
		}
	}
	// Another loop (suspended, deleting) ran.
	return true
}

func setSourceReady(set conditions.Setter, s *scope, stopped outcome.Stopped) {
	switch {
	case stopped.Step == stepSource:
		setStopped(set, v1alpha1.ConditionSourceReady, stopped.Outcome)
	case demand.Of(s.stack) == demand.Destroy:
		set.Unknown(v1alpha1.ConditionSourceReady, v1alpha1.ReasonNotNeeded, "a destroy takes all from the state: the source is not looked at")
	case s.revision.Commit != "":
		set.True(v1alpha1.ConditionSourceReady, v1alpha1.ReasonResolved, resolvedWords(s))
	default:
		set.Keep(v1alpha1.ConditionSourceReady, v1alpha1.ReasonNotYetObserved, "the source was not looked at yet")
	}
}

// resolvedWords say which commit it is, and whether it changes anything of the project.
func resolvedWords(s *scope) string {
	text := fmt.Sprintf("commit %s", s.revision.Commit)
	if as := s.untouched(); as != "" {
		text += fmt.Sprintf(" touches nothing under %s: the project is as at commit %.12s", where(s.stack), as)
	}
	return text
}

func setWorkspaceReady(set conditions.Setter, s *scope, stopped outcome.Stopped) {
	switch {
	case stopped.Step == stepWorkspace:
		setStopped(set, v1alpha1.ConditionWorkspaceReady, stopped.Outcome)
	case s.ws == nil:
		set.Unknown(v1alpha1.ConditionWorkspaceReady, v1alpha1.ReasonNotYetObserved, "no workspace was needed yet")
	case workspaces.IsReady(s.ws):
		set.True(v1alpha1.ConditionWorkspaceReady, v1alpha1.ReasonWorkspaceReady, conditions.Message(s.ws.Status.Conditions, v1alpha1.ConditionReady))
	default:
		reason, message := conditions.Reason(s.ws.Status.Conditions, v1alpha1.ConditionReady), conditions.Message(s.ws.Status.Conditions, v1alpha1.ConditionReady)
		if reason == "" {
			reason, message = v1alpha1.ReasonNotYetObserved, "the workspace was not looked at yet"
		}
		set.Unknown(v1alpha1.ConditionWorkspaceReady, reason, message)
	}
}

func setPreviewed(set conditions.Setter, s *scope, stopped outcome.Stopped) {
	last := s.stack.Status.LastPreview
	switch {
	case stopped.Step == stepInputs, stopped.Step == stepProject, stopped.Step == stepPreview, stopped.Step == stepPublish, stopped.Step == stepDecide && stopped.Outcome.Kind == outcome.KindRetry:
		setStopped(set, v1alpha1.ConditionPreviewed, stopped.Outcome)
	case s.stack.Status.Operation != nil:
		set.Unknown(v1alpha1.ConditionPreviewed, v1alpha1.ReasonPreviewing, "a preview is running")
	case before(stopped, stepDecide):
		set.Keep(v1alpha1.ConditionPreviewed, v1alpha1.ReasonPreviewDue, "the current spec was not previewed yet")
	case s.trigger != nil && s.result == nil:
		set.Unknown(v1alpha1.ConditionPreviewed, v1alpha1.ReasonPreviewDue, s.trigger.Message)
	case last != nil && last.InputsDigest == s.inputsDigest:
		set.True(v1alpha1.ConditionPreviewed, v1alpha1.ReasonPreviewSucceeded, last.Message)
	default:
		set.Unknown(v1alpha1.ConditionPreviewed, v1alpha1.ReasonPreviewDue, "the current spec was not previewed yet")
	}
}

// setStopped sets the condition of the step at which the run stopped.
func setStopped(set conditions.Setter, kind string, o outcome.Outcome) {
	if o.Kind == outcome.KindWait {
		set.Unknown(kind, o.Reason, o.Message)
		return
	}
	set.False(kind, o.Reason, o.Message)
}

func setReady(set conditions.Setter, s *scope, stopped outcome.Stopped) {
	defer set.Renew(v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled)()
	o := stopped.Outcome
	switch {
	case o.Kind == outcome.KindDone && s.stack.Spec.Suspend:
		set.Unknown(v1alpha1.ConditionReady, v1alpha1.ReasonSuspended, "spec.suspend is set: nothing is previewed or applied")
	case o.Kind == outcome.KindDone:
		setSettled(set, s)
	case o.Kind == outcome.KindWait:
		set.Unknown(v1alpha1.ConditionReady, o.Reason, o.Message)
		set.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonProgressing, o.Message)
	case o.Kind == outcome.KindRetry:
		set.False(v1alpha1.ConditionReady, o.Reason, o.Message)
		set.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonProgressing, "trying again: "+o.Message)
	default:
		set.False(v1alpha1.ConditionReady, o.Reason, o.Message)
		set.True(v1alpha1.ConditionStalled, o.Reason, o.Message)
	}
}

// setSettled says what a Stack with nothing to preview stands for: it is in sync, or its plan says what is missing.
func setSettled(set conditions.Setter, s *scope) {
	inSync := v1alpha1.ReasonInSync
	if demand.Of(s.stack) == demand.Destroy {
		inSync = v1alpha1.ReasonDestroyed
	}
	if s.plan == nil {
		set.True(v1alpha1.ConditionReady, inSync, s.stack.Status.LastPreview.Message)
		return
	}
	reason, message := planstate.Reason(s.plan)
	message = fmt.Sprintf("UpdatePlan %q: %s", s.plan.Name, message)
	switch planstate.Of(s.plan) {
	case planstate.Applied:
		set.True(v1alpha1.ConditionReady, inSync, fmt.Sprintf("UpdatePlan %q was applied (%s)", s.plan.Name, s.plan.Spec.Summary.Brief))
	case planstate.Waiting:
		// Nobody works on it and nothing is wrong: neither Reconciling nor Stalled.
		set.False(v1alpha1.ConditionReady, reason, waitingWords(s))
	case planstate.Rejected:
		set.False(v1alpha1.ConditionReady, reason, message)
		set.True(v1alpha1.ConditionStalled, reason, message+"; "+afterRejection(s))
	default:
		set.Unknown(v1alpha1.ConditionReady, reason, message)
		set.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonProgressing, message)
	}
}
