// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/workspace"
)

const (
	// agentPause is how long an agent that does not answer is left alone.
	agentPause = 3 * time.Second
	// watchTimer looks after a running operation in case its watch was lost in silence.
	watchTimer = 30 * time.Second
)

// preview starts the preview that is due, or asks how the running one stands.
func (r *Reconciler) preview(ctx context.Context, s *scope) outcome.Outcome {
	if s.settled() {
		return outcome.Done()
	}
	if s.stack.Status.Operation == nil {
		if o := r.intend(ctx, s); o.Kind != outcome.KindDone {
			return o
		}
	}
	target := operations.Target{}
	if s.podOffered() {
		target = workspaces.Target(s.ws)
	} else if o := r.lookForPod(ctx, s, &target); o.Kind != outcome.KindDone {
		return o
	}
	result, err := r.agents.Result(ctx, target, s.stack.Status.Operation.ID)
	if operations.IsUnavailable(err) && !s.podOffered() && s.ws != nil {
		// An orphan answers as what its certificate was renewed for.
		target.WorkspaceUID = string(s.ws.UID)
		result, err = r.agents.Result(ctx, target, s.stack.Status.Operation.ID)
	}
	return r.previewed(ctx, s, target, result, err)
}

// previewed is what becomes of what an agent says of a preview.
func (r *Reconciler) previewed(ctx context.Context, s *scope, target operations.Target, result *workspace.Result, err error) outcome.Outcome {
	switch {
	case operations.IsNotFound(err) && s.abandoned():
		return r.abandon(s)
	case operations.IsNotFound(err) && !s.podOffered():
		return r.interrupted(s, fmt.Errorf("pod %q is no longer that of the Workspace", s.stack.Status.Operation.Pod.Name))
	case operations.IsNotFound(err):
		return r.start(ctx, s, target)
	case err != nil:
		return outcome.RetryAfter(v1alpha1.ReasonPreviewing, err, agentPause)
	case result.Outcome == workspace.Running:
		return r.follow(ctx, s, target)
	case s.abandoned():
		return r.abandon(s)
	default:
		s.result = result
		return outcome.Done()
	}
}

// follow watches a running preview, and asks it to stop when its inputs are no longer asked for.
func (r *Reconciler) follow(ctx context.Context, s *scope, target operations.Target) outcome.Outcome {
	op := s.stack.Status.Operation
	if s.abandoned() {
		if err := r.agents.Cancel(ctx, target, op.ID); err != nil {
			return outcome.RetryAfter(v1alpha1.ReasonPreviewing, err, agentPause)
		}
	}
	r.agents.Watch(target, op.ID, r.wake(s.key()))
	return outcome.Wait(v1alpha1.ReasonPreviewing, s.previewing(), watchTimer)
}

// intend writes down that a preview is to be run, before anything is started.
func (r *Reconciler) intend(ctx context.Context, s *scope) outcome.Outcome {
	ws := &v1alpha1.Workspace{}
	if err := r.uncached.Get(ctx, s.key(), ws); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Workspace %q: %w", s.stack.Name, err))
	}
	if !workspaces.IsReady(ws) {
		return r.notReady(ws)
	}
	s.ws = ws
	image, err := workspaces.Image(ctx, r.uncached, s.stack.Namespace, *ws.Status.Pod)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	case image == "":
		return outcome.Wait(v1alpha1.ReasonWorkspaceStarting, fmt.Sprintf("it is not known which image pod %q runs", ws.Status.Pod.Name), agentPause)
	}
	s.inputsDigest = s.inputsOf(s.revision.Commit)
	s.stack.Status.Operation = &v1alpha1.PreviewOperation{
		ID: string(uuid.NewUUID()), InputsDigest: s.inputsDigest, ConfigDigest: s.configDigest, Generation: s.stack.Generation,
		Author: plans.Author(s.before.Annotations[v1alpha1.AnnotationEditedBy], s.stack.Generation), Operation: demand.Operation(s.stack),
		ResourceVersion: s.before.ResourceVersion, Revision: s.revision.Commit, Tree: s.tree(), Trigger: *s.trigger, WorkspaceImage: image, Pod: *ws.Status.Pod, StartedAt: metav1.NewTime(s.now),
	}
	s.stack.Status.Operation.Refresh = demand.Of(s.stack) == demand.Update && refreshed(s.stack, s.trigger)
	if accepts(s.trigger, s) {
		s.stack.Status.Operation.Operation, s.stack.Status.Operation.Refresh = v1alpha1.PlanOperationRefresh, true
	}
	if r.settings.SettleTime > 0 {
		settles := metav1.NewMicroTime(s.now.Add(r.settings.SettleTime))
		s.stack.Status.Operation.SettlesAt = &settles
	}
	waiting := outcome.Wait(v1alpha1.ReasonPreviewing, s.trigger.Message+s.restless(), 0)
	if err := r.writeStatus(ctx, s, outcome.Stopped{Step: stepPreview, Outcome: waiting}); err != nil {
		s.stack.Status.Operation = nil
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.before = s.stack.DeepCopy()
	log.FromContext(ctx).Info("Previewing", "operation", s.stack.Status.Operation.ID, "revision", s.revision.Commit, "trigger", s.trigger.Type, "why", s.trigger.Message)
	return outcome.Done()
}

