// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/pkg/planstate"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// ground finds out whether a destroy has what it stands on: the name of the project, by which the state is found, and a
// namespace in which a plan and a pod can be made.
func (r *Reconciler) ground(ctx context.Context, s *scope) outcome.Outcome {
	if demand.LacksProject(s.stack) {
		if o := r.stopPreview(ctx, s); o.Kind != outcome.KindDone {
			return o
		}
		return outcome.Stall(v1alpha1.ReasonProjectUnknown, errors.New("a destroy finds the state by the name of the Pulumi project, and no preview has written it down: "+
			"set spec.stack to organization/PROJECT/"+s.stack.Spec.Stack+orUpdateFirst(s)))
	}
	if !demand.Deleting(s.stack) {
		return outcome.Done()
	}
	if p := s.plan; p != nil && p.Spec.StackRef.Generation == s.stack.Generation && destroyedBy(p) {
		// Whatever else has moved since: there is nothing left that it could matter to.
		return r.finish(ctx, s)
	}
	namespace := &corev1.Namespace{}
	err := r.uncached.Get(ctx, client.ObjectKey{Name: s.stack.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading namespace %q: %w", s.stack.Namespace, err))
	}
	if namespace.DeletionTimestamp.IsZero() {
		return outcome.Done()
	}
	return terminating(s)
}

// terminating says what can still be done in a namespace that is being deleted: nothing new can be made in it, neither a plan nor
// a pod. It never tries again by itself; the plan, the Stack's annotations and the workspace wake it.
func terminating(s *scope) outcome.Outcome {
	const gone = "the namespace is being deleted, so that no new plan and no pod can be made in it; nothing is destroyed by itself: "
	if s.plan != nil && s.plan.DeletionTimestamp.IsZero() && s.plan.Spec.Operation == v1alpha1.PlanOperationDestroy {
		switch planstate.Of(s.plan) {
		case planstate.Waiting:
			return outcome.Wait(v1alpha1.ReasonNamespaceTerminating, gone+fmt.Sprintf("approve UpdatePlan %q while its pod still runs (%s)%s", s.plan.Name, s.plan.Status.HowToApprove, orOrphan(s)), 0)
		case planstate.Approved, planstate.Applying:
			return outcome.Wait(v1alpha1.ReasonNamespaceTerminating, fmt.Sprintf("the namespace is being deleted; UpdatePlan %q is being applied%s", s.plan.Name, orOrphan(s)), 0)
		}
	}
	return outcome.Stall(v1alpha1.ReasonNamespaceTerminating, errors.New(gone+"destroy it by hand (pulumi destroy -s "+s.stack.Spec.Stack+"), and then let the Stack go"+strings.TrimPrefix(orOrphan(s), ", or let it go without destroying")))
}

// orOrphan is the way out for a Stack that is being deleted.
func orOrphan(s *scope) string {
	if !demand.Deleting(s.stack) {
		return ""
	}
	return ", or let it go without destroying: " + orphanCommand(s.stack)
}

// orUpdateFirst is the way out of not knowing the project.
func orUpdateFirst(s *scope) string {
	if demand.Deleting(s.stack) {
		return orOrphan(s)
	}
	return ", or remove the annotation " + v1alpha1.AnnotationDestroy + " until the Stack was previewed"
}

func orphanCommand(stack *v1alpha1.Stack) string {
	return fmt.Sprintf("kubectl annotate stack %s -n %s %s=%s", stack.Name, stack.Namespace, v1alpha1.AnnotationOrphan, stack.UID)
}

// whyDestroy says why a destroy is previewed.
func whyDestroy(s *scope, last *v1alpha1.PreviewStatus) *v1alpha1.PlanTrigger {
	trigger := &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerDeleted, Message: "the Stack is being deleted, and spec.destroyOnFinalize is set"}
	if !demand.Deleting(s.stack) {
		trigger.Type = v1alpha1.TriggerRequested
		trigger.Message = fmt.Sprintf("the annotation %s asks for a destroy (%s); the Stack stays", v1alpha1.AnnotationDestroy, strconv.Quote(conditions.Shorten(demand.Token(s.stack), 100)))
	}
	if last == nil || last.Operation != v1alpha1.PlanOperationDestroy {
		return trigger
	}
	if last.ConfigDigest != s.configDigest {
		trigger.Message += "; configuration, environment or options changed" + entriesMoved(s)
	}
	if last.Generation != s.stack.Generation {
		trigger.Message += fmt.Sprintf("; the Stack went from generation %d to %d", last.Generation, s.stack.Generation)
	}
	trigger.Message = conditions.Shorten(trigger.Message, 1024)
	return trigger
}

// finalize lets a Stack that is being deleted go once all that it made is destroyed.
func (r *Reconciler) finalize(ctx context.Context, s *scope) outcome.Outcome {
	switch {
	case !demand.Deleting(s.stack):
		return outcome.Done()
	case s.result != nil:
		// How the preview ended comes into the status first.
		return outcome.Wait(v1alpha1.ReasonDeleting, s.stack.Status.LastPreview.Message, time.Millisecond)
	case !destroyed(s):
		return outcome.Done()
	default:
		return r.finish(ctx, s)
	}
}

// finish lets the Stack go. No step comes after it.
func (r *Reconciler) finish(ctx context.Context, s *scope) outcome.Outcome {
	s.destroyed = true
	o := r.release(ctx, s)
	if s.gone {
		return outcome.Wait(v1alpha1.ReasonDeleting, "all is destroyed, and the Stack is let go", 0)
	}
	return o
}

