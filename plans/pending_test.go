// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

func TestAPlanSaysWhatItDoesAboutEachOperationThatWasCutOff(t *testing.T) {
	const urn = "urn:pulumi:dev::demo::files:index:File::a"
	tests := map[string]struct {
		reason    string
		operation string
		planned   v1alpha1.ChangeOperation
		refresh   bool
		want      v1alpha1.PendingEffect
		words     string
	}{
		"a create that the plan has too":           {reason: "there may then be two", operation: "creating", planned: v1alpha1.ChangeCreate, want: v1alpha1.PendingCreatesAgain, words: "there are then two"},
		"a create that the plan has not":           {reason: "Pulumi keeps the note", operation: "creating", want: v1alpha1.PendingKeeps, words: "leaves the note in the state"},
		"a create of what the plan only keeps":     {reason: "it is another one", operation: "creating", planned: v1alpha1.ChangeSame, want: v1alpha1.PendingKeeps, words: "leaves the note"},
		"a create, with a refresh":                 {reason: "what has no id cannot be read", operation: "creating", planned: v1alpha1.ChangeCreate, refresh: true, want: v1alpha1.PendingCreatesAgain, words: "knows no id"},
		"a create of what is replaced since":       {reason: "the plan does not make the one that was cut off", operation: "creating", planned: v1alpha1.ChangeReplace, want: v1alpha1.PendingKeeps, words: "leaves the note"},
		"an update that the plan has too":          {reason: "from the state's old values", operation: "updating", planned: v1alpha1.ChangeUpdate, want: v1alpha1.PendingDoesAgain, words: "may be behind"},
		"a delete that the plan has too":           {reason: "from the state", operation: "deleting", planned: v1alpha1.ChangeDelete, want: v1alpha1.PendingDoesAgain, words: "Deleting"},
		"an update that the plan has not":          {reason: "Pulumi drops the note", operation: "updating", want: v1alpha1.PendingForgets, words: "drops the note"},
		"an update of what is only refreshed":      {reason: "a difference is shown, not acted on", operation: "updating", planned: v1alpha1.ChangeRefresh, refresh: true, want: v1alpha1.PendingRefreshes, words: "read again"},
		"a delete, with a refresh":                 {reason: "the real resource was read", operation: "deleting", refresh: true, want: v1alpha1.PendingRefreshes, words: "was read"},
		"an operation that this version knows not": {reason: "what is not known is not judged", operation: "transmuting", planned: v1alpha1.ChangeUpdate, refresh: true, want: v1alpha1.PendingKeeps, words: "does not know"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := Plan{}
			if tc.planned != "" {
				plan = New([]v1alpha1.ResourceChange{{Operation: tc.planned, URN: urn}}, 0)
			}
			got := plan.WithPending([]Pending{{Operation: tc.operation, URN: urn}}, tc.refresh).Pending
			if len(got) != 1 || got[0].Effect != tc.want || got[0].URN != urn || !strings.Contains(got[0].Message, tc.words) || len(got[0].Message) > 512 {
				t.Errorf("WithPending(): %s: want %s with %q, got %+v", tc.reason, tc.want, tc.words, got)
			}
		})
	}
}

func TestWhatWasCutOffComesBeforeTheChangesAndIsTiedToTheApproval(t *testing.T) {
	in := specInput()
	var found []Pending
	for i := range 60 {
		found = append(found, Pending{Operation: "updating", URN: fmt.Sprintf("urn:u%02d", i)})
	}
	in.Plan = in.Plan.WithPending(append(found, Pending{Operation: "creating", URN: "urn:new"}), false)
	spec := mustSpec(t, in)
	if len(spec.Pending) != MaxPending || spec.PendingCount != 61 || spec.Pending[0].URN != "urn:new" {
		t.Errorf("listed %d of %d, first %+v", len(spec.Pending), spec.PendingCount, spec.Pending[0])
	}
	lines := DiffLines(&spec)
	want := []string{"! completes UpdatePlan web-6, which ended as Interrupted", "! cut off while creating urn:new: "}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("line %d: want %q, got %q", i, w, lines[i])
		}
	}
	if !strings.HasPrefix(lines[11], "! and 51 more that were cut off") {
		t.Errorf("line 11: %q", lines[11])
	}
	spec.Pending[3].Effect = v1alpha1.PendingRefreshes
	if err := CheckSpec("team-a", &spec); err == nil || !strings.Contains(err.Error(), "pending") {
		t.Errorf("an edited list passes: %v", err)
	}
}

func TestSecretsAreMaskedInWhatWasCutOff(t *testing.T) {
	plan := Plan{}.WithPending([]Pending{{Operation: "creating", URN: "urn:hunter2-and-more"}}, false).Masked([]string{"hunter2-and-more"})
	if strings.Contains(plan.Pending[0].URN, "hunter2") {
		t.Errorf("the URN shows a secret: %q", plan.Pending[0].URN)
	}
}

func TestAReportOfStepsIsBoundedAndCountsAll(t *testing.T) {
	var done, rest []v1alpha1.StepState
	if got := ReportSteps(nil, []v1alpha1.StepState{{Outcome: v1alpha1.StepNotStarted}}, true); got != nil {
		t.Errorf("nothing was begun, and it is reported: %+v", got)
	}
	for range 70 {
		done = append(done, v1alpha1.StepState{Outcome: v1alpha1.StepDone})
		rest = append(rest, v1alpha1.StepState{Outcome: v1alpha1.StepFailed})
	}
	got := ReportSteps(done, rest, false)
	want := &v1alpha1.StepReport{Done: done[:50], DoneCount: 70, NotDone: rest[:50], NotDoneCount: 70}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReportSteps(): -want +got\n%s", diff)
	}
}
