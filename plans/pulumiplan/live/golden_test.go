// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/plans/pulumiplan/live"
)

var update = flag.Bool("update", false, "write want.txt anew")

const folder = "../../../tests/testdata/drift"

func cases(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*", "before.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no cases in %s: %v", folder, err)
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

func readCase(t *testing.T, dir string) live.Input {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return text
	}
	in := live.Input{Events: read("events.ndjson"), Plan: read("plan.json"), Failure: string(read("failure.txt"))}
	if len(in.Events) == 0 {
		t.Fatalf("%s has no events: see the README there", dir)
	}
	return in
}

// TestGoldenLooks reads what the real CLI said, and holds what a person is told about it.
func TestGoldenLooks(t *testing.T) {
	t.Parallel()
	seen := map[drift.Class]bool{}
	for _, dir := range cases(t) {
		reading, err := live.Read(readCase(t, dir))
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		report := drift.Build(reading)
		seen[report.Class] = true
		got := strings.Join(report.Lines(), "\n") + "\n"
		if strings.Contains(got, "canary") {
			t.Errorf("%s shows a secret:\n%s", dir, got)
		}
		path := filepath.Join(dir, "want.txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // a golden file
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path) //nolint:gosec // a golden file
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s: -want +got\n%s", filepath.Base(dir), diff)
		}
	}
	for _, class := range []drift.Class{drift.None, drift.Noise, drift.Changed, drift.Deleted, drift.Unreadable, drift.Conflict} {
		if !seen[class] {
			t.Errorf("no golden case comes to %s", class)
		}
	}
}

// TestALookThatIsCutOffClaimsNothing cuts each golden look off at every line: what was not read may not count as undrifted.
func TestALookThatIsCutOffClaimsNothing(t *testing.T) {
	t.Parallel()
	for _, dir := range cases(t) {
		in := readCase(t, dir)
		whole := drift.Build(must(t, in))
		lines := strings.SplitAfter(string(in.Events), "\n")
		for n := range lines {
			cut := in
			cut.Events = []byte(strings.Join(lines[:n], ""))
			reading, err := live.Read(cut)
			if err != nil {
				t.Fatalf("%s, %d lines: %v", dir, n, err)
			}
			report := drift.Build(reading)
			if reading.Ended && n < len(lines)-2 && !must(t, in).Ended {
				t.Errorf("%s, %d lines: it claims to be whole", dir, n)
			}
			if report.Same > whole.Same+len(whole.Resources) {
				t.Errorf("%s, %d lines: %d the same of %d", dir, n, report.Same, whole.Same)
			}
			if !reading.Ended && report.Unseen == 0 && report.Class.Drifted() && report.Digest != whole.Digest && len(report.Resources) > len(whole.Resources) {
				t.Errorf("%s, %d lines: more drift than there is", dir, n)
			}
		}
	}
}

func must(t *testing.T, in live.Input) drift.Reading {
	t.Helper()
	reading, err := live.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	return reading
}

func FuzzRead(f *testing.F) {
	found, _ := filepath.Glob(filepath.Join(folder, "*", "events.ndjson"))
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil { //nolint:gosec // a golden file
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, events []byte) {
		reading, err := live.Read(live.Input{Events: events})
		if err != nil {
			return
		}
		report := drift.Build(reading)
		if (report.Digest == "") != (len(report.Sums()) == 0) {
			t.Errorf("digest %q, sums %v", report.Digest, report.Sums())
		}
		_ = report.Lines()
	})
}
