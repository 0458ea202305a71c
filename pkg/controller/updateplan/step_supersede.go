// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/locks"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/plans"
)

// supersede ends a plan whose Stack has moved on, or whose time is over. One that is being applied is let end.
func (r *Reconciler) supersede(ctx context.Context, s *scope) outcome.Outcome {
	if s.started() || s.ended() {
		return outcome.Done()
	}
	stack := &v1alpha1.Stack{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: s.plan.Spec.StackRef.Name}, stack)
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Stack %q: %w", s.plan.Spec.StackRef.Name, err))
	}
	if err != nil {
		stack = nil
	}
	s.obsolete = moved(s.plan, stack)
	if s.obsolete != nil {
		r.nameConfig(ctx, s, stack)
		return outcome.Done()
	}
	newer, err := r.newer(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if newer != "" {
		s.obsolete = &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("UpdatePlan %q is newer", newer)}
	}
	if !s.now.Before(s.plan.Spec.NotAfter.Time) {
		s.obsolete = &ending{v1alpha1.ReasonExpired, fmt.Sprintf("nobody approved and applied it before %s", s.plan.Spec.NotAfter.UTC().Format("2006-01-02T15:04:05Z"))}
		if wait := s.plan.Status.Lock; wait != nil {
			s.obsolete.message += "; it waited for a lock: " + locks.Text(wait.Locks)
		}
	}
	return outcome.Done()
}

// moved says how the Stack has moved on from what the plan was made for; nil when it has not. stack is nil when it is gone.
func moved(plan *v1alpha1.UpdatePlan, stack *v1alpha1.Stack) *ending {
	ref, bound := plan.Spec.StackRef, plan.Spec.Binding
	switch {
	case stack == nil:
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q was deleted", ref.Name)}
	case string(stack.UID) != ref.UID:
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q was deleted and made anew: uid was %s, is %s", ref.Name, ref.UID, stack.UID)}
	case !demand.Wants(stack, plan.Spec.Operation):
		return unwanted(plan, stack)
	case stack.Generation != ref.Generation:
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("the spec of Stack %q was edited: generation was %d, is %d", ref.Name, ref.Generation, stack.Generation)}
	case stack.Status.ObservedGeneration != stack.Generation:
		// What the status says is of another spec.
		return nil
	case plan.Spec.Operation != v1alpha1.PlanOperationDestroy && touched(bound, stack):
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("there is a newer commit that touches the project: was %.12s, is %.12s", bound.Revision, stack.Status.ObservedRevision)}
	case stack.Status.ConfigDigest != "" && stack.Status.ConfigDigest != bound.ConfigDigest:
		return &ending{v1alpha1.ReasonSuperseded, configMoved}
	case previewedSince(plan, stack):
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("the Stack was previewed again: %s", stack.Status.LastPreview.Message)}
	default:
		return nil
	}
}

// unwanted says why the Stack does not ask any more for what the plan does.
func unwanted(plan *v1alpha1.UpdatePlan, stack *v1alpha1.Stack) *ending {
	destroy := plan.Spec.Operation == v1alpha1.PlanOperationDestroy
	switch {
	case demand.Deleting(stack) && destroy && demand.Orphaned(stack):
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q goes without a destroy, because its annotation %s says so", stack.Name, v1alpha1.AnnotationOrphan)}
	case demand.Deleting(stack) && destroy:
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q is being deleted, and spec.destroyOnFinalize is not set: nothing is destroyed", stack.Name)}
	case demand.Deleting(stack):
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q is being deleted", stack.Name)}
	case destroy:
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("nobody asks for a destroy any more: the annotation %s of Stack %q is gone", v1alpha1.AnnotationDestroy, stack.Name)}
	default:
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("the annotation %s of Stack %q asks for a destroy", v1alpha1.AnnotationDestroy, stack.Name)}
	}
}

// touched reports whether the newest commit is another one, and is known to change something of the project. As long as that is
// not known the plan waits: before an apply it is found out.
func touched(bound v1alpha1.Binding, stack *v1alpha1.Stack) bool {
	status := stack.Status
	return status.ObservedRevision != "" && status.ObservedRevision != bound.Revision && status.ObservedTree != "" && status.ObservedTree != bound.Tree
}

// configMoved is what is said when the spec is the same and the configuration is not.
const configMoved = "a Secret that the Stack refers to was changed"

// nameConfig says which Secret and key it is that was changed, when that can be told.
func (r *Reconciler) nameConfig(ctx context.Context, s *scope, stack *v1alpha1.Stack) {
	if s.obsolete.message != configMoved {
		return
	}
	in, err := r.inputs.Gather(ctx, stack)
	if err != nil {
		return
	}
	if words := plans.ConfigChanges(s.plan.Spec.Binding.ConfigEntries, in.ConfigEntries, ""); words != "" {
		s.obsolete.message += ": " + words
	}
}

// previewedSince reports whether the Stack has recorded a preview after the one that the plan came of. A plan that was only
// just made, and is not recorded yet, has a higher number than any that is.
func previewedSince(plan *v1alpha1.UpdatePlan, stack *v1alpha1.Stack) bool {
	last := stack.Status.LastPreview
	return last != nil && last.Plan != plan.Name && plan.Spec.Sequence <= stack.Status.PlanSequence
}

// unknown says why the Stack does not know the plan as the one that it waits for; nil when it does. The Stack's status, which
// the operator alone writes, vouches for what an UpdatePlan cannot vouch for itself: that the operator made it, and that it
// was not applied before under the same name. It is asked when no preview runs, so that each plan of the operator's is recorded.
func unknown(plan *v1alpha1.UpdatePlan, stack *v1alpha1.Stack) *ending {
	current, applied := stack.Status.CurrentPlan, stack.Status.LastAppliedPlan
	switch {
	case applied != nil && applied.Digest == plan.Spec.Digest:
		return &ending{v1alpha1.ReasonSpecInvalid, "a plan with this digest was applied already: this is a copy"}
	case current == nil || current.Name != plan.Name || current.UID != string(plan.UID) || current.Digest != plan.Spec.Digest:
		return &ending{v1alpha1.ReasonSpecInvalid, fmt.Sprintf("Stack %q did not publish it: this is not the plan that it waits for", stack.Name)}
	default:
		return nil
	}
}

// newer finds a plan of the same Stack that was made later.
func (r *Reconciler) newer(ctx context.Context, s *scope) (string, error) {
	list := &v1alpha1.UpdatePlanList{}
	err := r.client.List(ctx, list, client.InNamespace(s.plan.Namespace), client.MatchingFields{indexStack: s.plan.Spec.StackRef.Name})
	if err != nil {
		return "", fmt.Errorf("listing the UpdatePlans of Stack %q: %w", s.plan.Spec.StackRef.Name, err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.StackRef.UID == s.plan.Spec.StackRef.UID && other.Spec.Sequence > s.plan.Spec.Sequence {
			return other.Name, nil
		}
	}
	return "", nil
}
