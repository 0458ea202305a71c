// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

const twoFiles = `
  a:
    type: files:File
    properties: {path: DIR/out/a, content: "one"}
  b:
    type: files:File
    properties: {path: DIR/out/b, content: "two"}
    options: {OPTIONS}
`

// destroyProgram is two files, the second with options. The provider is found on the PATH, as from the image: a destroy does not
// see what the project brings.
func destroyProgram(options string) string {
	all := program(strings.ReplaceAll(twoFiles, "OPTIONS", options))
	before, rest, _ := strings.Cut(all, "plugins:\n")
	_, after, _ := strings.Cut(rest, "config:\n")
	return before + "config:\n" + after
}

// installed puts the provider on the PATH of an operation.
func (r *rig) installed(op *workspace.Operation) {
	op.Env["PATH"] = r.tools.plugins + ":" + r.path()
}

// made applies a program and takes its source away.
func (r *rig) made(options string) {
	r.t.Helper()
	commit := r.commit(map[string]string{"Pulumi.yaml": destroyProgram(options)})
	r.mustApply(commit, r.preview(commit, r.installed), r.installed)
	if r.content("a") != "one" || r.content("b") != "two" {
		r.t.Fatal("the case is not what it should be")
	}
	for _, gone := range []string{r.file("repo"), r.file("work", "sources")} {
		if err := os.RemoveAll(gone); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) destroyOperation(kind workspace.OperationType) *workspace.Operation {
	op := r.operation(kind, "")
	op.Source = workspace.Source{}
	r.installed(op)
	return op
}

func (r *rig) listed() *workspace.Result {
	r.t.Helper()
	result := r.run(r.destroyOperation(workspace.PreviewDestroy))
	if result.Outcome != workspace.Succeeded {
		r.t.Fatalf("PreviewDestroy: %s %s: %s\n%s", result.Outcome, result.Reason, result.Message, result.LogTail)
	}
	return result
}

func (r *rig) destroy(list *workspace.Result) *workspace.Operation {
	op := r.destroyOperation(workspace.Destroy)
	op.Expect, op.Plan = list.Facts, list.Plan
	sum := sha256.Sum256(op.Plan)
	op.PlanDigest = "sha256:" + hex.EncodeToString(sum[:])
	return op
}

func TestADestroyTakesAwayExactlyWhatWasListedAndNeedsNoSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("")
	list := r.listed()
	if r.content("a") != "one" || r.content("b") != "two" {
		t.Fatal("the preview of a destroy has destroyed")
	}
	for _, want := range []string{`::a"`, `::b"`, `"fate":"delete"`, list.Facts.StateDigest, `"project":"demo"`} {
		if !bytes.Contains(list.Plan, []byte(want)) {
			t.Errorf("the list does not say %s: %s", want, list.Plan)
		}
	}
	if len(list.Facts.Plugins) != 1 || list.Facts.Plugins[0].Digest == "" || list.Facts.Commit != "" {
		t.Errorf("facts: %+v", list.Facts)
	}
	gone := r.run(r.destroy(list))
	if gone.Outcome != workspace.Succeeded || r.content("a") != "(none)" || r.content("b") != "(none)" {
		t.Fatalf("Destroy: %s %s: %s\n%s", gone.Outcome, gone.Reason, gone.Message, gone.LogTail)
	}
	if gone.Steps.Done != gone.Steps.Total || gone.Steps.Done < 2 {
		t.Errorf("Destroy: steps %+v", gone.Steps)
	}
	if again := r.listed(); bytes.Contains(again.Plan, []byte(`"urn"`)) {
		t.Errorf("something is left: %s", again.Plan)
	}
	if stale := r.run(r.destroy(list)); stale.Outcome != workspace.Stale {
		t.Errorf("the same destroy again: %s %s", stale.Outcome, stale.Message)
	}
}

func TestADestroyOfAStateThatHasMovedIsRefusedAndNamesWhat(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": destroyProgram("")})
	r.mustApply(commit, r.preview(commit, r.installed), r.installed)
	list := r.listed()
	commit = r.commit(map[string]string{"Pulumi.yaml": strings.Replace(destroyProgram(""), "content: \"one\"", "content: \"three\"", 1)})
	r.mustApply(commit, r.preview(commit, r.installed), r.installed)
	refused := r.run(r.destroy(list))
	if refused.Outcome != workspace.Stale || !strings.Contains(refused.Message, "::a") || r.content("a") != "three" || r.content("b") != "two" {
		t.Errorf("Destroy: %s %s; a is %q, b is %q", refused.Outcome, refused.Message, r.content("a"), r.content("b"))
	}
}

