// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plangate/plangate/pkg/operations"
	sourcepkg "github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

const (
	pulumiVersion = "v3.276.0"
	tree          = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// golden is what the real CLI left behind: the plan file and the events of a preview.
type golden struct{ plan, events []byte }

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	read := func(file string) []byte {
		b, err := os.ReadFile(filepath.Join("..", "testdata", "plans", name, file))
		if err != nil {
			t.Fatalf("reading golden data: %v", err)
		}
		return b
	}
	return golden{plan: read("plan.json"), events: read("events.ndjson")}
}

// fakeAgents stands for the agents of all pods: the real one needs a pod. It keeps the agent's promises: an id that is
// started twice runs once, one operation runs at a time, a pod's operations are known to that pod alone, and a plan is not
// applied to another state than it was made for.
type fakeAgents struct {
	mu sync.Mutex
	// pods are what the agents know, by the UID of their pod.
	pods map[string]*fakePod

	// state is Pulumi's state; each apply that succeeds moves it.
	state string
	// drifted is the digest of what is drifted in the world; "" stands for nothing.
	drifted string
	// preview, check and apply say what an operation comes to.
	preview func(op workspace.Operation) *workspace.Result
	check   func(op workspace.Operation) *workspace.Result
	apply   func(op workspace.Operation) *workspace.Result
	// destroy says what a Destroy comes to. Nil: all goes.
	destroy func(op workspace.Operation) *workspace.Result
	// resources are what a state holds, and what becomes of it in a destroy.
	resources []doomed
	// trees are the trees of commits; that of another is tree for the first commit, and its own id for all that come after. lookErr is the error of every look.
	trees   map[string]string
	lookErr error
	looks   []workspace.Look
	// hold keeps operations running until it is false.
	hold bool
	// unreachable is the error of every call. Nil: none.
	unreachable error
	// dead are the UIDs of pods whose agents do not answer any more.
	dead map[string]bool
	// before is called before, and after after, each call that changes something.
	before, after func(call string)

	// started are the operations that ran, in order, each once; starts counts the calls.
	started []workspace.Operation
	starts  int
	calls   []string
	wakes   map[string]func()
}

type fakePod struct {
	results map[string]*workspace.Result
	current string
	ops     map[string]workspace.Operation
}

func newFakeAgents(t testing.TB) *fakeAgents {
	create, nothing := readGolden(t, "create"), readGolden(t, "no-changes")
	a := &fakeAgents{pods: map[string]*fakePod{}, state: builder.Digest("state 0"), wakes: map[string]func(){}}
	applied := map[string]bool{}
	a.check = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Succeeded, Plan: nothing.plan, Events: nothing.events}
	}
	a.preview = func(op workspace.Operation) *workspace.Result {
		g := create
		if applied[op.Source.Commit+string(mustJSON(op.Config))+string(mustJSON(op.SecretConfig))] {
			g = nothing
		}
		return &workspace.Result{Outcome: workspace.Succeeded, Plan: g.plan, Events: g.events}
	}
	a.apply = func(op workspace.Operation) *workspace.Result {
		applied[op.Source.Commit+string(mustJSON(op.Config))+string(mustJSON(op.SecretConfig))] = true
		return &workspace.Result{
			Outcome: workspace.Succeeded, Steps: workspace.Steps{Done: 2, Total: 2},
			Outputs:       map[string]json.RawMessage{"url": json.RawMessage(`"http://example.com"`), "password": json.RawMessage(`"` + canaryOutput + `"`)},
			SecretOutputs: []string{"password"},
		}
	}
	return a
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// doomed is a resource in a list of what a destroy takes away.
type doomed struct {
	URN  string `json:"urn"`
	Type string `json:"type"`
	ID   string `json:"id"`
	Fate string `json:"fate"`
}

func doom(name, fate string) doomed {
	return doomed{URN: "urn:pulumi:dev::project::files:index:File::" + name, Type: "files:index:File", ID: "/" + name, Fate: fate}
}

// list is what an agent lists of the state.
func (a *fakeAgents) list() []byte {
	resources := a.resources
	if resources == nil {
		resources = []doomed{}
	}
	return mustJSON(map[string]any{"version": "plangate.dev/destroy-list/v1", "project": "project", "stack": "dev", "stateDigest": a.state, "resources": resources})
}

