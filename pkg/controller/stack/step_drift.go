// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/workspace"
)

const (
	// confirmAfter is how soon drift is looked at a second time that the first look after a long gap has found.
	confirmAfter = time.Minute
	// cutOffPause is how soon a check is made again that was cut off.
	cutOffPause = 15 * time.Second
)

// drift compares the real resources with what Pulumi left, when that is due and nothing else runs or waits. Whatever comes of it,
// the Stack is as settled as it was: this step holds nothing up.
func (r *Reconciler) drift(ctx context.Context, s *scope) outcome.Outcome {
	status := s.driftStatus()
	if status.Operation != nil {
		return r.followCheck(ctx, s)
	}
	schedule, err := scheduleOf(s.stack.Spec.Drift)
	if err != nil {
		status.Message, status.NextCheck = conditions.Shorten(err.Error(), 4096), nil
	} else {
		r.noteRepair(s)
		s.appoint(schedule)
	}
	why := s.checkDue()
	if why == "" {
		return outcome.Done()
	}
	return r.intendCheck(ctx, s, why)
}

// driftStatus is what the Stack's status says of drift; never nil.
func (s *scope) driftStatus() *v1alpha1.DriftStatus {
	if s.stack.Status.Drift == nil {
		s.stack.Status.Drift = &v1alpha1.DriftStatus{}
	}
	return s.stack.Status.Drift
}

// scheduleOf reads when checks are due.
func scheduleOf(settings *v1alpha1.DriftSettings) (drift.Schedule, error) {
	if settings == nil {
		return drift.Schedule{}, nil
	}
	var schedule drift.Schedule
	if settings.Interval != nil {
		schedule.Interval = settings.Interval.Duration
	}
	if settings.Schedule == "" {
		return schedule, nil
	}
	cron, err := drift.ParseCron(settings.Schedule)
	if err != nil {
		return schedule, fmt.Errorf("spec.drift.schedule: %w", err)
	}
	location, err := time.LoadLocation(settings.TimeZone)
	if err != nil {
		return schedule, fmt.Errorf("spec.drift.timeZone: %q is no time zone: use a name as Europe/Berlin", settings.TimeZone)
	}
	schedule.Cron, schedule.Location = cron, location
	return schedule, nil
}

// driftAction is what is done about drift.
func driftAction(stack *v1alpha1.Stack) v1alpha1.DriftAction {
	if d := stack.Spec.Drift; d != nil && d.Action != "" {
		return d.Action
	}
	return v1alpha1.DriftReport
}

// appoint says when the next check is due.
func (s *scope) appoint(schedule drift.Schedule) {
	status := s.driftStatus()
	if driftAction(s.stack) == v1alpha1.DriftOff {
		status.NextCheck = nil
		return
	}
	due := s.due(schedule)
	if due.IsZero() {
		status.NextCheck = nil
		return
	}
	at := whole(due)
	if !s.now.Before(due) && status.NextCheck != nil && !s.now.Before(status.NextCheck.Time) {
		at = *status.NextCheck // it is due already: the time stays as it is
	}
	status.NextCheck = &at
}

// due is when the next check is due; zero when none is by itself.
func (s *scope) due(schedule drift.Schedule) time.Time {
	status, key := s.driftStatus(), string(s.stack.UID)
	last := s.stack.CreationTimestamp.Time
	due := schedule.Next(key, last)
	if status.LastChecked != nil {
		last = status.LastChecked.Time
		due = schedule.After(key, last)
		if status.Unconfirmed {
			due = sooner(due, last.Add(confirmAfter))
		}
	}
	if status.Failures > 0 && status.NextCheck != nil && status.NextCheck.After(last) {
		due = status.NextCheck.Time // set by the failure
	}
	if s.outdated() {
		due = sooner(due, s.now)
	}
	return due
}

// sooner is the earlier of two times; a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// whole is the first whole second that is not before a time: what is due is never written down as due earlier.
func whole(t time.Time) metav1.Time {
	return metav1.NewTime(t.UTC().Add(time.Second - 1).Truncate(time.Second))
}

// outdated tells whether what is known of drift was overtaken by the end of a plan that is about it.
func (s *scope) outdated() bool {
	status := s.driftStatus()
	if s.plan == nil || status.LastChecked == nil || !planstate.Ended(s.plan) || planstate.Of(s.plan) == planstate.Rejected {
		return false
	}
	about := s.plan.Spec.Binding.Refresh || s.plan.Spec.Trigger.Type == v1alpha1.TriggerDrifted || drifted(status)
	return about && status.CheckedPlan != s.plan.Name
}

// endedPlan is the name of the newest plan, if it has ended.
func (s *scope) endedPlan() string {
	if s.plan == nil || !planstate.Ended(s.plan) {
		return ""
	}
	return s.plan.Name
}

func drifted(status *v1alpha1.DriftStatus) bool {
	return status != nil && drift.Class(status.Class).Drifted()
}

// checkDue says why a check is to be made now; "" when none is. Checks wait while a plan waits, unless somebody asks.
func (s *scope) checkDue() string {
	status := s.driftStatus()
	if !s.atRest() {
		return ""
	}
	if s.asked(v1alpha1.AnnotationCheckDrift, status.ObservedRequest) {
		return fmt.Sprintf("the annotation %s asked for it", v1alpha1.AnnotationCheckDrift)
	}
	waits := s.plan != nil && planstate.Of(s.plan) == planstate.Waiting
	if waits || status.NextCheck == nil || s.now.Before(status.NextCheck.Time) {
		return ""
	}
	return fmt.Sprintf("it was due at %s", status.NextCheck.UTC().Format(time.RFC3339))
}

