// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/plangate/plangate/api/v1alpha1"
)

// below puts a program's files into a folder.
func below(dir string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, content := range files {
		out[dir+"/"+name] = content
	}
	return out
}

func TestACommitBesideTheProjectEndsNoPlanAndThePlanIsStillApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.push(below("web", program(file{name: "a", content: "one"})))
	stack := w.newStack()
	stack.Spec.RepoDir, stack.Spec.ProjectPaths = "web", []string{"libs/shared"}
	w.create(stack)
	plan := w.plan()

	beside := w.push(map[string]string{"elsewhere/README.md": "nothing of ours"})
	w.annotate(w.stack(), "example.com/look", "now") // the branch is looked at once a minute
	eventually(t, "the Stack to show the commit, and that it touches nothing", slow, func() error {
		s := w.stack()
		c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionSourceReady)
		if s.Status.ObservedRevision != beside || !strings.Contains(c.Message, "touches nothing under \"web\"") || !strings.Contains(c.Message, first[:12]) {
			return fmt.Errorf("it shows %s: %s", s.Status.ObservedRevision, c.Message)
		}
		return nil
	})
	if current := w.stack().Status.CurrentPlan; current == nil || current.Name != plan.Name {
		t.Fatalf("the waiting plan is %+v, want %s", current, plan.Name)
	}
	applied := w.applied(plan)
	if got := w.file("a"); got != "one" || applied.Spec.Binding.Revision != first {
		t.Errorf("the file holds %q, the plan is of %s", got, applied.Spec.Binding.Revision)
	}

	// A path that counts makes a preview again, which finds nothing to change.
	shared := w.push(map[string]string{"libs/shared/x": "1"})
	w.annotate(w.stack(), "example.com/look", "again")
	eventually(t, "a preview of the commit that touches a path that counts", slow, func() error {
		if last := w.stack().Status.LastPreview; last.Revision != shared || last.Result != v1alpha1.PreviewNoChanges {
			return fmt.Errorf("the last preview is %+v", last)
		}
		return nil
	})
}

func TestABurstOfEditsMakesOnePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "${greeting}"}))
	w.create(w.newStack())
	first := w.plan()
	for i := range 50 {
		w.setConfig("web:greeting", fmt.Sprintf("edit %d", i))
	}
	second := w.plan(first)
	w.becomes(first, v1alpha1.ReasonSuperseded)
	if second.Spec.Sequence != first.Spec.Sequence+1 || second.Spec.StackRef.Generation != w.stack().Generation {
		t.Errorf("50 edits came to plan %d after %d, of generation %d of %d", second.Spec.Sequence, first.Spec.Sequence, second.Spec.StackRef.Generation, w.stack().Generation)
	}
	w.applied(second)
	if got := w.file("a"); got != "edit 49" {
		t.Errorf("the file holds %q", got)
	}
}

func TestAProbeNamesWhatDiffersAndAnApplyOfItIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// A pipe that is fed something else each time: the program cannot ask for the same twice.
	w.push(program(file{name: "steady", content: "steady"}))
	w.create(w.newStack())
	first := w.applied(w.plan())
	w.inPod(`mkfifo /state/fountain; (i=0; while true; do i=$((i+1)); echo "drop $i" > /state/fountain; sleep 0.05; done) > /dev/null 2>&1 &`)
	w.push(program(file{name: "steady", content: "steady still"}, file{name: "moving", content: "{fn::readFile: /state/fountain}"}))
	w.edit(func(s *v1alpha1.StackSpec) { s.Plan = &v1alpha1.PlanSettings{Enforcement: v1alpha1.EnforcementProbe} })
	plan := w.plan(first)
	raw, err := json.Marshal(plan.Spec.Changes)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Spec.Summary.Unstable != 1 || plan.Spec.Enforcement != v1alpha1.EnforcementProbe || !strings.Contains(string(raw), `"unstable":["content"]`) {
		t.Errorf("the plan says %+v, %s", plan.Spec.Summary, raw)
	}
	if shown := w.kubectl("describe", "updateplan", plan.Name); !strings.Contains(shown, "unstable: content (differs from one preview to the next)") {
		t.Errorf("describe does not show it:\n%s", shown)
	}
	w.approve(plan)
	violated := w.becomes(plan, v1alpha1.ReasonViolated)
	if got := violated.Status.Operation.Message; !strings.Contains(got, "1 unstable input") {
		t.Errorf("the end does not tell of it: %q", got)
	}
	if got := w.file("steady"); got != "steady" {
		t.Errorf("something was changed: %q", got)
	}
}