func (a *fakeAgents) pod(uid string) *fakePod {
	if a.pods[uid] == nil {
		a.pods[uid] = &fakePod{results: map[string]*workspace.Result{}, ops: map[string]workspace.Operation{}}
	}
	return a.pods[uid]
}

func (a *fakeAgents) around(t operations.Target, call string, do func() error) error {
	if a.before != nil {
		a.before(call)
	}
	a.mu.Lock()
	a.calls = append(a.calls, call)
	err := a.unreachable
	if a.dead[t.PodUID] {
		err = status.Error(codes.Unavailable, "connection refused")
	}
	if err == nil {
		err = do()
	}
	a.mu.Unlock()
	if a.after != nil {
		a.after(call)
	}
	return err
}

func (a *fakeAgents) Info(_ context.Context, t operations.Target) (workspace.Info, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unreachable != nil {
		return workspace.Info{}, a.unreachable
	}
	return workspace.Info{PodUID: t.PodUID, Version: "test", PulumiVersion: pulumiVersion, Current: a.pod(t.PodUID).current}, nil
}

func (a *fakeAgents) Forget(string, string) {}

func (a *fakeAgents) Start(_ context.Context, t operations.Target, op *workspace.Operation) error {
	return a.around(t, "Start", func() error {
		a.starts++
		pod := a.pod(t.PodUID)
		if op.PodUID != t.PodUID {
			return refusal("WRONG_POD")
		}
		if _, known := pod.results[op.ID]; known {
			return nil
		}
		if running := pod.current; running != "" {
			if pod.ops[running].Type != workspace.DriftCheck || op.Type == workspace.DriftCheck {
				return refusal("BUSY")
			}
			// A check makes room, as that of the real agent.
			pod.results[running] = &workspace.Result{ID: running, Type: workspace.DriftCheck, Outcome: workspace.Cancelled, Reason: workspace.ReasonGaveWay, Message: "it made room"}
		}
		pod.current = op.ID
		pod.results[op.ID] = &workspace.Result{ID: op.ID, Type: op.Type, Outcome: workspace.Running, Steps: workspace.Steps{Done: 1, Total: 2}}
		pod.ops[op.ID] = *op
		a.started = append(a.started, *op)
		return nil
	})
}

func (a *fakeAgents) Result(_ context.Context, t operations.Target, id string) (*workspace.Result, error) {
	var out workspace.Result
	err := a.around(t, "Result", func() error {
		pod := a.pod(t.PodUID)
		result, known := pod.results[id]
		if !known {
			return status.Error(codes.NotFound, "there is no such operation")
		}
		if result.Outcome == workspace.Running && !a.hold {
			result = a.finish(pod, id)
		}
		out = *result
		return nil
	})
	return &out, err
}

// finish lets a running operation end.
func (a *fakeAgents) finish(pod *fakePod, id string) *workspace.Result {
	op := pod.ops[id]
	facts := &workspace.Facts{Commit: op.Source.Commit, StateDigest: a.state, PulumiVersion: pulumiVersion}
	if op.Type.NeedsSource() {
		facts.Tree = a.treeOf(op.Source.Commit)
	}
	facts.Plugins = []workspace.Plugin{{Name: "files", Version: "0.1.0", Digest: builder.Digest("files")}}
	if op.Options.Refresh || op.Type == workspace.DriftCheck || op.Expect != nil && op.Expect.DriftDigest != "" {
		facts.DriftDigest = cmp.Or(a.drifted, drift.NothingDrifted)
	}
	var result *workspace.Result
	switch {
	case op.Type == workspace.Preview:
		result = a.preview(op)
	case op.Type == workspace.DriftCheck:
		result = a.check(op)
	case op.Type == workspace.PreviewDestroy:
		result = &workspace.Result{Outcome: workspace.Succeeded, Plan: a.list()}
	case plans.BytesDigest(op.Plan) != op.PlanDigest:
		result = &workspace.Result{Outcome: workspace.Failed, Reason: workspace.ReasonPlanInvalid}
	case !reflect.DeepEqual(op.Expect, facts):
		result = &workspace.Result{Outcome: workspace.Stale, Message: "not applied", Mismatches: []workspace.Mismatch{{Field: "stateDigest", Was: op.Expect.StateDigest, Is: a.state}}}
		if op.Expect.DriftDigest != facts.DriftDigest {
			result.Mismatches = []workspace.Mismatch{{Field: "driftDigest", Was: op.Expect.DriftDigest, Is: facts.DriftDigest, Detail: "changed again: one"}}
		}
	case op.Type == workspace.Destroy:
		result = &workspace.Result{Outcome: workspace.Succeeded, Steps: workspace.Steps{Done: len(a.resources), Total: len(a.resources)}}
		if a.destroy != nil {
			result = a.destroy(op)
		}
		if result.Outcome == workspace.Succeeded {
			a.resources = nil
		}
		if result.Outcome == workspace.Succeeded || result.Outcome == workspace.Partial {
			a.state = builder.Digest("state after " + id)
		}
	default:
		result = a.apply(op)
		if result.Outcome == workspace.Succeeded || result.Outcome == workspace.Partial {
			a.state = builder.Digest("state after " + id)
		}
	}
	result.Project = "project"
	result.ID, result.Type, result.EndedAt = id, op.Type, time.Now().UTC().Truncate(time.Second)
	if result.Facts == nil {
		result.Facts = facts
	}
	pod.results[id], pod.current = result, ""
	return result
}

