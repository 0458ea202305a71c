// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent"
	"github.com/plangate/plangate/workspace/agent/client"
	"github.com/plangate/plangate/workspace/fake"
	"github.com/plangate/plangate/workspace/pulumi"
)

const someState = `{"resources":[{"urn":"urn:pulumi:dev::demo::pulumi:pulumi:Stack::demo-dev","type":"pulumi:pulumi:Stack"}]}`

func plain(r *rig) string {
	return r.commit(map[string]string{"Pulumi.yaml": "name: demo\nruntime: yaml\n"})
}

func TestLargePlansAndEventsTravelWhole(t *testing.T) {
	t.Parallel()
	plan := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB: four times gRPC's limit
	events := bytes.Repeat([]byte(`{"sequence":1}`+"\n"), 1<<19)
	var got []byte
	d := &fake.Driver{State: json.RawMessage(someState), Plan: plan, Runs: []*pulumi.Run{{Tally: pulumi.Tally{Phases: 1}, Events: events}}}
	r := newRig(t, d)
	commit := plain(r)
	preview := r.preview(commit)
	if !bytes.Equal(preview.Plan, plan) || !bytes.Equal(preview.Events, events) {
		t.Errorf("Preview: %d bytes of plan, %d of events", len(preview.Plan), len(preview.Events))
	}
	d.OnRun = func(q pulumi.Request) { got, _ = os.ReadFile(q.PlanFile) }
	r.mustApply(commit, preview)
	if !bytes.Equal(got, plan) {
		t.Errorf("Apply: Pulumi got %d bytes of plan", len(got))
	}
}

func TestWhatPulumiIsAskedFor(t *testing.T) {
	t.Parallel()
	locked := &pulumi.Run{ExitCode: 1, Output: "error: the stack is currently locked by 1 lock(s).\n x: created by pulumi@elsewhere (pid 1) at 2026-11-30T16:00:00Z"}
	cases := map[string]struct {
		reason  string
		driver  *fake.Driver
		kind    workspace.OperationType
		change  func(op *workspace.Operation)
		outcome workspace.Outcome
		calls   []string
	}{
		"a preview of a new stack creates it": {
			driver: &fake.Driver{Plan: []byte("{}")}, kind: workspace.Preview,
			outcome: workspace.Succeeded, calls: []string{"Export", "Init", "Preview"},
		},
		"a preview of a known stack does not": {
			driver: &fake.Driver{State: json.RawMessage(someState), Plan: []byte("{}")}, kind: workspace.Preview,
			outcome: workspace.Succeeded, calls: []string{"Export", "Preview"},
		},
		"a preview without a plan is no success": {
			driver: &fake.Driver{State: json.RawMessage(someState)}, kind: workspace.Preview,
			outcome: workspace.Failed, calls: []string{"Export", "Preview"},
		},
		"a backend that fails ends it": {
			driver: &fake.Driver{ExportErr: errors.New("boom")}, kind: workspace.Preview,
			outcome: workspace.Failed, calls: []string{"Export"},
		},
		"a Pulumi that is missing ends it": {
			driver: &fake.Driver{VersionErr: errors.New("boom")}, kind: workspace.Preview, outcome: workspace.Failed,
		},
		"a configuration that the CLI changed is no success": {
			reason: "it may have a new salt, so that the plan's secrets cannot be read",
			driver: &fake.Driver{State: json.RawMessage(someState), Plan: []byte("{}"), Runs: []*pulumi.Run{{ConfigChanged: true, Tally: pulumi.Tally{Phases: 1}}}},
			kind:   workspace.Preview, outcome: workspace.Failed, calls: []string{"Export", "Preview"},
		},
		"an apply reads the outputs": {
			driver: &fake.Driver{State: json.RawMessage(someState)}, kind: workspace.Apply,
			outcome: workspace.Succeeded, calls: []string{"Export", "Up", "Outputs"},
		},
		"an apply that was done stays done without its outputs": {
			driver: &fake.Driver{State: json.RawMessage(someState), OutputsErr: errors.New("boom")}, kind: workspace.Apply,
			outcome: workspace.Succeeded, calls: []string{"Export", "Up", "Outputs"},
		},
		"an apply never creates a stack": {
			driver: &fake.Driver{}, kind: workspace.Apply,
			change:  func(op *workspace.Operation) { op.Expect.StateDigest = pulumi.EmptyState },
			outcome: workspace.Failed, calls: []string{"Export"},
		},
		"an apply to a moved state does not run": {
			driver: &fake.Driver{State: json.RawMessage(someState)}, kind: workspace.Apply,
			change:  func(op *workspace.Operation) { op.Expect.StateDigest = "sha256:other" },
			outcome: workspace.Stale, calls: []string{"Export"},
		},
		"an apply to another tree does not run": {
			driver: &fake.Driver{State: json.RawMessage(someState)}, kind: workspace.Apply,
			change:  func(op *workspace.Operation) { op.Expect.Tree = "other" },
			outcome: workspace.Stale, calls: []string{"Export"},
		},
		"an apply of another plan does nothing at all": {
			driver: &fake.Driver{State: json.RawMessage(someState)}, kind: workspace.Apply,
			change:  func(op *workspace.Operation) { op.Plan = []byte("{ }") },
			outcome: workspace.Failed,
		},
		"a lock of others is not touched": {
			driver: &fake.Driver{State: json.RawMessage(someState), Runs: []*pulumi.Run{locked}}, kind: workspace.Apply,
			outcome: workspace.Failed, calls: []string{"Export", "Up"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tc.driver)
			commit := plain(r)
			op := r.operation(tc.kind, commit)
			if tc.kind == workspace.Apply {
				state, err := pulumi.Digest(tc.driver.State)
				if err != nil {
					t.Fatal(err)
				}
				op = r.apply(commit, &workspace.Result{Plan: []byte("{}"), Facts: &workspace.Facts{
					Commit: commit, Tree: r.git("rev-parse", commit+"^{tree}"), StateDigest: state.Digest, PulumiVersion: "v3.0.0-fake",
				}})
			}
			if tc.change != nil {
				tc.change(op)
			}
			got := r.run(op)
			if got.Outcome != tc.outcome {
				t.Errorf("want %s (%s), got %+v", tc.outcome, tc.reason, got)
			}
			if diff := cmp.Diff(tc.calls, tc.driver.Calls()); diff != "" {
				t.Errorf("calls: -want +got\n%s", diff)
			}
		})
	}
}

