// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"strings"

	"github.com/plangate/plangate/plans/redact"
)

// writer finds who wrote last what counts, in the managed fields that a Kubernetes object carries. Empty: it does not tell.
func writer(r Resource, properties []Property) string {
	if r.Live == nil {
		return ""
	}
	fields, _ := lookup(r.Live.Outputs, "metadata.managedFields")
	list, _ := fields.([]any)
	for _, p := range properties {
		if p.Kind != Moved {
			continue
		}
		latest, when := "", ""
		for _, e := range list {
			entry, _ := e.(map[string]any)
			manager, _ := entry["manager"].(string)
			at, _ := entry["time"].(string)
			if owns(entry["fieldsV1"], p.Path) && manager != "" && at >= when && !strings.HasPrefix(manager, "pulumi") {
				latest, when = manager, at
			}
		}
		if latest != "" {
			return redact.Shorten(redact.Printable(latest), 128)
		}
	}
	return ""
}

// owns tells whether a set of managed fields has a path. Lists are matched as far as down to them.
func owns(fields any, path string) bool {
	set, ok := fields.(map[string]any)
	if !ok {
		return false
	}
	if path == "" || path[0] == '[' && !strings.HasPrefix(path, `["`) {
		return true
	}
	for key, below := range set {
		name, isField := strings.CutPrefix(key, "f:")
		if !isField {
			continue
		}
		step := Join("", name)
		if within(path, step) {
			rest := strings.TrimPrefix(strings.TrimPrefix(path, step), ".")
			return rest == "" || owns(below, rest)
		}
	}
	return false
}
