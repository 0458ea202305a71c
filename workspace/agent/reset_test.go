// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/client"
)

// TestNothingOfAnOperationSurvives is the promise: the same pod, and yet each operation sees git plus its own configuration.
func TestNothingOfAnOperationSurvives(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{
		"Pulumi.yaml":     program(oneFile) + "outputs: {left: {\"fn::readFile\": DIR/marker}}\n",
		"Pulumi.dev.yaml": "config:\n  demo:content: committed\n",
		".gitignore":      "*.log\n",
	})
	r.write("marker", "x")
	set := r.preview(commit, config("content", "override"))
	r.mustApply(commit, set, config("content", "override"))
	if got := r.content("a"); got != "override" {
		t.Fatalf("with the key set, the file is %q", got)
	}
	checkouts, err := filepath.Glob(r.file("work", "sources", "*", "Pulumi.yaml"))
	if err != nil || len(checkouts) != 1 {
		t.Fatalf("finding checkout: %v %v", checkouts, err)
	}
	root := filepath.Dir(checkouts[0])
	// What a program can leave: new files, ignored files, changed files, a nested repository, a stale lock.
	for name, content := range map[string]string{
		"new": "x", "old.log": "x", "Pulumi.dev.yaml": "config: {demo:content: poison}", "nested/.git/HEAD": "ref: refs/heads/x", ".git/index.lock": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed := r.preview(commit)
	r.mustApply(commit, removed)
	if got := r.content("a"); got != "committed" {
		t.Errorf("with the key removed, the file is %q, want the committed value", got)
	}
	for _, name := range []string{"new", "old.log", "nested"} {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			t.Errorf("%q survived", name)
		}
	}
	if removed.Salt != set.Salt {
		t.Errorf("the salt moved: %q, %q", set.Salt, removed.Salt)
	}
}

func TestTheSaltIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": strings.Replace(program(oneFile), "default: none", "secret: true", 1)})
	secret := func(op *workspace.Operation) { op.SecretConfig = map[string]string{"content": "s3cret value"} }
	first := r.preview(commit, secret)
	again := r.preview(commit, secret)
	if again.Salt == "" || first.Salt != again.Salt {
		t.Errorf("two previews of a new stack without a fallback have the salts %q and %q", first.Salt, again.Salt)
	}
	if first.Facts.StateDigest != again.Facts.StateDigest {
		t.Errorf("creating the stack moved the state's digest")
	}
	applied := r.mustApply(commit, first, secret)
	noop := r.preview(commit, secret)
	if noop.Salt != first.Salt || noop.Steps.Total != 0 {
		t.Errorf("after the apply: salt %q, steps %+v", noop.Salt, noop.Steps)
	}
	r.mustApply(commit, noop, secret)
	if after := r.preview(commit, secret); after.Facts.StateDigest != noop.Facts.StateDigest {
		t.Error("an update that did nothing moved the state's digest")
	}
	for name, text := range map[string]string{
		"events": string(first.Events), "plan": string(first.Plan), "log": first.LogTail, "applied log": applied.LogTail, "applied events": string(applied.Events),
	} {
		if strings.Contains(text, "s3cret value") {
			t.Errorf("%s: the secret is in clear", name)
		}
	}
	out, _ := exec.Command("grep", "-rlE", "s3cret value|correct horse", r.file("work")).CombinedOutput()
	if len(out) > 0 {
		t.Errorf("secrets are on disk: %s", out)
	}
}

func TestTheApplySeesWhatTheStateDigestCannot(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	r.mustApply(commit, r.preview(commit, config("content", "v1")), config("content", "v1"))
	r.write("out/a", "drifted")
	refresh := func(op *workspace.Operation) { op.Options.Refresh = true }
	repair := r.preview(commit, config("content", "v1"), refresh)
	if repair.Steps.Total != 1 {
		t.Errorf("the drift is not planned: %+v", repair.Steps)
	}
	r.mustApply(commit, repair, config("content", "v1"), refresh)
	if got := r.content("a"); got != "v1" {
		t.Errorf("the repair left %q", got)
	}
}

func TestOneOperationAtATime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(slowFile)})
	preview := r.preview(commit)
	op := r.apply(commit, preview)
	for range 3 { // idempotent
		if err := r.client.Start(ctx, op); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the update reaches the file", func() bool { _, err := os.Stat(r.file("gate.reached")); return err == nil })
	if err := r.client.Start(ctx, r.operation(workspace.Preview, commit)); !client.IsBusy(err) || !strings.Contains(err.Error(), op.ID) {
		t.Errorf("Start of another: want busy with %q, got %v", op.ID, err)
	}
	running, err := r.client.Result(ctx, op.ID)
	if err != nil || running.Outcome != workspace.Running || running.Steps.Total != 3 {
		t.Errorf("Result: want Running of 3 steps, got %+v, %v", running, err)
	}
	info, err := r.client.Info(ctx)
	if err != nil || info.Current != op.ID || info.PodUID != podUID || info.PulumiVersion == "" {
		t.Errorf("Info: %+v, %v", info, err)
	}
	other := r.operation(workspace.Preview, commit)
	other.PodUID = "another"
	if err := r.client.Start(ctx, other); !client.IsWrongPod(err) {
		t.Errorf("Start for another pod: %v", err)
	}
	if _, err := r.client.Result(ctx, "never"); !client.IsNotFound(err) {
		t.Errorf("Result of an unknown id: %v", err)
	}
	if err := r.client.Watch(ctx, "never", 1, func(client.Event) {}); !client.IsNotFound(err) {
		t.Errorf("Watch of an unknown id: %v", err)
	}
	if err := r.client.Cancel(ctx, "never"); !client.IsNotFound(err) {
		t.Errorf("Cancel of an unknown id: %v", err)
	}
	r.write("gate", "")
	if got := r.wait(ctx, op.ID); got.Outcome != workspace.Succeeded {
		t.Errorf("Apply: %+v", got)
	}
	if err := r.client.Start(ctx, op); err != nil {
		t.Errorf("Start after the end: %v", err)
	}
	if info, err := r.client.Info(ctx); err != nil || info.Current != "" {
		t.Errorf("Start of an ended id ran it again: %+v, %v", info, err)
	}
}

func TestWatchCanBeTakenUpAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	op := r.operation(workspace.Preview, commit)
	r.run(op)
	var all, rest []client.Event
	if err := r.client.Watch(context.Background(), op.ID, 0, func(e client.Event) { all = append(all, e) }); err != nil {
		t.Fatal(err)
	}
	for i, e := range all {
		if e.Sequence != int64(i+1) {
			t.Fatalf("event %d has the sequence number %d", i, e.Sequence)
		}
	}
	if err := r.client.Watch(context.Background(), op.ID, 3, func(e client.Event) { rest = append(rest, e) }); err != nil {
		t.Fatal(err)
	}
	if len(rest) != len(all)-2 || rest[0].Sequence != 3 || all[len(all)-1].Kind != client.Ended {
		t.Errorf("from 3: %d of %d events", len(rest), len(all))
	}
	if err := r.client.Watch(context.Background(), op.ID, 1000, func(client.Event) {}); err != nil {
		t.Errorf("from beyond the end: %v", err)
	}
}

const slowFile = oneFile + `
  w:
    type: files:File
    properties: {path: DIR/out/w, content: waited, waitFor: DIR/gate}
    options: {dependsOn: ["${a}"]}
`
