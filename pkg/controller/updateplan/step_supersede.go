package updateplan

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
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
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q was deleted and made anew", ref.Name)}
	case !stack.DeletionTimestamp.IsZero():
		return &ending{v1alpha1.ReasonStackGone, fmt.Sprintf("Stack %q is being deleted", ref.Name)}
	case stack.Generation != ref.Generation:
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("the spec of Stack %q was edited: generation was %d, is %d", ref.Name, ref.Generation, stack.Generation)}
	case stack.Status.ObservedGeneration != stack.Generation:
		// What the status says is of another spec.
		return nil
	case stack.Status.ObservedRevision != "" && stack.Status.ObservedRevision != bound.Revision:
		return &ending{v1alpha1.ReasonSuperseded, fmt.Sprintf("there is a newer commit: was %.12s, is %.12s", bound.Revision, stack.Status.ObservedRevision)}
	case stack.Status.ConfigDigest != "" && stack.Status.ConfigDigest != bound.ConfigDigest:
		return &ending{v1alpha1.ReasonSuperseded, "a Secret that the Stack refers to was changed"}
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
