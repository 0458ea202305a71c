// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/plans/pulumiplan/live"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

const aAndB = `
  a:
    type: files:File
    properties: {path: DIR/out/a, content: "${content}"}
  b:
    type: files:File
    properties: {path: DIR/out/b, content: two}
`

// drifting is a stack that was applied, and is ready to be spoiled.
func drifting(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(aAndB)})
	r.mustApply(commit, r.preview(commit))
	return r, commit
}

func (r *rig) spoil(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(r.file("out", name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// check runs a drift check, whatever comes of it, and reads it.
func (r *rig) check(commit string, change ...func(*workspace.Operation)) (*workspace.Result, drift.Report) {
	r.t.Helper()
	op := r.operation(workspace.DriftCheck, commit)
	for _, c := range change {
		c(op)
	}
	result := r.run(op)
	failure := ""
	if result.Outcome != workspace.Succeeded {
		failure = result.Message
	}
	reading, err := live.Read(live.Input{Events: result.Events, Plan: result.Plan, Failure: failure})
	if err != nil {
		r.t.Fatal(err)
	}
	return result, drift.Build(reading)
}

// stateFile is the digest of everything that the backend holds of the stack itself, byte for byte.
func (r *rig) stateFile() string {
	r.t.Helper()
	raw, err := os.ReadFile(r.file("state", ".pulumi", "stacks", "demo", "dev.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func refresh(op *workspace.Operation) { op.Options.Refresh = true }

func TestADriftCheckTellsWhatHappenedAndChangesNeitherTheWorldNorTheState(t *testing.T) {
	t.Parallel()
	r, commit := drifting(t)
	before := r.stateFile()
	result, report := r.check(commit)
	if result.Outcome != workspace.Succeeded || report.Class != drift.None || result.Facts.DriftDigest != pulumi.Drift(nil).Digest {
		t.Fatalf("before anything happened: %s %+v\n%s", result.Outcome, result.Facts, strings.Join(report.Lines(), "\n"))
	}
	r.spoil("a", "by hand")
	if err := os.Remove(r.file("out", "b")); err != nil {
		t.Fatal(err)
	}
	result, report = r.check(commit)
	text := strings.Join(report.Lines(), "\n")
	if report.Class != drift.Deleted || !strings.Contains(text, `content was changed from "none" to "by hand"`) || !strings.Contains(text, "it was deleted") {
		t.Errorf("%s", text)
	}
	if result.Facts.DriftDigest == "" || result.Facts.DriftDigest == pulumi.Drift(nil).Digest || report.Digest == "" {
		t.Errorf("the digest of the agent is %s, of the report %s", result.Facts.DriftDigest, report.Digest)
	}
	if r.content("a") != "by hand" || r.content("b") != "(none)" {
		t.Errorf("the check touched the world: %q, %q", r.content("a"), r.content("b"))
	}
	if after := r.stateFile(); after != before {
		t.Errorf("the check wrote the state: %s, %s", before, after)
	}
	if locks, _ := os.ReadDir(r.file("state", ".pulumi", "locks", "organization", "demo", "dev")); len(locks) > 0 {
		t.Errorf("the check left locks: %v", locks)
	}
}

func TestADriftCheckOfAStackThatDoesNotExistFindsNothingAndCreatesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(aAndB)})
	result, report := r.check(commit)
	if result.Outcome != workspace.Succeeded || report.Class != drift.None || result.Facts.DriftDigest != pulumi.Drift(nil).Digest {
		t.Errorf("%s %s: %+v", result.Outcome, result.Message, result.Facts)
	}
	if _, err := os.Stat(r.file("state", ".pulumi", "stacks", "demo", "dev.json")); err == nil {
		t.Error("the check created the stack")
	}
}

func TestWhatCannotBeReadIsNamedAndTheRestIsToldAllTheSame(t *testing.T) {
	t.Parallel()
	r, commit := drifting(t)
	r.spoil("a", "by hand")
	if err := os.Remove(r.file("out", "b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.file("out", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	result, report := r.check(commit)
	text := strings.Join(report.Lines(), "\n")
	if result.Outcome != workspace.Failed || report.Class != drift.Unreadable || !strings.Contains(text, "? b  files:index:File: it could not be read") || !strings.Contains(text, "~ a ") {
		t.Errorf("%s %s\n%s", result.Outcome, result.Message, text)
	}
	if _, err := report.Accept(); err == nil {
		t.Error("what nobody could read can be accepted")
	}
}

func TestDriftIsPutBackByThePlanOfTheLookAtIt(t *testing.T) {
	t.Parallel()
	r, commit := drifting(t)
	r.spoil("a", "by hand")
	plan := r.preview(commit, refresh)
	if plan.Facts.DriftDigest == "" || plan.Facts.DriftDigest == pulumi.Drift(nil).Digest {
		t.Fatalf("the plan is bound to no drift: %+v", plan.Facts)
	}
	r.mustApply(commit, plan, refresh)
	if r.content("a") != "none" {
		t.Errorf("it was not put back: %q", r.content("a"))
	}
	if _, report := r.check(commit); report.Class != drift.None {
		t.Errorf("the next check is not empty:\n%s", strings.Join(report.Lines(), "\n"))
	}
}

func TestFurtherDriftAfterTheLookMakesThePlanStaleAndIsNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		further func(*rig)
		names   string
	}{
		"the same resource goes on": {func(r *rig) { r.spoil("a", "again") }, "changed urn:pulumi:dev::demo::files:index:File::a"},
		"another one joins it":      {func(r *rig) { r.spoil("b", "too") }, "added urn:pulumi:dev::demo::files:index:File::b"},
		"it goes back by itself":    {func(r *rig) { r.spoil("a", "none") }, "removed urn:pulumi:dev::demo::files:index:File::a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, commit := drifting(t)
			r.spoil("a", "by hand")
			plan := r.preview(commit, refresh)
			tc.further(r)
			before, world := r.stateFile(), r.content("a")
			result := r.run(r.apply(commit, plan, refresh))
			if result.Outcome != workspace.Stale || len(result.Mismatches) != 1 || result.Mismatches[0].Field != "driftDigest" || !strings.Contains(result.Message, tc.names) {
				t.Errorf("%s %s: %s\n%+v", result.Outcome, result.Reason, result.Message, result.Mismatches)
			}
			if r.content("a") != world || r.stateFile() != before {
				t.Errorf("something was changed: %q", r.content("a"))
			}
		})
	}
}

// acceptance is the Accept of what a check has found.
func (r *rig) acceptance(commit string, checked *workspace.Result, report drift.Report) *workspace.Operation {
	r.t.Helper()
	list, err := report.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	op := r.operation(workspace.Accept, commit)
	op.Options.Refresh = true
	op.Expect, op.Plan, op.FallbackSalt = checked.Facts, list, checked.Salt
	sum := sha256.Sum256(list)
	op.PlanDigest = "sha256:" + hex.EncodeToString(sum[:])
	return op
}

func TestAcceptedDriftIsTakenIntoTheStateAndNothingElseIs(t *testing.T) {
	t.Parallel()
	r, commit := drifting(t)
	r.spoil("a", "by hand")
	if err := os.Remove(r.file("out", "b")); err != nil {
		t.Fatal(err)
	}
	checked, report := r.check(commit)
	op := r.acceptance(commit, checked, report)
	result := r.run(op)
	if result.Outcome != workspace.Succeeded || result.Steps.Done != 2 {
		t.Fatalf("%s %s: %s\n%s", result.Outcome, result.Reason, result.Message, result.LogTail)
	}
	if r.content("a") != "by hand" || r.content("b") != "(none)" {
		t.Errorf("the world was changed: %q, %q", r.content("a"), r.content("b"))
	}
	_, report = r.check(commit)
	if report.Class != drift.None || report.Pending != 2 {
		t.Errorf("the next check is not empty, or hides that the program wants it otherwise:\n%s", strings.Join(report.Lines(), "\n"))
	}
}

func TestWhatIsAcceptedIsExactlyWhatWasListed(t *testing.T) {
	t.Parallel()
	r, commit := drifting(t)
	r.spoil("a", "by hand")
	checked, report := r.check(commit)
	op := r.acceptance(commit, checked, report)
	r.spoil("a", "something else")
	before := r.stateFile()
	result := r.run(op)
	if result.Outcome != workspace.Stale || !strings.Contains(result.Message, "changed urn:pulumi:dev::demo::files:index:File::a") {
		t.Errorf("%s %s: %s", result.Outcome, result.Reason, result.Message)
	}
	if r.stateFile() != before {
		t.Error("the state took something over")
	}
}

func TestADriftCheckGivesWayAtOnceToARealChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(aAndB) + "  slow:\n    type: files:File\n    properties: {path: DIR/out/slow, content: x}\n"})
	r.mustApply(commit, r.preview(commit))
	r.spoil("slow.hold", "")
	check := r.operation(workspace.DriftCheck, commit)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := r.client.Start(ctx, check); err != nil {
		t.Fatal(err)
	}
	r.reached("slow.hold.reached")
	op := r.operation(workspace.Preview, commit)
	start := time.Now()
	if err := r.client.Start(ctx, op); err != nil {
		t.Fatalf("the change was refused: %v", err)
	}
	waited := time.Since(start)
	if result := r.wait(ctx, op.ID); result.Outcome != workspace.Succeeded {
		t.Errorf("the change: %s %s", result.Outcome, result.Message)
	}
	ended, err := r.client.Result(ctx, check.ID)
	if err != nil || ended.Outcome != workspace.Cancelled || ended.Reason != workspace.ReasonGaveWay {
		t.Errorf("the check: %+v, %v", ended, err)
	}
	t.Logf("the change waited %s", waited)
	if waited > 5*time.Second {
		t.Errorf("the change waited %s for the check", waited)
	}
}

// reached waits until a file is there.
func (r *rig) reached(name string) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(r.file("out", name)); err == nil {
			return
		}
	}
	r.t.Fatalf("%s was never reached", name)
}