// start hands the preview to the agent. Doing it twice under one id runs it once.
func (r *Reconciler) start(ctx context.Context, s *scope, target operations.Target) outcome.Outcome {
	op := s.stack.Status.Operation
	in, err := r.inputs.Gather(ctx, s.stack)
	if err != nil {
		return outcome.RetryAfter(v1alpha1.ReasonSecretUnavailable, err, r.settings.RetryInterval)
	}
	if in.ConfigDigest != op.ConfigDigest {
		// A Secret moved between the decision and now: the cache will say so too, and decide anew.
		return r.abandon(s)
	}
	order := &workspace.Operation{
		ID: op.ID, Type: workspace.Preview, PodUID: op.Pod.UID,
		Source: sourceOf(s.stack, op.Revision, s.revision.Ref), Probe: enforcement(s.stack) == v1alpha1.EnforcementProbe,
	}
	in.Operation(s.stack, order)
	orderFor(op, order)
	if op.Operation == v1alpha1.PlanOperationDestroy {
		order.Type, order.Project, order.Probe = workspace.PreviewDestroy, s.stack.Status.Project, false
		order.Source, order.Options = workspace.Source{}, workspace.Options{}
	}
	err = r.agents.Start(ctx, target, order)
	switch {
	case operations.IsBusy(err):
		return outcome.Wait(v1alpha1.ReasonPreviewing, err.Error(), agentPause)
	case operations.IsInvalid(err):
		return r.unusable(s, fmt.Errorf("the agent refused the preview: %w", err))
	case operations.IsWrongPod(err):
		return r.interrupted(s, err)
	case err != nil:
		return outcome.RetryAfter(v1alpha1.ReasonPreviewing, err, agentPause)
	}
	r.agents.Watch(target, op.ID, r.wake(s.key()))
	return outcome.Wait(v1alpha1.ReasonPreviewing, s.previewing(), watchTimer)
}

// lookForPod decides what becomes of a preview whose pod the Workspace does not name: the agent in a pod that lives tells.
func (r *Reconciler) lookForPod(ctx context.Context, s *scope, target *operations.Target) outcome.Outcome {
	pod := s.stack.Status.Operation.Pod
	found, lives, err := workspaces.PodTarget(ctx, r.uncached, s.stack.Namespace, pod)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	case lives && found.Address != "":
		*target = found
		return outcome.Done()
	case lives:
		return outcome.Wait(v1alpha1.ReasonPreviewing, fmt.Sprintf("pod %q does not answer", pod.Name), agentPause)
	default:
		return r.interrupted(s, fmt.Errorf("pod %q is gone", pod.Name))
	}
}

// abandon drops a preview of inputs that are no longer asked for.
func (r *Reconciler) abandon(s *scope) outcome.Outcome {
	s.drop()
	return outcome.Wait(v1alpha1.ReasonPreviewDue, "the Stack changed while it was previewed: previewing anew"+s.restless(), time.Millisecond)
}

// interrupted records a preview that was cut off. It changed nothing, so that it is simply run again.
func (r *Reconciler) interrupted(s *scope, why error) outcome.Outcome {
	err := fmt.Errorf("the preview was cut off: %w", why)
	if s.aboutDrift() {
		return r.notPlanned(s, err)
	}
	r.record(s, v1alpha1.PreviewInterrupted, "", err.Error())
	return outcome.RetryAfter(v1alpha1.ReasonPreviewInterrupted, err, r.settings.RetryInterval)
}

