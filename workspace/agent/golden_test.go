// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/tests/golden"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

var regenerate = flag.Bool("regenerate", false, "write what the real Pulumi makes of the golden cases: plan.json and events.ndjson")

// TestEveryGoldenChangeIsPreviewedAsRecordedAndAppliedAsPlanned plays each case of tests/testdata/plans with the real Pulumi
// through the agent. What an approver sees is what want.yaml says. The plan is applied as it is stored, the state moves
// where the plan says so and nowhere else, and then there is nothing left to do. What Pulumi refuses of its own plan is
// told in words, and nothing is changed.
func TestEveryGoldenChangeIsPreviewedAsRecordedAndAppliedAsPlanned(t *testing.T) {
	t.Parallel()
	for _, c := range golden.Cases(t, "../../tests/testdata/plans") {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			newStage(t, &c).play()
		})
	}
}

// stage is where one golden case is played.
type stage struct {
	*rig
	c     *golden.Case
	world string
}

func newStage(t *testing.T, c *golden.Case) *stage {
	t.Helper()
	s := &stage{rig: newRig(t, nil), c: c}
	s.world = s.file("world")
	if err := os.MkdirAll(s.world, 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) play() {
	s.t.Helper()
	golden.Run(s.t, s.c.Setup, s.world)
	s.install(s.c.PluginsBefore)
	if s.c.Base != "" {
		s.up(s.c.Base, func(op *workspace.Operation) { op.Stack = "organization/demo/base" })
	}
	if s.c.Before != "" {
		s.up(s.c.Before)
	}
	golden.Run(s.t, s.c.Drift, s.world)
	s.install(s.c.PluginsAfter)
	commit := s.push(s.c.After)
	op := s.operation(workspace.Preview, commit)
	s.inputs(op)
	s.options(op)
	preview := s.run(op)
	if len(s.c.Fails) > 0 {
		s.says(preview, workspace.Failed, s.c.Fails)
		return
	}
	if preview.Outcome != workspace.Succeeded {
		s.t.Fatalf("Preview: %s %s: %s\n%s", preview.Outcome, preview.Reason, preview.Message, preview.LogTail)
	}
	plan := s.recorded(preview)
	before, files := s.state(), filesIn(s.t, s.world)
	golden.Run(s.t, s.c.Between, s.world)
	if s.c.Between != "" {
		files = filesIn(s.t, s.world)
	}
	applied := s.run(s.apply(commit, preview, s.inputs, s.options))
	if len(s.c.Refused) > 0 {
		s.says(applied, workspace.Violated, s.c.Refused)
		if diff := cmp.Diff(files, filesIn(s.t, s.world)); diff != "" {
			s.t.Errorf("a refused plan changed files: -before +after\n%s", diff)
		}
		if diff := pulumi.Differences(before, s.state(), 10); len(diff) > 0 {
			s.t.Errorf("a refused plan changed the state: %v", diff)
		}
		return
	}
	if applied.Outcome != workspace.Succeeded {
		s.t.Fatalf("Apply: %s %s: %s\n%s", applied.Outcome, applied.Reason, applied.Message, applied.LogTail)
	}
	s.asPlanned(plan, before, s.state())
	if len(s.c.Afterwards) > 0 {
		again := s.operation(workspace.Preview, commit)
		s.inputs(again)
		s.options(again)
		s.says(s.run(again), workspace.Failed, s.c.Afterwards)
		return
	}
	if left := s.decode(s.preview(commit, s.inputs, s.options)); !left.Empty() {
		s.t.Errorf("after the apply there is something left: %s", golden.Want(s.t, left))
	}
}

// recorded compares what an approver would see with want.yaml, or writes what Pulumi wrote.
func (s *stage) recorded(preview *workspace.Result) plans.Plan {
	s.t.Helper()
	if *regenerate {
		var indented bytes.Buffer
		if err := json.Indent(&indented, preview.Plan, "", "  "); err != nil {
			s.t.Fatal(err)
		}
		s.record(indented.Bytes(), withoutDiagnostics(preview.Events))
	}
	// The approver sees what is stored and applied.
	stored, err := pulumiplan.Strip(preview.Plan)
	if err != nil {
		s.t.Fatal(err)
	}
	preview.Plan = stored
	plan := s.decode(preview)
	want, err := os.ReadFile(filepath.Join(s.c.Dir, "want.yaml"))
	if err != nil && !*regenerate {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(golden.Normalise(golden.Want(s.t, plan), s.dir))); diff != "" && !*regenerate {
		s.t.Errorf("what is shown: -want.yaml +got\n%s", diff)
	}
	return plan
}

// record writes both files; a name that was drawn by chance is the same in both.
func (s *stage) record(planFile, events []byte) {
	s.t.Helper()
	const between = "\x00"
	both := golden.Normalise(slices.Concat(planFile, []byte(between), events), s.dir, filepath.Dir(s.tools.plugins))
	for i, text := range bytes.Split(both, []byte(between)) {
		name := filepath.Join(s.c.Dir, []string{"plan.json", "events.ndjson"}[i])
		if err := os.WriteFile(name, text, 0o644); err != nil { //nolint:gosec // G306: a golden file
			s.t.Fatal(err)
		}
	}
}

// withoutDiagnostics drops what is not read and differs between runs.
func withoutDiagnostics(events []byte) []byte {
	var out []byte
	for line := range bytes.Lines(events) {
		if !bytes.Contains(line, []byte(`"diagnosticEvent"`)) {
			out = append(out, line...)
		}
	}
	return out
}

func (s *stage) decode(preview *workspace.Result) plans.Plan {
	s.t.Helper()
	plan, err := pulumiplan.Decode(preview.Plan, preview.Events)
	if err != nil {
		s.t.Fatal(err)
	}
	return plan.Masked([]string{golden.Secret})
}

// says expects an end that names what happened, and the mask over what must not be said.
func (s *stage) says(got *workspace.Result, outcome workspace.Outcome, words []string) {
	s.t.Helper()
	if got.Outcome != outcome || got.Reason == "" {
		s.t.Errorf("want %s, got %s %s: %s\n%s", outcome, got.Outcome, got.Reason, got.Message, got.LogTail)
	}
	for _, w := range words {
		if !strings.Contains(got.Message, w) {
			s.t.Errorf("the message does not say %q: %s", w, got.Message)
		}
	}
	if outcome == workspace.Violated && (len(got.Violations) == 0 || got.Steps.Done != 0) {
		s.t.Errorf("violations %q, steps %+v", got.Violations, got.Steps)
	}
}

// asPlanned checks that the state moved where the plan says so, and nowhere else.
func (s *stage) asPlanned(plan plans.Plan, before, after pulumi.State) {
	s.t.Helper()
	planned := map[string]v1alpha1.ChangeOperation{}
	for _, c := range plan.Changes {
		planned[c.URN] = c.Operation
		for _, p := range c.Properties {
			if p.Path == "(urn)" && p.Old != nil {
				planned[strings.Trim(*p.Old, `"`)] = c.Operation
			}
		}
	}
	for urn, op := range planned {
		_, there := after.Resources[urn]
		_, was := before.Resources[urn]
		switch op {
		case v1alpha1.ChangeCreate, v1alpha1.ChangeImport:
			if was || !there {
				s.t.Errorf("%s should be new: was there %t, is there %t", urn, was, there)
			}
		case v1alpha1.ChangeDelete, v1alpha1.ChangeRemove:
			if there {
				s.t.Errorf("%s should be gone", urn)
			}
		case v1alpha1.ChangeReplace, v1alpha1.ChangeUpdate:
			if before.Resources[urn] == after.Resources[urn] {
				s.t.Errorf("%s should be changed", urn)
			}
		}
	}
	for _, urn := range slices.Sorted(maps.Keys(union(before.Resources, after.Resources))) {
		parts := strings.Split(urn, "::")
		if plans.Bookkeeping(parts[2], parts[3]) || slices.Contains(s.c.Unshown, parts[3]) {
			continue
		}
		if _, ok := planned[urn]; !ok && before.Resources[urn] != after.Resources[urn] {
			s.t.Errorf("%s was changed, and the plan does not say so", urn)
		}
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

// inputs are those of every operation of a case.
func (s *stage) inputs(op *workspace.Operation) {
	op.Stack = "organization/" + golden.Project + "/" + golden.Stack
	config("demo:dir", s.world)(op)
	op.SecretConfig = map[string]string{"demo:password": golden.Secret}
}

func (s *stage) options(op *workspace.Operation) {
	op.Options = workspace.Options{Refresh: s.c.Refresh, Targets: s.c.Targets, TargetDependents: s.c.TargetDependents}
}

func (s *stage) push(text string) string {
	s.t.Helper()
	plugin := ""
	if len(s.c.PluginsBefore) == 0 {
		plugin = s.tools.plugins
	}
	return s.commit(map[string]string{"Pulumi.yaml": golden.Program(text, s.world, plugin)})
}

// up applies a program, with all that belongs to it.
func (s *stage) up(text string, change ...func(*workspace.Operation)) {
	s.t.Helper()
	commit := s.push(text)
	change = append([]func(*workspace.Operation){s.inputs}, change...)
	s.mustApply(commit, s.preview(commit, change...), change...)
}

// state is that of the case's stack.
func (s *stage) state() pulumi.State {
	s.t.Helper()
	env := append(s.environ(), "PULUMI_BACKEND_URL=file://"+s.file("state"))
	target := pulumi.Target{Dir: s.file("repo"), Project: golden.Project, Stack: golden.Stack, Env: env}
	deployment, err := pulumi.New("", env, time.Second).Export(context.Background(), target)
	if err != nil {
		s.t.Fatal(err)
	}
	state, err := pulumi.Digest(deployment)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

var newer struct {
	once sync.Once
	dir  string
	err  error
}

// install puts versions of the test provider into Pulumi's cache.
func (s *stage) install(versions []string) {
	s.t.Helper()
	for _, v := range versions {
		from := s.tools.plugins
		if v != "0.1.0" {
			newer.once.Do(func() {
				newer.dir = filepath.Join(filepath.Dir(s.tools.plugins), "newer")
				newer.err = golden.Build("../..", newer.dir, v)
			})
			if from = newer.dir; newer.err != nil {
				s.t.Fatal(newer.err)
			}
		}
		raw, err := os.ReadFile(filepath.Join(from, "pulumi-resource-files"))
		if err != nil {
			s.t.Fatal(err)
		}
		dir := golden.PluginDir(s.file("work", "pulumi"), v)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pulumi-resource-files"), raw, 0o700); err != nil { //nolint:gosec // G306: a program
			s.t.Fatal(err)
		}
	}
}
