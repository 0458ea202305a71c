// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/tests/builder"
)

func lines(conditions []metav1.Condition) map[string]string {
	out := map[string]string{}
	for _, c := range conditions {
		out[c.Type] = string(c.Status) + " " + c.Reason
	}
	return out
}

func TestComputeStatus(t *testing.T) {
	err := errors.New("words")
	done := outcome.Stopped{Outcome: outcome.Done()}
	at := func(step string, o outcome.Outcome) outcome.Stopped { return outcome.Stopped{Step: step, Outcome: o} }
	ready := func(s *scope) {
		s.ws = builder.Workspace("ns", "web").Pod("web-workspace", "uid", "1.2.3.4:5").Condition("Ready", yes, "AgentReady", "answers").Obj()
	}
	running := func(s *scope) {
		s.stack.Status.Operation = &v1alpha1.PreviewOperation{ID: "id", InputsDigest: s.inputsDigest}
	}
	due := func(s *scope) { s.trigger = &v1alpha1.PlanTrigger{Message: "why"} }
	blind := func(s *scope) { s.revision.Commit, s.configDigest, s.inputsDigest = "", "", "" }
	tests := map[string]struct {
		reason  string
		scope   *scope
		stopped outcome.Stopped
		want    map[string]string
	}{
		"in sync": {
			reason: "nothing to change", scope: facts(ready, last(v1alpha1.PreviewNoChanges)), stopped: done,
			want: map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "True WorkspaceReady", "Previewed": "True PreviewSucceeded", "Ready": "True InSync"},
		},
		"waiting for a person": {
			reason: "neither Reconciling nor Stalled", scope: facts(ready, last(v1alpha1.PreviewChanges), plan(waits)), stopped: done,
			want: map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "True WorkspaceReady", "Previewed": "True PreviewSucceeded", "Ready": "False WaitingForApproval"},
		},
		"rejected": {
			reason: "nothing goes on by itself", stopped: done,
			scope: facts(last(v1alpha1.PreviewChanges), plan(func(b *builder.UpdatePlanBuilder) { b.Condition("Approved", no, "Rejected", "") })),
			want:  map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "Unknown NotYetObserved", "Previewed": "True PreviewSucceeded", "Ready": "False Rejected", "Stalled": "True Rejected"},
		},
		"applied": {
			reason: "the world is as it should be", scope: facts(last(v1alpha1.PreviewChanges), plan(operation("Applied"))), stopped: done,
			want: map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "Unknown NotYetObserved", "Previewed": "True PreviewSucceeded", "Ready": "True InSync"},
		},
		"being applied": {
			reason: "the operator works", scope: facts(last(v1alpha1.PreviewChanges), plan(operation(""))),
			stopped: at(stepDecide, outcome.Wait(v1alpha1.ReasonApplying, "words", 0)),
			want:    map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "Unknown NotYetObserved", "Previewed": "True PreviewSucceeded", "Ready": "Unknown Applying", "Reconciling": "True Progressing"},
		},
		"no source": {
			reason: "what comes after was not looked at", scope: facts(blind), stopped: at(stepSource, outcome.RetryAfter(v1alpha1.ReasonSourceUnavailable, err, 1)),
			want: map[string]string{"SourceReady": "False SourceUnavailable", "WorkspaceReady": "Unknown NotYetObserved", "Previewed": "Unknown PreviewDue", "Ready": "False SourceUnavailable", "Reconciling": "True Progressing"},
		},
		"a bad spec": {
			reason: "somebody must change it", scope: facts(blind), stopped: at(stepSource, outcome.Stall(v1alpha1.ReasonSpecInvalid, err)),
			want: map[string]string{"SourceReady": "False SpecInvalid", "WorkspaceReady": "Unknown NotYetObserved", "Previewed": "Unknown PreviewDue", "Ready": "False SpecInvalid", "Stalled": "True SpecInvalid"},
		},
		"the workspace starts": {
			reason: "a preview is due", scope: facts(due), stopped: at(stepWorkspace, outcome.Wait(v1alpha1.ReasonWorkspaceStarting, "words", 0)),
			want: map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "Unknown WorkspaceStarting", "Previewed": "Unknown PreviewDue", "Ready": "Unknown WorkspaceStarting", "Reconciling": "True Progressing"},
		},
		"previewing": {
			reason: "the operator works", scope: facts(ready, due, running), stopped: at(stepPreview, outcome.Wait(v1alpha1.ReasonPreviewing, "words", 0)),
			want: map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "True WorkspaceReady", "Previewed": "Unknown Previewing", "Ready": "Unknown Previewing", "Reconciling": "True Progressing"},
		},
		"the preview failed": {
			reason: "it is tried again", scope: facts(ready, last(v1alpha1.PreviewFailed)), stopped: at(stepDecide, outcome.RetryAfter(v1alpha1.ReasonPreviewFailed, err, 1)),
			want: map[string]string{"SourceReady": "True Resolved", "WorkspaceReady": "True WorkspaceReady", "Previewed": "False PreviewFailed", "Ready": "False PreviewFailed", "Reconciling": "True Progressing"},
		},
		"suspended": {
			reason: "at rest, and neither good nor bad", scope: facts(blind, func(s *scope) { s.stack.Spec.Suspend = true }), stopped: done,
			want: map[string]string{"SourceReady": "Unknown NotYetObserved", "WorkspaceReady": "Unknown NotYetObserved", "Previewed": "Unknown PreviewDue", "Ready": "Unknown Suspended"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			computeStatus(tc.scope, tc.stopped)
			status := tc.scope.stack.Status
			tc.want["Drifted"] = "Unknown NotYetObserved"
			if diff := cmp.Diff(tc.want, lines(status.Conditions)); diff != "" {
				t.Errorf("computeStatus(): %s: -want +got\n%s", tc.reason, diff)
			}
			for _, c := range status.Conditions {
				if c.ObservedGeneration != 2 {
					t.Errorf("%s was observed at generation %d", c.Type, c.ObservedGeneration)
				}
			}
			before := status.DeepCopy()
			tc.scope.now = tc.scope.now.Add(time.Hour)
			computeStatus(tc.scope, tc.stopped)
			if !equality.Semantic.DeepEqual(before, &tc.scope.stack.Status) {
				t.Errorf("the same facts an hour later are written again: -was +is\n%s", cmp.Diff(before, &tc.scope.stack.Status))
			}
		})
	}
}