func TestAListThatIsNotOfTheStateDestroysNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("")
	list := r.listed()
	forged := *list
	forged.Plan = bytes.Replace(list.Plan, []byte(`::b"`), []byte(`::c"`), 1)
	refused := r.run(r.destroy(&forged))
	if refused.Outcome != workspace.Violated || r.content("a") != "one" || r.content("b") != "two" {
		t.Errorf("Destroy: %s %s", refused.Outcome, refused.Message)
	}
}

func TestProtectedResourcesAreListedAndMakeTheDestroyImpossible(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("protect: true")
	list := r.listed()
	if !bytes.Contains(list.Plan, []byte(`"fate":"protected"`)) || !bytes.Contains(list.Plan, []byte(`"fate":"delete"`)) {
		t.Errorf("the list: %s", list.Plan)
	}
	refused := r.run(r.destroy(list))
	if refused.Outcome != workspace.Failed || !strings.Contains(refused.Message, "protected") || r.content("a") != "one" || r.content("b") != "two" {
		t.Errorf("Destroy: %s %s", refused.Outcome, refused.Message)
	}
}

func TestWhatIsRetainedStaysWhenTheRestIsDestroyed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("retainOnDelete: true")
	list := r.listed()
	if !bytes.Contains(list.Plan, []byte(`"fate":"retain"`)) {
		t.Errorf("the list: %s", list.Plan)
	}
	gone := r.run(r.destroy(list))
	if gone.Outcome != workspace.Succeeded || r.content("a") != "(none)" || r.content("b") != "two" {
		t.Errorf("Destroy: %s %s; a is %q, b is %q", gone.Outcome, gone.Message, r.content("a"), r.content("b"))
	}
}

func TestADestroyThatFailsHalfwayIsPartialAndTheRestCanBeListed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("dependsOn: [\"${a}\"]")
	list := r.listed()
	// b goes first; a cannot: there is a folder with something in it where the file was.
	for _, step := range []error{os.Remove(r.file("out", "a")), os.MkdirAll(r.file("out", "a", "full"), 0o700)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	partial := r.run(r.destroy(list))
	if partial.Outcome != workspace.Partial || partial.Steps.Done < 1 || partial.Steps.Done >= partial.Steps.Total || r.content("b") != "(none)" {
		t.Fatalf("Destroy: %s %+v %s", partial.Outcome, partial.Steps, partial.Message)
	}
	done, notDone, err := pulumiplan.DestroyProgress(list.Plan, partial.Events)
	if err != nil || len(done) != 1 || !strings.HasSuffix(done[0].URN, "::b") || len(notDone) != 1 || !strings.HasSuffix(notDone[0].URN, "::a") || notDone[0].Outcome != "Failed" {
		t.Errorf("DestroyProgress: done %+v, rest %+v, %v", done, notDone, err)
	}
	rest := r.listed()
	if !bytes.Contains(rest.Plan, []byte(`::a"`)) || bytes.Contains(rest.Plan, []byte(`::b"`)) {
		t.Errorf("the rest: %s", rest.Plan)
	}
	if err := os.RemoveAll(r.file("out", "a")); err != nil {
		t.Fatal(err)
	}
	if gone := r.run(r.destroy(rest)); gone.Outcome != workspace.Succeeded {
		t.Errorf("the rest: %s %s", gone.Outcome, gone.Message)
	}
}

