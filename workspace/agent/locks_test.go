// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

// neighbour is somebody else who runs the real `pulumi up` on the same stack, with a file that waits for DIR/neighbour. It
// returns when that holds the lock, with the lock's id; end lets it end well, kill takes it away.
type neighbour struct {
	r       *rig
	process *exec.Cmd
	lock    string
}

func (r *rig) neighbour(preview *workspace.Result) *neighbour {
	r.t.Helper()
	dir := r.file("neighbour-project")
	r.put(dir, "Pulumi.yaml", program("\n  n:\n    type: files:File\n    properties: {path: DIR/out/n, content: neighbour, waitFor: DIR/neighbour}\n"))
	r.put(dir, "Pulumi.dev.yaml", "encryptionsalt: "+preview.Salt+"\n")
	cmd := exec.Command(lookIn(r.path(), "pulumi"), "up", "--yes", "--skip-preview", "--non-interactive", "-s", "organization/demo/dev")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+r.path(), "PULUMI_BACKEND_URL=file://"+r.file("state"), "PULUMI_CONFIG_PASSPHRASE=correct horse",
		"PULUMI_HOME="+r.file("neighbour-home"), "PULUMI_SKIP_UPDATE_CHECK=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	n := &neighbour{r: r, process: cmd}
	r.t.Cleanup(func() {
		n.kill()
		if r.t.Failed() {
			r.t.Logf("neighbour: %s", out.String())
		}
	})
	eventually(r.t, "the neighbour reaches its file", func() bool { _, err := os.Stat(r.file("neighbour.reached")); return err == nil })
	locks := r.locks()
	if len(locks) != 1 {
		r.t.Fatalf("want one lock of the neighbour, got %v", locks)
	}
	n.lock = strings.TrimSuffix(filepath.Base(locks[0]), ".json")
	return n
}

func (n *neighbour) end() {
	n.r.t.Helper()
	n.r.write("neighbour", "")
	if err := n.process.Wait(); err != nil {
		n.r.t.Fatalf("the neighbour: %v", err)
	}
}

func (n *neighbour) kill() {
	_ = syscall.Kill(-n.process.Process.Pid, syscall.SIGKILL)
	_, _ = n.process.Process.Wait()
}

func (r *rig) put(dir, name, content string) {
	r.t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	content = strings.NewReplacer("DIR", r.dir, "PLUGINS", r.tools.plugins).Replace(content)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func TestALockOfSomebodyElseIsToldAndNeverBroken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	preview := r.preview(commit)
	n := r.neighbour(preview)

	seen := r.preview(commit)
	if len(seen.Locks) != 1 || seen.Locks[0].ID != n.lock || seen.Locks[0].PID != n.process.Process.Pid || seen.Locks[0].At.IsZero() {
		t.Errorf("the preview does not tell of the lock: %+v", seen.Locks)
	}
	for _, release := range [][]workspace.LockRelease{
		nil,
		{{ID: "another", Cause: workspace.LockRequested}},
		{{Host: "another", Cause: workspace.LockOwnDead}},
		// The neighbour runs on the host of this very agent, which lives.
		{{Host: seen.Locks[0].Host, Cause: workspace.LockOwnDead}},
		{{}},
	} {
		got := r.run(r.apply(commit, seen, func(op *workspace.Operation) { op.Release = release }))
		if got.Outcome != workspace.Failed || got.Reason != workspace.ReasonLocked || len(got.Released) > 0 || len(got.Locks) != 1 || got.Locks[0].ID != n.lock {
			t.Errorf("Apply with %+v: %s %s %q, locks %+v, released %+v", release, got.Outcome, got.Reason, got.Message, got.Locks, got.Released)
		}
		if !strings.Contains(got.Message, n.lock) || !strings.Contains(got.Message, fmt.Sprintf("(pid %d) since ", n.process.Process.Pid)) {
			t.Errorf("the message names neither holder, time nor lock: %q", got.Message)
		}
	}
	n.end()
	if got := r.run(r.apply(commit, seen)); got.Outcome != workspace.Stale {
		t.Errorf("Apply after the neighbour: want Stale, got %s %s %q", got.Outcome, got.Reason, got.Message)
	}
	r.mustApply(commit, r.preview(commit))
}

