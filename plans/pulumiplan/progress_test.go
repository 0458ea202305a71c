// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

const (
	progressA = "urn:pulumi:dev::demo::files:index:File::a"
	progressB = "urn:pulumi:dev::demo::files:index:File::b"
)

// plannedSteps is a plan file with steps.
func plannedSteps(steps map[string][]string) []byte {
	var parts []string
	for urn, list := range steps {
		parts = append(parts, fmt.Sprintf(`%q:{"steps":[%s],"state":null,"seed":null}`, urn, `"`+strings.Join(list, `","`)+`"`))
	}
	return []byte(`{"manifest":{"time":"2026-11-30T00:00:00Z","magic":"","version":"v3.276.0"},"resourcePlans":{` + strings.Join(parts, ",") + `}}`)
}

func event(kind, op, urn string, planning bool) string {
	return fmt.Sprintf(`{%q:{"metadata":{"op":%q,"urn":%q,"type":"files:index:File"},"planning":%t}}`, kind, op, urn, planning)
}

func began(op, urn string) string     { return event("resourcePreEvent", op, urn, false) }
func did(op, urn string) string       { return event("resOutputsEvent", op, urn, false) }
func announced(op, urn string) string { return event("resourcePreEvent", op, urn, true) }
func failed(op, urn, why string) string {
	return fmt.Sprintf(`{"diagnosticEvent":{"urn":%q,"message":%q,"severity":"error"}}`, urn, why) + "\n" + event("resOpFailedEvent", op, urn, false)
}

func TestProgressTellsStepByStepWhatWasDone(t *testing.T) {
	replace := map[string][]string{progressA: {"create-replacement", "replace", "delete-replaced"}}
	tests := map[string]struct {
		reason     string
		plan       map[string][]string
		events     []string
		done, rest []string
	}{
		"a step that failed, and one that was not begun": {
			reason: "the provider's words are told", plan: map[string][]string{progressA: {"create"}, progressB: {"delete"}},
			events: []string{announced("create", progressA), began("create", progressA), failed("create", progressA, "quota is used up")},
			rest:   []string{"create a Failed quota is used up", "delete b NotStarted "},
		},
		"one done and one cut off": {
			reason: "what was begun and has no end is not known", plan: map[string][]string{progressA: {"create"}, progressB: {"update"}},
			events: []string{began("create", progressA), did("create", progressA), began("update", progressB), `{"resourcePreEvent":{"metadata":{"op":"upd`},
			done:   []string{"create a Done "}, rest: []string{"update b CutOff it was begun, and whether it was done is not known"},
		},
		"a replacement of which the first half is done": {
			reason: "both exist", plan: replace, events: []string{began("create-replacement", progressA), did("create-replacement", progressA)},
			done: []string{"create-replacement a Done "},
			rest: []string{"delete-replaced a NotStarted both exist: the replacement was made, and what it replaces was not deleted"},
		},
		"a replacement whose deletion failed": {
			reason: "both exist, and why", plan: replace,
			events: []string{began("create-replacement", progressA), did("create-replacement", progressA), began("delete-replaced", progressA), failed("delete-replaced", progressA, "in use")},
			done:   []string{"create-replacement a Done "},
			rest:   []string{"delete-replaced a Failed both exist: the replacement was made, and what it replaces was not deleted; in use"},
		},
		"a deletion first, and then nothing": {
			reason: "neither exists", plan: map[string][]string{progressA: {"delete-replaced", "replace", "create-replacement"}},
			events: []string{began("delete-replaced", progressA), did("delete-replaced", progressA), began("create-replacement", progressA), failed("create-replacement", progressA, "no")},
			done:   []string{"delete-replaced a Done "},
			rest:   []string{"create-replacement a Failed neither exists: what is to be replaced was deleted, and the replacement was not made; no"},
		},
		"an import": {
			reason: "the plan file has no steps of it, the constrained preview does", plan: map[string][]string{progressA: {}},
			events: []string{announced("import", progressA), began("import", progressA), did("import", progressA)}, done: []string{"import a Done "},
		},
		"nothing but a preview": {
			reason: "a step that is previewed is not begun", plan: map[string][]string{progressA: {"create"}},
			events: []string{announced("create", progressA), event("resOutputsEvent", "create", progressA, true)}, rest: []string{"create a NotStarted "},
		},
		"steps that do nothing, and Pulumi's own": {
			reason: "they are nobody's business", plan: map[string][]string{progressA: {"same"}, "urn:pulumi:dev::demo::pulumi:pulumi:Stack::demo-dev": {"create"}},
			events: []string{began("same", progressA), did("same", progressA), did("refresh", progressA)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			done, rest, err := Progress(plannedSteps(tc.plan), []byte(strings.Join(tc.events, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{tc.done, tc.rest}, [][]string{inWords(done), inWords(rest)}); diff != "" {
				t.Errorf("Progress(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func inWords(steps []v1alpha1.StepState) []string {
	var out []string
	for _, s := range steps {
		out = append(out, fmt.Sprintf("%s %s %s %s", s.Step, s.URN[strings.LastIndex(s.URN, ":")+1:], s.Outcome, s.Detail))
	}
	return out
}

// The plan files of the real CLI are read, and without events nothing of them was begun.
func TestProgressReadsEveryPlanOfTheCLI(t *testing.T) {
	files, err := filepath.Glob("../../tests/testdata/plans/*/plan.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden plans: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		done, rest, err := Progress(raw, nil)
		if err != nil || len(done) > 0 {
			t.Errorf("%s: %v, done %v", file, err, done)
		}
		for _, s := range rest {
			if s.Outcome != v1alpha1.StepNotStarted {
				t.Errorf("%s: %+v", file, s)
			}
		}
	}
}

func FuzzProgress(f *testing.F) {
	f.Add(plannedSteps(map[string][]string{progressA: {"create"}}), []byte(began("create", progressA)))
	f.Fuzz(func(t *testing.T, plan, events []byte) {
		done, rest, err := Progress(plan, events)
		if err != nil && len(done)+len(rest) > 0 {
			t.Errorf("both an error and steps: %v", err)
		}
	})
}
