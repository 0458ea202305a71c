// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/workspace"
)

const (
	// agentPause is how long an agent that does not answer is left alone.
	agentPause = 3 * time.Second
	// watchTimer looks after a running operation in case its watch was lost in silence.
	watchTimer = 30 * time.Second
)

// apply starts the approved plan, or asks how its operation stands.
func (r *Reconciler) apply(ctx context.Context, s *scope) outcome.Outcome {
	if s.ended() {
		return outcome.Done()
	}
	ws := &v1alpha1.Workspace{}
	err := r.uncached.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: s.plan.Spec.StackRef.Name}, ws)
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Workspace %q: %w", s.plan.Spec.StackRef.Name, err))
	}
	if err == nil {
		s.ws = ws
	}
	if s.started() {
		return r.follow(ctx, s)
	}
	for _, step := range []func(context.Context, *scope) outcome.Outcome{r.readiness, r.waitForLock, r.stillFresh, r.intend} {
		if o := step(ctx, s); o.Kind != outcome.KindDone || s.ended() {
			return o
		}
	}
	return r.start(ctx, s)
}

// readiness waits until the workspace is there and nothing else runs in it.
func (r *Reconciler) readiness(ctx context.Context, s *scope) outcome.Outcome {
	stack := &v1alpha1.Stack{}
	err := r.uncached.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: s.plan.Spec.StackRef.Name}, stack)
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Stack %q: %w", s.plan.Spec.StackRef.Name, err))
	}
	if err != nil {
		stack = nil
	}
	if s.obsolete = moved(s.plan, stack); s.obsolete != nil {
		return outcome.Done()
	}
	s.stack = stack
	switch {
	case stack.Spec.Suspend:
		return outcome.Wait(v1alpha1.ReasonSuspended, fmt.Sprintf("Stack %q is suspended", stack.Name), 0)
	case stack.Status.Operation != nil:
		return outcome.Wait(v1alpha1.ReasonApproved, "approved; waiting for a preview that runs in the workspace", watchTimer)
	}
	if s.obsolete = unknown(s.plan, stack); s.obsolete != nil {
		return outcome.Done()
	}
	if s.ws == nil {
		return outcome.Wait(v1alpha1.ReasonApproved, "approved; waiting for the workspace to be made", watchTimer)
	}
	if err := workspaces.Need(ctx, r.client, s.ws, s.now); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if !workspaces.IsReady(s.ws) {
		message := conditions.Message(s.ws.Status.Conditions, v1alpha1.ConditionReady)
		return outcome.Wait(v1alpha1.ReasonApproved, "approved; waiting for the workspace: "+message, watchTimer)
	}
	return outcome.Done()
}

// intend writes down, under the resourceVersion that is read now, that the plan is to be applied; only one loop can.
func (r *Reconciler) intend(ctx context.Context, s *scope) outcome.Outcome {
	fresh := &v1alpha1.UpdatePlan{}
	if err := r.uncached.Get(ctx, s.key(), fresh); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading the plan again: %w", err))
	}
	if fresh.ResourceVersion != s.plan.ResourceVersion {
		// Somebody rejected it, approved it otherwise, or this loop worked from an old cache.
		return outcome.Wait(v1alpha1.ReasonApproved, "approved; the plan was written to in the meantime: looking again", 200*time.Millisecond)
	}
	// The remote may have taken its time to answer.
	stack := &v1alpha1.Stack{}
	if err := r.uncached.Get(ctx, client.ObjectKeyFromObject(s.stack), stack); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Stack %q again: %w", s.stack.Name, err))
	}
	if stack.UID != s.stack.UID || !demand.Wants(stack, s.plan.Spec.Operation) || stack.Generation != s.stack.Generation || stack.Status.Operation != nil {
		return outcome.Wait(v1alpha1.ReasonApproved, "approved; the Stack was written to in the meantime: looking again", 200*time.Millisecond)
	}
	host, err := workspaces.Host(ctx, r.uncached, s.plan.Namespace, *s.ws.Status.Pod)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	// Last, so that nothing lies between what authorises the apply and the intent.
	if o := r.authorised(ctx, s, fresh); o.Kind != outcome.KindDone {
		return o
	}
	summary := s.plan.Spec.Summary
	s.plan.Status.Operation = &v1alpha1.ApplyOperation{
		ID: string(uuid.NewUUID()), Pod: *s.ws.Status.Pod, Host: conditions.Shorten(host, 64), StartedAt: metav1.NewTime(s.now),
		Unlock: conditions.Shorten(stack.Annotations[v1alpha1.AnnotationUnlock], 253),
		Total:  summary.Create + summary.Update + summary.Replace + summary.Delete + summary.Other + summary.Retained,
	}
	waiting := outcome.Wait(v1alpha1.ReasonApplying, "starting", 0)
	if err := r.writeStatus(ctx, s, outcome.Stopped{Step: stepApply, Outcome: waiting}); err != nil {
		s.plan.Status.Operation = nil
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.before = s.plan.DeepCopy()
	log.FromContext(ctx).Info("Applying", "operation", s.plan.Status.Operation.ID, "planDigest", s.plan.Spec.Digest)
	return outcome.Done()
}

