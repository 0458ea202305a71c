// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

const (
	pulumiVersion = "v3.276.0"
	// planned is the text in the golden plan that stands for what a program asks for.
	planned = "hello again"
)

// golden is what the real CLI left behind: a preview with a change, and one without.
var golden = sync.OnceValue(func() (g struct{ changePlan, changeEvents, samePlan, sameEvents []byte }) {
	read := func(name, file string) []byte {
		raw, err := os.ReadFile(filepath.Join("..", "testdata", "plans", name, file))
		if err != nil {
			panic(err)
		}
		return raw
	}
	g.changePlan, g.changeEvents = read("update", "plan.json"), read("update", "events.ndjson")
	g.samePlan, g.sameEvents = read("no-changes", "plan.json"), read("no-changes", "events.ndjson")
	return g
})

// record is an operation in the journal of an agent.
type record struct {
	op    workspace.Operation
	facts workspace.Facts
	// list is what a destroy would have taken away when it began.
	list []byte
	// result is how it ended; nil: it runs.
	result *workspace.Result
	// mutates says that it is an apply that has begun to change the real world.
	mutates bool
	wakes   []func()
}

// pod is an agent with its journal, as long as its pod lives.
type pod struct {
	uid, image string
	journal    map[string]*record
	current    *record
}

// agents are the agents of all pods. They keep the real agent's promises: an id that is started twice runs once, one operation
// runs at a time, a restart ends what ran as interrupted, and nothing is applied to another world than it was planned for.
type agents struct {
	w    *world
	kind string
}

func refusal(reason string) error {
	s, err := status.New(codes.FailedPrecondition, reason).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "agent.plangate.dev"})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// reach finds the agent that is meant, if it answers.
func (a agents) reach(t operations.Target) (*pod, error) {
	a.w.meanwhile()
	if a.w.pod == nil || a.w.pod.uid != t.PodUID || a.w.hiccup() {
		return nil, status.Error(codes.Unavailable, "connection refused")
	}
	return a.w.pod, nil
}

func (a agents) Start(_ context.Context, t operations.Target, op *workspace.Operation) error {
	return a.w.deed("Start", func() error {
		p, err := a.reach(t)
		switch {
		case err != nil:
			return err
		case op.PodUID != p.uid:
			return refusal("WRONG_POD")
		case p.journal[op.ID] != nil:
			return nil
		case p.current != nil && p.current.op.Type == workspace.DriftCheck && op.Type != workspace.DriftCheck:
			a.w.end(p, &workspace.Result{Outcome: workspace.Cancelled, Reason: workspace.ReasonGaveWay, Message: "it made room"})
		case p.current != nil:
			return refusal("BUSY")
		}
		r := &record{op: *op, facts: a.w.facts(op.Source.Commit), list: a.w.destroyList()}
		p.journal[op.ID], p.current = r, r
		a.w.began(r)
		return nil
	})
}

// facts are what an agent finds.
func (w *world) facts(commit string) workspace.Facts {
	return workspace.Facts{
		Commit: commit, Tree: treeOf(commit), StateDigest: w.stateDigest(), PulumiVersion: pulumiVersion,
		Plugins: []workspace.Plugin{{Name: "files", Version: "0.1.0", Digest: builder.Digest(fmt.Sprint("plugin ", w.plugin))}},
	}
}

// treeOf is the tree of a commit's project: commits with the same beginning differ elsewhere. A destroy has no commit.
func treeOf(commit string) string {
	if commit == "" {
		return ""
	}
	return commit[:20] + strings.Repeat("0", 20)
}

// destroyList is what an agent lists of the state: all of the real world, if there is any.
func (w *world) destroyList() []byte {
	type doomed struct {
		URN  string `json:"urn"`
		Type string `json:"type"`
		ID   string `json:"id"`
		Fate string `json:"fate"`
	}
	resources := []doomed{}
	if w.real != "" {
		fate := "delete"
		if w.protected {
			fate = "protected"
		}
		resources = append(resources, doomed{"urn:pulumi:dev::web::files:index:File::a", "files:index:File", "a", fate}, doomed{"urn:pulumi:dev::web::files:index:File::b", "files:index:File", "b", "delete"})
	}
	return encode(map[string]any{"version": "plangate.dev/destroy-list/v1", "project": "web", "stack": "dev", "stateDigest": w.stateDigest(), "resources": resources})
}

