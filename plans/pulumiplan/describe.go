// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

// Paths of what is no property. Property paths never begin with a parenthesis.
const (
	pathID             = plans.PathID
	pathURN            = "(urn)"
	pathParent         = "(parent)"
	pathProtect        = "(protect)"
	pathRetainOnDelete = "(retainOnDelete)"
	pathProvider       = "(provider)"
	pathExists         = "(exists)"
)

// properties describes what changes of a resource: options first, then inputs.
func (rec *record) properties(op v1alpha1.ChangeOperation) []v1alpha1.PropertyChange {
	found := rec.options()
	switch op {
	case v1alpha1.ChangeImport:
		found = append(found, rec.importID()...)
	case v1alpha1.ChangeReplace:
		if rec.deleted != nil && rec.deleted.ID != "" {
			found = append(found, change(pathID, value{rec.deleted.ID, true}, value{}))
		}
		if rec.deleted != nil && rec.deleted.RetainOnDelete {
			found = append(found, change(plans.PathKept, value{true, true}, value{}))
		}
		found = append(found, rec.with...)
	}
	d := rec.newDiff()
	switch op {
	case v1alpha1.ChangeRead, v1alpha1.ChangeRemove:
		return found
	case v1alpha1.ChangeUpdate, v1alpha1.ChangeReplace, v1alpha1.ChangeImport, v1alpha1.ChangeOther:
		d.detailed(rec)
	}
	d.inputs(rec)
	d.planned(rec)
	return append(found, d.sorted()...)
}

func (rec *record) newDiff() *diff {
	return &diff{secret: rec.secrets(), changed: rec.changedRoots(), anew: rec.condemned() || rec.unasked() && rec.recreated()}
}

// detailed follows the provider's own words for the difference.
func (d *diff) detailed(rec *record) {
	for _, path := range slices.Sorted(maps.Keys(rec.detailed)) {
		kind := rec.detailed[path]
		parsed, err := resource.ParsePropertyPath(path)
		if err != nil || len(parsed) == 0 {
			parsed = resource.PropertyPath{path}
		}
		before := inputsOf(rec.old)
		if !kind.InputDiff {
			before = outputsOf(rec.old)
		}
		old, hasOld := lookup(before, parsed)
		now, hasNow := lookup(inputsOf(rec.new), parsed)
		if !hasNow && (kind.Kind == apitype.DiffAdd || kind.Kind == apitype.DiffAddReplace || kind.Kind == apitype.DiffUpdate || kind.Kind == apitype.DiffUpdateReplace) {
			now, hasNow = lookup(outputsOf(rec.new), parsed) // computed by the provider
		}
		replaces := strings.HasSuffix(string(kind.Kind), "-replace")
		d.compare(pathOf(parsed), value{old, hasOld}, value{now, hasNow}, replaces, true)
	}
}

// inputs compares old and new inputs, for what the provider did not name.
func (d *diff) inputs(rec *record) {
	if rec.new == nil && rec.old == nil {
		return
	}
	before, after := inputsOf(rec.old), inputsOf(rec.new)
	for _, k := range slices.Sorted(maps.Keys(merged(before, after))) {
		if !internal(k) && !d.covers(k) {
			old, hasOld := before[k]
			now, hasNow := after[k]
			d.compare(join("", k), value{old, hasOld}, value{now, hasNow}, slices.Contains(rec.keys, k), slices.Contains(d.changed, k))
		}
	}
}

// planned adds what the plan file alone tells: inputs of resources that the events do not show.
func (d *diff) planned(rec *record) {
	if rec.goal == nil {
		return
	}
	in := rec.goal.InputDiff
	for _, k := range slices.Sorted(maps.Keys(merged(in.Adds, in.Updates))) {
		if !internal(k) && !d.covers(k) {
			now, ok := in.Updates[k]
			if !ok {
				now = in.Adds[k]
			}
			old, hasOld := inputsOf(rec.old)[k]
			d.compare(join("", k), value{old, hasOld}, value{now, true}, slices.Contains(rec.keys, k), true)
		}
	}
	for _, k := range in.Deletes {
		if !internal(k) && !d.covers(k) {
			old, hasOld := inputsOf(rec.old)[k]
			d.compare(join("", k), value{old, hasOld}, value{}, slices.Contains(rec.keys, k), true)
		}
	}
}

