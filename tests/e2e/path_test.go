// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
)

func TestAChangeWaitsForItsApprovalAndIsThenAppliedInTheSamePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.push(program(file{name: "hello", content: "${greeting}"}))
	w.create(w.newStack())

	first := w.plan()
	if got := first.Spec.Binding.Revision; got != commit {
		t.Errorf("the plan is of commit %s, want %s", got, commit)
	}
	if got := w.file("hello"); got != "" {
		t.Fatalf("before any approval the file exists: %q", got)
	}
	w.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForApproval)

	w.applied(first)
	if got := w.file("hello"); got != "hello from git" {
		t.Errorf("after the apply the file holds %q", got)
	}
	w.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonInSync)
	if got := string(w.stack().Status.Outputs["greeting"].Raw); got != `"hello from git"` {
		t.Errorf("the output is %s", got)
	}

	pod := w.podUID()
	w.setConfig("web:greeting", "hello from the Stack")
	second := w.plan(first)
	if second.Spec.Trigger.Type != v1alpha1.TriggerConfigChanged {
		t.Errorf("the trigger is %s, want ConfigChanged", second.Spec.Trigger.Type)
	}
	if got := w.file("hello"); got != "hello from git" {
		t.Errorf("before the approval the file holds %q", got)
	}
	described := w.kubectl("describe", "updateplan", second.Name)
	for _, want := range []string{"hello from git", "hello from the Stack", second.Status.HowToApprove, commit, "ConfigChanged"} {
		if !strings.Contains(described, want) {
			t.Errorf("kubectl describe does not say %q:\n%s", want, described)
		}
	}
	w.applied(second)
	if got := w.file("hello"); got != "hello from the Stack" {
		t.Errorf("after the apply the file holds %q", got)
	}
	if got := w.podUID(); got != pod {
		t.Errorf("the pod was replaced: its UID was %s, is %s", pod, got)
	}
}