// Look answers what the real agent finds out without an operation.
func (a agents) Look(_ context.Context, t operations.Target, look *workspace.Look) (*workspace.Sight, error) {
	p, err := a.reach(t)
	switch {
	case err != nil:
		return nil, err
	case look.Type == workspace.LookState && p.current != nil && p.current.op.Type != workspace.DriftCheck:
		return nil, refusal("BUSY")
	case a.w.chance(4):
		return &workspace.Sight{Pending: true}, nil
	case look.Type == workspace.LookState:
		a.w.looks++
		return &workspace.Sight{StateDigest: a.w.stateDigest(), Detail: "changed urn:x"}, nil
	case a.w.noRemote || a.w.chance(20):
		a.w.blind = true
		return &workspace.Sight{Reason: workspace.ReasonSourceUnavailable, Message: "the remote does not answer"}, nil
	default:
		return &workspace.Sight{Tree: treeOf(look.Operation.Source.Commit)}, nil
	}
}

func (w *world) stateDigest() string { return builder.Digest(fmt.Sprint("state ", w.state)) }

// began looks at an operation that an agent has taken.
func (w *world) began(r *record) {
	w.ops[r.op.ID] = r
	if !r.op.Type.Mutates() {
		return
	}
	r.mutates = reflect.DeepEqual(*r.op.Expect, r.facts) && plans.BytesDigest(r.op.Plan) == r.op.PlanDigest
	if r.op.Type == workspace.Destroy {
		r.mutates = r.mutates && bytes.Equal(r.op.Plan, r.list)
	}
	if r.mutates {
		w.mutates(r)
	}
}

func (a agents) Result(_ context.Context, t operations.Target, id string) (*workspace.Result, error) {
	p, err := a.reach(t)
	if err != nil {
		return nil, err
	}
	r := p.journal[id]
	if r == nil {
		return nil, status.Error(codes.NotFound, "there is no such operation")
	}
	if r.result == nil {
		return &workspace.Result{ID: id, Type: r.op.Type, Outcome: workspace.Running}, nil
	}
	result := *r.result
	return &result, nil
}

func (a agents) Cancel(_ context.Context, t operations.Target, id string) error {
	p, err := a.reach(t)
	if err != nil {
		return err
	}
	if p.current != nil && p.current.op.ID == id && !p.current.mutates {
		a.w.end(p, &workspace.Result{Outcome: workspace.Cancelled, Message: "it was asked to stop"})
	}
	return nil
}

func (a agents) Watch(_ operations.Target, id string, _ func()) {
	r := a.w.ops[id]
	if r == nil || a.w.pod == nil || a.w.pod.current != r {
		a.w.wake(a.kind, id) // the watch breaks at once
		return
	}
	kind, w := a.kind, a.w
	r.wakes = []func(){func() { w.wake(kind, id) }}
}

// end ends what runs in a pod.
func (w *world) end(p *pod, result *workspace.Result) {
	r := p.current
	p.current = nil
	facts := r.facts
	result.Project = "web"
	result.ID, result.Type, result.Facts, result.EndedAt = r.op.ID, r.op.Type, &facts, w.clock.UTC().Truncate(time.Second)
	r.result = result
	for _, wake := range r.wakes {
		wake()
	}
}

