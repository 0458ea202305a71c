// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plangate/plangate/api/v1alpha1"
)

const opRefresh = apitype.OpRefresh

// record is everything that is known of one URN.
type record struct {
	urn string
	// steps are what the events tell, in order, each once; refreshes and deletions of an earlier instance are apart.
	steps []apitype.OpType
	// planned are the steps of the plan file, goal what it says of the inputs.
	planned []apitype.OpType
	goal    *apitype.GoalV1
	// old and new are the resource before and after.
	old, new *apitype.StepEventStateMetadata
	// detailed, keys and diffs are what the provider says of the difference.
	detailed map[string]apitype.PropertyDiff
	keys     []string
	diffs    []string
	// own are those keys that the step replace itself has. A resource that is replaced for another one's sake has none.
	own []string
	// with are the resources for whose sake it is replaced.
	with []v1alpha1.PropertyChange
	// deleted is an instance that is deleted: the resource itself, or one that an earlier update had left behind.
	deleted *apitype.StepEventStateMetadata
	// refreshed is what a refresh found.
	refreshed *apitype.StepEventMetadata
}

// records are those of all URNs.
type records map[string]*record

func (r records) of(urn string) *record {
	if r[urn] == nil {
		r[urn] = &record{urn: urn}
	}
	return r[urn]
}

func (r records) urns() []string { return slices.Sorted(maps.Keys(r)) }

// readEvents collects the steps of a whole preview that succeeded.
func readEvents(events []byte) (records, error) {
	all, ended := records{}, false
	for number, line := range bytes.Split(events, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e apitype.EngineEvent
		if err := decodeOne(line, &e, true); err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		if e.ResOpFailedEvent != nil {
			return nil, fmt.Errorf("line %d: a step of %q failed", number+1, e.ResOpFailedEvent.Metadata.URN)
		}
		if s := e.SummaryEvent; s != nil {
			if s.Result != "" && s.Result != apitype.OperationResultSucceeded {
				return nil, fmt.Errorf("line %d: the preview %s", number+1, s.Result)
			}
			ended = true
		}
		if e.ResourcePreEvent != nil {
			all.add(e.ResourcePreEvent.Metadata)
		}
		if e.ResOutputsEvent != nil {
			all.add(e.ResOutputsEvent.Metadata)
		}
	}
	if !ended {
		return nil, errors.New("they end before the preview does")
	}
	return all, nil
}

// add takes in one event. Later events of a step know more than earlier ones.
func (r records) add(m apitype.StepEventMetadata) {
	rec := r.of(m.URN)
	if m.Op == opRefresh {
		rec.refreshed = &m
		return
	}
	if !slices.Contains(rec.steps, m.Op) {
		rec.steps = append(rec.steps, m.Op)
	}
	if m.Op == apitype.OpDelete || m.Op == apitype.OpDeleteReplaced {
		rec.deleted = m.Old
		return
	}
	if m.Old != nil {
		rec.old = m.Old
	}
	if m.New != nil {
		rec.new = m.New
	}
	if m.DetailedDiff != nil {
		rec.detailed = m.DetailedDiff
	}
	rec.keys = union(rec.keys, m.Keys)
	rec.diffs = union(rec.diffs, m.Diffs)
	if m.Op == apitype.OpReplace {
		rec.own = union(rec.own, m.Keys)
	}
}

// merge takes in what the plan file says. Where both tell of a change they must tell of the same one.
func (rec *record) merge(p apitype.ResourcePlanV1) error {
	rec.planned, rec.goal = p.Steps, p.Goal
	if !slices.ContainsFunc(rec.steps, active) {
		return nil // the events tell of no change: what the plan holds is shown
	}
	for _, s := range p.Steps {
		if active(s) && !slices.Contains(rec.steps, s) {
			return fmt.Errorf("%q: the plan holds the step %q, the events tell of %q", rec.urn, s, rec.steps)
		}
	}
	return nil
}

// all are the steps of plan and events.
func (rec *record) all() []apitype.OpType { return union(rec.steps, rec.planned) }

func active(op apitype.OpType) bool { return op != apitype.OpSame && op != opRefresh }

func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, e := range b {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

const stackType = "pulumi:pulumi:Stack"

// typeAndName takes a URN apart: urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>.
func typeAndName(urn string) (string, string) {
	parts := strings.SplitN(urn, "::", 4)
	if len(parts) < 4 {
		return "unknown", urn
	}
	return parts[2][strings.LastIndex(parts[2], "$")+1:], parts[3]
}
