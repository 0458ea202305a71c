// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/workspace"
)

func TestApplyRefusesAndReports(t *testing.T) {
	t.Parallel()
	type want struct {
		outcome workspace.Outcome
		reason  string
		steps   workspace.Steps
		message string
		field   string
		detail  string
		files   map[string]string
	}
	cases := map[string]struct {
		reason string
		files  string
		// between happens after the preview; it may change the operation.
		between func(r *rig, commit string, op *workspace.Operation)
		want    want
	}{
		"a program that wants another value violates the plan and changes nothing": {
			reason: "the configuration is bound by the operator; Pulumi is the second line",
			files:  program(oneFile),
			between: func(_ *rig, _ string, op *workspace.Operation) {
				config("content", "evil")(op)
			},
			want: want{outcome: workspace.Violated, reason: workspace.ReasonPlanViolated, message: "violates plan", steps: workspace.Steps{Total: 2}, files: map[string]string{"a": "(none)"}},
		},
		"outputs that differ violate the plan, though Pulumi gives no text": {
			reason: "pulumi#16670",
			files:  program(oneFile) + "outputs: {o: \"${pulumi.cwd}\", c: {\"fn::readFile\": DIR/value}}\n",
			between: func(r *rig, _ string, _ *workspace.Operation) {
				r.write("value", "two")
			},
			want: want{outcome: workspace.Violated, reason: workspace.ReasonPlanViolated, message: "outputs", steps: workspace.Steps{Total: 2}, files: map[string]string{"a": "(none)"}},
		},
		"a resource that fails after another was done leaves a partial apply": {
			reason: "PartiallyApplied is a real outcome",
			files: program(oneFile + `
  b:
    type: files:File
    properties: {path: DIR/out/b, content: FAIL}
    options: {dependsOn: ["${a}"]}
`),
			want: want{outcome: workspace.Partial, reason: workspace.ReasonProgramFailed, message: "told to fail", steps: workspace.Steps{Done: 2, Total: 3}, files: map[string]string{"a": "one", "b": "(none)"}},
		},
		"a first resource that fails without a doubt changes nothing": {
			reason: "the stack itself was created in the state, but nothing real",
			files:  program("\n  b:\n    type: files:File\n    properties: {path: DIR/out/b, content: FAIL}\n"),
			want:   want{outcome: workspace.Failed, reason: workspace.ReasonProgramFailed, message: "told to fail", steps: workspace.Steps{Done: 1, Total: 2}, files: map[string]string{"b": "(none)"}},
		},
		"a state that somebody else moved is stale, and the resource is named": {
			reason: "Pulumi lets this pass",
			files:  program(oneFile),
			between: func(r *rig, commit string, _ *workspace.Operation) {
				other := r.preview(commit, config("content", "other"))
				r.mustApply(commit, other, config("content", "other"))
			},
			want: want{outcome: workspace.Stale, reason: workspace.ReasonExpectationsNotMet, field: "stateDigest", detail: "added urn:pulumi:dev::demo::files:index:File::a", files: map[string]string{"a": "other"}},
		},
		"another commit is stale": {
			reason: "the tree is bound",
			files:  program(oneFile),
			between: func(r *rig, _ string, op *workspace.Operation) {
				op.Source.Commit = r.commit(map[string]string{"more": "x"})
			},
			want: want{outcome: workspace.Stale, reason: workspace.ReasonExpectationsNotMet, field: "commit", files: map[string]string{"a": "(none)"}},
		},
		"another Pulumi is stale": {
			reason: "plans are made by a version",
			files:  program(oneFile),
			between: func(_ *rig, _ string, op *workspace.Operation) {
				facts := *op.Expect
				facts.PulumiVersion = "v3.1.0"
				op.Expect = &facts
			},
			want: want{outcome: workspace.Stale, reason: workspace.ReasonExpectationsNotMet, field: "pulumiVersion"},
		},
		"a plan that is not the approved one is refused": {
			reason: "Pulumi does not check a plan's integrity",
			files:  program(oneFile),
			between: func(_ *rig, _ string, op *workspace.Operation) {
				op.Plan = append([]byte(" "), op.Plan...)
			},
			want: want{outcome: workspace.Failed, reason: workspace.ReasonPlanInvalid},
		},
		"a lock of somebody else is named and left alone": {
			reason: "only our own dead locks are released",
			files:  program(oneFile),
			between: func(r *rig, _ string, _ *workspace.Operation) {
				r.lock("alice", "laptop", 4711, time.Now())
			},
			want: want{outcome: workspace.Failed, reason: workspace.ReasonLocked, message: "the stack is locked: held by alice@laptop (pid 4711) since ", files: map[string]string{"a": "(none)"}},
		},
		"a wrong passphrase is a matter of the secrets": {
			reason: "and nothing runs",
			files:  program(oneFile),
			between: func(_ *rig, _ string, op *workspace.Operation) {
				op.Env["PULUMI_CONFIG_PASSPHRASE"] = "wrong horse"
			},
			want: want{outcome: workspace.Failed, reason: workspace.ReasonSecretsUnavailable, files: map[string]string{"a": "(none)"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.write("value", "one")
			commit := r.commit(map[string]string{"Pulumi.yaml": tc.files})
			preview := r.preview(commit, config("content", "one"))
			op := r.apply(commit, preview, config("content", "one"))
			if tc.between != nil {
				tc.between(r, commit, op)
			}
			got := r.run(op)
			if got.Outcome != tc.want.outcome || got.Reason != tc.want.reason || !strings.Contains(got.Message, tc.want.message) {
				t.Errorf("Apply (%s): want %s %s %q, got %s %s %q\n%s", tc.reason, tc.want.outcome, tc.want.reason, tc.want.message, got.Outcome, got.Reason, got.Message, got.LogTail)
			}
			if tc.want.steps.Total > 0 && got.Steps != tc.want.steps {
				t.Errorf("Apply: want steps %+v, got %+v", tc.want.steps, got.Steps)
			}
			if got.Outcome == workspace.Violated && len(got.Violations) == 0 {
				t.Error("Apply: no violations are given")
			}
			if tc.want.field != "" && (len(got.Mismatches) == 0 || got.Mismatches[0].Field != tc.want.field || !strings.Contains(got.Mismatches[0].Detail, tc.want.detail)) {
				t.Errorf("Apply: want a mismatch of %s with %q, got %+v", tc.want.field, tc.want.detail, got.Mismatches)
			}
			for file, content := range tc.want.files {
				if is := r.content(file); is != content {
					t.Errorf("Apply: file %q: want %q, got %q", file, content, is)
				}
			}
		})
	}
}

func TestPreviewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := program(oneFile)
	cases := map[string]struct {
		program string
		change  func(r *rig, op *workspace.Operation)
		reason  string
		message string
	}{
		"a commit that does not exist": {
			program: good, reason: workspace.ReasonSourceUnavailable, message: "fetching commit",
			change: func(_ *rig, op *workspace.Operation) { op.Source.Commit = strings.Repeat("a", 40) },
		},
		"a repository that does not exist": {
			program: good, reason: workspace.ReasonSourceUnavailable,
			change: func(r *rig, op *workspace.Operation) { op.Source.URL = "file://" + r.file("nowhere") },
		},
		"a folder that is not in the commit": {
			program: good, reason: workspace.ReasonProgramInvalid, message: "not in the commit",
			change: func(_ *rig, op *workspace.Operation) { op.Source.Dir = "infra" },
		},
		"a folder without a project": {
			program: good, reason: workspace.ReasonProgramInvalid, message: "no Pulumi.yaml",
			change: func(_ *rig, op *workspace.Operation) { op.Source.Dir = "empty" },
		},
		"a project that is no YAML":        {program: "name: [", reason: workspace.ReasonProgramInvalid, message: "Pulumi.yaml"},
		"a project without a name":         {program: "runtime: yaml\n", reason: workspace.ReasonProgramInvalid, message: "name"},
		"a program with an unknown type":   {program: program("  a: {type: files:Nothing}\n"), reason: workspace.ReasonProgramFailed, message: "files:Nothing"},
		"a program that a provider checks": {program: program("  a: {type: files:File, properties: {path: relative, content: x}}\n"), reason: workspace.ReasonProgramFailed, message: "must be absolute"},
		"a provider that is missing":       {program: "name: demo\nruntime: yaml\nresources:\n  a: {type: nosuch:Thing}\n", reason: workspace.ReasonPluginUnavailable, message: "nosuch"},
		"a backend that cannot be reached": {
			program: good, reason: workspace.ReasonBackendUnavailable,
			change: func(_ *rig, op *workspace.Operation) { op.Backend = "file:///nowhere/at/all" },
		},
		"a service that cannot be reached": {
			program: good, reason: workspace.ReasonBackendUnavailable, message: "127.0.0.1:1",
			change: func(_ *rig, op *workspace.Operation) {
				op.Backend = "http://127.0.0.1:1"
				op.Env["PULUMI_ACCESS_TOKEN"] = "pul-0123456789"
			},
		},
		"no passphrase at all": {
			program: good, reason: workspace.ReasonSecretsUnavailable,
			change: func(_ *rig, op *workspace.Operation) { delete(op.Env, "PULUMI_CONFIG_PASSPHRASE") },
		},
		"a key in both configurations": {
			program: good, reason: workspace.ReasonConfigInvalid, message: "twice",
			change: func(_ *rig, op *workspace.Operation) {
				config("content", "x")(op)
				op.SecretConfig = map[string]string{"demo:content": "y"}
			},
		},
		"a configuration of another type": {
			program: strings.Replace(good, "{type: string, default: none}", "{type: integer}", 1), reason: workspace.ReasonConfigInvalid, message: "content",
			change: func(_ *rig, op *workspace.Operation) { config("content", "x")(op) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			commit := r.commit(map[string]string{"Pulumi.yaml": tc.program, "empty/file": "x"})
			op := r.operation(workspace.Preview, commit)
			op.PlainEnv = []string{"PULUMI_ACCESS_TOKEN_IS_SECRET"}
			if tc.change != nil {
				tc.change(r, op)
			}
			got := r.run(op)
			if got.Outcome != workspace.Failed || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) || got.Message == "" {
				t.Errorf("Preview: want Failed %s %q, got %s %s %q\n%s", tc.reason, tc.message, got.Outcome, got.Reason, got.Message, got.LogTail)
			}
			if len(got.Plan) > 0 {
				t.Error("Preview: a failed preview has a plan")
			}
		})
	}
}

func (r *rig) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(r.file(name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// lock writes a lock as Pulumi's file backend does.
func (r *rig) lock(user, host string, pid int, at time.Time) {
	r.t.Helper()
	dir := r.file("state", ".pulumi", "locks", "organization", "demo", "dev")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"pid": pid, "username": user, "hostname": host, "timestamp": at})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.json", user, pid)), raw, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) locks() []string {
	found, _ := filepath.Glob(r.file("state", ".pulumi", "locks", "organization", "demo", "dev", "*.json"))
	return found
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
