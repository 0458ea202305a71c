// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/workspaces"
)

const (
	// foreignPause is how soon an object is looked at again that may be somebody else's, so that its events do not come here.
	foreignPause = 15 * time.Second
	// startGrace is how long a pod may take to start before its idle time counts.
	startGrace = 5 * time.Minute
	// busyPause is how soon a pod is looked at again that is to go and in which an operation runs.
	busyPause = 5 * time.Second
)

// observePod reads the pod, and whether something runs in it.
func (r *Reconciler) observePod(ctx context.Context, s *scope) outcome.Outcome {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.ws.Namespace, Name: podName(s.ws)}, pod)
	if apierrors.IsNotFound(err) {
		return outcome.Done()
	}
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading pod %q: %w", podName(s.ws), err))
	}
	if !isPodOf(s.ws, pod) {
		return r.foreignPod(ctx, pod)
	}
	s.pod = pod
	r.agents.Forget(string(s.ws.UID), string(pod.UID))
	return outcome.Done()
}

// foreignPod waits for the end of a pod that has the name but is somebody else's, or that of a Workspace before this one.
func (r *Reconciler) foreignPod(ctx context.Context, pod *corev1.Pod) outcome.Outcome {
	if pod.Labels[v1alpha1.LabelWorkspaceUID] != "" && pod.DeletionTimestamp.IsZero() {
		busy, err := r.orphanBusy(ctx, pod)
		if err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		}
		if busy != "" {
			return outcome.Wait(v1alpha1.ReasonPodReplaced, fmt.Sprintf("pod %q is that of a Workspace before this one; it goes once operation %q in it has ended", pod.Name, busy), busyPause)
		}
		if err := r.deletePod(ctx, pod); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		}
	}
	err := fmt.Errorf("pod %q exists and is not of this Workspace: if it does not end by itself, delete it, or rename the Stack", pod.Name)
	return outcome.RetryAfter(v1alpha1.ReasonPodFailed, err, foreignPause)
}

// ensurePod makes, replaces or removes the pod.
func (r *Reconciler) ensurePod(ctx context.Context, s *scope) outcome.Outcome {
	wanted, digest, err := renderPod(s.ws, r.settings)
	if err != nil {
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, err)
	}
	s.digest = digest
	if s.pod == nil {
		return r.createPod(ctx, s, wanted)
	}
	if !s.pod.DeletionTimestamp.IsZero() {
		return outcome.Wait(v1alpha1.ReasonPodReplaced, fmt.Sprintf("pod %q is ending", s.pod.Name), 0)
	}
	why, reason := r.whyRemove(s)
	if why == "" {
		return outcome.Done()
	}
	busy, err := r.busy(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if busy != "" {
		log.FromContext(ctx).V(1).Info("Keeping a pod that is to go, since it is in use", "Pod", s.pod.Name, "why", why, "operation", busy)
		s.busy = busy
		s.lookAgainAt(s.now.Add(10 * time.Second))
		return outcome.Done()
	}
	return r.removePod(ctx, s, reason, why)
}

// whyRemove says why the pod should go; "" when it should stay.
func (r *Reconciler) whyRemove(s *scope) (why, reason string) {
	if ended(s.pod) {
		return fmt.Sprintf("pod %q has ended (%s %s): it is made anew", s.pod.Name, s.pod.Status.Phase, s.pod.Status.Reason), v1alpha1.ReasonPodReplaced
	}
	if s.podDigest() != s.digest {
		return fmt.Sprintf("pod %q differs from what is wanted now: it is made anew", s.pod.Name), v1alpha1.ReasonPodReplaced
	}
	if due, at := r.idleAt(s); due && !s.now.Before(at) {
		return fmt.Sprintf("nobody needed the pod since %s; it comes back when it is needed", workspaces.NeededAt(s.ws).UTC().Format(time.RFC3339)), v1alpha1.ReasonIdle
	}
	return "", ""
}

// idleAt is when the pod is to go if nobody needs it before; false when it never is. Whoever asked for the pod gets the whole
// time from when it is ready: otherwise a pod that starts slowly would be removed before it was of use, for ever.
func (r *Reconciler) idleAt(s *scope) (bool, time.Time) {
	timeout := r.settings.IdleTimeout
	if s.ws.Spec.IdleTimeout != nil {
		timeout = s.ws.Spec.IdleTimeout.Duration
	}
	from := workspaces.NeededAt(s.ws)
	if since, ok := readySince(s.pod); ok && since.After(from) {
		from = since
	}
	if s.pod != nil && !ready(s.pod) {
		return timeout > 0, from.Add(max(timeout, startGrace))
	}
	return timeout > 0, from.Add(timeout)
}

