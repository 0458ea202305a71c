// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/pkg/planstate"
)

// The chain of records has two writers, and one lock: this Stack's status. It names the head of the chain and the one plan
// that may follow it. That plan's own controller writes the record; then, and only then, the status names it as the head and
// another plan as the next. A loop that worked from an old cache fails to write the status; a plan that it names although it
// has its record already refuses the turn. docs/design/0005-record-chain.md has the cases.

// lookAtPlans reads the plans of the Stack from the cache, and whether the plan whose record comes next is still there.
func (r *Reconciler) lookAtPlans(ctx context.Context, s *scope) error {
	list := &v1alpha1.UpdatePlanList{}
	err := r.client.List(ctx, list, client.InNamespace(s.stack.Namespace), client.MatchingFields{"spec.stackRef.name": s.stack.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the UpdatePlans: %w", err)
	}
	s.plans = s.plans[:0]
	for i := range list.Items {
		if list.Items[i].Spec.StackRef.UID == string(s.stack.UID) {
			s.plans = append(s.plans, list.Items[i])
		} else if ownership.LeftBehind(&list.Items[i], s.stack.UID) {
			s.foreign = true
		}
	}
	turn := s.stack.Status.RecordNext
	if turn == nil || holder(s) != nil {
		return nil
	}
	plan := &v1alpha1.UpdatePlan{}
	err = r.uncached.Get(ctx, client.ObjectKey{Namespace: s.stack.Namespace, Name: turn.Plan}, plan)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading UpdatePlan %q: %w", turn.Plan, err)
	case err != nil, string(plan.UID) != turn.UID:
		s.turnGone = true
	default:
		s.plans = append(s.plans, *plan)
	}
	return nil
}

// holder is the plan whose record comes next; nil when there is none.
func holder(s *scope) *v1alpha1.UpdatePlan {
	turn := s.stack.Status.RecordNext
	for i := range s.plans {
		if turn != nil && string(s.plans[i].UID) == turn.UID {
			return &s.plans[i]
		}
	}
	return nil
}

// setRecords names the head of the chain of records, and which plan's record comes next. A loop that could not look leaves
// all as it is.
func setRecords(s *scope, stopped outcome.Stopped) {
	if stopped.Step == stepLook {
		return
	}
	status := &s.stack.Status
	for i := range s.plans {
		record := s.plans[i].Status.Record
		if record != nil && (status.RecordHead == nil || record.Index > status.RecordHead.Index) {
			status.RecordHead = &v1alpha1.RecordHead{Plan: s.plans[i].Name, Digest: record.Digest, Index: record.Index}
		}
	}
	if plan := holder(s); plan != nil && plan.Status.Record == nil {
		return
	}
	if status.RecordNext != nil && !s.turnGone && holder(s) == nil {
		// Nobody has looked for it.
		return
	}
	status.RecordNext = nextTurn(s.plans)
}

// nextTurn is the ended plan of the lowest number that has no record.
func nextTurn(list []v1alpha1.UpdatePlan) *v1alpha1.RecordTurn {
	var next *v1alpha1.UpdatePlan
	for i := range list {
		plan := &list[i]
		if !planstate.Ended(plan) || planstate.Recorded(plan) || plan.Status.Record != nil {
			continue
		}
		if next == nil || older(plan, next) < 0 {
			next = plan
		}
	}
	if next == nil {
		return nil
	}
	return &v1alpha1.RecordTurn{Plan: next.Name, UID: string(next.UID)}
}

// unrecorded finds a plan of the Stack whose end is not recorded.
func unrecorded(list []v1alpha1.UpdatePlan, stack types.UID) *v1alpha1.UpdatePlan {
	for i := range list {
		if list[i].Spec.StackRef.UID == string(stack) && !planstate.Recorded(&list[i]) {
			return &list[i]
		}
	}
	return nil
}
