// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/workspaces"
)

// askAgent asks the agent in the pod who it is.
func (r *Reconciler) askAgent(ctx context.Context, s *scope) outcome.Outcome {
	if due, at := r.idleAt(s); due && s.now.Before(at) {
		s.lookAgainAt(at)
	}
	if why := whyNotStarting(s.pod); why != "" {
		return outcome.RetryAfter(v1alpha1.ReasonPodFailed, errors.New(why), 30*time.Second)
	}
	if !ready(s.pod) {
		return outcome.Wait(v1alpha1.ReasonPodStarting, fmt.Sprintf("pod %q is starting (%s)", s.pod.Name, s.pod.Status.Phase), 0)
	}
	info, err := r.agents.Info(ctx, r.target(s))
	if err != nil {
		// Its certificate may have been spoiled.
		r.renewals.forget(s.ws.UID)
		return outcome.RetryAfter(v1alpha1.ReasonAgentNotReady, fmt.Errorf("the agent in pod %q does not answer: %w", s.pod.Name, err), 2*time.Second)
	}
	if info.PodUID != string(s.pod.UID) {
		return outcome.RetryAfter(v1alpha1.ReasonAgentNotReady, fmt.Errorf("the agent at pod %q says it is in pod %q", s.pod.UID, info.PodUID), 2*time.Second)
	}
	s.info = &info
	if info.PulumiVersion == "" {
		return outcome.RetryAfter(v1alpha1.ReasonAgentNotReady, fmt.Errorf("the Pulumi CLI in the image of pod %q cannot be run: %s", s.pod.Name, info.PulumiError), 30*time.Second)
	}
	return outcome.Done()
}

// release lets a Workspace go once nothing runs in its pod.
func (r *Reconciler) release(ctx context.Context, s *scope) outcome.Outcome {
	busy, err := r.busy(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if busy != "" {
		return outcome.Wait(v1alpha1.ReasonDeleting, fmt.Sprintf("waiting for operation %q to end", busy), 5*time.Second)
	}
	if s.pod != nil {
		if s.pod.DeletionTimestamp.IsZero() {
			if err := r.deletePod(ctx, s.pod); err != nil {
				return outcome.Retry(v1alpha1.ReasonReconcileError, err)
			}
		}
		return outcome.Wait(v1alpha1.ReasonDeleting, fmt.Sprintf("waiting for pod %q to end", s.pod.Name), 0)
	}
	if err := apply.RemoveFinalizer(ctx, r.client, s.ws, v1alpha1.Finalizer); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.gone = true
	return outcome.Done()
}

// sweep removes the pod of a Workspace that is gone, for example because somebody took its finalizer away. It says how soon to
// look again: a pod in which an operation runs is let end it first.
func (r *Reconciler) sweep(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: podNameOf(key.Name)}, pod)
	if err != nil || pod.Labels[v1alpha1.LabelWorkspace] != key.Name || !pod.DeletionTimestamp.IsZero() {
		return 0, client.IgnoreNotFound(err)
	}
	busy, err := r.orphanBusy(ctx, pod)
	if err != nil {
		return 0, err
	}
	if busy != "" {
		log.FromContext(ctx).Info("Keeping the pod of a Workspace that is gone until its operation has ended", "Pod", pod.Name, "operation", busy)
		return busyPause, nil
	}
	log.FromContext(ctx).Info("Deleting the pod of a Workspace that is gone", "Pod", pod.Name)
	return 0, r.deletePod(ctx, pod)
}

// deletePod deletes exactly this pod, in the state in which it was seen.
func (r *Reconciler) deletePod(ctx context.Context, pod *corev1.Pod) error {
	uid, version := pod.UID, pod.ResourceVersion
	err := r.client.Delete(ctx, pod, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %q: %w", pod.Name, err)
	}
	return nil
}

func (r *Reconciler) target(s *scope) operations.Target {
	return operations.Target{Address: workspaces.PodAddress(s.pod), WorkspaceUID: string(s.ws.UID), PodUID: string(s.pod.UID)}
}

// whyNotStarting finds what keeps a pod from starting and will not pass by waiting alone, in the kubelet's words.
func whyNotStarting(pod *corev1.Pod) string {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			w := c.State.Waiting
			if w == nil || w.Reason == "PodInitializing" || w.Reason == "ContainerCreating" {
				continue
			}
			return fmt.Sprintf("container %q of pod %q does not start: %s: %s", c.Name, pod.Name, w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %q finds no node: %s", pod.Name, c.Message)
		}
	}
	return ""
}
