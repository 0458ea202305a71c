// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live reads what a refreshing preview tells of the real resources: what Pulumi left, what is there now, and what the
// program wants. It reads the events of runs that failed, too: those tell why.
//
// It is apart from pulumiplan so that the agent in the workspace pod can use it without Pulumi's engine.
package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plangate/plangate/plans/drift"
)

// Input is what a refreshing preview left behind.
type Input struct {
	// Events are its engine events, one JSON object a line.
	Events []byte
	// Plan is the plan file that it saved. Nil: it saved none; it is then not known what the program ignores.
	Plan []byte
	// Failure is why it failed. Empty: it succeeded.
	Failure string
	// Upgrades name the providers whose plugin is another one than the last apply used, by package: "v1.0.0 → v1.1.0".
	Upgrades map[string]string
}

const (
	stackType      = "pulumi:pulumi:Stack"
	providerPrefix = "pulumi:providers:"
)

// record is what the events tell of one URN.
type record struct {
	urn, typ string
	custom   bool
	external bool
	// refreshed is the end of its refresh; before is its state.
	refreshed *apitype.StepEventMetadata
	before    *apitype.StepEventStateMetadata
	// steps are what applying would do; wanted is the last that the program asks for.
	steps  []apitype.OpType
	wanted *apitype.StepEventStateMetadata
}

type reader struct {
	records  map[string]*record
	failures failures
	ended    bool
}

// Read reads it. It fails only when a line is no event: whatever else is missing is missing in the Reading. It never panics.
func Read(in Input) (reading drift.Reading, err error) {
	defer func() {
		if r := recover(); r != nil {
			reading, err = drift.Reading{}, fmt.Errorf("reading the events: malformed: %v", r)
		}
	}()
	r := reader{records: map[string]*record{}}
	for number, line := range bytes.Split(in.Events, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e apitype.EngineEvent
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&e); err != nil {
			return drift.Reading{}, fmt.Errorf("reading the events: line %d: %w", number+1, err)
		}
		r.take(&e)
	}
	reading.Ended = r.ended
	reading.Obstacles = r.failures.obstacles(in.Failure, func(urn string) bool {
		rec := r.records[urn]
		return rec != nil && rec.before != nil && rec.refreshed == nil
	})
	ignored := ignoredOf(in.Plan)
	for _, urn := range slices.Sorted(maps.Keys(r.records)) {
		rec := r.records[urn]
		if !rec.custom || rec.external || rec.typ == stackType || strings.HasPrefix(rec.typ, providerPrefix) {
			continue
		}
		reading.Resources = append(reading.Resources, r.resource(rec, ignored[urn], in.Upgrades))
	}
	return reading, nil
}

func (r *reader) take(e *apitype.EngineEvent) {
	switch {
	case e.ResourcePreEvent != nil:
		r.add(e.ResourcePreEvent.Metadata, false)
	case e.ResOutputsEvent != nil:
		r.add(e.ResOutputsEvent.Metadata, true)
	case e.ResOpFailedEvent != nil:
		r.add(e.ResOpFailedEvent.Metadata, false)
		r.failures.failed(e.ResOpFailedEvent.Metadata)
	case e.DiagnosticEvent != nil && e.DiagnosticEvent.Severity == "error":
		r.failures.said(e.DiagnosticEvent.URN, e.DiagnosticEvent.Message)
	case e.SummaryEvent != nil:
		r.ended = true
	}
}

func (r *reader) add(m apitype.StepEventMetadata, done bool) {
	rec := r.record(m.URN)
	for _, s := range []*apitype.StepEventStateMetadata{m.Old, m.New} {
		if s != nil {
			rec.custom, rec.external = rec.custom || s.Custom, rec.external || s.External
		}
	}
	if m.Op == apitype.OpRefresh {
		if rec.before == nil {
			rec.before = m.Old
		}
		if done {
			rec.refreshed = &m
		}
		return
	}
	if !slices.Contains(rec.steps, m.Op) {
		rec.steps = append(rec.steps, m.Op)
	}
	if m.New != nil && m.Op != apitype.OpDelete && m.Op != apitype.OpDeleteReplaced {
		rec.wanted = m.New
	}
}

// record finds what is told of a URN, or begins it.
func (r *reader) record(urn string) *record {
	rec := r.records[urn]
	if rec == nil {
		typ, _ := typeAndName(urn)
		rec = &record{urn: urn, typ: typ}
		r.records[urn] = rec
	}
	return rec
}

