// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

// boundField is one field of a Binding: how to read it, and what it means that it moved. Of a list, only what differs is
// shown.
type boundField struct {
	name   string
	value  func(v1alpha1.Binding) string
	detail string
	list   func(v1alpha1.Binding) []string
}

// boundFields are all fields of a Binding, in the order in which mismatches are told.
var boundFields = []boundField{
	{name: "revision", value: func(b v1alpha1.Binding) string { return b.Revision }, detail: "another commit is wanted"},
	{name: "repository", value: func(b v1alpha1.Binding) string { return b.Repository }, detail: "the program comes from another repository"},
	{name: "directory", value: func(b v1alpha1.Binding) string { return b.Directory }, detail: "the program lies in another folder"},
	{name: "tree", value: func(b v1alpha1.Binding) string { return b.Tree }, detail: "the project's files differ"},
	{name: fieldConfigDigest, value: func(b v1alpha1.Binding) string { return b.ConfigDigest }, detail: "the configuration, the environment or the options differ"},
	{name: "stateDigest", value: func(b v1alpha1.Binding) string { return b.StateDigest }, detail: "Pulumi's state was changed since the preview"},
	{name: "driftDigest", value: func(b v1alpha1.Binding) string { return b.DriftDigest }, detail: "the real resources were changed since the preview read them"},
	{name: "refresh", value: func(b v1alpha1.Binding) string { return strconv.FormatBool(b.Refresh) }, detail: "the real resources are read in one case and not in the other"},
	{name: "targets", list: func(b v1alpha1.Binding) []string { return b.Targets }, detail: "the plan is limited to other resources"},
	{name: "targetDependents", value: func(b v1alpha1.Binding) string { return strconv.FormatBool(b.TargetDependents) }, detail: "what depends on the targets is taken in in one case and not in the other"},
	{name: fieldConfigEntries, list: entryTexts, detail: "the list of the configuration's entries is not the one that was approved"},
	{name: "pulumiVersion", value: func(b v1alpha1.Binding) string { return b.PulumiVersion }, detail: "another version of Pulumi would apply the plan"},
	{name: "plugins", list: pluginTexts, detail: "other provider plugins would apply the plan"},
	{name: "workspaceImage", value: func(b v1alpha1.Binding) string { return b.WorkspaceImage }, detail: "the workspace runs another image"},
}

const (
	fieldConfigDigest  = "configDigest"
	fieldConfigEntries = "configEntries"
)

// BoundFields are the names of all fields of a Binding.
func BoundFields() []string {
	names := make([]string, 0, len(boundFields))
	for _, f := range boundFields {
		names = append(names, f.name)
	}
	return names
}

// Compare tells, field by field, what of the binding that was approved is no longer so. None: the plan may go on.
func Compare(bound, now v1alpha1.Binding) []v1alpha1.Mismatch {
	var moved []v1alpha1.Mismatch
	for _, f := range boundFields {
		was, is := f.differ(bound, now)
		if was == is {
			continue
		}
		m := v1alpha1.Mismatch{Field: f.name, Detail: f.detail}
		if f.name == fieldConfigEntries && bound.ConfigDigest != now.ConfigDigest {
			continue // told with configDigest
		}
		if f.name == fieldConfigDigest {
			m.Detail = ConfigChanges(bound.ConfigEntries, now.ConfigEntries, f.detail)
		}
		m.Was, m.Is = redact.Shorten(redact.Printable(was), redact.MaxValue), redact.Shorten(redact.Printable(is), redact.MaxValue)
		moved = append(moved, m)
	}
	return moved
}

// differ returns the values of a field, or of a list what the other has not.
func (f boundField) differ(bound, now v1alpha1.Binding) (was, is string) {
	if f.list == nil {
		return f.value(bound), f.value(now)
	}
	a, b := f.list(bound), f.list(now)
	if slices.Equal(a, b) {
		return "", ""
	}
	was, is = strings.Join(without(a, b), ", "), strings.Join(without(b, a), ", ")
	if was == is {
		// The same ones in another order, or other counts of them.
		return strings.Join(a, ", "), strings.Join(b, ", ")
	}
	return was, is
}

func without(all, those []string) []string {
	var rest []string
	for _, s := range all {
		if !slices.Contains(those, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

func entryTexts(b v1alpha1.Binding) []string {
	texts := make([]string, 0, len(b.ConfigEntries))
	for _, e := range b.ConfigEntries {
		texts = append(texts, e.Name+" "+e.Digest)
	}
	return texts
}

func pluginTexts(b v1alpha1.Binding) []string {
	texts := make([]string, 0, len(b.Plugins))
	for _, p := range b.Plugins {
		texts = append(texts, PluginText(p))
	}
	return texts
}

// PluginText shows a plugin in a line: "kubernetes v4.24.1 sha256:…".
func PluginText(p v1alpha1.Plugin) string {
	text := p.Name
	if p.Version != "" {
		text += " v" + p.Version
	}
	if p.Digest == "" {
		return text + " (not found)"
	}
	return text + " " + p.Digest
}

// ConfigChanges names the entries that differ: "changed spec.secretsRef[…] (Secret db/password)". otherwise is what is said
// when none does: the backend, the options or the Stack's key moved, or the entries are not known.
func ConfigChanges(was, is []v1alpha1.ConfigEntry, otherwise string) string {
	if len(was) == 0 || len(is) == 0 {
		return otherwise
	}
	words, allChanged := entriesMoved(was, is)
	switch {
	case len(words) == 0:
		return otherwise
	case allChanged && len(is) > 1:
		return "every entry differs: the Stack's own key was replaced, or all of the configuration"
	default:
		return redact.Shorten(redact.Printable(strings.Join(words, ", ")), maxDetail)
	}
}

// entriesMoved names the entries that differ, and says whether they are the same ones and all differ.
func entriesMoved(was, is []v1alpha1.ConfigEntry) (words []string, allChanged bool) {
	before := make(map[string]string, len(was))
	for _, e := range was {
		before[e.Name] = e.Digest
	}
	changed := 0
	for _, e := range is {
		digest, there := before[e.Name]
		delete(before, e.Name)
		switch {
		case !there:
			words = append(words, "added "+e.Name)
		case digest != e.Digest:
			words = append(words, "changed "+e.Name)
			changed++
		}
	}
	for _, e := range was {
		if _, left := before[e.Name]; left {
			words = append(words, "removed "+e.Name)
		}
	}
	return words, changed == len(is) && len(words) == changed
}

// maxDetail bounds the words of a mismatch.
const maxDetail = 1000
