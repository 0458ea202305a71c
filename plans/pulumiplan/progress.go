// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// planStep is one step for one resource. A resource has at most one of a kind in an update, except for the deletion of several
// instances that were left behind, which are told as one.
type planStep struct {
	urn string
	op  apitype.OpType
}

type progress struct {
	states map[planStep]*v1alpha1.StepState
	// order is that of the plan, finished that in which steps ended well.
	order, finished []planStep
	// errors are the last error of each resource.
	errors map[string]string
}

// Progress tells, step by step, what an update that was held to a plan has done of it and what it has not. events are those of
// the update, of all its phases, whole or cut off: lines that cannot be read are passed over, since what is known is told even
// when not all is. The order is that of the update for what was done, and what failed or was cut off comes first of the rest.
// It never panics.
func Progress(planFile, events []byte) (done, rest []v1alpha1.StepState, err error) {
	defer func() {
		if r := recover(); r != nil {
			done, rest, err = nil, nil, fmt.Errorf("reading the progress: malformed: %v", r)
		}
	}()
	saved, err := readPlan(planFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the plan file: %w", err)
	}
	p := &progress{states: map[planStep]*v1alpha1.StepState{}, errors: map[string]string{}}
	for urn, planned := range saved.ResourcePlans {
		for _, op := range planned.Steps {
			p.expect(planStep{string(urn), op})
		}
	}
	slices.SortFunc(p.order, compareSteps)
	done, rest = p.follow(decodeEvents(events))
	return done, rest, nil
}

// DestroyProgress is Progress for a destroy that was held to a list. What no event tells of was to be deleted.
func DestroyProgress(list, events []byte) (done, rest []v1alpha1.StepState, err error) {
	defer func() {
		if r := recover(); r != nil {
			done, rest, err = nil, nil, fmt.Errorf("reading the progress: malformed: %v", r)
		}
	}()
	var l destroyList
	if err := decodeOne(list, &l, true); err != nil || l.Version != destroyListVersion {
		return nil, nil, fmt.Errorf("reading the list of what goes: version %q: %w", l.Version, err)
	}
	told, all := map[string]bool{}, decodeEvents(events)
	for i := range all {
		if e := all[i].ResourcePreEvent; e != nil {
			told[e.Metadata.URN] = true
		}
	}
	p := &progress{states: map[planStep]*v1alpha1.StepState{}, errors: map[string]string{}}
	for _, d := range l.Resources {
		if !told[d.URN] && (d.Fate == fateDelete || d.Fate == fateRetain) {
			p.expect(planStep{d.URN, apitype.OpDelete})
		}
	}
	done, rest = p.follow(all)
	return done, rest, nil
}

// decodeEvents passes over lines that cannot be read.
func decodeEvents(events []byte) []apitype.EngineEvent {
	var all []apitype.EngineEvent
	for _, line := range bytes.Split(events, []byte("\n")) {
		var e apitype.EngineEvent
		if len(bytes.TrimSpace(line)) > 0 && decodeOne(line, &e, false) == nil {
			all = append(all, e)
		}
	}
	return all
}

// follow takes all events, and reports.
func (p *progress) follow(events []apitype.EngineEvent) (done, rest []v1alpha1.StepState) {
	for i := range events {
		p.take(&events[i])
	}
	return p.report()
}

func compareSteps(a, b planStep) int {
	if a.urn != b.urn {
		if a.urn < b.urn {
			return -1
		}
		return 1
	}
	return slices.Index(stepOrder, a.op) - slices.Index(stepOrder, b.op)
}

// stepOrder is the order of the steps of one resource that is replaced in the usual way.
var stepOrder = []apitype.OpType{
	apitype.OpImport, apitype.OpImportReplacement, apitype.OpCreate, apitype.OpUpdate, apitype.OpCreateReplacement, apitype.OpDeleteReplaced, apitype.OpDelete,
}

// acts tells whether a step does something, other than the logical "replace", which goes with two others.
func acts(op apitype.OpType) bool {
	switch op {
	case apitype.OpCreate, apitype.OpUpdate, apitype.OpDelete, apitype.OpCreateReplacement, apitype.OpDeleteReplaced, apitype.OpImport,
		apitype.OpImportReplacement, apitype.OpReadReplacement, apitype.OpDiscardReplaced, apitype.OpRemovePendingReplace, apitype.OpReadDiscard:
		return true
	default:
		return false
	}
}

