// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
)

const (
	// turnPause is how soon a plan that has just ended looks for its turn in case nobody tells it.
	turnPause = 2 * time.Second
	// orphanPause is how often plans without a Stack look for each other.
	orphanPause = time.Second
)

// takePlace gives the plan, whose end is written down, its place in the Stack's chain of records. Only the plan that the
// Stack's status names may follow the head, and the status names another one only when this one has its record: so however
// many plans end at a time, and whoever dies in between, the chain never forks (docs/design/0005-record-chain.md).
func (r *Reconciler) takePlace(ctx context.Context, s *scope) outcome.Outcome {
	if s.plan.Status.Record != nil {
		s.recorded = true
		return outcome.Done()
	}
	stack, err := r.stackOf(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if stack == nil {
		return r.takeOrphansPlace(ctx, s)
	}
	next, head := stack.Status.RecordNext, stack.Status.RecordHead
	if next == nil || next.UID != string(s.plan.UID) {
		return outcome.Wait(v1alpha1.ReasonNotRecorded, fmt.Sprintf("the plan has ended; its record waits for its turn in the chain of Stack %q", stack.Name), watchTimer)
	}
	if head == nil {
		return r.inscribe(ctx, s, 1, "")
	}
	return r.inscribe(ctx, s, head.Index+1, head.Digest)
}

// stackOf reads the plan's Stack past the cache; nil when it is gone, or its controller has let it go.
func (r *Reconciler) stackOf(ctx context.Context, s *scope) (*v1alpha1.Stack, error) {
	stack := &v1alpha1.Stack{}
	err := r.uncached.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: s.plan.Spec.StackRef.Name}, stack)
	letGo := !stack.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(stack, v1alpha1.Finalizer)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading Stack %q: %w", s.plan.Spec.StackRef.Name, err)
	case err == nil && string(stack.UID) == s.plan.Spec.StackRef.UID && !letGo:
		return stack, nil
	default:
		return nil, nil
	}
}

// takeOrphansPlace is for a plan whose Stack is gone, which only happens when somebody took away the Stack's finalizer: with
// nobody to name the next, the plans that are left go by their numbers.
func (r *Reconciler) takeOrphansPlace(ctx context.Context, s *scope) outcome.Outcome {
	list := &v1alpha1.UpdatePlanList{}
	err := r.uncached.List(ctx, list, client.InNamespace(s.plan.Namespace), client.MatchingFields{indexStack: s.plan.Spec.StackRef.Name})
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("listing the UpdatePlans of Stack %q: %w", s.plan.Spec.StackRef.Name, err))
	}
	head := &v1alpha1.PlanRecord{}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.StackRef.UID != s.plan.Spec.StackRef.UID || other.UID == s.plan.UID {
			continue
		}
		if record := other.Status.Record; record != nil && record.Index > head.Index {
			head = record
		}
		earlier := cmp.Or(cmp.Compare(other.Spec.Sequence, s.plan.Spec.Sequence), cmp.Compare(other.Name, s.plan.Name)) < 0
		if earlier && !planstate.Recorded(other) {
			return outcome.Wait(v1alpha1.ReasonNotRecorded, fmt.Sprintf("the plan has ended; its record waits for that of UpdatePlan %q", other.Name), orphanPause)
		}
	}
	return r.inscribe(ctx, s, head.Index+1, head.Digest)
}

// inscribe sends the record out to the audit log and puts it into the plan's status. In this order: what a status names has
// gone out. Done again after a crash it makes the same record, since all that it says is written down.
func (r *Reconciler) inscribe(ctx context.Context, s *scope, index int64, previous string) outcome.Outcome {
	if s.plan.DeletionTimestamp.IsZero() {
		// The record must not go before the Stack's status names it. A plan of the operator's own has the finalizer.
		if err := apply.EnsureFinalizer(ctx, r.client, s.plan, v1alpha1.Finalizer); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		}
		s.before = s.plan.DeepCopy()
	}
	record := planstate.Record(s.plan, index, previous)
	if r.settings.Audit != nil {
		if err := r.settings.Audit.Write(record); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("writing the end of the plan to the audit log: %w", err))
		}
	}
	s.plan.Status.Record, s.recorded = record.Stored(), true
	log.FromContext(ctx).Info("Recorded the end of a plan", "index", index, "outcome", record.Outcome, "recordDigest", s.plan.Status.Record.Digest)
	return outcome.Done()
}

// chained waits until the Stack's status names the plan's record, or a later one, so that the next record follows it also when
// this plan is gone.
func (r *Reconciler) chained(ctx context.Context, s *scope) outcome.Outcome {
	record := s.plan.Status.Record
	if record == nil {
		return outcome.Done()
	}
	stack, err := r.stackOf(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if stack != nil && (stack.Status.RecordHead == nil || stack.Status.RecordHead.Index < record.Index) {
		return outcome.Wait(v1alpha1.ReasonDeleting, fmt.Sprintf("waiting until Stack %q names the plan's record", stack.Name), turnPause)
	}
	return outcome.Done()
}