// start hands the plan to the agent. Doing it twice under one id runs it once.
func (r *Reconciler) start(ctx context.Context, s *scope) outcome.Outcome {
	planFile, err := r.store.Get(ctx, s.plan.Namespace, s.plan.Spec.Artifact)
	if planstore.IsInvalid(err) {
		return r.neverStarted(s, v1alpha1.ReasonArtifactInvalid, err.Error())
	}
	if err != nil {
		return outcome.RetryAfter(v1alpha1.ReasonApplying, err, agentPause)
	}
	release, err := r.mayRelease(ctx, s)
	if err != nil {
		return outcome.RetryAfter(v1alpha1.ReasonApplying, err, agentPause)
	}
	op, order := s.plan.Status.Operation, r.order(s, planFile)
	order.Release = release
	target := workspaces.Target(s.ws)
	err = r.agents.Start(ctx, target, order)
	switch {
	case operations.IsBusy(err):
		return outcome.Wait(v1alpha1.ReasonApplying, err.Error(), agentPause)
	case operations.IsInvalid(err):
		return r.neverStarted(s, v1alpha1.ReasonApplyFailed, "the agent refused the plan: "+err.Error())
	case err != nil:
		return outcome.RetryAfter(v1alpha1.ReasonApplying, err, agentPause)
	}
	r.agents.Watch(target, op.ID, r.wake(s.key()))
	return outcome.Wait(v1alpha1.ReasonApplying, fmt.Sprintf("running in pod %q", op.Pod.Name), watchTimer)
}

// order is what the agent is asked to do.
func (r *Reconciler) order(s *scope, planFile []byte) *workspace.Operation {
	op, bound := s.plan.Status.Operation, s.plan.Spec.Binding
	order := &workspace.Operation{
		ID: op.ID, Type: kindOf(s.plan), PodUID: op.Pod.UID, Expect: expected(bound), Plan: planFile, PlanDigest: s.plan.Spec.Artifact.Digest,
		Approval: s.approval,
	}
	if order.Type.NeedsSource() {
		order.Source = workspace.Source{URL: bound.Repository, Commit: bound.Revision, Ref: s.ref, Dir: bound.Directory, Paths: s.stack.Spec.ProjectPaths}
	} else {
		order.Project = s.stack.Status.Project
	}
	s.inputs.Operation(s.stack, order)
	order.Options = workspace.Options{Refresh: bound.Refresh, Targets: bound.Targets, TargetDependents: bound.TargetDependents}
	return order
}

// kindOf is the operation of the agent that applies a plan.
func kindOf(plan *v1alpha1.UpdatePlan) workspace.OperationType {
	switch plan.Spec.Operation {
	case v1alpha1.PlanOperationUpdate:
		return workspace.Apply
	case v1alpha1.PlanOperationDestroy:
		return workspace.Destroy
	case v1alpha1.PlanOperationRefresh:
		return workspace.Accept
	default:
		return "" // no agent does anything of that type
	}
}

// follow asks how the operation stands that the intent names.
func (r *Reconciler) follow(ctx context.Context, s *scope) outcome.Outcome {
	op := s.plan.Status.Operation
	if s.ws == nil || s.ws.Status.Pod == nil || s.ws.Status.Pod.UID != op.Pod.UID || s.ws.Status.Address == "" {
		return r.lookForPod(ctx, s)
	}
	return r.ask(ctx, s, workspaces.Target(s.ws))
}