// destroyed reports whether nothing is left of what the Stack made: a Destroy plan of its present inputs was applied whole, or
// there was nothing to plan.
func destroyed(s *scope) bool {
	last := s.stack.Status.LastPreview
	if !s.settled() || last == nil || last.Operation != v1alpha1.PlanOperationDestroy || last.InputsDigest != s.inputsDigest {
		return false
	}
	return last.Result == v1alpha1.PreviewNoChanges || s.plan != nil && destroyedBy(s.plan)
}

// destroyedBy reports whether a plan has destroyed all.
func destroyedBy(plan *v1alpha1.UpdatePlan) bool {
	return plan.Spec.Operation == v1alpha1.PlanOperationDestroy && planstate.Of(plan) == planstate.Applied
}

// tellLetGo tells of a Stack that goes while what it made stays although its spec asks for a destroy.
func (r *Reconciler) tellLetGo(ctx context.Context, s *scope) {
	switch {
	case !s.stack.Spec.DestroyOnFinalize || s.destroyed:
	case demand.Orphaned(s.stack):
		note := fmt.Sprintf("The Stack goes without a destroy, because the annotation %s says so (written by %s). All that Pulumi stack %q holds stays.", v1alpha1.AnnotationOrphan, writer(s.stack), s.stack.Spec.Stack)
		events.Emit(r.recorder, s.stack, "Warning", v1alpha1.ReasonOrphaned, "Release", note)
		log.FromContext(ctx).Info("Letting a Stack go without a destroy", "annotation", v1alpha1.AnnotationOrphan, "writtenBy", writer(s.stack), "pulumiStack", s.stack.Spec.Stack)
	default:
		note := "The Stack goes without a destroy: nothing of it was ever planned, so that it made nothing."
		events.Emit(r.recorder, s.stack, "Normal", v1alpha1.ReasonDeleting, "Release", note)
	}
}

// writer names the field manager that wrote the annotation that lets the Stack go; it is not verified.
func writer(stack *v1alpha1.Stack) string {
	for _, f := range stack.ManagedFields {
		if f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:`+v1alpha1.AnnotationOrphan+`"`) {
			return fmt.Sprintf("field manager %s", conditions.Shorten(f.Manager, 128))
		}
	}
	return "an unknown field manager"
}

// releaseForeign gives what a Stack of this name left that is gone to the garbage collector.
func (r *Reconciler) releaseForeign(ctx context.Context, s *scope) error {
	if s.ws != nil && ownership.LeftBehind(s.ws, s.stack.UID) {
		s.foreign = true
	}
	if !s.foreign {
		return nil
	}
	return ownership.Release(ctx, r.client, r.uncached, s.stack.Namespace, s.stack.Name, s.stack.UID)
}

// leftBehind does the same when there is no Stack of the name at all.
func (r *Reconciler) leftBehind(ctx context.Context, key types.NamespacedName) error {
	if found, err := r.anyLeft(ctx, key); err != nil || !found {
		return err
	}
	err := r.uncached.Get(ctx, key, &v1alpha1.Stack{})
	if !apierrors.IsNotFound(err) {
		return err // it is there, and the cache does not have it yet
	}
	return ownership.Release(ctx, r.client, r.uncached, key.Namespace, key.Name, "")
}

func (r *Reconciler) anyLeft(ctx context.Context, key types.NamespacedName) (bool, error) {
	ws := &v1alpha1.Workspace{}
	err := r.client.Get(ctx, key, ws)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Workspace %q: %w", key.Name, err)
	}
	if err == nil && ownership.LeftBehind(ws, "") {
		return true, nil
	}
	list := &v1alpha1.UpdatePlanList{}
	if err := r.client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"spec.stackRef.name": key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the UpdatePlans: %w", err)
	}
	for i := range list.Items {
		if ownership.LeftBehind(&list.Items[i], "") {
			return true, nil
		}
	}
	return false, nil
}

// waitingWords say what a Stack whose plan waits stands for.
func waitingWords(s *scope) string {
	if s.plan.Spec.Operation != v1alpha1.PlanOperationDestroy {
		return fmt.Sprintf("UpdatePlan %q waits for its approval (%s)", s.plan.Name, s.plan.Spec.Summary.Brief)
	}
	reason, message := planstate.Reason(s.plan)
	words := fmt.Sprintf("UpdatePlan %q waits for its approval (%s): nothing is destroyed before", s.plan.Name, s.plan.Spec.Summary.Brief)
	if reason == v1alpha1.ReasonProtected {
		words = fmt.Sprintf("UpdatePlan %q cannot be applied (%s): %s", s.plan.Name, s.plan.Spec.Summary.Brief, message)
	}
	if demand.Deleting(s.stack) {
		return "the Stack is being deleted. " + words + orOrphan(s)
	}
	return words + "; remove the annotation " + v1alpha1.AnnotationDestroy + " to keep everything"
}

// afterRejection says how it goes on after somebody has said no.
func afterRejection(s *scope) string {
	if s.plan.Spec.Operation != v1alpha1.PlanOperationDestroy {
		return "change the Stack or its source, or ask for a new plan with the annotation " + v1alpha1.AnnotationRequestPlan
	}
	words := "nothing is destroyed; ask for a new plan with the annotation " + v1alpha1.AnnotationRequestPlan
	if demand.Deleting(s.stack) {
		return words + orOrphan(s)
	}
	return words + ", or remove the annotation " + v1alpha1.AnnotationDestroy
}