// deletedProperties describes what is deleted, by its id and its inputs.
func (rec *record) deletedProperties() []v1alpha1.PropertyChange {
	gone := rec.deleted
	if gone == nil {
		return nil
	}
	var found []v1alpha1.PropertyChange
	if gone.ID != "" {
		found = append(found, change(pathID, value{gone.ID, true}, value{}))
	}
	d := &diff{secret: secretsOf(gone)}
	for _, k := range slices.Sorted(maps.Keys(gone.Inputs)) {
		if !internal(k) {
			d.compare(join("", k), value{gone.Inputs[k], true}, value{}, false, true)
		}
	}
	return append(found, d.sorted()...)
}

// options describes changes that Pulumi makes to its state alone, and for which it shows no step.
func (rec *record) options() []v1alpha1.PropertyChange {
	old, now := rec.old, rec.new
	if old == nil || now == nil {
		return nil
	}
	var found []v1alpha1.PropertyChange
	add := func(path string, was, is any) {
		if was != is {
			found = append(found, change(path, value{was, true}, value{is, true}))
		}
	}
	add(pathParent, old.Parent, now.Parent)
	add(pathProtect, old.Protect, now.Protect)
	add(pathRetainOnDelete, old.RetainOnDelete, now.RetainOnDelete)
	if was, is := providerOf(old), providerOf(now); was != is && (!isDefault(was) || !isDefault(is)) {
		add(pathProvider, was, is)
	}
	if old.URN != "" && now.URN != "" {
		add(pathURN, old.URN, now.URN)
	}
	return found
}

// providerOf is the URN of a resource's provider. Its id, which comes after it, is another one after each replacement.
func providerOf(s *apitype.StepEventStateMetadata) string {
	if at := strings.LastIndex(s.Provider, "::"); at > 0 {
		return s.Provider[:at]
	}
	return s.Provider
}

// isDefault tells whether a provider is one that no program names. Another version of it has another name; that is told by
// the plugins that a plan is bound to, and not once more for each resource.
func isDefault(provider string) bool {
	return provider == "" || plans.Bookkeeping(typeAndName(provider))
}

func (rec *record) importID() []v1alpha1.PropertyChange {
	id := ""
	if rec.new != nil {
		id = rec.new.ID
	}
	if id == "" && rec.goal != nil {
		id = string(rec.goal.ID)
	}
	if id == "" {
		return nil
	}
	return []v1alpha1.PropertyChange{change(pathID, value{}, value{id, true})}
}

// drift describes how the real resource differs from the state: what the provider says has moved, or else the inputs, or
// else, where the provider has no opinion, the outputs. Outputs that a provider says make no difference are noise: status,
// time stamps, versions.
func (rec *record) drift() []v1alpha1.PropertyChange {
	m := rec.refreshed
	if m.Old == nil {
		return nil
	}
	if m.New == nil {
		return []v1alpha1.PropertyChange{change(pathExists, value{true, true}, value{false, true})}
	}
	d := &diff{secret: append(secretsOf(m.Old), secretsOf(m.New)...), changed: union(m.Diffs, roots(m.DetailedDiff))}
	for _, k := range slices.Sorted(slices.Values(d.changed)) {
		if !internal(k) && !d.covers(k) {
			d.compare(join("", k), live(m.Old, k), live(m.New, k), false, true)
		}
	}
	if len(d.found) == 0 {
		d.all(m.Old.Inputs, m.New.Inputs)
	}
	if len(d.found) == 0 && m.DetailedDiff == nil {
		if len(d.secret) > 0 {
			d.secret = append(d.secret, computed(m.Old)...)
		}
		d.all(m.Old.Outputs, m.New.Outputs)
	}
	return d.sorted()
}

// live is a property as the resource has it, or else as it was asked for.
func live(s *apitype.StepEventStateMetadata, k string) value {
	if v, ok := s.Outputs[k]; ok {
		return value{v, true}
	}
	v, ok := s.Inputs[k]
	return value{v, ok}
}

// computed are the properties that a provider makes. With a secret among the inputs they may give it away: a hash does.
func computed(s *apitype.StepEventStateMetadata) []string {
	var found []string
	if s == nil {
		return nil
	}
	for k := range s.Outputs {
		if _, given := s.Inputs[k]; !given {
			found = append(found, join("", k))
		}
	}
	return found
}