func TestALockThatSomebodyNamesIsReleasedAndNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	preview := r.preview(commit)
	n := r.neighbour(preview)
	n.kill()
	preview = r.preview(commit)
	r.lock("bob", "desk", 99, time.Now())

	named := func(op *workspace.Operation) {
		op.Release = []workspace.LockRelease{{ID: n.lock, Cause: workspace.LockRequested, By: "carol"}}
	}
	got := r.run(r.apply(commit, preview, named))
	if got.Reason != workspace.ReasonLocked || len(got.Released) != 1 || got.Released[0].ID != n.lock || got.Released[0].By != "carol" || got.Released[0].Cause != workspace.LockRequested {
		t.Errorf("Apply with two locks: %s %q, released %+v", got.Reason, got.Message, got.Released)
	}
	if locks := r.locks(); len(locks) != 1 || !strings.HasSuffix(locks[0], "bob-99.json") {
		t.Fatalf("want the other lock alone, got %v", locks)
	}
	if len(got.Locks) != 1 || got.Locks[0].ID != "bob-99" || got.Locks[0].User != "bob" {
		t.Errorf("the lock that is left is not told: %+v", got.Locks)
	}
	if err := os.Remove(r.locks()[0]); err != nil { // it vanishes by itself
		t.Fatal(err)
	}
	got = r.run(r.apply(commit, preview, named))
	if got.Outcome != workspace.Succeeded || len(got.Released) != 0 || len(got.Locks) != 0 {
		t.Errorf("Apply without a lock: %s %s %q, released %+v, locks %+v", got.Outcome, got.Reason, got.Message, got.Released, got.Locks)
	}
}

func TestALockOfADeadPodIsReleasedByItsHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	preview := r.preview(commit)
	r.lock("pulumi", "web-workspace-abcdefgh", 17, time.Now())
	got := r.run(r.apply(commit, preview, func(op *workspace.Operation) {
		op.Release = []workspace.LockRelease{{Host: "web-workspace-abcdefgh", Operation: "op-dead", Cause: workspace.LockOwnDead, By: "the pod is gone"}}
	}))
	if got.Outcome != workspace.Succeeded || len(got.Released) != 1 || got.Released[0].Operation != "op-dead" || got.Released[0].Host != "web-workspace-abcdefgh" {
		t.Errorf("Apply: %s %s %q, released %+v", got.Outcome, got.Reason, got.Message, got.Released)
	}
}

// lateMover moves the state when everything was compared and Pulumi does not hold the lock yet.
type lateMover struct {
	*pulumi.CLI
	move func()
}

func (l *lateMover) Up(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	l.move()
	return l.CLI.Up(ctx, r)
}

func (l *lateMover) Destroy(ctx context.Context, r pulumi.Request) (*pulumi.Run, error) {
	l.move()
	return l.CLI.Destroy(ctx, r)
}

// A state that somebody moves while the plan waits is never overwritten, however late that happens.
func TestAStateThatMovesAfterItWasComparedStopsTheUpdate(t *testing.T) {
	t.Parallel()
	r := newFolders(t, nil)
	mover := &lateMover{CLI: pulumi.New("", r.environ(), 20*time.Second), move: func() {}}
	r.driver = mover
	r.serve()
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	r.mustApply(commit, r.preview(commit, config("content", "one")), config("content", "one"))
	preview := r.preview(commit, config("content", "two"))
	mover.move = func() { r.pendingAs("updating", "a") }
	got := r.run(r.apply(commit, preview, config("content", "two")))
	if got.Outcome != workspace.Stale || len(got.Mismatches) != 1 || got.Mismatches[0].Field != "stateDigest" {
		t.Errorf("Apply: want Stale, got %s %s %q", got.Outcome, got.Reason, got.Message)
	}
	if is := r.content("a"); is != "one" || len(r.locks()) != 0 {
		t.Errorf("the file is %q, locks %v", is, r.locks())
	}
}

