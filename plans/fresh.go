// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"strconv"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

// boundField is one field of a Binding: how to read it, and what it means that it moved.
type boundField struct {
	name   string
	value  func(v1alpha1.Binding) string
	detail string
}

// boundFields are all fields of a Binding, in the order in which mismatches are told.
var boundFields = []boundField{
	{"revision", func(b v1alpha1.Binding) string { return b.Revision }, "another commit is wanted"},
	{"repository", func(b v1alpha1.Binding) string { return b.Repository }, "the program comes from another repository"},
	{"directory", func(b v1alpha1.Binding) string { return b.Directory }, "the program lies in another folder"},
	{"tree", func(b v1alpha1.Binding) string { return b.Tree }, "the project's files differ"},
	{"configDigest", func(b v1alpha1.Binding) string { return b.ConfigDigest }, "the configuration, the environment or the options differ"},
	{"stateDigest", func(b v1alpha1.Binding) string { return b.StateDigest }, "Pulumi's state was changed since the preview"},
	{"refresh", func(b v1alpha1.Binding) string { return strconv.FormatBool(b.Refresh) }, "the real resources are read in one case and not in the other"},
	{"pulumiVersion", func(b v1alpha1.Binding) string { return b.PulumiVersion }, "another version of Pulumi would apply the plan"},
}

// Compare tells, field by field, what of the binding that was approved is no longer so. None: the plan may go on.
func Compare(bound, now v1alpha1.Binding) []v1alpha1.Mismatch {
	var moved []v1alpha1.Mismatch
	for _, f := range boundFields {
		was, is := f.value(bound), f.value(now)
		if was == is {
			continue
		}
		m := v1alpha1.Mismatch{Field: f.name, Detail: f.detail}
		m.Was, m.Is = redact.Shorten(redact.Printable(was), redact.MaxValue), redact.Shorten(redact.Printable(is), redact.MaxValue)
		moved = append(moved, m)
	}
	return moved
}