func (r *reader) resource(rec *record, ignored []string, upgrades map[string]string) drift.Resource {
	typ, name := typeAndName(rec.urn)
	out := drift.Resource{URN: rec.urn, Type: typ, Name: name, Known: rec.before != nil, Step: stepOf(rec.steps), Ignored: ignored}
	if rec.wanted != nil {
		out.Wanted = rec.wanted.Inputs
	}
	if rec.before != nil {
		out.State = &drift.Values{Inputs: rec.before.Inputs, Outputs: rec.before.Outputs}
	}
	out.Upgrade = r.upgrade(rec, upgrades)
	m := rec.refreshed
	if m == nil {
		return out
	}
	out.Read = true
	if m.New == nil {
		return out
	}
	out.Live = &drift.Values{Inputs: m.New.Inputs, Outputs: m.New.Outputs}
	out.Judged = m.DetailedDiff != nil
	for path := range m.DetailedDiff {
		out.Differs = append(out.Differs, pathOf(path))
	}
	for _, key := range m.Diffs {
		path := drift.Join("", key)
		if !slices.ContainsFunc(out.Differs, func(p string) bool {
			return p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[")
		}) {
			out.Differs = append(out.Differs, path)
		}
	}
	slices.Sort(out.Differs)
	return out
}

// upgrade says how the version of a resource's provider changes: from the state's to the program's, or by another plugin.
func (r *reader) upgrade(rec *record, upgrades map[string]string) string {
	pkg, _, _ := strings.Cut(rec.typ, ":")
	if rec.before != nil && rec.wanted != nil {
		was, is := r.version(rec.before.Provider), r.version(rec.wanted.Provider)
		if was != is && was != "" && is != "" {
			return pkg + " " + was + " → " + is
		}
	}
	if words := upgrades[pkg]; words != "" {
		return pkg + " " + words
	}
	return ""
}

// version is that of the provider which a reference, URN::ID, names.
func (r *reader) version(reference string) string {
	at := strings.LastIndex(reference, "::")
	if at < 0 {
		return ""
	}
	rec := r.records[reference[:at]]
	if rec == nil {
		return ""
	}
	for _, s := range []*apitype.StepEventStateMetadata{rec.wanted, rec.before} {
		if s != nil {
			if version, ok := s.Inputs["version"].(string); ok {
				return version
			}
		}
	}
	return ""
}

// steps are what steps come to, in a word: the first that one of them belongs to.
var steps = []struct {
	word string
	ops  []apitype.OpType
}{
	{"replace", []apitype.OpType{apitype.OpReplace, apitype.OpCreateReplacement, apitype.OpDeleteReplaced, apitype.OpImportReplacement}},
	{"create", []apitype.OpType{apitype.OpCreate, apitype.OpImport}},
	{"update", []apitype.OpType{apitype.OpUpdate}},
	{"same", []apitype.OpType{apitype.OpSame}},
	{"delete", []apitype.OpType{apitype.OpDelete}},
}

func stepOf(ops []apitype.OpType) string {
	for _, s := range steps {
		if slices.ContainsFunc(ops, func(op apitype.OpType) bool { return slices.Contains(s.ops, op) }) {
			return s.word
		}
	}
	if len(ops) > 0 {
		return "other"
	}
	return ""
}

// ignoredOf are the paths that the program ignores, by URN.
func ignoredOf(plan []byte) map[string][]string {
	var p struct {
		ResourcePlans map[string]struct {
			Goal *struct {
				IgnoreChanges []string `json:"ignoreChanges"`
			} `json:"goal"`
		} `json:"resourcePlans"`
	}
	if len(plan) == 0 || json.Unmarshal(plan, &p) != nil {
		return nil
	}
	out := map[string][]string{}
	for urn, r := range p.ResourcePlans {
		if r.Goal != nil {
			for _, path := range r.Goal.IgnoreChanges {
				out[urn] = append(out[urn], pathOf(path))
			}
		}
	}
	return out
}

// pathOf writes a property path of Pulumi's in the one way in which paths are compared.
func pathOf(text string) string {
	parsed, err := resource.ParsePropertyPath(text)
	if err != nil || len(parsed) == 0 {
		return drift.Join("", text)
	}
	path := ""
	for _, e := range parsed {
		switch e := e.(type) {
		case string:
			path = drift.Join(path, e)
		case int:
			path += fmt.Sprintf("[%d]", e)
		}
	}
	return path
}

// typeAndName takes a URN apart: urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>.
func typeAndName(urn string) (string, string) {
	parts := strings.SplitN(urn, "::", 4)
	if len(parts) < 4 {
		return "unknown", urn
	}
	return parts[2][strings.LastIndex(parts[2], "$")+1:], parts[3]
}
