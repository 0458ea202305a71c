// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/workspace"
)

// The texts are the CLI's own, version 3.276.0.
func TestReasonOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ text, want string }{
		"locked":                {"error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the lock file with `pulumi cancel`.\n  file:///s/.pulumi/locks/x.json: created by alice@laptop (pid 4711) at 2026-11-30T16:00:00Z", workspace.ReasonLocked},
		"locked in the service": {"error: [409] Conflict: Another update is currently in progress.", workspace.ReasonLocked},
		"wrong passphrase":      {"error: getting stack configuration: get stack secrets manager: incorrect passphrase", workspace.ReasonSecretsUnavailable},
		"another salt":          {"error: decrypting: cipher: message authentication failed", workspace.ReasonSecretsUnavailable},
		"no passphrase":         {"error: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables", workspace.ReasonSecretsUnavailable},
		"no project":            {"error: no Pulumi.yaml project file found (searching upwards from /tmp/empty). If you have not created a project yet, use `pulumi new` to do so: no project file found", workspace.ReasonProgramInvalid},
		"no state folder":       {`error: unable to open state directory "file:///nonono": stat /nonono: no such file or directory`, workspace.ReasonBackendUnavailable},
		"no service":            {`error: performing HTTP request: Get "http://127.0.0.1:1/api/user": dial tcp 127.0.0.1:1: connect: connection refused`, workspace.ReasonBackendUnavailable},
		"no bucket":             {`error: read ".pulumi/meta.yaml": blob (key ".pulumi/meta.yaml") (code=Unknown): operation error S3: GetObject`, workspace.ReasonBackendUnavailable},
		"no token":              {"error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions", workspace.ReasonBackendUnavailable},
		"half a plan":           {"error: unexpected EOF", workspace.ReasonPlanInvalid},
		"anything else":         {"error: update failed", workspace.ReasonProgramFailed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ReasonOf(tc.text, workspace.ReasonProgramFailed); got != tc.want {
				t.Errorf("ReasonOf: want %s, got %s", tc.want, got)
			}
		})
	}
}