func TestAnUpdateThatIsKilledTellsWhatWasDoneAndWhatIsPending(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newFolders(t, nil)
	r.spawn()
	commit := r.commit(map[string]string{"Pulumi.yaml": program(slowFile)})
	op := r.apply(commit, r.preview(commit))
	if err := r.client.Start(ctx, op); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the update reaches the file", func() bool { _, err := os.Stat(r.file("gate.reached")); return err == nil })
	r.kill()
	r.spawn()
	result, err := r.client.Result(ctx, op.ID)
	if err != nil || result.Outcome != workspace.Interrupted {
		t.Fatalf("Result: want Interrupted, got %+v, %v", result, err)
	}
	done, rest, err := pulumiplan.Progress(op.Plan, result.Events)
	if err != nil || len(done) != 1 || !strings.HasSuffix(done[0].URN, "::a") || len(rest) != 1 || !strings.HasSuffix(rest[0].URN, "::w") || rest[0].Outcome != "CutOff" {
		t.Errorf("Progress: done %+v, rest %+v, %v", done, rest, err)
	}

	next := r.preview(commit)
	if len(next.Pending) != 1 || next.Pending[0].Operation != "creating" || !strings.HasSuffix(next.Pending[0].URN, "::w") {
		t.Errorf("the next preview does not tell what is pending: %+v", next.Pending)
	}
	if len(next.Locks) != 1 {
		t.Errorf("the next preview does not tell of the lock: %+v", next.Locks)
	}
	r.write("gate", "")
	applied := r.run(r.apply(commit, next))
	if applied.Outcome != workspace.Succeeded || len(applied.Released) != 1 || applied.Released[0].Operation != op.ID || applied.Released[0].Cause != workspace.LockOwnDead {
		t.Fatalf("Apply after the crash: %s %s: %s; released %+v\n%s", applied.Outcome, applied.Reason, applied.Message, applied.Released, applied.LogTail)
	}
	// What Pulumi does with the note of a create is what the plan has said: it stays.
	if after := r.preview(commit); len(after.Pending) != 1 {
		t.Errorf("Pulumi dropped the note of the create: %+v", after.Pending)
	}
}

// pendingAs puts a note of something that was cut off into the state, as Pulumi writes it.
func (r *rig) pendingAs(operation, name string) {
	r.t.Helper()
	path := r.file("state", ".pulumi", "stacks", "demo", "dev.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(raw, &file); err != nil {
		r.t.Fatal(err)
	}
	latest := file["checkpoint"].(map[string]any)["latest"].(map[string]any)
	for _, res := range latest["resources"].([]any) {
		if strings.HasSuffix(res.(map[string]any)["urn"].(string), "::"+name) {
			latest["pending_operations"] = []any{map[string]any{"type": operation, "resource": res}}
		}
	}
	if latest["pending_operations"] == nil {
		r.t.Fatalf("the state has no %q", name)
	}
	if raw, err = json.Marshal(file); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// What plans.WithPending tells an approver is what Pulumi does.
func TestPulumiDropsTheNoteOfAnUpdateAndKeepsThatOfACreate(t *testing.T) {
	t.Parallel()
	for operation, stays := range map[string]bool{"creating": true, "updating": false, "deleting": false} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
			r.mustApply(commit, r.preview(commit, config("content", "one")), config("content", "one"))
			r.pendingAs(operation, "a")
			preview := r.preview(commit, config("content", "two"))
			if len(preview.Pending) != 1 || preview.Pending[0].Operation != operation {
				t.Fatalf("the preview tells of %+v", preview.Pending)
			}
			r.mustApply(commit, preview, config("content", "two"))
			if after := r.preview(commit, config("content", "two")); len(after.Pending) == 1 != stays {
				t.Errorf("after an apply: %+v", after.Pending)
			}
		})
	}
}

