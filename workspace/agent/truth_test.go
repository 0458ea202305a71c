// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/client"
	"github.com/plangate/plangate/workspace/fake"
	"github.com/plangate/plangate/workspace/pulumi"
)

const plainProgram = "name: demo\nruntime: yaml\n"

// look asks until the answer is there.
func (r *rig) look(kind workspace.LookType, op *workspace.Operation) *workspace.Sight {
	r.t.Helper()
	for {
		sight, err := r.client.Look(context.Background(), podUID, &workspace.Look{Type: kind, Operation: *op})
		if err != nil {
			r.t.Fatal(err)
		}
		if !sight.Pending {
			return sight
		}
	}
}

func TestALookAtTheSourceFindsTheTreeThatAPreviewIsBoundTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, &fake.Driver{Plan: []byte(`{"resourcePlans":{}}`)})
	commit := r.commit(map[string]string{"app/Pulumi.yaml": plainProgram, "other": "1"})
	op := r.operation(workspace.Preview, commit)
	op.Source.Dir = "app"
	bound := r.run(op).Facts.Tree
	next := r.operation(workspace.Preview, r.commit(map[string]string{"other": "2"}))
	next.Source.Dir = "app"
	if sight := r.look(workspace.LookSource, next); sight.Reason != "" || sight.Tree != bound {
		t.Errorf("a commit beside the project: %+v, want the tree %s", sight, bound)
	}
	next.Source.Paths = []string{"other"}
	wider := r.look(workspace.LookSource, next).Tree
	if got := r.run(next).Facts.Tree; got != wider || wider == bound {
		t.Errorf("with more paths the look finds %s, a preview %s, and without them it is %s", wider, got, bound)
	}
	gone := r.operation(workspace.Preview, "0123456789abcdef0123456789abcdef01234567")
	if sight := r.look(workspace.LookSource, gone); sight.Reason != workspace.ReasonSourceUnavailable || sight.Tree != "" {
		t.Errorf("a commit that is not there: %+v", sight)
	}
}

func TestALookIsRefusedByAnotherPodAndWhileTheStateIsInBetween(t *testing.T) {
	t.Parallel()
	d := &fake.Driver{Plan: []byte(`{"resourcePlans":{}}`), Block: make(chan struct{})}
	r := newRig(t, d)
	op := r.operation(workspace.Preview, r.commit(map[string]string{"Pulumi.yaml": plainProgram}))
	ctx := context.Background()
	ask := func(pod string, kind workspace.LookType) error {
		_, err := r.client.Look(ctx, pod, &workspace.Look{Type: kind, Operation: *op})
		return err
	}
	if err := ask("another", workspace.LookState); !client.IsWrongPod(err) {
		t.Errorf("another pod: %v", err)
	}
	if err := ask(podUID, "Future"); !client.IsInvalid(err) {
		t.Errorf("a look that it does not know: %v", err)
	}
	if err := r.client.Start(ctx, op); err != nil {
		t.Fatal(err)
	}
	if err := ask(podUID, workspace.LookState); !client.IsBusy(err) {
		t.Errorf("while an operation runs: %v", err)
	}
	if err := ask(podUID, workspace.LookSource); err != nil {
		t.Errorf("the source while an operation runs: %v", err)
	}
	close(d.Block)
	r.wait(ctx, op.ID)
}

func TestALookAtTheStateNamesWhatSomebodyElseChangedAndIsNoOperation(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	r.mustApply(commit, r.preview(commit, config("content", "one")), config("content", "one"))
	bound := r.preview(commit, config("content", "two"))
	op := r.operation(workspace.Preview, commit)
	op.Expect = &workspace.Facts{StateDigest: bound.Facts.StateDigest}
	if sight := r.look(workspace.LookState, op); sight.Reason != "" || sight.StateDigest != bound.Facts.StateDigest || sight.Detail != "" {
		t.Errorf("nothing was changed: %+v", sight)
	}
	r.mustApply(commit, r.preview(commit, config("content", "three")), config("content", "three"))
	sight := r.look(workspace.LookState, op)
	if sight.StateDigest == bound.Facts.StateDigest || !strings.Contains(sight.Detail, "changed urn:pulumi:dev::demo::files:index:File::a") {
		t.Errorf("a file was changed: %+v", sight)
	}
	if _, err := r.client.Result(context.Background(), op.ID); !client.IsNotFound(err) {
		t.Errorf("a look is in the journal: %v", err)
	}
	op.Env = nil
	op.Backend = "file://" + r.file("nowhere")
	if sight := r.look(workspace.LookState, op); sight.StateDigest == bound.Facts.StateDigest {
		t.Errorf("a backend that is not there: %+v", sight)
	}
}

