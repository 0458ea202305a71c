// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plangate/plangate/plans"
)

var update = flag.Bool("update", false, "write what Decode returns to want.yaml")

const golden = "../../tests/testdata/plans"

// cases returns the folders of golden plans.
func cases(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(golden, "*", "after.yaml"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden plans in %s: %v", golden, err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func read(t testing.TB, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDecodeGolden decodes what the real CLI wrote for small programs. Read want.yaml as an approver would.
func TestDecodeGolden(t *testing.T) {
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			plan, err := Decode(read(t, dir, "plan.json"), read(t, dir, "events.ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(map[string]any{"empty": plan.Empty(), "summary": plan.Summary, "changes": plan.Changes})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(got), "canary") {
				t.Errorf("a secret shows:\n%s", got)
			}
			want := filepath.Join(dir, "want.yaml")
			if *update {
				if err := os.WriteFile(want, got, 0o644); err != nil { //nolint:gosec // a golden file
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, want)), string(got)); diff != "" {
				t.Errorf("Decode(): -want +got\n%s", diff)
			}
		})
	}
}

// TestDecodeStripped shows that nothing that is shown comes from what Strip takes away.
func TestDecodeStripped(t *testing.T) {
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			whole, events := read(t, dir, "plan.json"), read(t, dir, "events.ndjson")
			stripped, err := Strip(whole)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Decode(whole, events)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(stripped, events)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("Decode(Strip()): %v, -want +got\n%s", err, diff)
			}
			again, err := Strip(stripped)
			if diff := cmp.Diff(string(stripped), string(again)); err != nil || diff != "" {
				t.Errorf("Strip() twice: %v, -once +twice\n%s", err, diff)
			}
		})
	}
}

// TestDecodePlanAlone shows that every step of the plan is shown even when the events tell of none.
func TestDecodePlanAlone(t *testing.T) {
	events := []byte(`{"sequence":1,"timestamp":0,"summaryEvent":{"result":"succeeded"}}`)
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			planFile := read(t, dir, "plan.json")
			plan, err := Decode(planFile, events)
			if err != nil {
				t.Fatal(err)
			}
			saved, err := readPlan(planFile)
			if err != nil {
				t.Fatal(err)
			}
			for urn, r := range saved.ResourcePlans {
				for _, s := range r.Steps {
					if active(s) && !shows(plan, string(urn)) {
						t.Errorf("%s: the plan holds the step %s, which is not shown", urn, s)
					}
				}
			}
		})
	}
}

func shows(plan plans.Plan, urn string) bool {
	for _, c := range plan.Changes {
		if c.URN == urn {
			return true
		}
	}
	return false
}