// What was approved as an update never destroys, and the other way round: the agent refuses before Pulumi runs.
func TestADestroyIsDoneOnlyForAStatementThatSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": destroyProgram("")})
	planned := r.preview(commit, r.installed)
	r.mustApply(commit, planned, r.installed)
	list := r.listed()
	asUpdate := func(in *plans.StatementInput) {
		b := &in.Binding
		in.Operation, b.Repository, b.Revision, b.Tree = "Update", "file://"+r.file("repo"), commit, planned.Facts.Tree
	}
	asDestroy := func(in *plans.StatementInput) {
		b := &in.Binding
		in.Operation, b.Repository, b.Directory, b.Revision, b.Tree = "Destroy", "", "", "", ""
	}
	for name, tc := range map[string]struct {
		op     *workspace.Operation
		change func(*plans.StatementInput)
		says   string
	}{
		"a destroy by the approval of an update": {r.destroy(list), asUpdate, "operation is Update, but Destroy is asked for"},
		"an update by the approval of a destroy": {r.apply(commit, planned, r.installed), asDestroy, "operation is Destroy, but Apply is asked for"},
		"a destroy of another state": {r.destroy(list), func(in *plans.StatementInput) {
			asDestroy(in)
			in.Binding.StateDigest = "sha256:" + strings.Repeat("1", 64)
		}, "binding.stateDigest"},
		"a destroy of another list": {r.destroy(list), func(in *plans.StatementInput) {
			asDestroy(in)
			in.Artifact.Digest = "sha256:" + strings.Repeat("2", 64)
		}, "the plan file's digest"},
	} {
		approve(t, tc.op, stated(t, tc.op, tc.change))
		got := r.run(tc.op)
		if got.Outcome != workspace.Failed || got.Reason != workspace.ReasonApprovalInvalid || !strings.Contains(got.Message, tc.says) || r.content("a") != "one" {
			t.Errorf("%s: want it refused for %q, got %s %s: %s; a is %q", name, tc.says, got.Outcome, got.Reason, got.Message, r.content("a"))
		}
	}
	op := r.destroy(list)
	approve(t, op, stated(t, op, asDestroy))
	if got := r.run(op); got.Outcome != workspace.Succeeded || r.content("a") != "(none)" {
		t.Errorf("Destroy: %s %s: %s", got.Outcome, got.Reason, got.Message)
	}
}

// A state that somebody moves when all was compared is not destroyed either.
func TestAStateThatMovesAfterItWasComparedStopsTheDestroy(t *testing.T) {
	t.Parallel()
	r := newFolders(t, nil)
	mover := &lateMover{CLI: pulumi.New("", r.environ(), 20*time.Second), move: func() {}}
	r.driver = mover
	r.serve()
	r.made("")
	list := r.listed()
	mover.move = func() { r.pendingAs("updating", "a") }
	got := r.run(r.destroy(list))
	if got.Outcome != workspace.Stale || len(got.Mismatches) != 1 || got.Mismatches[0].Field != "stateDigest" {
		t.Errorf("Destroy: want Stale, got %s %s %q", got.Outcome, got.Reason, got.Message)
	}
	if r.content("a") != "one" || r.content("b") != "two" || len(r.locks()) != 0 {
		t.Errorf("a is %q, b is %q, locks %v", r.content("a"), r.content("b"), r.locks())
	}
}

func TestADestroyWaitsForALockAndReleasesThatOfADeadPod(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("")
	list := r.listed()
	r.lock("pulumi", "web-workspace-abcdefgh", 17, time.Now())
	op := r.destroy(list)
	got := r.run(op)
	if got.Outcome != workspace.Failed || got.Reason != workspace.ReasonLocked || len(got.Locks) != 1 || r.content("a") != "one" {
		t.Errorf("Destroy: want Locked, got %s %s %q, locks %+v", got.Outcome, got.Reason, got.Message, got.Locks)
	}
	op = r.destroy(list)
	op.Release = []workspace.LockRelease{{Host: "web-workspace-abcdefgh", Operation: "op-dead", Cause: workspace.LockOwnDead, By: "the pod is gone"}}
	got = r.run(op)
	if got.Outcome != workspace.Succeeded || len(got.Released) != 1 || r.content("a") != "(none)" {
		t.Errorf("Destroy: %s %s %q, released %+v", got.Outcome, got.Reason, got.Message, got.Released)
	}
}

func TestALookAtTheStateOfADestroyNeedsNoSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.made("")
	list := r.listed()
	op := r.destroyOperation("")
	op.Expect = list.Facts
	if sight := r.look(workspace.LookState, op); sight.Reason != "" || sight.StateDigest != list.Facts.StateDigest {
		t.Errorf("nothing was changed: %+v", sight)
	}
	r.pendingAs("updating", "a")
	if sight := r.look(workspace.LookState, op); sight.Reason != "" || sight.StateDigest == list.Facts.StateDigest {
		t.Errorf("the state was changed: %+v", sight)
	}
}