// fountain is a file that holds something else each time it is read.
func (r *rig) fountain(name string) {
	r.t.Helper()
	if err := syscall.Mkfifo(r.file(name), 0o600); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		for i := 1; ; i++ {
			f, err := os.OpenFile(r.file(name), os.O_WRONLY, 0) // waits for a reader
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(f, "drop %d", i)
			_ = f.Close()
			time.Sleep(20 * time.Millisecond) // the reader must see the end before the next opens; nothing can be waited for
		}
	}()
}

const unsteady = `
  steady:
    type: files:File
    properties: {path: DIR/out/steady, content: {fn::secret: "the same"}}
  moving:
    type: files:File
    properties: {path: DIR/out/moving, content: {fn::readFile: DIR/fountain}}
  hidden:
    type: files:File
    properties: {path: DIR/out/hidden, content: {fn::secret: {fn::readFile: DIR/fountain}}}
  tok:
    type: files:Token
    properties: {length: 8}
  named:
    type: files:File
    properties: {path: DIR/out/named, content: "named ${tok.name}"}
`

// goals are the inputs that a plan adds, by resource.
func goals(t *testing.T, plan []byte) map[string]map[string]any {
	t.Helper()
	var p struct {
		ResourcePlans map[string]struct {
			Goal struct {
				Name      string
				InputDiff struct{ Adds map[string]any }
			}
		}
	}
	if err := json.Unmarshal(plan, &p); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, r := range p.ResourcePlans {
		out[r.Goal.Name] = r.Goal.InputDiff.Adds
	}
	return out
}

func TestAProbePreviewsTwiceAndKeepsSecretsOfOneValueTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fountain("fountain")
	commit := r.commit(map[string]string{"Pulumi.yaml": program(unsteady)})
	result := r.preview(commit, func(op *workspace.Operation) { op.Probe = true })
	if len(result.SecondPlan) == 0 {
		t.Fatal("there is no second plan")
	}
	first, second := goals(t, result.Plan), goals(t, result.SecondPlan)
	for name, same := range map[string]bool{"steady": true, "moving": false, "hidden": false} {
		if a, b := first[name]["content"], second[name]["content"]; reflect.DeepEqual(a, b) != same {
			t.Errorf("%s: the first is %v, the second %v, want the same: %t", name, a, b, same)
		}
	}
	if a, b := first["tok"]["name"], second["tok"]["name"]; reflect.DeepEqual(a, b) {
		t.Errorf("both previews made the name %v: the test proves nothing of names", a)
	}
	// What an approver is told: neither the steady secret, nor the name that the plan pins, nor what is made of it.
	plan, err := pulumiplan.Decode(result.Plan, result.Events)
	if err == nil {
		plan, err = pulumiplan.Probe(plan, result.Plan, result.SecondPlan)
	}
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, c := range plan.Changes {
		if len(c.Unstable) > 0 {
			told[c.Name] = c.Unstable
		}
	}
	if want := map[string][]string{"moving": {"content"}, "hidden": {"content"}}; !reflect.DeepEqual(told, want) {
		t.Errorf("unstable: %v, want %v", told, want)
	}
	if strings.Contains(string(result.SecondPlan), "the same") {
		t.Error("a secret is in clear in the second plan")
	}
	if plain := r.preview(commit); len(plain.SecondPlan) != 0 {
		t.Error("without a probe there is a second plan")
	}
}

func TestAProbeWhoseSecondPreviewFailsOrMeetsAnotherStateMakesNoPlan(t *testing.T) {
	t.Parallel()
	ok := &pulumi.Run{Tally: pulumi.Tally{Phases: 1}}
	state := func(name string) json.RawMessage {
		return json.RawMessage(`{"resources":[{"urn":"urn:` + name + `"}]}`)
	}
	cases := map[string]struct {
		driver *fake.Driver
		want   workspace.Outcome
		text   string
	}{
		"both succeed":          {&fake.Driver{Runs: []*pulumi.Run{ok, ok}}, workspace.Succeeded, ""},
		"the second fails":      {&fake.Driver{Runs: []*pulumi.Run{ok, {ExitCode: 1, Output: "error: the program failed"}}}, workspace.Failed, "the second of the same world did not"},
		"the state was changed": {&fake.Driver{Runs: []*pulumi.Run{ok, ok}}, workspace.Failed, "between the two previews"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.driver.Plan, tc.driver.State = []byte(`{"resourcePlans":{}}`), state("a")
			if name == "the state was changed" {
				runs := 0
				tc.driver.OnRun = func(pulumi.Request) {
					runs++
					if runs == 2 {
						tc.driver.State = state("b")
					}
				}
			}
			r := newRig(t, tc.driver)
			op := r.operation(workspace.Preview, r.commit(map[string]string{"Pulumi.yaml": plainProgram}))
			op.Probe = true
			result := r.run(op)
			if result.Outcome != tc.want || !strings.Contains(result.Message, tc.text) || (len(result.Plan) > 0) != (tc.want == workspace.Succeeded) {
				t.Errorf("%s %s: %s; a plan of %d bytes", result.Outcome, result.Reason, result.Message, len(result.Plan))
			}
		})
	}
}