func TestALoopThatCouldNotLookForgetsNothing(t *testing.T) {
	s := facts(last(v1alpha1.PreviewChanges))
	s.stack.Status.CurrentPlan = &v1alpha1.PlanReference{Name: "web-1"}
	computeStatus(s, outcome.Stopped{Step: stepLook, Outcome: outcome.Retry(v1alpha1.ReasonReconcileError, errors.New("down"))})
	if s.stack.Status.CurrentPlan == nil {
		t.Error("the waiting plan was forgotten, since the API server did not answer once")
	}
}

func TestWhatASettledStackDoesNotKnowOfIsGone(t *testing.T) {
	s := facts(last(v1alpha1.PreviewChanges), plan(waits))
	s.stack.Status.CurrentPlan = &v1alpha1.PlanReference{Name: "web-0"}
	computeStatus(s, outcome.Stopped{Outcome: outcome.Done()})
	if got := s.stack.Status.CurrentPlan; got == nil || got.Name != "web-1" {
		t.Errorf("the waiting plan is %v", got)
	}
	meta.SetStatusCondition(&s.plan.Status.Conditions, metav1.Condition{Type: "Obsolete", Status: yes, Reason: "Superseded"})
	computeStatus(s, outcome.Stopped{Outcome: outcome.Done()})
	if got := s.stack.Status.CurrentPlan; got != nil {
		t.Errorf("a plan that has ended still waits: %v", got)
	}
}
