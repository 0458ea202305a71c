// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workspaces is what the controllers of Stacks and UpdatePlans need to know about Workspaces: how to ask for the
// pod, and how to reach the agent in it.
//
// It must never create or delete pods: the workspace controller alone does.
package workspaces

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/operations"
)

// needEvery is how often the time of the last need is written down at most.
const needEvery = time.Minute

// Need writes down that the Workspace's pod is needed now. It writes at most once a minute, and whenever there is no pod.
func Need(ctx context.Context, c client.Client, ws *v1alpha1.Workspace, now time.Time) error {
	every := needEvery
	if IsIdle(ws) {
		every = time.Second // what is written down has a precision of a second
	}
	if last, err := time.Parse(time.RFC3339, ws.Annotations[v1alpha1.AnnotationNeededAt]); err == nil && now.Sub(last) < every {
		return nil
	}
	before := ws.DeepCopy()
	metav1.SetMetaDataAnnotation(&ws.ObjectMeta, v1alpha1.AnnotationNeededAt, now.UTC().Format(time.RFC3339))
	if err := c.Patch(ctx, ws, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("asking for the pod of Workspace %q: %w", ws.Name, err)
	}
	return nil
}

// NeededAt is when the Workspace's pod was last needed; its creation when nobody has asked yet or the annotation was spoiled.
func NeededAt(ws *v1alpha1.Workspace) time.Time {
	t, err := time.Parse(time.RFC3339, ws.Annotations[v1alpha1.AnnotationNeededAt])
	if err != nil || t.Before(ws.CreationTimestamp.Time) {
		return ws.CreationTimestamp.Time
	}
	return t
}

// IsIdle reports whether the pod was removed because nobody needed it.
func IsIdle(ws *v1alpha1.Workspace) bool {
	return conditions.Reason(ws.Status.Conditions, v1alpha1.ConditionReady) == v1alpha1.ReasonIdle
}

// IsReady reports whether the agent in the pod answered for the current spec.
func IsReady(ws *v1alpha1.Workspace) bool {
	return ws.DeletionTimestamp.IsZero() && ws.Status.Pod != nil && ws.Status.Address != "" &&
		ws.Status.ObservedGeneration == ws.Generation && conditions.IsTrue(ws.Status.Conditions, v1alpha1.ConditionReady)
}

// Target is the agent in the Workspace's pod.
func Target(ws *v1alpha1.Workspace) operations.Target {
	t := operations.Target{Address: ws.Status.Address, WorkspaceUID: string(ws.UID)}
	if ws.Status.Pod != nil {
		t.PodUID = ws.Status.Pod.UID
	}
	return t
}

// PodLives reports whether this very pod still exists and has not ended. It asks the API server, not the cache: the answer
// decides whether an operation is given up.
func PodLives(ctx context.Context, uncached client.Reader, namespace string, ref v1alpha1.PodReference) (bool, error) {
	pod := &corev1.Pod{}
	err := uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, pod)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading pod %q: %w", ref.Name, err)
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	return err == nil && string(pod.UID) == ref.UID && !ended, nil
}

// Host is the host name that this very pod has alone; "" when the pod is gone or has none of its own.
func Host(ctx context.Context, uncached client.Reader, namespace string, ref v1alpha1.PodReference) (string, error) {
	pod := &corev1.Pod{}
	if err := client.IgnoreNotFound(uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, pod)); err != nil {
		return "", fmt.Errorf("reading pod %q: %w", ref.Name, err)
	}
	if string(pod.UID) != ref.UID || pod.Spec.HostNetwork {
		return "", nil
	}
	return pod.Spec.Hostname, nil
}

// PodTarget is the agent in this very pod, also when no Workspace names it any more; false when the pod is gone or has ended.
// An agent that has no address has an empty one. It asks the API server, not the cache.
func PodTarget(ctx context.Context, uncached client.Reader, namespace string, ref v1alpha1.PodReference) (operations.Target, bool, error) {
	pod := &corev1.Pod{}
	err := uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, pod)
	if err = client.IgnoreNotFound(err); err != nil {
		return operations.Target{}, false, fmt.Errorf("reading pod %q: %w", ref.Name, err)
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if string(pod.UID) != ref.UID || ended { // one that is gone has no UID
		return operations.Target{}, false, nil
	}
	return operations.Target{Address: PodAddress(pod), WorkspaceUID: pod.Labels[v1alpha1.LabelWorkspaceUID], PodUID: string(pod.UID)}, true, nil
}

// PodContainer is the name of the container that runs Pulumi.
const PodContainer = "pulumi"

// Image is the id of the image that Pulumi runs from in this very pod, as the kubelet reports it; "" when the pod is gone or
// that is not known yet. It asks the API server, not the cache: an approval is tied to the answer.
func Image(ctx context.Context, uncached client.Reader, namespace string, ref v1alpha1.PodReference) (string, error) {
	pod := &corev1.Pod{}
	err := client.IgnoreNotFound(uncached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, pod))
	if err != nil {
		return "", fmt.Errorf("reading pod %q: %w", ref.Name, err)
	}
	if string(pod.UID) != ref.UID {
		return "", nil // another one, or none
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == PodContainer {
			return conditions.Shorten(c.ImageID, 1024), nil
		}
	}
	return "", nil
}

// PodAddress is the agent's address in a pod; "" when the pod has none.
func PodAddress(pod *corev1.Pod) string {
	if pod.Status.PodIP == "" {
		return ""
	}
	return operations.Address(pod.Status.PodIP)
}
