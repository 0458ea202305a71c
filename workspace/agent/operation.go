// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/agentpb"
)

// keptEvents bounds the events that a late watcher can still get.
const keptEvents = 2000

// operation is an operation in memory: what it told so far, and its outputs, which are never written to disk.
type operation struct {
	id        string
	kind      workspace.OperationType
	startedAt time.Time
	ctx       context.Context //nolint:containedctx // it outlives the call that starts it
	cancel    context.CancelFunc
	done      chan struct{}

	mu      sync.Mutex
	events  []*agentpb.Event
	last    int64
	steps   workspace.Steps
	changed chan struct{}
	outputs map[string]json.RawMessage
	// gaveWay says that it was cancelled for the sake of another operation.
	gaveWay bool
	// unwritten is the result, when the journal could not take it.
	unwritten *workspace.Result
}

func newOperation(op *workspace.Operation, now time.Time) *operation {
	ctx, cancel := context.WithCancel(context.Background())
	return &operation{
		id: op.ID, kind: op.Type, startedAt: now, ctx: ctx, cancel: cancel,
		done: make(chan struct{}), changed: make(chan struct{}),
	}
}

// giveWay cancels the operation for the sake of another.
func (o *operation) giveWay() {
	o.mu.Lock()
	o.gaveWay = true
	o.mu.Unlock()
	o.cancel()
}

// excuse says of an operation that was cancelled for the sake of another that it was.
func (o *operation) excuse(out *workspace.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gaveWay && out.Outcome == workspace.Cancelled {
		out.Reason, out.Message = workspace.ReasonGaveWay, "it made room for an operation that matters more"
	}
}

// tell adds an event and wakes the watchers.
func (o *operation) tell(kind agentpb.Event_Kind, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(kind, text)
}

func (o *operation) add(kind agentpb.Event_Kind, text string) {
	o.last++
	o.events = append(o.events, &agentpb.Event{
		Sequence: o.last, Kind: kind, Text: text,
		StepsDone: int32(o.steps.Done), StepsTotal: int32(o.steps.Total), //nolint:gosec // G115: counts of resources
	})
	if len(o.events) > keptEvents {
		o.events = o.events[1:]
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// progress tells the steps, when they changed.
func (o *operation) progress(steps workspace.Steps) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if steps == o.steps {
		return
	}
	o.steps = steps
	o.add(agentpb.Event_KIND_PROGRESS, "")
}

func (o *operation) end(result *workspace.Result) {
	o.mu.Lock()
	o.outputs, o.steps = result.Outputs, result.Steps
	o.add(agentpb.Event_KIND_ENDED, string(result.Outcome))
	o.mu.Unlock()
	o.cancel()
	close(o.done)
}

// since returns the events from a sequence number on, and a channel that is closed when there are more.
func (o *operation) since(from int64) ([]*agentpb.Event, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*agentpb.Event
	for _, e := range o.events {
		if e.GetSequence() >= from {
			out = append(out, e)
		}
	}
	return out, o.changed
}

func (o *operation) keep(result *workspace.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unwritten = result
}

// running is the result of an operation that has not ended, as far as the journal knows.
func (o *operation) running() *workspace.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwritten != nil {
		result := *o.unwritten
		return &result
	}
	return &workspace.Result{ID: o.id, Type: o.kind, Outcome: workspace.Running, Steps: o.steps, StartedAt: o.startedAt}
}