// finish lets what runs come to its end.
func (w *world) finish() {
	p := w.pod
	if p == nil || p.current == nil {
		return
	}
	r := p.current
	switch {
	case !r.op.Type.Mutates() && w.chance(12):
		w.end(p, &workspace.Result{Outcome: workspace.Failed, Reason: workspace.ReasonProgramFailed, Message: "the program failed"})
	case r.op.Type == workspace.Preview:
		w.end(p, w.previewed(r))
	case r.op.Type == workspace.DriftCheck:
		// Nobody but Plangate touches this world: what is there is what was left.
		w.end(p, &workspace.Result{Outcome: workspace.Succeeded, Plan: golden().samePlan, Events: golden().sameEvents})
	case r.op.Type == workspace.PreviewDestroy:
		if !bytes.Contains(r.list, []byte("urn:")) {
			w.gone = true
		}
		w.end(p, &workspace.Result{Outcome: workspace.Succeeded, Plan: r.list})
	case !r.mutates:
		w.end(p, &workspace.Result{Outcome: workspace.Stale, Message: "not applied", Mismatches: []workspace.Mismatch{{Field: "stateDigest", Was: "a", Is: "b"}}})
	default:
		w.applied(p, r)
	}
}

// wanted is what an operation's program asks for. The program shows its secrets wherever it can.
func wanted(op *workspace.Operation) string {
	text := treeOf(op.Source.Commit)
	for _, k := range []string{"size", "more"} {
		text += " " + string(op.Config[k])
	}
	return text + " " + op.SecretConfig["password"]
}

func (w *world) previewed(r *record) *workspace.Result {
	g := golden()
	want := wanted(&r.op)
	if want == w.real {
		return &workspace.Result{Outcome: workspace.Succeeded, Plan: g.samePlan, Events: g.sameEvents}
	}
	text, err := json.Marshal(want)
	if err != nil {
		panic(err)
	}
	text = text[1 : len(text)-1]
	// A quote inside is escaped for the JSON that it stands in.
	return &workspace.Result{
		Outcome: workspace.Succeeded,
		Plan:    bytes.ReplaceAll(g.changePlan, []byte(planned), text), Events: bytes.ReplaceAll(g.changeEvents, []byte(planned), text),
	}
}

// applied changes the real world: all of it, a part, or nothing.
func (w *world) applied(p *pod, r *record) {
	result := &workspace.Result{Outcome: workspace.Succeeded, Steps: workspace.Steps{Done: 2, Total: 2}}
	if w.faults {
		switch w.rand.IntN(10) {
		case 0:
			result = &workspace.Result{Outcome: workspace.Partial, Message: "the second step failed", Steps: workspace.Steps{Done: 1, Total: 2}}
		case 1:
			result = &workspace.Result{Outcome: workspace.Violated, Message: "violates plan", Violations: []string{"urn: properties changed"}}
		case 2:
			result = &workspace.Result{Outcome: workspace.Failed, Reason: workspace.ReasonLocked, Message: "locked"}
			w.lockOut(r)
		}
	}
	if r.op.Type == workspace.Destroy {
		w.destroyed(p, r, result)
		return
	}
	switch result.Outcome {
	case workspace.Succeeded:
		w.move(wanted(&r.op))
		password, _ := json.Marshal(r.op.SecretConfig["password"])
		result.Outputs = map[string]json.RawMessage{"password": password, "leak": password}
		result.SecretOutputs = []string{"password"}
	case workspace.Partial:
		w.move("a part of " + r.op.ID)
	}
	w.end(p, result)
}

// destroyed takes the real world away: all of it, a part, or nothing.
func (w *world) destroyed(p *pod, r *record, result *workspace.Result) {
	switch result.Outcome {
	case workspace.Succeeded:
		w.move("")
		w.gone = true
	case workspace.Partial:
		w.move("what is left of " + r.op.ID)
	}
	w.end(p, result)
}

// move changes the real world and Pulumi's state of it.
func (w *world) move(to string) {
	w.real = to
	w.state++
}

// cutOff is the death of the process in which an operation runs.
func (w *world) cutOff(r *record) {
	if r.mutates && w.rand.IntN(2) == 0 {
		w.move("what was cut off of " + r.op.ID)
	}
}

// restartAgent ends what runs as interrupted.
func (w *world) restartAgent() {
	if w.pod != nil && w.pod.current != nil {
		w.cutOff(w.pod.current)
		w.end(w.pod, &workspace.Result{Outcome: workspace.Interrupted, Message: "the agent was restarted"})
	}
}
