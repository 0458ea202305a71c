// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plangate/plangate/workspace"
)

// spawn runs the agent as a process of its own, which can be killed.
func (r *rig) spawn() {
	r.t.Helper()
	cmd := exec.Command(r.tools.agent, "serve", "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--tls-dir", r.certs.dir,
		"--work-dir", r.file("work"), "--pod-uid", podUID, "--grace", "20s", "--allow-file-sources")
	cmd.Env = r.environ()
	r.count++
	path := r.file(fmt.Sprintf("agent-%d.log", r.count))
	log, err := os.Create(path)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	_ = log.Close()
	r.process = cmd
	text := func() string {
		raw, _ := os.ReadFile(path)
		return string(raw)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		if strings.Contains(text(), "correct horse") {
			r.t.Error("the agent logs a passphrase")
		}
		if r.t.Failed() {
			r.t.Logf("agent: %s", text())
		}
	})
	address := regexp.MustCompile(`"address":"([^"]+)"`)
	eventually(r.t, "the agent serves", func() bool {
		found := address.FindStringSubmatch(text())
		if found != nil {
			r.address = found[1]
		}
		return found != nil
	})
	r.dial()
	if _, err := r.client.Info(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) kill() {
	_ = r.process.Process.Kill()
	_, _ = r.process.Process.Wait()
}

// processes counts what an agent's operations left running.
func (r *rig) processes() int {
	n := 0
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte("PLANGATE_WORKSPACE="+r.file("work"))) {
			n++
		}
	}
	return n
}

func TestAKilledAgentTellsWhatWasCutOffAndGoesOn(t *testing.T) {
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
	if len(r.locks()) != 1 {
		t.Fatalf("want one lock, got %v", r.locks())
	}
	r.kill()
	r.spawn()
	if n := r.processes(); n != 0 {
		t.Errorf("%d processes of the dead agent are alive", n)
	}
	result, err := r.client.Result(ctx, op.ID)
	if err != nil || result.Outcome != workspace.Interrupted || result.Type != workspace.Apply {
		t.Fatalf("Result: want Interrupted, got %+v, %v", result, err)
	}
	r.write("gate", "")
	if err := r.client.Start(ctx, op); err != nil {
		t.Errorf("Start again: %v", err)
	}
	if info, err := r.client.Info(ctx); err != nil || info.Current != "" {
		t.Errorf("the cut-off operation runs again: %+v, %v", info, err)
	}
	if got := r.content("w"); got != "(none)" {
		t.Errorf("the cut-off operation was carried on: %q", got)
	}
	// The lock that the dead Pulumi left is ours: a new plan goes through it.
	next := r.preview(commit)
	applied := r.run(r.apply(commit, next))
	if applied.Outcome != workspace.Succeeded {
		t.Fatalf("Apply after the crash: %s %s: %s\n%s", applied.Outcome, applied.Reason, applied.Message, applied.LogTail)
	}
	if len(r.locks()) != 0 || r.content("w") != "waited" {
		t.Errorf("after the crash: locks %v, file %q", r.locks(), r.content("w"))
	}
}

func TestALockOfTheSameHostByAnotherProcessIsNotReleased(t *testing.T) {
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
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r.lock("root", host, 999999, time.Now())
	r.spawn()
	r.write("gate", "")
	got := r.run(r.apply(commit, r.preview(commit)))
	foreign := func(path string) bool { return strings.Contains(path, "999999") }
	if got.Reason != workspace.ReasonLocked || !slices.ContainsFunc(r.locks(), foreign) {
		t.Errorf("want Locked, and the other's lock still there, got %s %s, %v", got.Outcome, got.Reason, r.locks())
	}
}

// TestKilledAtAnyMoment kills the agent at moments all over an apply.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newFolders(t, nil)
	r.spawn()
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	outcomes := map[workspace.Outcome]int{}
	for i := range 12 {
		set := config("content", strings.Repeat("x", i+1))
		op := r.apply(commit, r.preview(commit, set), set)
		if err := r.client.Start(ctx, op); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * 25 * time.Millisecond)
		r.kill()
		before := r.content("a")
		r.spawn()
		result, err := r.client.Result(ctx, op.ID)
		if err != nil {
			t.Fatalf("round %d: the started operation is forgotten: %v", i, err)
		}
		if result.Outcome != workspace.Interrupted && result.Outcome != workspace.Succeeded {
			t.Errorf("round %d: %s %s: %s", i, result.Outcome, result.Reason, result.Message)
		}
		if result.Outcome == workspace.Succeeded && (before != strings.Repeat("x", i+1) || !result.OutputsLost && len(result.Outputs) > 0) {
			t.Errorf("round %d: succeeded, but the file is %q; outputs %v", i, before, result.Outputs)
		}
		if err := r.client.Start(ctx, op); err != nil {
			t.Errorf("round %d: Start again: %v", i, err)
		}
		if info, err := r.client.Info(ctx); err != nil || info.Current != "" {
			t.Errorf("round %d: it runs again: %+v, %v", i, info, err)
		}
		outcomes[result.Outcome]++
	}
	set := config("content", "done")
	r.mustApply(commit, r.preview(commit, set), set)
	t.Logf("outcomes: %v", outcomes)
}

func TestAStoppedAgentStopsPulumiInOrder(t *testing.T) {
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
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := r.process.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(r.locks()) != 0 || r.processes() != 0 {
		t.Errorf("left behind: locks %v, %d processes", r.locks(), r.processes())
	}
	r.spawn()
	got, err := r.client.Result(ctx, op.ID)
	if err != nil || got.Outcome != workspace.Partial || got.Reason != workspace.ReasonCancelled || got.Steps.Done != 2 {
		t.Errorf("Result: want Partial Cancelled with 2 steps, got %+v, %v", got, err)
	}
}

func TestCancelStopsAnOperation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program("\n  w:\n    type: files:File\n    properties: {path: DIR/out/w, content: waited, waitFor: DIR/gate}\n")})
	op := r.apply(commit, r.preview(commit))
	if err := r.client.Start(ctx, op); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the update reaches the file", func() bool { _, err := os.Stat(r.file("gate.reached")); return err == nil })
	if err := r.client.Cancel(ctx, op.ID); err != nil {
		t.Fatal(err)
	}
	got := r.wait(ctx, op.ID)
	if got.Outcome != workspace.Cancelled || got.Reason != workspace.ReasonCancelled {
		t.Errorf("Apply: want Cancelled, got %s %s: %s", got.Outcome, got.Reason, got.Message)
	}
	if len(r.locks()) != 0 || r.content("w") != "(none)" {
		t.Errorf("left behind: locks %v, file %q", r.locks(), r.content("w"))
	}
	if err := r.client.Cancel(ctx, op.ID); err != nil {
		t.Errorf("Cancel of an ended operation: %v", err)
	}
}