// expect adds a step that is planned. What Pulumi keeps for itself does not count.
func (p *progress) expect(s planStep) *v1alpha1.StepState {
	if typ, name := typeAndName(s.urn); !acts(s.op) || plans.Bookkeeping(typ, name) {
		return nil
	}
	if p.states[s] == nil {
		p.order = append(p.order, s)
		p.states[s] = &v1alpha1.StepState{
			Step: redact.Shorten(redact.Printable(string(s.op)), 64), Outcome: v1alpha1.StepNotStarted, URN: redact.Shorten(redact.Printable(s.urn), 2048),
		}
	}
	return p.states[s]
}

// take notes one event. The constrained preview, which comes first, tells the steps that the plan file does not hold.
func (p *progress) take(e *apitype.EngineEvent) { //nolint:gocyclo // one case a kind of event, or of what two values are
	switch {
	case e.DiagnosticEvent != nil && e.DiagnosticEvent.Severity == "error" && e.DiagnosticEvent.URN != "":
		p.errors[e.DiagnosticEvent.URN] = e.DiagnosticEvent.Message
	case e.ResourcePreEvent != nil:
		m := e.ResourcePreEvent.Metadata
		if state := p.expect(planStep{m.URN, m.Op}); state != nil && !e.ResourcePreEvent.Planning && state.Outcome == v1alpha1.StepNotStarted {
			state.Outcome = v1alpha1.StepCutOff
		}
	case e.ResOpFailedEvent != nil:
		m := e.ResOpFailedEvent.Metadata
		if state := p.expect(planStep{m.URN, m.Op}); state != nil {
			state.Outcome = v1alpha1.StepFailed
		}
	case e.ResOutputsEvent != nil && !e.ResOutputsEvent.Planning:
		m := e.ResOutputsEvent.Metadata
		if state := p.expect(planStep{m.URN, m.Op}); state != nil && state.Outcome != v1alpha1.StepDone {
			state.Outcome = v1alpha1.StepDone
			p.finished = append(p.finished, planStep{m.URN, m.Op})
		}
	}
}

func (p *progress) report() (done, rest []v1alpha1.StepState) {
	for _, s := range p.finished {
		if state := p.states[s]; state.Outcome == v1alpha1.StepDone {
			state.Detail = p.detail(s)
			done = append(done, *state)
		}
	}
	for _, s := range p.order {
		if state := p.states[s]; state.Outcome != v1alpha1.StepDone {
			state.Detail = p.detail(s)
			rest = append(rest, *state)
		}
	}
	rank := []v1alpha1.StepOutcome{v1alpha1.StepFailed, v1alpha1.StepCutOff, v1alpha1.StepNotStarted}
	slices.SortStableFunc(rest, func(a, b v1alpha1.StepState) int {
		return slices.Index(rank, a.Outcome) - slices.Index(rank, b.Outcome)
	})
	return done, rest
}

// detail says what is to be known of a step beside how it ended.
func (p *progress) detail(s planStep) string {
	text := p.half(s)
	state := p.states[s]
	if state.Outcome == v1alpha1.StepCutOff {
		text = joined(text, "it was begun, and whether it was done is not known")
	}
	if message := p.errors[s.urn]; message != "" && state.Outcome != v1alpha1.StepDone && state.Outcome != v1alpha1.StepNotStarted {
		text = joined(text, redact.Printable(message))
	}
	return redact.Shorten(text, 1024)
}

// half says what is there of a resource that was replaced by half.
func (p *progress) half(s planStep) string { //nolint:gocyclo // one case a kind of event, or of what two values are
	is := func(op apitype.OpType, outcome v1alpha1.StepOutcome) bool {
		state := p.states[planStep{s.urn, op}]
		return state != nil && state.Outcome == outcome
	}
	made, gone := is(apitype.OpCreateReplacement, v1alpha1.StepDone), is(apitype.OpDeleteReplaced, v1alpha1.StepDone)
	state := p.states[s]
	switch {
	case s.op == apitype.OpDeleteReplaced && made && !gone && state.Outcome != v1alpha1.StepCutOff:
		return "both exist: the replacement was made, and what it replaces was not deleted"
	case s.op == apitype.OpDeleteReplaced && made && !gone:
		return "the replacement was made; what it replaces may exist still"
	case s.op == apitype.OpCreateReplacement && gone && !made && state.Outcome != v1alpha1.StepCutOff:
		return "neither exists: what is to be replaced was deleted, and the replacement was not made"
	case s.op == apitype.OpCreateReplacement && gone && !made:
		return "what is to be replaced was deleted; the replacement may exist"
	default:
		return ""
	}
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
