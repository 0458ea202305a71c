// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/golden"
)

var update = flag.Bool("update", false, "write what Decode returns to want.yaml")

const testdata = "../../tests/testdata/plans"

// planned are the cases that have a plan.
func planned(t testing.TB) []golden.Case {
	t.Helper()
	return slices.DeleteFunc(golden.Cases(t, testdata), func(c golden.Case) bool { return len(c.Fails) > 0 })
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
	for _, c := range planned(t) {
		t.Run(c.Name, func(t *testing.T) {
			plan, err := Decode(c.Plan(t))
			if err != nil {
				t.Fatal(err)
			}
			got := golden.Normalise(golden.Want(t, plan))
			if strings.Contains(string(got), "canary") {
				t.Errorf("a secret shows:\n%s", got)
			}
			want := filepath.Join(c.Dir, "want.yaml")
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
	for _, c := range planned(t) {
		t.Run(c.Name, func(t *testing.T) {
			whole, events := c.Plan(t)
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
	for _, c := range planned(t) {
		t.Run(c.Name, func(t *testing.T) {
			planFile, _ := c.Plan(t)
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