func TestJudgeUp(t *testing.T) {
	t.Parallel()
	const refused = "urn:pulumi:dev::demo::files:index:File::a: resource urn:pulumi:dev::demo::files:index:File::a violates plan: properties changed: ~~content[{one}!={two}]"
	cases := map[string]struct {
		reason string
		run    Run
		want   Verdict
	}{
		"all went well": {run: Run{Tally: Tally{Phases: 2, Done: 1, Real: 1}}, want: Verdict{Outcome: workspace.Succeeded}},
		"refused in the constrained preview": {
			run:  Run{ExitCode: 1, Output: "error: " + refused, Tally: Tally{Phases: 1, Errors: []string{refused}}},
			want: Verdict{Outcome: workspace.Violated, Reason: workspace.ReasonPlanViolated, Message: refused, Violations: []string{refused}},
		},
		"refused half-way": {
			reason: "the provider's preview was wrong",
			run:    Run{ExitCode: 1, Tally: Tally{Phases: 2, Done: 2, Real: 1, Errors: []string{refused}}},
			want:   Verdict{Outcome: workspace.Partial, Reason: workspace.ReasonPlanViolated, Message: refused, Violations: []string{refused}},
		},
		"refused without a word": {
			reason: "pulumi#16670",
			run:    Run{ExitCode: 1, Output: "Previewing update (dev):\n", Tally: Tally{Phases: 1}},
			want: Verdict{Outcome: workspace.Violated, Reason: workspace.ReasonPlanViolated,
				Message:    "the stack's outputs are not those of the plan (Pulumi refused without an error text)",
				Violations: []string{"the stack's outputs are not those of the plan (Pulumi refused without an error text)"}},
		},
		"a failure without events is no violation": {
			run:  Run{ExitCode: 255, Output: "panic: boom", Tally: Tally{}},
			want: Verdict{Outcome: workspace.Failed, Reason: workspace.ReasonProgramFailed, Message: "Pulumi ended with exit code 255\npanic: boom"},
		},
		"a first step that may have changed something": {
			run:  Run{ExitCode: 1, Tally: Tally{Phases: 2, Started: 1, Unsure: true, Errors: []string{"timeout"}}},
			want: Verdict{Outcome: workspace.Partial, Reason: workspace.ReasonProgramFailed, Message: "timeout"},
		},
		"stopped before anything was done": {
			run:  Run{ExitCode: 255, Interrupted: true, Tally: Tally{Phases: 2, Planned: 3, Started: 1}},
			want: Verdict{Outcome: workspace.Cancelled, Reason: workspace.ReasonCancelled, Message: "the update was asked to stop; 0 of 3 steps were done"},
		},
		"killed in the middle of a step": {
			run:  Run{ExitCode: -1, Interrupted: true, Tally: Tally{Phases: 2, Planned: 3, Started: 1}},
			want: Verdict{Outcome: workspace.Partial, Reason: workspace.ReasonCancelled, Message: "the update was asked to stop; 0 of 3 steps were done"},
		},
		"stopped, but it had ended well already": {
			run:  Run{ExitCode: 0, Interrupted: true, Tally: Tally{Phases: 2, Done: 1, Real: 1}},
			want: Verdict{Outcome: workspace.Succeeded},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, JudgeUp(&tc.run)); diff != "" {
				t.Errorf("JudgeUp (%s): -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestJudgePreview(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		run   Run
		saved bool
		want  workspace.Outcome
	}{
		"with a plan":                     {Run{Tally: Tally{Phases: 1}}, true, workspace.Succeeded},
		"without a plan it is no success": {Run{Tally: Tally{Phases: 1}}, false, workspace.Failed},
		"without events it is no success": {Run{}, true, workspace.Failed},
		"failed":                          {Run{ExitCode: 1, Tally: Tally{Phases: 1}}, false, workspace.Failed},
		"stopped":                         {Run{ExitCode: 1, Interrupted: true}, false, workspace.Cancelled},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := JudgePreview(&tc.run, tc.saved); got.Outcome != tc.want {
				t.Errorf("JudgePreview: want %s, got %+v", tc.want, got)
			}
		})
	}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	text := "error: the stack is currently locked by 2 lock(s). Either wait…\n" +
		"  file:///s/.pulumi/locks/organization/demo/dev/1.json: created by pulumi@web-0 (pid 12) at 2026-11-30T16:00:00Z\n" +
		"  file:///s/.pulumi/locks/organization/demo/dev/2.json: created by alice@laptop.lan (pid 4711) at 2026-11-30T17:00:00+01:00"
	at := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	got := Locks(text + "\n" + text)
	want := []workspace.Lock{{ID: "1", User: "pulumi", Host: "web-0", PID: 12, At: at}, {ID: "2", User: "alice", Host: "laptop.lan", PID: 4711, At: at}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("Locks(): -want +got\n%s", diff)
	}
	if got := Locks("no lock here"); got != nil {
		t.Errorf("Locks(): %v", got)
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	var tally Tally
	for _, e := range []struct {
		phase int
		event string
	}{
		{1, `{"preludeEvent":{}}`},
		{1, `{"resourcePreEvent":{"planning":true,"metadata":{"op":"create","type":"pulumi:pulumi:Stack","urn":"s"}}}`},
		{1, `{"resourcePreEvent":{"planning":true,"metadata":{"op":"create","type":"pulumi:providers:files","urn":"u::pulumi:providers:files::default"}}}`},
		{1, `{"resourcePreEvent":{"planning":true,"metadata":{"op":"same","type":"t","urn":"x"}}}`},
		{1, `{"resourcePreEvent":{"planning":true,"metadata":{"op":"replace","type":"t","urn":"y"}}}`},
		{1, `{"resOutputsEvent":{"planning":true,"metadata":{"op":"create","type":"t","urn":"y"}}}`},
		{2, `{"preludeEvent":{}}`},
		{2, `{"resourcePreEvent":{"metadata":{"op":"create","type":"t","urn":"y"}}}`},
		{2, `{"resOutputsEvent":{"metadata":{"op":"create","type":"t","urn":"y","new":{"custom":true}}}}`},
		{2, `{"resOpFailedEvent":{"status":1,"metadata":{"op":"update","type":"t","urn":"z"}}}`},
		{2, `{"diagnosticEvent":{"severity":"error","urn":"z","message":"boom"}}`},
		{2, `garbage`},
	} {
		tally.Take(e.phase, []byte(e.event))
	}
	want := Tally{Phases: 2, Updating: true, Planned: 1, Done: 1, Real: 1, Unsure: true, Errors: []string{"z: boom"}, Started: 1}
	if diff := cmp.Diff(want, tally); diff != "" {
		t.Errorf("Tally: -want +got\n%s", diff)
	}
}

func TestPlannedSteps(t *testing.T) {
	t.Parallel()
	plan := `{"resourcePlans":{
	 "urn:pulumi:dev::demo::pulumi:pulumi:Stack::demo-dev":{"steps":["create"]},
	 "urn:pulumi:dev::demo::pulumi:providers:files::default":{"steps":["create"]},
	 "urn:pulumi:dev::demo::pulumi:providers:files::mine":{"steps":["create"]},
	 "urn:pulumi:dev::demo::files:index:File::a":{"steps":["create-replacement","replace","delete-replaced"]},
	 "urn:pulumi:dev::demo::files:index:File::b":{"steps":["same"]}}}`
	if got := PlannedSteps([]byte(plan)); got != 4 {
		t.Errorf("PlannedSteps: want 4, got %d", got)
	}
	if got := PlannedSteps([]byte("{")); got != 0 {
		t.Errorf("PlannedSteps of garbage: %d", got)
	}
}