func TestAnOperationThatRunsTooLongIsStoppedInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(slowFile)})
	op := r.apply(commit, r.preview(commit), func(op *workspace.Operation) { op.Timeout = 20 * time.Second })
	got := r.run(op)
	if got.Reason != workspace.ReasonTimedOut || !strings.Contains(got.Message, "longer than 20s (spec.timeout)") {
		t.Errorf("Apply: want TimedOut, got %s %s %q", got.Outcome, got.Reason, got.Message)
	}
	if len(r.locks()) != 0 {
		t.Errorf("it left a lock: %v", r.locks())
	}
	if _, err := os.Stat(r.file("gate.reached")); err != nil {
		// A machine that is this slow did not come to the update.
		if got.Outcome != workspace.Cancelled || got.Steps.Done != 0 {
			t.Errorf("Apply: want Cancelled with nothing done, got %s, %+v", got.Outcome, got.Steps)
		}
		return
	}
	if got.Outcome != workspace.Partial {
		t.Errorf("Apply: want Partial, got %s", got.Outcome)
	}
	done, rest, err := pulumiplan.Progress(op.Plan, got.Events)
	if err != nil || len(done) != 1 || len(rest) != 1 || rest[0].Outcome == "NotStarted" {
		t.Errorf("Progress: done %+v, rest %+v, %v", done, rest, err)
	}
}

// The ways in which an apply can end by half, with the real engine's events.
func TestAnApplyByHalfTellsStepByStepWhatWasDone(t *testing.T) {
	t.Parallel()
	const two = `
  a:
    type: files:File
    properties: {path: DIR/out/a, content: one}
  b:
    type: files:File
    properties: {path: "DIR/out/${name}", content: "${content}"}
    options: {dependsOn: ["${a}"]}
`
	cases := map[string]struct {
		reason string
		// before is the content of b that is there already; "" is none.
		before, name, content string
		done, rest            string
	}{
		"a step fails":                    {reason: "b is not made", name: "b", content: "FAIL", done: "create a Done", rest: "create b Failed: told to fail"},
		"the provider crashes":            {reason: "b may be made", name: "b", content: "CRASH", done: "create a Done", rest: "create b Failed"},
		"the replaced one is not deleted": {reason: "both exist", before: "one", name: "b2", content: "one", done: "create-replacement b Done", rest: "delete-replaced b Failed: both exist"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			text := func(file, content string) map[string]string {
				return map[string]string{"Pulumi.yaml": program(strings.NewReplacer("${name}", file, "${content}", content).Replace(two))}
			}
			if tc.before != "" {
				first := r.commit(text("b", tc.before))
				r.mustApply(first, r.preview(first))
				// A folder that is not empty cannot be deleted like a file.
				if err := os.Remove(r.file("out", "b")); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(r.file("out", "b", "c"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			commit := r.commit(text(tc.name, tc.content))
			op := r.apply(commit, r.preview(commit))
			got := r.run(op)
			if got.Outcome != workspace.Partial {
				t.Errorf("Apply: %s: want Partial, got %s %s %q", tc.reason, got.Outcome, got.Reason, got.Message)
			}
			done, rest, err := pulumiplan.Progress(op.Plan, got.Events)
			if err != nil || len(done) != 1 || len(rest) != 1 {
				t.Fatalf("Progress: done %+v, rest %+v, %v", done, rest, err)
			}
			d := fmt.Sprintf("%s %s %s", done[0].Step, done[0].URN[strings.LastIndex(done[0].URN, ":")+1:], done[0].Outcome)
			u := fmt.Sprintf("%s %s %s", rest[0].Step, rest[0].URN[strings.LastIndex(rest[0].URN, ":")+1:], rest[0].Outcome)
			wantRest, detail, _ := strings.Cut(tc.rest, ": ")
			if d != tc.done || u != wantRest || !strings.Contains(rest[0].Detail, detail) {
				t.Errorf("Progress: %s: want %q and %q, got %q and %q (%s)", tc.reason, tc.done, tc.rest, d, u, rest[0].Detail)
			}
		})
	}
}
