// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/workspace"
)

// Names of the steps, in order.
const (
	stepObserve     = "observe"
	stepCertificate = "certificate"
	stepPod         = "pod"
	stepAgent       = "agent"
	stepRelease     = "release"
)

// scope is what one loop knows about a Workspace. Steps fill it in.
type scope struct {
	before *v1alpha1.Workspace
	ws     *v1alpha1.Workspace
	now    time.Time

	// pod is the pod that exists; nil: none does.
	pod *corev1.Pod
	// busy is set when an operation runs, or may run, in the pod; it says which.
	busy string
	// digest is the digest of the pod that is wanted.
	digest string
	// info is what the agent answered; nil: it has not.
	info *workspace.Info
	// lookAgain is when the certificate or the idle time is due.
	lookAgain time.Duration
	// gone is set when the finalizer was removed.
	gone bool
}

func newScope(ws *v1alpha1.Workspace, now time.Time) *scope {
	return &scope{before: ws.DeepCopy(), ws: ws, now: now}
}

// lookAgainAt keeps the earliest of the times at which something is due.
func (s *scope) lookAgainAt(t time.Time) {
	d := max(t.Sub(s.now), time.Second)
	if s.lookAgain == 0 || d < s.lookAgain {
		s.lookAgain = d
	}
}

// templateDigest is the digest that the existing pod was made from.
func (s *scope) podDigest() string {
	if s.pod == nil {
		return ""
	}
	return s.pod.Annotations[annotationTemplate]
}

// running reports whether the container with the agent runs, so that an operation may run in it.
func running(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == containerName && c.State.Running != nil {
			return true
		}
	}
	return false
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// ready reports whether the kubelet found the agent ready.
func ready(pod *corev1.Pod) bool {
	_, ok := readySince(pod)
	return ok
}

// readySince is since when the kubelet finds the agent ready; false when it does not.
func readySince(pod *corev1.Pod) (time.Time, bool) {
	if pod == nil || !pod.DeletionTimestamp.IsZero() || pod.Status.PodIP == "" {
		return time.Time{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}