// atRest tells whether the Stack was previewed, and nothing is done or about to be done.
func (s *scope) atRest() bool {
	last := s.stack.Status.LastPreview
	if last == nil || !s.settled() || last.Result != v1alpha1.PreviewChanges && last.Result != v1alpha1.PreviewNoChanges {
		return false
	}
	return s.plan == nil || planstate.Of(s.plan) != planstate.Approved && planstate.Of(s.plan) != planstate.Applying
}

// asked tells whether an annotation asks for something that was not done yet.
func (s *scope) asked(annotation, observed string) bool {
	value := s.stack.Annotations[annotation]
	return value != "" && conditions.Shorten(value, 1024) != observed
}

// lookAgainIn is when the Stack is to be looked at again for the sake of drift; 0: not by itself.
func (s *scope) lookAgainIn() time.Duration {
	status := s.stack.Status.Drift
	if status == nil || s.stack.Spec.Suspend {
		return 0
	}
	if status.Operation != nil {
		return watchTimer
	}
	if status.NextCheck == nil {
		return 0
	}
	return max(status.NextCheck.Sub(s.now), cutOffPause)
}

// intendCheck writes down that a check is to be made, before it is started. Without a pod that answers it asks for one.
func (r *Reconciler) intendCheck(ctx context.Context, s *scope, why string) outcome.Outcome {
	ws := &v1alpha1.Workspace{}
	if err := r.uncached.Get(ctx, s.key(), ws); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Workspace %q: %w", s.stack.Name, err))
		}
		return r.workspaceForCheck(ctx, s)
	}
	if err := workspaces.Need(ctx, r.client, ws, s.now); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if !workspaces.IsReady(ws) {
		return outcome.Done() // the Workspace wakes this loop when its pod answers
	}
	image, err := workspaces.Image(ctx, r.uncached, s.stack.Namespace, *ws.Status.Pod)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if image == "" {
		return outcome.Done()
	}
	s.ws = ws
	status := s.driftStatus()
	status.Operation = &v1alpha1.DriftOperation{
		ID: string(uuid.NewUUID()), Why: why, InputsDigest: s.inputsDigest, ConfigDigest: s.configDigest, Generation: s.stack.Generation,
		Revision: s.revision.Commit, Plan: s.endedPlan(), Pod: *ws.Status.Pod, StartedAt: metav1.NewTime(s.now),
	}
	status.ObservedRequest = conditions.Shorten(s.stack.Annotations[v1alpha1.AnnotationCheckDrift], 1024)
	if err := r.writeStatus(ctx, s, outcome.Stopped{Outcome: outcome.Done()}); err != nil {
		status.Operation = nil
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.before = s.stack.DeepCopy()
	log.FromContext(ctx).Info("Looking for drift", "operation", status.Operation.ID, "revision", s.revision.Commit, "why", why)
	return r.startCheck(ctx, s)
}

// workspaceForCheck makes the Workspace that somebody deleted.
func (r *Reconciler) workspaceForCheck(ctx context.Context, s *scope) outcome.Outcome {
	wanted, err := renderWorkspace(s.stack)
	if err != nil {
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, err)
	}
	if o := r.createWorkspace(ctx, s, wanted); o.Kind != outcome.KindWait {
		return o
	}
	return outcome.Done()
}

// startCheck hands the check to the agent. Doing it twice under one id runs it once.
func (r *Reconciler) startCheck(ctx context.Context, s *scope) outcome.Outcome {
	op := s.driftStatus().Operation
	in, err := r.inputs.Gather(ctx, s.stack)
	if err != nil || in.ConfigDigest != op.ConfigDigest {
		// A Secret is missing, or moved: the cache will say so too, and that is told where it belongs.
		return s.cutOff()
	}
	target := workspaces.Target(s.ws)
	order := &workspace.Operation{
		ID: op.ID, Type: workspace.DriftCheck, PodUID: op.Pod.UID,
		Source: sourceOf(s.stack, op.Revision, s.revision.Ref),
	}
	in.Operation(s.stack, order)
	err = r.agents.Start(ctx, target, order)
	switch {
	case operations.IsBusy(err), operations.IsInvalid(err), operations.IsWrongPod(err):
		return s.cutOff()
	case err != nil:
		return outcome.Done() // asked again by the timer
	}
	r.agents.Watch(target, op.ID, r.wake(s.key()))
	return outcome.Done()
}

// stampRequests replaces "now" by the time, so that the request is known again once it was acted on, and the next "now" is another.
func (r *Reconciler) stampRequests(ctx context.Context, s *scope) outcome.Outcome {
	before := s.stack.DeepCopy()
	for _, annotation := range []string{v1alpha1.AnnotationCheckDrift, v1alpha1.AnnotationAcceptDrift} {
		if s.stack.Annotations[annotation] == v1alpha1.RequestNow {
			s.stack.Annotations[annotation] = s.now.UTC().Format(time.RFC3339Nano)
		}
	}
	if maps.Equal(before.Annotations, s.stack.Annotations) {
		return outcome.Done()
	}
	status := s.stack.Status.DeepCopy()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, s.stack, patch, client.FieldOwner(fieldOwner)); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("writing down when drift was asked for: %w", err))
	}
	s.before = s.stack.DeepCopy()
	s.stack.Status = *status
	return outcome.Done()
}

// cutOff drops a check that came to nothing: it is made again soon, and counts for nothing.
func (s *scope) cutOff() outcome.Outcome {
	status := s.driftStatus()
	status.Operation = nil
	next := whole(s.now.Add(cutOffPause))
	if status.NextCheck == nil || status.NextCheck.Before(&next) {
		status.NextCheck = &next
	}
	return outcome.Done()
}
