// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/golden"
)

// TestAPlanOfTenThousandResourcesTakesMemoryInProportion: what is allocated on the way from the files to what is shown
// grows with the resources, and what an UpdatePlan holds of them does not grow for ever.
func TestAPlanOfTenThousandResourcesTakesMemoryInProportion(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	allocated := map[int]uint64{}
	for _, n := range []int{1000, 10000} {
		planFile, events := golden.Grow(t, testdata, n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		stripped, err := Strip(planFile)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Decode(stripped, events)
		if err != nil {
			t.Fatal(err)
		}
		listed := plan.Masked([]string{"canary-hunter2"}).First(plans.MaxListed)
		lines := plans.DiffLines(&v1alpha1.UpdatePlanSpec{Changes: listed, Summary: plan.Summary})
		runtime.ReadMemStats(&after)
		allocated[n] = after.TotalAlloc - before.TotalAlloc
		if plan.Summary.Update != int32(n)+1 || len(listed) != plans.MaxListed || len(lines) > 300 { //nolint:gosec // a count
			t.Errorf("%d resources: %+v, %d listed, %d lines", n, plan.Summary, len(listed), len(lines))
		}
		text, err := json.Marshal(listed)
		if err != nil || len(text) > 400<<10 {
			t.Errorf("%d resources: the list of %d bytes is too large for an object, %v", n, len(text), err)
		}
		t.Logf("%d resources: %d bytes of files, %d KiB allocated", n, len(planFile)+len(events), allocated[n]>>10)
	}
	if ratio := float64(allocated[10000]) / float64(allocated[1000]); ratio > 12 {
		t.Errorf("ten times the resources take %.1f times the memory", ratio)
	}
}
