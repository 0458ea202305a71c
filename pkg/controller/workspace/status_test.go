// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

func aPod(since time.Time) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-workspace", UID: "pod"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "1.2.3.4", Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)},
		}},
	}
}

func TestComputeStatus(t *testing.T) {
	err := errors.New("words")
	at := func(step string, o outcome.Outcome) outcome.Stopped { return outcome.Stopped{Step: step, Outcome: o} }
	withPod := func(s *scope) { s.pod = aPod(builder.Epoch) }
	answered := func(s *scope) { s.info = &workspace.Info{Version: "1", PulumiVersion: "v3"} }
	was := func(s *scope) {
		s.ws.Status.Pod, s.ws.Status.Address = &v1alpha1.PodReference{Name: "web-workspace", UID: "pod"}, "1.2.3.4:50051"
	}
	tests := map[string]struct {
		reason  string
		facts   []func(*scope)
		stopped outcome.Stopped
		want    map[string]string
		// pod is whether the status names one.
		pod bool
	}{
		"ready":    {reason: "the agent answered", facts: []func(*scope){withPod, answered}, stopped: outcome.Stopped{Outcome: outcome.Done()}, want: map[string]string{"Ready": "True AgentReady"}, pod: true},
		"idle":     {reason: "at rest", stopped: at(stepPod, outcome.Wait(v1alpha1.ReasonIdle, "m", 0)), want: map[string]string{"Ready": "False Idle"}},
		"starting": {reason: "the operator works", stopped: at(stepPod, outcome.Wait(v1alpha1.ReasonPodStarting, "m", 0)), want: map[string]string{"Ready": "Unknown PodStarting", "Reconciling": "True Progressing"}},
		"to be removed": {
			reason: "nobody may start anything in it any more", facts: []func(*scope){was, withPod}, stopped: at(stepPod, outcome.Wait(v1alpha1.ReasonPodReplaced, "m", 0)),
			want: map[string]string{"Ready": "Unknown PodReplaced", "Reconciling": "True Progressing"},
		},
		"a spec that cannot be used": {
			reason: "an operation that runs is still followed", facts: []func(*scope){was, withPod}, stopped: at(stepPod, outcome.Stall(v1alpha1.ReasonSpecInvalid, err)),
			want: map[string]string{"Ready": "False SpecInvalid", "Stalled": "True SpecInvalid"}, pod: true,
		},
		"an API server that does not answer": {
			reason: "an operation that runs is still followed", facts: []func(*scope){was}, stopped: at(stepObserve, outcome.Retry(v1alpha1.ReasonReconcileError, err)),
			want: map[string]string{"Ready": "False ReconcileError", "Reconciling": "True Progressing"}, pod: true,
		},
		"an agent that does not answer": {
			reason: "the pod is there", facts: []func(*scope){withPod}, stopped: at(stepAgent, outcome.RetryAfter(v1alpha1.ReasonAgentNotReady, err, 1)),
			want: map[string]string{"Ready": "False AgentNotReady", "Reconciling": "True Progressing"}, pod: true,
		},
		"a pod that failed": {
			reason: "there is nothing to speak with", facts: []func(*scope){was, withPod, func(s *scope) { s.pod.Status.Phase = corev1.PodFailed }},
			stopped: at(stepPod, outcome.Wait(v1alpha1.ReasonPodReplaced, "m", 1)), want: map[string]string{"Ready": "Unknown PodReplaced", "Reconciling": "True Progressing"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScope(builder.Workspace("ns", "web").Generation(3).Obj(), builder.Epoch)
			for _, f := range tc.facts {
				f(s)
			}
			computeStatus(s, tc.stopped)
			got := map[string]string{}
			for _, c := range s.ws.Status.Conditions {
				got[c.Type] = string(c.Status) + " " + c.Reason
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("computeStatus(): %s: -want +got\n%s", tc.reason, diff)
			}
			if (s.ws.Status.Pod != nil) != tc.pod || (s.ws.Status.Address != "") != tc.pod {
				t.Errorf("computeStatus(): %s: pod %v at %q", tc.reason, s.ws.Status.Pod, s.ws.Status.Address)
			}
			before := s.ws.Status.DeepCopy()
			s.now = s.now.Add(time.Hour)
			computeStatus(s, tc.stopped)
			if !equality.Semantic.DeepEqual(before, &s.ws.Status) {
				t.Errorf("the same facts an hour later are written again: -was +is\n%s", cmp.Diff(before, &s.ws.Status))
			}
		})
	}
}

func TestWhenAPodIsIdle(t *testing.T) {
	needed := builder.Epoch
	tests := map[string]struct {
		reason  string
		timeout time.Duration
		pod     *corev1.Pod
		want    time.Duration
		never   bool
	}{
		"needed and ready": {reason: "the time since it was needed", timeout: time.Minute, pod: aPod(needed.Add(-time.Hour)), want: time.Minute},
		"slow to start":    {reason: "whoever asked gets the whole time", timeout: time.Minute, pod: aPod(needed.Add(3 * time.Minute)), want: 4 * time.Minute},
		"not ready yet":    {reason: "it would be removed before it was of use", timeout: time.Second, pod: &corev1.Pod{}, want: startGrace},
		"no pod":           {reason: "it is made when it is needed", timeout: time.Minute, want: time.Minute},
		"kept for ever":    {reason: "0 is never", pod: aPod(needed), never: true},
		"a long idle time": {reason: "longer than the grace of the start", timeout: time.Hour, pod: &corev1.Pod{}, want: time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScope(builder.Workspace("ns", "web").NeededAt(needed).Obj(), needed)
			s.pod = tc.pod
			due, at := (&Reconciler{settings: Settings{IdleTimeout: tc.timeout}}).idleAt(s)
			if due == tc.never || (due && at.Sub(needed) != tc.want) {
				t.Errorf("idleAt(): %s: %t, after %v; want %v", tc.reason, due, at.Sub(needed), tc.want)
			}
		})
	}
}

func TestWhatKeepsAPodFromStarting(t *testing.T) {
	waiting := func(reason string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "pulumi", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}}}}}
	}
	for reason, stuck := range map[string]bool{"ContainerCreating": false, "PodInitializing": false, "ImagePullBackOff": true, "CrashLoopBackOff": true, "CreateContainerConfigError": true} {
		if got := whyNotStarting(waiting(reason)); (got != "") != stuck {
			t.Errorf("whyNotStarting(%s) = %q", reason, got)
		}
	}
	unschedulable := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}}}}
	if whyNotStarting(unschedulable) == "" || whyNotStarting(&corev1.Pod{}) != "" {
		t.Error("a pod without a node, or a new one, is misjudged")
	}
}