func TestNoSecretLeavesThePod(t *testing.T) {
	t.Parallel()
	said := "canary-env, canary-config and {\"q\":\"canary-\\\"quoted\"}, but eu-west-1\n"
	event := `{"diagnosticEvent":{"severity":"error","urn":"urn:x","message":"canary-env"}}` + "\n"
	d := &fake.Driver{State: json.RawMessage(someState), Runs: []*pulumi.Run{{
		ExitCode: 1, Output: "error: " + said, Events: []byte(event), Tally: pulumi.Tally{Phases: 1, Errors: []string{"x violates plan: canary-env"}},
	}}}
	d.OnRun = func(q pulumi.Request) { q.OnLine(said) }
	r := newRig(t, d)
	commit := plain(r)
	state, _ := pulumi.Digest(d.State)
	op := r.apply(commit, &workspace.Result{Plan: []byte("{}"), Facts: &workspace.Facts{
		Commit: commit, Tree: r.git("rev-parse", commit+"^{tree}"), StateDigest: state.Digest, PulumiVersion: "v3.0.0-fake",
	}})
	op.Env["TOKEN"], op.Env["QUOTED"], op.Env["REGION"] = "canary-env", `canary-"quoted`, "eu-west-1"
	op.PlainEnv = []string{"REGION"}
	op.SecretConfig = map[string]string{"x": "canary-config"}
	got := r.run(op)
	if got.Outcome != workspace.Violated || !strings.Contains(got.LogTail, "eu-west-1") {
		t.Errorf("Apply: %+v", got)
	}
	all, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	text := string(all) + string(got.Events)
	if err := r.client.Watch(context.Background(), op.ID, 1, func(e client.Event) { text += e.Text }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "canary") {
		t.Errorf("a secret left: %s", text)
	}
	t.Logf("case: agent: result, events, log and progress of a refused apply | none of 3 secrets | %d found in %d bytes", strings.Count(text, "canary"), len(text))
}

func TestTheEnvironmentIsForTheOperationAlone(t *testing.T) {
	t.Parallel()
	var env []string
	d := &fake.Driver{State: json.RawMessage(someState), Plan: []byte("{}"), OnRun: func(q pulumi.Request) { env = q.Env }}
	r := newRig(t, d)
	commit := plain(r)
	r.preview(commit, func(op *workspace.Operation) {
		op.Env["ONLY"], op.Env["PULUMI_BACKEND_URL"], op.Env["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "once", "file:///other", "false"
		op.Env["PULUMI_HOME"] = "/elsewhere"
	})
	last := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		last[k] = v
	}
	for k, want := range map[string]string{
		"ONLY": "once", "PULUMI_BACKEND_URL": "file://" + r.file("state"), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "false",
		"PULUMI_HOME": r.file("work", "pulumi"), "PULUMI_SKIP_UPDATE_CHECK": "true", "PLANGATE_LEAK": "",
	} {
		if last[k] != want {
			t.Errorf("%s: want %q, got %q", k, want, last[k])
		}
	}
	r.preview(commit)
	if strings.Contains(strings.Join(env, " "), "ONLY=") {
		t.Error("a variable of the last operation is still there")
	}
}

func TestShutdownEndsTheOperationAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := &fake.Driver{State: json.RawMessage(someState), Plan: []byte("{}"), Block: make(chan struct{})}
	r := newRig(t, d)
	commit := plain(r)
	op := r.operation(workspace.Preview, commit)
	if err := r.client.Start(ctx, op); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Pulumi runs", func() bool { return len(d.Calls()) == 2 })
	if err := r.server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := r.client.Result(ctx, op.ID)
	if err != nil || got.Outcome != workspace.Cancelled {
		t.Errorf("Result: %+v, %v", got, err)
	}
	if err := r.client.Start(ctx, r.operation(workspace.Preview, commit)); !client.IsUnavailable(err) {
		t.Errorf("Start: want unavailable, got %v", err)
	}
	if err := r.client.Start(ctx, op); err != nil {
		t.Errorf("Start of the known one: %v", err)
	}
}

func TestASecondAgentIsKeptOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, &fake.Driver{})
	_, err := agent.New(agent.Config{PodUID: "other", WorkDir: r.file("work"), Driver: &fake.Driver{}})
	if err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("New: %v", err)
	}
}

func TestStartRefusesWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, &fake.Driver{})
	for name, change := range map[string]func(op *workspace.Operation){
		"no id":              func(op *workspace.Operation) { op.ID = "" },
		"an unknown type":    func(op *workspace.Operation) { op.Type = "Destroy" },
		"no stack":           func(op *workspace.Operation) { op.Stack = "" },
		"an option as stack": func(op *workspace.Operation) { op.Stack = "--yes" },
		"an apply without a plan": func(op *workspace.Operation) {
			op.Type = workspace.Apply
			op.Expect = &workspace.Facts{}
			op.PlanDigest = "x"
		},
		"an apply without expectations": func(op *workspace.Operation) { op.Type = workspace.Apply; op.Plan = []byte("x"); op.PlanDigest = "x" },
		"an apply without a digest": func(op *workspace.Operation) {
			op.Type = workspace.Apply
			op.Plan = []byte("x")
			op.Expect = &workspace.Facts{}
		},
	} {
		op := r.operation(workspace.Preview, strings.Repeat("a", 40))
		change(op)
		if err := r.client.Start(context.Background(), op); !client.IsInvalid(err) {
			t.Errorf("%s: want invalid, got %v", name, err)
		}
	}
}

func TestOnlyTheOperatorIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, &fake.Driver{})
	other := newCerts(t, t.TempDir())
	cases := map[string]struct {
		config func() *tls.Config
		served bool
	}{
		"the operator":               {func() *tls.Config { return r.certs.client("manager.plangate.dev") }, true},
		"a client with another name": {func() *tls.Config { return r.certs.client("web.example.com") }, false},
		"another agent":              {func() *tls.Config { return r.certs.client(agentName) }, false},
		"a client without a certificate": {func() *tls.Config {
			c := r.certs.client("manager.plangate.dev")
			c.Certificates = nil
			return c
		}, false},
		"the operator's name from another CA": {func() *tls.Config {
			c := r.certs.client("manager.plangate.dev")
			c.Certificates = []tls.Certificate{other.issue("manager.plangate.dev")}
			return c
		}, false},
		"the operator that wants another agent": {func() *tls.Config {
			c := r.certs.client("manager.plangate.dev")
			c.ServerName = "another.workspace.plangate.dev"
			return c
		}, false},
		"the operator that trusts another CA": {func() *tls.Config { return other.client("manager.plangate.dev") }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			c, err := client.Dial(ctx, r.address, tc.config())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, err = c.Info(ctx)
			if served := err == nil; served != tc.served {
				t.Errorf("Info: served %v, want %v: %v", served, tc.served, err)
			}
			if !tc.served && !client.IsUnavailable(err) {
				t.Errorf("Info: want unavailable, got %v", err)
			}
		})
	}
	for name, config := range map[string]*tls.Config{"no configuration": nil, "no name": {}, "no verification": {ServerName: "x", InsecureSkipVerify: true}} { //nolint:gosec // G402: that it is refused is the test
		if _, err := client.Dial(context.Background(), r.address, config); err == nil {
			t.Errorf("Dial with %s: no error", name)
		}
	}
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, &fake.Driver{})
	ctx := context.Background()
	if _, err := r.client.Info(ctx); err != nil {
		t.Fatal(err)
	}
	rotated := newCerts(t, r.certs.dir) // a new CA, too
	c, err := client.Dial(ctx, r.address, rotated.client("manager.plangate.dev"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Info(ctx); err != nil {
		t.Errorf("with the new certificates: %v", err)
	}
	if err := os.WriteFile(r.certs.dir+"/tls.crt", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := client.Dial(ctx, r.address, rotated.client("manager.plangate.dev"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Info(ctx); err != nil {
		t.Errorf("while the files are half written: %v", err)
	}
}
