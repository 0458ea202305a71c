// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

const destroyListVersion = "plangate.dev/destroy-list/v1"

// Fates that more than one place knows.
const (
	fateDelete = "delete"
	fateRetain = "retain"
)

// destroyList is what the agent lists, and what an approved destroy is held to: workspace/pulumi.DestroyList.
type destroyList struct {
	Version     string   `json:"version"`
	Project     string   `json:"project"`
	Stack       string   `json:"stack"`
	StateDigest string   `json:"stateDigest"`
	Resources   []doomed `json:"resources"`
}

type doomed struct {
	URN  string `json:"urn"`
	Type string `json:"type"`
	ID   string `json:"id"`
	Fate string `json:"fate"`
}

// DecodeDestroy reads the list of what a destroy takes away, and the events of its preview, from which come the properties that
// are shown. Each resource of the list is a change, whatever the events tell. It fails when the list cannot be read, is of
// another state than stateDigest, or has a fate that this version does not know. It never panics.
func DecodeDestroy(list, events []byte, stateDigest string) (plan plans.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			plan, err = plans.Plan{}, fmt.Errorf("reading the list of what goes: malformed: %v", r)
		}
	}()
	var l destroyList
	if err := decodeOne(list, &l, true); err != nil {
		return plans.Plan{}, fmt.Errorf("reading the list of what goes: %w", err)
	}
	if l.Version != destroyListVersion || l.StateDigest != stateDigest {
		return plans.Plan{}, fmt.Errorf("reading the list of what goes: it is version %q of state %q, not %q of %q", l.Version, l.StateDigest, destroyListVersion, stateDigest)
	}
	shown := doomedIn(events)
	times := map[string]int{}
	for _, d := range l.Resources {
		times[d.URN]++
	}
	changes := make([]v1alpha1.ResourceChange, 0, len(l.Resources))
	for _, d := range l.Resources {
		rec := &record{urn: d.URN}
		if times[d.URN] == 1 && shown[d.URN] != nil {
			rec = shown[d.URN]
		}
		c, err := d.change(rec)
		if err != nil {
			return plans.Plan{}, err
		}
		changes = append(changes, c)
	}
	return plans.NewDestroy(changes), nil
}

// change is what becomes of a resource.
func (d doomed) change(rec *record) (v1alpha1.ResourceChange, error) {
	operation, guard := v1alpha1.ChangeDelete, v1alpha1.ResourceGuard("")
	switch d.Fate {
	case fateDelete:
	case "protected":
		guard = v1alpha1.GuardProtected
	case fateRetain:
		operation, guard = v1alpha1.ChangeRemove, v1alpha1.GuardRetained
	case "forget":
		operation = v1alpha1.ChangeRemove
	case "unknown":
		c := rec.change(v1alpha1.ChangeOther, []v1alpha1.PropertyChange{change(plans.PathPending, value{"it may have been made", true}, value{})}, nil)
		return c, nil
	default:
		return v1alpha1.ResourceChange{}, fmt.Errorf("reading the list of what goes: the fate %q of %q is not known", d.Fate, d.URN)
	}
	properties := rec.deletedProperties()
	if rec.deleted == nil && d.ID != "" {
		properties = []v1alpha1.PropertyChange{change(pathID, value{d.ID, true}, value{})}
	}
	c := rec.change(operation, properties, nil)
	c.Guard = guard
	return c, nil
}

// doomedIn collects what the events tell of resources that go. A preview that Pulumi refused tells as much as it came to; what
// cannot be read tells nothing, since the list alone says what goes.
func doomedIn(events []byte) records {
	all := records{}
	for line := range bytes.SplitSeq(events, []byte("\n")) {
		var e apitype.EngineEvent
		if decodeOne(line, &e, true) != nil || e.ResourcePreEvent == nil {
			continue
		}
		m := e.ResourcePreEvent.Metadata
		if m.Old != nil && m.Op != opRefresh {
			all.of(m.URN).deleted = m.Old
		}
	}
	return all
}