// treeOf is the tree of a commit.
func (a *fakeAgents) treeOf(commit string) string {
	if t, ok := a.trees[commit]; ok {
		return t
	}
	if commit != builder.Commit {
		return commit
	}
	return tree
}

func (a *fakeAgents) Look(_ context.Context, t operations.Target, look *workspace.Look) (*workspace.Sight, error) {
	var sight workspace.Sight
	err := a.around(t, "Look", func() error {
		a.looks = append(a.looks, *look)
		if look.Type == workspace.LookState {
			sight.StateDigest = a.state
			if look.Operation.Expect.StateDigest != a.state {
				sight.Detail = "changed urn:pulumi:dev::web::files:index:File::a"
			}
			return a.lookErr
		}
		sight.Tree = a.treeOf(look.Operation.Source.Commit)
		return a.lookErr
	})
	return &sight, err
}

func (a *fakeAgents) Cancel(_ context.Context, t operations.Target, id string) error {
	return a.around(t, "Cancel", func() error {
		pod := a.pod(t.PodUID)
		if pod.current == id {
			op := pod.ops[id]
			pod.results[id], pod.current = &workspace.Result{ID: id, Type: op.Type, Outcome: workspace.Cancelled, Message: "stopped"}, ""
		}
		return nil
	})
}

func (a *fakeAgents) Watch(_ operations.Target, id string, wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakes[id] = wake
}

// release lets operations end, and wakes those who watch them.
func (a *fakeAgents) release() {
	a.mu.Lock()
	a.hold = false
	wakes := a.wakes
	a.wakes = map[string]func(){}
	a.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
}

// ran are the operations of a type that ran.
func (a *fakeAgents) ran(kind workspace.OperationType) []workspace.Operation {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []workspace.Operation
	for _, op := range a.started {
		if op.Type == kind {
			out = append(out, op)
		}
	}
	return out
}

func refusal(reason string) error {
	s, err := status.New(codes.FailedPrecondition, reason).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "agent.plangate.dev"})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// fakeSources resolves branches from a map.
type fakeSources struct {
	mu       sync.Mutex
	branches map[string]string
	err      error
}

func (f *fakeSources) Resolve(_ context.Context, repository, branch, commit string) (sourcepkg.Revision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return sourcepkg.Revision{}, f.err
	}
	if commit != "" {
		return sourcepkg.Revision{Commit: commit}, nil
	}
	id, ok := f.branches[branch]
	if !ok {
		return sourcepkg.Revision{}, &sourcepkg.NotFoundError{Repository: repository, Ref: branch}
	}
	return sourcepkg.Revision{Commit: id, Ref: "refs/heads/" + branch}, nil
}

func (f *fakeSources) ResolveNow(ctx context.Context, repository, branch, commit string) (sourcepkg.Revision, error) {
	return f.Resolve(ctx, repository, branch, commit)
}

func (f *fakeSources) push(branch, commit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.branches[branch] = commit
}

// fakeRecorder keeps events.
type fakeRecorder struct {
	mu     sync.Mutex
	events []string
}

func (f *fakeRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, fmt.Sprintf("%T %s %s: %s", regarding, eventType, reason, fmt.Sprintf(note, args...)))
}

func (f *fakeRecorder) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.events...)
}
