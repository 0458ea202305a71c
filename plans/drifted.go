// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"slices"

	"github.com/plangate/plangate/api/v1alpha1"
)

// What is said above the two parts of a plan that was made with knowledge of the real resources.
const (
	headMoved  = "What moved in the world, from what Pulumi left to what is there now:"
	headAccept = "What the state would take over from the world; nothing real is changed:"
	headApply  = "What applying would do, from what is there now to what the program wants:"
)

// driftFirst puts what moved in the world before what applying would do, when the plan tells of both, and returns the lines that
// go before a change, by its place.
func driftFirst(spec *v1alpha1.UpdatePlanSpec, changes []v1alpha1.ResourceChange) (ordered []v1alpha1.ResourceChange, heads map[int][]string) {
	moved := func(c v1alpha1.ResourceChange) bool { return c.Operation == v1alpha1.ChangeRefresh }
	accept := spec.Operation == v1alpha1.PlanOperationRefresh
	about := accept || spec.Binding.Refresh || spec.Trigger.Type == v1alpha1.TriggerDrifted
	if !about || !slices.ContainsFunc(changes, moved) {
		return changes, nil
	}
	ordered = slices.Clone(changes)
	slices.SortStableFunc(ordered, func(a, b v1alpha1.ResourceChange) int {
		switch {
		case moved(a) == moved(b):
			return 0
		case moved(a):
			return -1
		default:
			return 1
		}
	})
	heads = map[int][]string{0: {headMoved}}
	if accept {
		heads[0] = []string{headAccept}
	}
	if rest := slices.IndexFunc(ordered, func(c v1alpha1.ResourceChange) bool { return !moved(c) }); rest >= 0 {
		heads[rest] = append(heads[rest], headApply)
	}
	return ordered, heads
}
