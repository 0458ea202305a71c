// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

func TestDriftAndAChangeOfTheProgramAreToldApartInOnePlan(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	change := func(op v1alpha1.ChangeOperation, name, old, now string) v1alpha1.ResourceChange {
		return v1alpha1.ResourceChange{
			Operation: op, Type: "files:index:File", Name: name, URN: "urn:pulumi:s::p::files:index:File::" + name,
			Properties: []v1alpha1.PropertyChange{{Path: "content", Old: text(old), New: text(now)}},
		}
	}
	plan := plans.New([]v1alpha1.ResourceChange{
		change(v1alpha1.ChangeUpdate, "a", `"by hand"`, `"hello"`),
		change(v1alpha1.ChangeUpdate, "b", `"old"`, `"new"`),
		change(v1alpha1.ChangeRefresh, "a", `"hello"`, `"by hand"`),
	}, 0)
	got := plans.DiffLines(&v1alpha1.UpdatePlanSpec{Operation: v1alpha1.PlanOperationUpdate, Binding: v1alpha1.Binding{Refresh: true}, Changes: plan.Changes, Summary: plan.Summary})
	want := []string{
		"What moved in the world, from what Pulumi left to what is there now:",
		"!   drift  a files:index:File (it is not as Pulumi left it)",
		`      content: "hello" → "by hand"`,
		"What applying would do, from what is there now to what the program wants:",
		"~   update a files:index:File",
		`      content: "by hand" → "hello"`,
		"~   update b files:index:File",
		`      content: "old" → "new"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
