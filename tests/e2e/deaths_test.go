// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// applying brings a plan to the point where its first file is written and its second waits for /state/go.
func applying(w *world) *v1alpha1.UpdatePlan {
	w.t.Helper()
	w.push(program(
		file{name: "a", content: "done"},
		file{name: "b", content: "done", waitFor: "/state/go", after: []string{"a"}},
	))
	w.create(w.newStack())
	plan := w.plan()
	w.approve(plan)
	eventually(w.t, "the apply to reach its second file", slow, func() error {
		_, err := w.try("test -e /state/go.reached")
		return err
	})
	return plan
}

// updates counts the updates that the backend knows of.
func (w *world) updates() int {
	w.t.Helper()
	out := w.inPod("find /state/.pulumi/history -name '*.history.json' 2>/dev/null | wc -l")
	n := 0
	if _, err := fmt.Sscan(out, &n); err != nil {
		w.t.Fatalf("counting the updates: %v", err)
	}
	return n
}

// killManager takes the manager's process away at once, as a node does that loses power.
func killManager(t *testing.T) {
	t.Helper()
	pods := &corev1.PodList{}
	err := cluster.client.List(t.Context(), pods, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/name": managerName})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("finding the manager: %d pods, %v", len(pods.Items), err)
	}
	for i := range pods.Items {
		killContainer(t, &pods.Items[i], "manager")
	}
}

// killContainer sends SIGKILL to a container's first process, from the node.
func killContainer(t *testing.T, pod *corev1.Pod, name string) {
	t.Helper()
	onTask(t, pod, name, "kill", "-s", "SIGKILL")
}

// onTask does something to the processes of a container, from the node: kill, or pause, after which they hear no signal but SIGKILL.
func onTask(t *testing.T, pod *corev1.Pod, name string, action ...string) {
	t.Helper()
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != name {
			continue
		}
		id := strings.TrimPrefix(c.ContainerID, "containerd://")
		out, err := exec.CommandContext(t.Context(), "../../hack/cluster/enter.sh", append(append([]string{"ctr", "-n", "k8s.io", "tasks"}, action...), id)...).CombinedOutput() //nolint:gosec // the tests' own commands
		if err != nil {
			t.Fatalf("%s container %q: %v\n%s", action[0], name, err, out)
		}
		return
	}
	t.Fatalf("pod %q has no container %q", pod.Name, name)
}

func TestTheManagerKilledWhileApplyingFindsTheOperationAgainAndRunsNothingTwice(t *testing.T) {
	// Not parallel: every test has the same manager.
	w := newWorld(t)
	plan := applying(w)
	before := w.becomes(plan, v1alpha1.ReasonApplying).Status.Operation

	killManager(t)
	w.inPod("touch /state/go")
	applied := w.becomes(plan, v1alpha1.ReasonApplied)
	if after := applied.Status.Operation; after.ID != before.ID || after.Pod != before.Pod {
		t.Errorf("another operation was started: it was %+v, is %+v", before, after)
	}
	if got := w.updates(); got != 1 {
		t.Errorf("the backend knows of %d updates, want 1", got)
	}
	if a, b := w.file("a"), w.file("b"); a != "done" || b != "done" {
		t.Errorf("a is %q, b is %q", a, b)
	}
}

func TestTheManagerKilledAgainAndAgainLosesNothing(t *testing.T) {
	// Not parallel: every test has the same manager.
	w := newWorld(t)
	w.push(program(file{name: "a", content: "${greeting}"}))
	w.create(w.newStack())
	killManager(t)
	plan := w.plan()
	w.approve(plan)
	killManager(t)
	w.becomes(plan, v1alpha1.ReasonApplied)
	if got := w.updates(); got != 1 {
		t.Errorf("the backend knows of %d updates, want 1", got)
	}
	list := &v1alpha1.UpdatePlanList{}
	if err := cluster.client.List(t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Errorf("there are %d plans, want 1", len(list.Items))
	}
}

