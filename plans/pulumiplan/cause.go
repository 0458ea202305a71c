// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/sig"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// condemned tells whether the resource is deleted before anybody has asked its provider for a difference: that is so for
// what depends on a resource that is deleted before its replacement is made. Then no event has a difference, only the step
// create-replacement has keys (of what could have changed: they are no difference), and the plan file counts all inputs as
// added.
func (rec *record) condemned() bool {
	return rec.unasked() && len(rec.own) == 0 && deletedFirst(rec.steps)
}

// unasked tells whether a resource of ours is replaced without a word of its provider on what differs.
func (rec *record) unasked() bool {
	if rec.old == nil || rec.old.External || len(rec.diffs)+len(rec.detailed) > 0 {
		return false
	}
	return operation(rec.all()) == v1alpha1.ChangeReplace
}

func deletedFirst(steps []apitype.OpType) bool {
	gone, back := slices.Index(steps, apitype.OpDeleteReplaced), slices.Index(steps, apitype.OpReplace)
	return gone >= 0 && gone < back
}

// recreated tells whether the plan file counts the inputs from nothing though the resource has some: the engine does so for
// a condemned resource, and for one whose replacement somebody asked for.
func (rec *record) recreated() bool {
	if rec.goal == nil || rec.old == nil {
		return false
	}
	for k := range rec.goal.InputDiff.Adds {
		if _, had := rec.old.Inputs[k]; had {
			return true
		}
	}
	return false
}

// replacedWith names the resources, deleted before their replacements are made, that a condemned resource depends on. There
// is one entry without a name when the program has given up that dependency, which the files then tell nothing of.
func (r records) replacedWith(rec *record) []v1alpha1.PropertyChange {
	if !rec.condemned() || rec.goal == nil {
		return nil
	}
	var found []v1alpha1.PropertyChange
	for _, urn := range rec.dependencies() {
		other := r[urn]
		if other == nil || other == rec || operation(other.all()) != v1alpha1.ChangeReplace || !deletedFirst(other.steps) {
			continue
		}
		c := change(plans.PathReplacedWith, value{urn, true}, value{})
		c.Replaces = true
		found = append(found, c)
	}
	if len(found) == 0 && rec.recreated() {
		found = append(found, v1alpha1.PropertyChange{Path: plans.PathReplacedWith, Replaces: true})
	}
	return found
}

// dependencies are the URNs of what the resource depends on: by the properties that could have changed, if that is known.
func (rec *record) dependencies() []string {
	var found []string
	for _, k := range rec.keys {
		for _, urn := range rec.goal.PropertyDependencies[resource.PropertyKey(k)] {
			found = append(found, string(urn))
		}
	}
	if len(found) == 0 {
		for _, urn := range rec.goal.Dependencies {
			found = append(found, string(urn))
		}
	}
	if at := strings.LastIndex(rec.goal.Provider, "::"); at > 0 {
		found = append(found, rec.goal.Provider[:at])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// same tells whether two values are known to be the same.
func same(a, b value) bool {
	return a.ok == b.ok && equal(a.v, b.v) && settled(a.v) && settled(b.v)
}

// settled tells whether what is shown of a value is all of it, so that two that look the same are the same. It is not for
// secrets, texts in which Pulumi has hidden one, values that are not known yet, and contents without a hash.
func settled(v any) bool {
	if redact.IsSecret(v) || redact.IsUnknown(v) {
		return false
	}
	switch v := v.(type) {
	case string:
		return !strings.Contains(v, redact.Secret)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !settled(e) })
	case map[string]any:
		if redact.IsMarked(v) {
			hash, _ := v["hash"].(string)
			return hash != "" && (v[sig.Key] == sig.AssetSig || v[sig.Key] == sig.ArchiveSig)
		}
		for _, e := range v {
			if !settled(e) {
				return false
			}
		}
	}
	return true
}