// record writes how the running preview ended, and that none runs any more.
func (r *Reconciler) record(s *scope, result v1alpha1.PreviewResult, plan, message string) {
	op, last := s.stack.Status.Operation, s.stack.Status.LastPreview
	failures := int32(0)
	if result == v1alpha1.PreviewFailed || result == v1alpha1.PreviewInterrupted {
		failures = 1
		if last != nil && last.InputsDigest == op.InputsDigest {
			failures += last.Failures
		}
	}
	if failures == 0 {
		s.planned()
	}
	if s.result != nil && s.result.Facts != nil {
		op.Tree = s.result.Facts.Tree
	}
	s.stack.Status.Unsettled = nil
	s.stack.Status.LastPreview = &v1alpha1.PreviewStatus{
		Result: result, Operation: op.Operation, InputsDigest: op.InputsDigest, ConfigDigest: op.ConfigDigest, Generation: op.Generation, Revision: op.Revision, Tree: op.Tree,
		Plan: plan, Trigger: op.Trigger.DeepCopy(), Message: conditions.Shorten(message, 4096), Failures: failures, EndedAt: metav1.NewTime(s.now),
	}
	s.stack.Status.ObservedRequest = conditions.Shorten(s.stack.Annotations[v1alpha1.AnnotationRequestPlan], 1024)
	s.stack.Status.Operation = nil
	if plan == "" {
		// What the preview before this one came to says nothing of the Stack any more.
		s.plan = nil
	}
}

// suspend lets a running preview go and does nothing else.
func (r *Reconciler) suspend(ctx context.Context, s *scope) outcome.Outcome {
	return r.stopPreview(ctx, s)
}

// stopPreview cancels a running preview and waits for its end.
func (r *Reconciler) stopPreview(ctx context.Context, s *scope) outcome.Outcome {
	op := s.stack.Status.Operation
	if op == nil {
		return outcome.Done()
	}
	if !s.podOffered() {
		lives, err := workspaces.PodLives(ctx, r.uncached, s.stack.Namespace, op.Pod)
		if err != nil || lives {
			return outcome.RetryAfter(v1alpha1.ReasonPreviewing, errors.Join(fmt.Errorf("waiting for pod %q to answer", op.Pod.Name), err), agentPause)
		}
		s.stack.Status.Operation = nil
		return outcome.Done()
	}
	target := workspaces.Target(s.ws)
	result, err := r.agents.Result(ctx, target, op.ID)
	switch {
	case operations.IsNotFound(err), err == nil && result.Outcome != workspace.Running:
		s.stack.Status.Operation = nil
		return outcome.Done()
	case err != nil:
		return outcome.RetryAfter(v1alpha1.ReasonPreviewing, err, agentPause)
	}
	if err := r.agents.Cancel(ctx, target, op.ID); err != nil {
		return outcome.RetryAfter(v1alpha1.ReasonPreviewing, err, agentPause)
	}
	r.agents.Watch(target, op.ID, r.wake(s.key()))
	return outcome.Wait(v1alpha1.ReasonPreviewing, "waiting for the running preview to stop", watchTimer)
}

// release lets a Stack go once no operation of it runs and every plan's end is recorded. What is left of it in the real world
// stays; what it has in the cluster gets its owner, and goes with it.
func (r *Reconciler) release(ctx context.Context, s *scope) outcome.Outcome {
	if o := r.stopPreview(ctx, s); o.Kind != outcome.KindDone {
		return o
	}
	list := &v1alpha1.UpdatePlanList{}
	if err := r.uncached.List(ctx, list, client.InNamespace(s.stack.Namespace), client.MatchingFields{"spec.stackRef.name": s.stack.Name}); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("listing the UpdatePlans: %w", err))
	}
	if plan := applying(list.Items); plan != nil {
		return outcome.Wait(v1alpha1.ReasonDeleting, fmt.Sprintf("waiting for UpdatePlan %q, which is being applied", plan.Name), watchTimer)
	}
	if plan := unrecorded(list.Items, s.stack.UID); plan != nil {
		// Nobody but this Stack says whose record comes next.
		return outcome.Wait(v1alpha1.ReasonDeleting, fmt.Sprintf("waiting for the end of UpdatePlan %q to be recorded", plan.Name), watchTimer)
	}
	r.tellLetGo(ctx, s)
	if err := ownership.Release(ctx, r.client, r.uncached, s.stack.Namespace, s.stack.Name, ""); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if err := r.removeFinalizer(ctx, s); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.gone = true
	return outcome.Done()
}