func TestAnAgentKilledWhileApplyingIsSaidAsInterruptedAndTheNextPlanGoesThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := applying(w)
	pod := &corev1.Pod{}
	if err := cluster.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.podName()}, pod); err != nil {
		t.Fatal(err)
	}
	killContainer(t, pod, "pulumi")

	interrupted := w.becomes(plan, v1alpha1.ReasonInterrupted)
	if interrupted.Status.Operation.Message == "" {
		t.Error("the operation does not say in words what happened")
	}
	next := w.plan(plan)
	if next.Spec.Trigger.Type != v1alpha1.TriggerRetry || !strings.Contains(next.Spec.Trigger.Message, plan.Name) {
		t.Errorf("the next plan does not say why it was made: %+v", next.Spec.Trigger)
	}
	w.inPod("touch /state/go")
	w.applied(next)
	if a, b := w.file("a"), w.file("b"); a != "done" || b != "done" {
		t.Errorf("a is %q, b is %q", a, b)
	}
}

func TestAPodDeletedByForceWhileApplyingIsToldAndTheNextPlanGoesThroughItsLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := applying(w)
	before := w.becomes(plan, v1alpha1.ReasonApplying).Status.Operation
	// It has no time to put anything in order, as on a node that loses power.
	pod := &corev1.Pod{}
	if err := cluster.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.podName()}, pod); err != nil {
		t.Fatal(err)
	}
	onTask(t, pod, "pulumi", "pause")
	w.kubectl("delete", "pod", w.podName(), "--grace-period=0", "--force", "--wait=false")

	interrupted := w.becomes(plan, v1alpha1.ReasonInterrupted)
	next := w.plan(interrupted)
	if c := next.Spec.Trigger.Completes; next.Spec.Trigger.Type != v1alpha1.TriggerRetry || c == nil || c.Name != plan.Name || c.Digest != plan.Spec.Digest {
		t.Errorf("the next plan does not say which one it completes: %+v", next.Spec.Trigger)
	}
	if p := next.Spec.Pending; len(p) != 1 || p[0].Operation != v1alpha1.PendingCreating || !strings.HasSuffix(p[0].URN, "::b") || p[0].Effect != v1alpha1.PendingCreatesAgain {
		t.Errorf("the next plan does not say what was cut off: %+v", p)
	}
	s := w.stack()
	if l := s.Status.Locks; len(l) != 1 || l[0].Ours != before.ID || l[0].ID == "" || l[0].Since == nil {
		t.Errorf("the Stack does not tell of the lock that is ours: %+v", l)
	}
	described := w.kubectl("describe", "updateplan", next.Name)
	for _, want := range []string{"completes UpdatePlan " + plan.Name, "cut off while creating urn:"} {
		if !strings.Contains(described, want) {
			t.Errorf("kubectl describe does not say %q", want)
		}
	}
	w.inPod("touch /state/go")
	done := w.applied(next)
	if r := done.Status.ReleasedLocks; len(r) != 1 || r[0].Cause != v1alpha1.LockOwnDead || r[0].Ours != before.ID {
		t.Errorf("the plan does not tell which lock was released: %+v", r)
	}
	if a, b := w.file("a"), w.file("b"); a != "done" || b != "done" {
		t.Errorf("a is %q, b is %q", a, b)
	}
	if left := w.inPod("find /state/.pulumi/locks -name '*.json' | wc -l"); left != "0" {
		t.Errorf("%s locks are left", left)
	}
	if events := w.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"); !strings.Contains(events, "LockReleased") {
		t.Error("there is no event of the release")
	}
}

func TestADeletedStackWaitsForTheRunningApplyAndLeavesWhatItMade(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"background", "foreground"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			plan := applying(w)
			w.kubectl("delete", "stack", stackName, "--wait=false", "--cascade="+policy)
			if s := w.stack(); s.DeletionTimestamp.IsZero() {
				t.Fatal("the Stack is not being deleted")
			}
			w.becomes(plan, v1alpha1.ReasonApplying)
			w.inPod("touch /state/go")
			w.kubectl("wait", "--for=delete", "stack/"+stackName, "--timeout=120s")
			w.kubectl("wait", "--for=delete", "pod/"+w.podName(), "--timeout=120s")
			w.kubectl("wait", "--for=delete", "updateplan/"+plan.Name, "--timeout=120s")
		})
	}
}
