// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/plans/redact"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

func lines(conditions []metav1.Condition) map[string]string {
	out := map[string]string{}
	for _, c := range conditions {
		out[c.Type] = string(c.Status) + " " + c.Reason
	}
	return out
}

// theStack is the Stack that the builder's plan was made for, as it was then.
func theStack(change ...func(*v1alpha1.Stack)) *v1alpha1.Stack {
	plan := builder.UpdatePlan("ns", "web-1").Obj()
	s := builder.Stack("ns", "web").UID(builder.UID(1)).Generation(1).Obj()
	s.Status = v1alpha1.StackStatus{
		ObservedGeneration: 1, ObservedRevision: builder.Commit, ConfigDigest: plan.Spec.Binding.ConfigDigest, PlanSequence: 1,
		LastPreview: &v1alpha1.PreviewStatus{Result: v1alpha1.PreviewChanges, Plan: plan.Name, Message: "words"},
		CurrentPlan: &v1alpha1.PlanReference{Name: plan.Name, Digest: plan.Spec.Digest},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func TestWhatEndsAPlan(t *testing.T) {
	now := metav1.NewTime(builder.Epoch)
	tests := map[string]struct {
		reason string
		stack  *v1alpha1.Stack
		want   string
	}{
		"nothing":                {reason: "the plan may go on", stack: theStack()},
		"no Stack":               {reason: "nobody wants it", want: v1alpha1.ReasonStackGone},
		"another Stack":          {reason: "of the same name", stack: theStack(func(s *v1alpha1.Stack) { s.UID = "other" }), want: v1alpha1.ReasonStackGone},
		"a Stack on its way out": {reason: "nobody wants it", stack: theStack(func(s *v1alpha1.Stack) { s.DeletionTimestamp = &now; s.Generation = 2 }), want: v1alpha1.ReasonStackGone},
		"an edit":                {reason: "before its controller saw it", stack: theStack(func(s *v1alpha1.Stack) { s.Generation = 2 }), want: v1alpha1.ReasonSuperseded},
		"a new commit": {reason: "the plan is of another", stack: theStack(func(s *v1alpha1.Stack) {
			s.Status.ObservedRevision, s.Status.ObservedTree = builder.OtherCommit, builder.Commit
		}), want: v1alpha1.ReasonSuperseded},
		"a new commit that touches nothing of the project": {reason: "the plan is as good as one of it", stack: theStack(func(s *v1alpha1.Stack) {
			s.Status.ObservedRevision, s.Status.ObservedTree = builder.OtherCommit, builder.OtherCommit
		})},
		"a new commit that nobody has looked at": {reason: "it may touch nothing", stack: theStack(func(s *v1alpha1.Stack) { s.Status.ObservedRevision = builder.OtherCommit })},
		"another configuration":                  {reason: "the plan is of another", stack: theStack(func(s *v1alpha1.Stack) { s.Status.ConfigDigest = "other" }), want: v1alpha1.ReasonSuperseded},
		"a status from before": {reason: "it says nothing of this spec", stack: theStack(func(s *v1alpha1.Stack) {
			s.Status.ObservedGeneration, s.Status.ObservedRevision = 0, builder.OtherCommit
		})},
		"an empty status": {reason: "nothing was seen to move", stack: theStack(func(s *v1alpha1.Stack) { s.Status = v1alpha1.StackStatus{ObservedGeneration: 1} })},
		"a later preview that found nothing": {
			reason: "the plan is a lie", stack: theStack(func(s *v1alpha1.Stack) { s.Status.LastPreview.Plan = "" }), want: v1alpha1.ReasonSuperseded,
		},
		"a later plan": {
			reason: "it is of the same inputs, and newer",
			stack:  theStack(func(s *v1alpha1.Stack) { s.Status.LastPreview.Plan, s.Status.PlanSequence = "web-2", 2 }), want: v1alpha1.ReasonSuperseded,
		},
		"a plan that is not recorded yet": {
			reason: "the Stack's status is of the plan before it",
			stack:  theStack(func(s *v1alpha1.Stack) { s.Status.LastPreview.Plan, s.Status.PlanSequence = "web-0", 0 }),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if e := moved(builder.UpdatePlan("ns", "web-1").Obj(), tc.stack); e != nil {
				got = e.reason
			}
			if got != tc.want {
				t.Errorf("moved(): %s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestOnlyThePlanThatTheStackWaitsForIsKnown(t *testing.T) {
	plan := builder.UpdatePlan("ns", "web-1").Obj()
	tests := map[string]struct {
		stack *v1alpha1.Stack
		known bool
	}{
		"the current plan":                   {stack: theStack(), known: true},
		"none is current":                    {stack: theStack(func(s *v1alpha1.Stack) { s.Status.CurrentPlan = nil })},
		"another digest":                     {stack: theStack(func(s *v1alpha1.Stack) { s.Status.CurrentPlan.Digest = builder.Digest("x") })},
		"another name":                       {stack: theStack(func(s *v1alpha1.Stack) { s.Status.CurrentPlan.Name = "web-2" })},
		"one that was deleted and made anew": {stack: theStack(func(s *v1alpha1.Stack) { s.Status.CurrentPlan.UID = "another" })},
		"one that was applied before": {stack: theStack(func(s *v1alpha1.Stack) {
			s.Status.LastAppliedPlan = &v1alpha1.PlanReference{Name: plan.Name, Digest: plan.Spec.Digest}
		})},
		"another was applied before": {stack: theStack(func(s *v1alpha1.Stack) {
			s.Status.LastAppliedPlan = &v1alpha1.PlanReference{Name: "web-0", Digest: builder.Digest("0")}
		}), known: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if e := unknown(plan, tc.stack); (e == nil) != tc.known {
				t.Errorf("unknown() = %v", e)
			}
		})
	}
}

func TestComputeStatus(t *testing.T) {
	err := errors.New("words")
	approved := approval.Verdict{State: approval.Approved, Message: "Approved by somebody.", Requirements: "met"}
	operation := func(result string) func(*scope) {
		return func(s *scope) {
			s.plan.Status.Operation = &v1alpha1.ApplyOperation{ID: "id", Result: result, Message: "words", Done: 1, Total: 2}
			s.plan.Status.Conditions = []metav1.Condition{{Type: "Approved", Status: "True", Reason: "Approved", Message: "m"}}
		}
	}
	verdict := func(v approval.Verdict) func(*scope) { return func(s *scope) { s.verdict = v } }
	recorded := func(s *scope) { s.recorded = true }
	done := outcome.Done()
	tests := map[string]struct {
		reason string
		facts  []func(*scope)
		o      outcome.Outcome
		want   map[string]string
		howTo  bool
	}{
		"waiting": {
			reason: "nobody works on it: not Reconciling", facts: []func(*scope){verdict(approval.Verdict{State: approval.Waiting, Reason: v1alpha1.ReasonWaitingForApproval, Message: "m"})},
			o: outcome.Wait(v1alpha1.ReasonWaitingForApproval, "m", 0), howTo: true,
			want: map[string]string{"Approved": "Unknown WaitingForApproval", "Applied": "Unknown NotApplied", "Obsolete": "False Current", "Recorded": "Unknown NotRecorded", "Ready": "False WaitingForApproval"},
		},
		"not decided, for the API server was down": {
			reason: "every condition is there from the first loop on", o: outcome.Retry(v1alpha1.ReasonReconcileError, err), howTo: true,
			want: map[string]string{"Approved": "Unknown WaitingForApproval", "Applied": "Unknown NotApplied", "Obsolete": "False Current", "Recorded": "Unknown NotRecorded", "Ready": "False WaitingForApproval"},
		},
		"approved": {
			reason: "the operator works", facts: []func(*scope){verdict(approved)}, o: outcome.Wait(v1alpha1.ReasonApproved, "waiting for the workspace", 0),
			want: map[string]string{"Approved": "True Approved", "Applied": "Unknown NotApplied", "Obsolete": "False Current", "Recorded": "Unknown NotRecorded", "Ready": "Unknown Approved", "Reconciling": "True Progressing"},
		},
		"rejected": {
			reason: "it has ended", facts: []func(*scope){verdict(approval.Verdict{State: approval.Rejected, Message: "m"}), recorded}, o: done,
			want: map[string]string{"Approved": "False Rejected", "Applied": "Unknown NotApplied", "Obsolete": "False Current", "Recorded": "True Recorded", "Ready": "False Rejected"},
		},
		"superseded": {
			reason: "it has ended", facts: []func(*scope){func(s *scope) { s.obsolete = &ending{v1alpha1.ReasonSuperseded, "m"} }, recorded}, o: done,
			want: map[string]string{"Approved": "Unknown WaitingForApproval", "Applied": "Unknown NotApplied", "Obsolete": "True Superseded", "Recorded": "True Recorded", "Ready": "False Superseded"},
		},
		"applying": {
			reason: "the operator works", facts: []func(*scope){operation("")}, o: outcome.Wait(v1alpha1.ReasonApplying, "m", 0),
			want: map[string]string{"Approved": "True Approved", "Applied": "Unknown Applying", "Obsolete": "False Current", "Recorded": "Unknown NotRecorded", "Ready": "Unknown Applying", "Reconciling": "True Progressing"},
		},
		"applied": {
			reason: "all of it", facts: []func(*scope){operation("Applied"), recorded}, o: done,
			want: map[string]string{"Approved": "True Approved", "Applied": "True Applied", "Obsolete": "False Current", "Recorded": "True Recorded", "Ready": "True Applied"},
		},
		"partly applied": {
			reason: "not obsolete: something was done", facts: []func(*scope){operation("PartiallyApplied"), recorded}, o: done,
			want: map[string]string{"Approved": "True Approved", "Applied": "False PartiallyApplied", "Obsolete": "False Current", "Recorded": "True Recorded", "Ready": "False PartiallyApplied"},
		},
		"stale": {
			reason: "nothing was done", facts: []func(*scope){operation("Stale"), recorded}, o: done,
			want: map[string]string{"Approved": "True Approved", "Applied": "False Stale", "Obsolete": "True Stale", "Recorded": "True Recorded", "Ready": "False Stale"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScope(builder.UpdatePlan("ns", "web-1").Obj(), builder.Epoch)
			for _, f := range tc.facts {
				f(s)
			}
			computeStatus(s, outcome.Stopped{Outcome: tc.o})
			if diff := cmp.Diff(tc.want, lines(s.plan.Status.Conditions)); diff != "" {
				t.Errorf("computeStatus(): %s: -want +got\n%s", tc.reason, diff)
			}
			if got := s.plan.Status.HowToApprove != "" && s.plan.Status.HowToReject != ""; got != tc.howTo {
				t.Errorf("computeStatus(): %s: the commands are shown: %t", tc.reason, got)
			}
			before := s.plan.Status.DeepCopy()
			s.now = s.now.Add(time.Hour)
			computeStatus(s, outcome.Stopped{Outcome: tc.o})
			if !equality.Semantic.DeepEqual(before, &s.plan.Status) {
				t.Errorf("the same facts an hour later are written again: -was +is\n%s", cmp.Diff(before, &s.plan.Status))
			}
		})
	}
}

func TestMaskedShowsNoSecretAndNoMoreThanFits(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", maxShown) + `"`)
	res := &workspace.Result{
		Outputs: map[string]json.RawMessage{
			"a": json.RawMessage(`1`), "secret": json.RawMessage(`{"k":"v"}`), "hidden": json.RawMessage(`["Bearer swordfish-1"]`), "said": json.RawMessage(`"[secret]"`), "z-big": big,
		},
		SecretOutputs: []string{"secret", "not there"},
	}
	tests := map[string]struct {
		reason string
		mask   func(string) string
		want   map[string]string
	}{
		"known secrets": {
			reason: "a program need not say that something is secret", mask: redact.Masker([]string{"swordfish-1"}),
			want: map[string]string{"a": "1", "secret": secretOutput, "hidden": secretOutput, "said": `"[secret]"`, "z-big": fmt.Sprintf(`"[%d bytes: see the Secret]"`, len(big))},
		},
		"no secrets at all": {
			reason: "nothing to hide", mask: redact.Masker(nil),
			want: map[string]string{"a": "1", "secret": secretOutput, "hidden": `["Bearer swordfish-1"]`, "said": `"[secret]"`, "z-big": fmt.Sprintf(`"[%d bytes: see the Secret]"`, len(big))},
		},
		"secrets that nobody could read": {
			reason: "what cannot be known is not shown",
			want:   map[string]string{"a": secretOutput, "secret": secretOutput, "hidden": secretOutput, "said": secretOutput, "z-big": secretOutput},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for name, v := range masked(res, tc.mask) {
				got[name] = string(v.Raw)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("masked(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOutputsData(t *testing.T) {
	got, err := outputsData(map[string]json.RawMessage{"url": json.RawMessage(`"http://x"`), "n": json.RawMessage(`1.0`), "not a key!": json.RawMessage(`"v"`), "outputs.json": json.RawMessage(`"mine"`)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"url": []byte("http://x"), "n": []byte("1.0"), "outputs.json": []byte(`{"n":1.0,"not a key!":"v","outputs.json":"mine","url":"http://x"}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputsData(): -want +got\n%s", diff)
	}
	if got, err = outputsData(nil); err != nil || string(got["outputs.json"]) != "{}" {
		t.Errorf("outputsData(nil) = %v, %v", got, err)
	}
}