func (r *Reconciler) createPod(ctx context.Context, s *scope, wanted *corev1.Pod) outcome.Outcome {
	if due, at := r.idleAt(s); due && !s.now.Before(at) {
		return outcome.Wait(v1alpha1.ReasonIdle, "the pod is not needed now; it comes back when it is", 0)
	}
	err := r.client.Create(ctx, wanted)
	switch {
	case apierrors.IsAlreadyExists(err):
		// The cache knows only pods with the operator's label, and may be late.
		there := &corev1.Pod{}
		if err := r.uncached.Get(ctx, client.ObjectKeyFromObject(wanted), there); err == nil && !isPodOf(s.ws, there) {
			return r.foreignPod(ctx, there)
		}
		return outcome.Wait(v1alpha1.ReasonPodStarting, fmt.Sprintf("pod %q was made before", wanted.Name), time.Second)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		// A quota or a policy may be lifted without anything that is watched here moving.
		return outcome.RetryAfter(v1alpha1.ReasonPodFailed, fmt.Errorf("the API server refused pod %q: %w", wanted.Name, err), 30*time.Second)
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("creating pod %q: %w", wanted.Name, err))
	}
	log.FromContext(ctx).Info("Created the workspace pod", "Pod", wanted.Name)
	return outcome.Wait(v1alpha1.ReasonPodStarting, fmt.Sprintf("pod %q was created", wanted.Name), 0)
}

// removePod first takes the pod out of the status, so that nobody starts anything in it any more, and deletes it in the next loop.
func (r *Reconciler) removePod(ctx context.Context, s *scope, reason, why string) outcome.Outcome {
	if s.ws.Status.Pod != nil {
		return outcome.Wait(reason, why, time.Second)
	}
	if err := r.deletePod(ctx, s.pod); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	log.FromContext(ctx).Info("Deleted the workspace pod", "Pod", s.pod.Name, "reason", reason)
	return outcome.Wait(reason, why, 0)
}

// busy says which operation runs, or may run, in the pod; "" when none does. What cannot be known counts as busy.
func (r *Reconciler) busy(ctx context.Context, s *scope) (string, error) {
	if s.pod == nil || ended(s.pod) {
		return "", nil
	}
	if id, err := r.recorded(ctx, s.pod, s.ws.Name); id != "" || err != nil {
		return id, err
	}
	if !running(s.pod) || s.pod.Status.PodIP == "" {
		return "", nil
	}
	info, err := r.agents.Info(ctx, r.target(s))
	if err != nil {
		return "unknown, since the agent does not answer: " + err.Error(), nil //nolint:nilerr // the error is the answer
	}
	return info.Current, nil
}

// orphanBusy says which operation runs, or may run, in a pod whose Workspace is gone: its labels tell whose it was.
func (r *Reconciler) orphanBusy(ctx context.Context, pod *corev1.Pod) (string, error) {
	if ended(pod) {
		return "", nil
	}
	if id, err := r.recorded(ctx, pod, pod.Labels[v1alpha1.LabelWorkspace]); id != "" || err != nil || workspaces.PodAddress(pod) == "" {
		return id, err
	}
	target := operations.Target{Address: workspaces.PodAddress(pod), WorkspaceUID: pod.Labels[v1alpha1.LabelWorkspaceUID], PodUID: string(pod.UID)}
	info, err := r.agents.Info(ctx, target)
	if err != nil {
		// Its certificate went with its Workspace. An operation is written down before it is started: there is none.
		return "", nil //nolint:nilerr // see above
	}
	return info.Current, nil
}

// recorded finds an operation of this pod that the Stack or one of its plans says is running.
func (r *Reconciler) recorded(ctx context.Context, pod *corev1.Pod, name string) (string, error) {
	stack := &v1alpha1.Stack{}
	err := r.uncached.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, stack)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading Stack %q: %w", name, err)
	}
	if op := stack.Status.Operation; err == nil && op != nil && op.Pod.UID == string(pod.UID) {
		return op.ID, nil
	}
	list := &v1alpha1.UpdatePlanList{}
	if err := r.uncached.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingFields{"spec.stackRef.name": name}); err != nil {
		return "", fmt.Errorf("listing the UpdatePlans of Stack %q: %w", name, err)
	}
	for _, plan := range list.Items {
		if op := plan.Status.Operation; op != nil && op.Result == "" && op.Pod.UID == string(pod.UID) {
			return op.ID, nil
		}
	}
	return "", nil
}