// all compares every property.
func (d *diff) all(before, after map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(merged(before, after))) {
		if !internal(k) && !d.covers(k) {
			old, hasOld := before[k]
			now, hasNow := after[k]
			d.compare(join("", k), value{old, hasOld}, value{now, hasNow}, false, slices.Contains(d.changed, k))
		}
	}
}

// outputs describes the stack's outputs that change, one entry each.
func (rec *record) outputs() []v1alpha1.PropertyChange {
	before, after := outputsOf(rec.old), outputsOf(rec.new)
	var planned apitype.PlanDiffV1
	if rec.goal != nil {
		planned = rec.goal.OutputDiff
	}
	if rec.new == nil {
		after = merged(merged(before, planned.Adds), planned.Updates)
		for _, k := range planned.Deletes {
			delete(after, k)
		}
	}
	named := merged(planned.Adds, planned.Updates)
	var found []v1alpha1.PropertyChange
	for _, k := range slices.Sorted(maps.Keys(merged(before, after))) {
		old, hasOld := before[k]
		now, hasNow := after[k]
		_, listed := named[k]
		if hasOld == hasNow && !listed && equal(old, now) {
			continue
		}
		found = append(found, change(join("", k), value{old, hasOld}, value{now, hasNow}))
	}
	return found
}

// unbound names the inputs that were not known at preview. Components are left out: what they pass on shows at the
// resources that get it.
func (rec *record) unbound() []string {
	if rec.new != nil && !rec.new.Custom || rec.new == nil && rec.goal != nil && !rec.goal.Custom {
		return nil
	}
	var found []string
	visit := func(inputs map[string]any) {
		for k, v := range inputs {
			if !internal(k) {
				unknowns(join("", k), v, func(path string) { found = append(found, path) })
			}
		}
	}
	visit(inputsOf(rec.new))
	if rec.goal != nil {
		visit(rec.goal.InputDiff.Adds)
		visit(rec.goal.InputDiff.Updates)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// secrets are the paths of what is secret before or after, in the inputs or the outputs, or that the program declares so.
func (rec *record) secrets() []string {
	found := append(secretsOf(rec.old), secretsOf(rec.new)...)
	if rec.goal != nil {
		for k, v := range merged(rec.goal.InputDiff.Adds, rec.goal.InputDiff.Updates) {
			secretPaths(join("", k), v, func(path string) { found = append(found, path) })
		}
	}
	if len(found) > 0 {
		found = append(append(found, computed(rec.old)...), computed(rec.new)...)
	}
	if rec.goal != nil {
		for _, k := range rec.goal.AdditionalSecretOutputs {
			found = append(found, join("", string(k)))
		}
	}
	return found
}

func secretsOf(s *apitype.StepEventStateMetadata) []string {
	var found []string
	if s == nil {
		return nil
	}
	for _, m := range []map[string]any{s.Inputs, s.Outputs} {
		for k, v := range m {
			secretPaths(join("", k), v, func(path string) { found = append(found, path) })
		}
	}
	return found
}

// changedRoots are the properties that something says have changed, which for secrets cannot be seen from their values.
func (rec *record) changedRoots() []string {
	found := append(union(rec.diffs, rec.keys), roots(rec.detailed)...)
	if rec.goal != nil {
		in := rec.goal.InputDiff
		found = append(found, slices.Collect(maps.Keys(merged(in.Adds, in.Updates)))...)
		found = append(found, in.Deletes...)
	}
	return found
}

func roots(detailed map[string]apitype.PropertyDiff) []string {
	var found []string
	for path := range detailed {
		if parsed, err := resource.ParsePropertyPath(path); err == nil && len(parsed) > 0 {
			if k, ok := parsed[0].(string); ok {
				path = k
			}
		}
		found = append(found, path)
	}
	return found
}

func inputsOf(s *apitype.StepEventStateMetadata) map[string]any {
	if s == nil {
		return nil
	}
	return s.Inputs
}

func outputsOf(s *apitype.StepEventStateMetadata) map[string]any {
	if s == nil {
		return nil
	}
	return s.Outputs
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, b)
	return out
}

// internal tells whether a property is one that the bridge keeps for itself.
func internal(key string) bool { return strings.HasPrefix(key, "__") }

func pathOf(parsed resource.PropertyPath) string {
	path := ""
	for _, e := range parsed {
		switch e := e.(type) {
		case string:
			path = join(path, e)
		case int:
			path += "[" + strconv.Itoa(e) + "]"
		}
	}
	return path
}
