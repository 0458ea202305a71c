// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sort"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
)

// Drift is what a run that read the real resources found, as far as the provider says that it matters: a digest, and one
// for each resource that is not as the state has it. No drift has a digest, too. Two secret values look the same.
func Drift(events []byte) State {
	s := State{Resources: map[string]string{}}
	for line := range bytes.Lines(events) {
		var e apitype.EngineEvent
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if decoder.Decode(&e) != nil || e.ResOutputsEvent == nil || e.ResOutputsEvent.Metadata.Op != apitype.OpRefresh {
			continue
		}
		if found := driftOf(e.ResOutputsEvent.Metadata); found != nil {
			s.Resources[e.ResOutputsEvent.Metadata.URN] = digestOf(encode(found))
		}
	}
	lines := make([]string, 0, len(s.Resources))
	for urn, digest := range s.Resources {
		lines = append(lines, urn+" "+digest)
	}
	sort.Strings(lines)
	s.Digest = digestOf(encode(append([]string{"plangate/drift/v1"}, lines...)))
	return s
}

// driftOf is how a resource is, where it is not as it should be. Nil: it is. Outputs that a provider says make no difference
// are noise: status, time stamps, versions.
func driftOf(m apitype.StepEventMetadata) any {
	if m.Old == nil {
		return nil
	}
	if m.New == nil {
		return "gone"
	}
	found := map[string]any{}
	for _, key := range m.Diffs {
		found[key] = m.New.Outputs[key]
		if _, ok := m.New.Outputs[key]; !ok {
			found[key] = m.New.Inputs[key]
		}
	}
	// What the program ignores, the provider does not name.
	for key, value := range m.New.Inputs {
		if !reflect.DeepEqual(value, m.Old.Inputs[key]) {
			found[key] = value
		}
	}
	for key := range m.Old.Inputs {
		if _, still := m.New.Inputs[key]; !still {
			found[key] = nil
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found
}