// ask asks an agent how the operation stands.
func (r *Reconciler) ask(ctx context.Context, s *scope, target operations.Target) outcome.Outcome {
	op := s.plan.Status.Operation
	result, err := r.agents.Result(ctx, target, op.ID)
	switch {
	case operations.IsNotFound(err) && (s.ws == nil || s.ws.Status.Pod == nil || s.ws.Status.Pod.UID != op.Pod.UID):
		return r.neverStarted(s, v1alpha1.ReasonApplyFailed, fmt.Sprintf("pod %q, in which it was to be started, is no longer that of the Workspace", op.Pod.Name))
	case operations.IsNotFound(err):
		return r.startLate(ctx, s)
	case err != nil:
		return outcome.RetryAfter(v1alpha1.ReasonApplying, err, agentPause)
	case result.Outcome == workspace.Running:
		s.result = result
		r.agents.Watch(target, op.ID, r.wake(s.key()))
		return outcome.Wait(v1alpha1.ReasonApplying, fmt.Sprintf("running in pod %q", op.Pod.Name), watchTimer)
	case isLocked(result) && s.plan.DeletionTimestamp.IsZero():
		return r.locked(ctx, s, result)
	default:
		s.result = result
		return outcome.Done()
	}
}

// startLate starts an operation whose intent was written down but which this very pod never heard of: the operator died in
// between. Everything that was checked before the intent is checked again, since that may be long ago.
func (r *Reconciler) startLate(ctx context.Context, s *scope) outcome.Outcome {
	if !s.plan.DeletionTimestamp.IsZero() {
		return r.neverStarted(s, v1alpha1.ReasonDeleting, "the plan was deleted before it could be started")
	}
	if o := r.readiness(ctx, s); o.Kind != outcome.KindDone {
		return o
	}
	if s.obsolete == nil {
		if o := r.stillFresh(ctx, s); o.Kind != outcome.KindDone {
			return o
		}
	}
	if s.obsolete != nil {
		reason, message := s.obsolete.reason, s.obsolete.message
		s.obsolete = nil
		return r.neverStarted(s, reason, message)
	}
	if !s.now.Before(s.plan.Spec.NotAfter.Time) {
		return r.neverStarted(s, v1alpha1.ReasonExpired, "the plan expired before it could be started")
	}
	if o := r.authorised(ctx, s, s.plan); o.Kind != outcome.KindDone {
		return o
	}
	return r.start(ctx, s)
}

// lookForPod decides what becomes of an operation whose pod the Workspace does not name. A pod whose Workspace was torn away
// goes on with it all the same, and its agent tells.
func (r *Reconciler) lookForPod(ctx context.Context, s *scope) outcome.Outcome {
	pod := s.plan.Status.Operation.Pod
	target, lives, err := workspaces.PodTarget(ctx, r.uncached, s.plan.Namespace, pod)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	case lives && target.Address != "":
		return r.askOrphan(ctx, s, target)
	case lives:
		return outcome.Wait(v1alpha1.ReasonApplying, fmt.Sprintf("pod %q does not answer", pod.Name), agentPause)
	default:
		s.result = &workspace.Result{
			Type: kindOf(s.plan), Outcome: workspace.Interrupted,
			Message: fmt.Sprintf("pod %q ended while the plan was being applied; what was done is not known for sure", pod.Name),
		}
		return outcome.Done()
	}
}

// askOrphan asks the agent in a pod that the Workspace does not name. It answers as the agent of the Workspace that it was made
// for, or, once its certificate was renewed under the same name, as that of the present one.
func (r *Reconciler) askOrphan(ctx context.Context, s *scope, target operations.Target) outcome.Outcome {
	o := r.ask(ctx, s, target)
	if o.Kind != outcome.KindRetry || s.ws == nil || string(s.ws.UID) == target.WorkspaceUID {
		return o
	}
	target.WorkspaceUID = string(s.ws.UID)
	return r.ask(ctx, s, target)
}

// neverStarted ends a plan whose operation certainly was not started.
func (r *Reconciler) neverStarted(s *scope, reason, message string) outcome.Outcome {
	now := metav1.NewTime(s.now)
	op := s.plan.Status.Operation
	op.Result, op.EndedAt, op.Mismatches, s.plan.Status.Lock = reason, &now, s.mismatches, nil
	op.Message = conditions.Shorten("nothing was changed: "+strings.TrimPrefix(message, "nothing was changed: "), maxMessage)
	return outcome.Done()
}

// words lists what has moved, field by field.
func words(mismatches []v1alpha1.Mismatch) string {
	list := make([]string, 0, len(mismatches))
	for _, m := range mismatches {
		text := fmt.Sprintf("%s: was %s, is %s", m.Field, orNone(m.Was), orNone(m.Is))
		if m.Detail != "" {
			text += " (" + m.Detail + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
