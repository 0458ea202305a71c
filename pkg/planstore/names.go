// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstore

import (
	"strings"

	"github.com/plangate/plangate/plans"
)

const (
	maxName  = 253
	maxLabel = 63
	// maxPart is the room that is left for the number of a part.
	maxPart = 3
)

// objectName is "<stack>-<kind>-<first 12 hex digits of digest>", and "-<suffix>" if there is one.
func objectName(stack, kind, digest, suffix string) string {
	tail := "-" + kind + "-" + strings.TrimPrefix(digest, "sha256:")[:12]
	if suffix != "" {
		tail += "-" + suffix
	}
	return shorten(stack, maxName-maxPart-len(tail)) + tail
}

// LabelValue is a name as the value of a label: names over 63 characters are shortened and end in a hash.
func LabelValue(name string) string { return shorten(name, maxLabel) }

// shorten cuts a name and ends it in a hash of the whole, so that two long names stay two.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	hash := strings.TrimPrefix(plans.Digest(name), "sha256:")[:8]
	return strings.TrimRight(name[:limit-len(hash)-1], "-.") + "-" + hash
}
