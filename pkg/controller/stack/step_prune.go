// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/planstore"
)

const (
	// defaultHistoryLimit is how many ended plans are kept of a Stack that does not say.
	defaultHistoryLimit = 20
	// orphanAge is how long what was stored for a plan is left alone that nobody published.
	orphanAge = time.Hour
)

// +kubebuilder:rbac:groups=plangate.dev,resources=updateplans,verbs=delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=list;delete

// prune deletes the oldest ended plans beyond the Stack's limit, and what was stored for plans that were never published. What
// belongs to a plan goes with it. All is decided from the cache; nothing is asked while there is nothing to delete.
func (r *Reconciler) prune(ctx context.Context, s *scope) outcome.Outcome {
	surplus := surplusPlans(s)
	for _, plan := range surplus {
		if err := r.remove(ctx, plan); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("pruning UpdatePlan %q: %w", plan.Name, err))
		}
		log.FromContext(ctx).Info("Pruned a plan", "UpdatePlan", plan.Name, "planDigest", plan.Spec.Digest)
	}
	if err := r.sweep(ctx, s, len(surplus) > 0); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	return outcome.Done()
}

// remove deletes an object as it was seen. One that has moved since is left to the next loop.
func (r *Reconciler) remove(ctx context.Context, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := r.client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// surplusPlans are the plans to delete, the oldest first.
func surplusPlans(s *scope) []*v1alpha1.UpdatePlan {
	limit := defaultHistoryLimit
	if p := s.stack.Spec.Plan; p != nil && p.HistoryLimit != nil {
		limit = int(*p.HistoryLimit)
	}
	var ended []*v1alpha1.UpdatePlan
	for i := range s.plans {
		if planstate.Recorded(&s.plans[i]) && s.plans[i].DeletionTimestamp.IsZero() {
			ended = append(ended, &s.plans[i])
		}
	}
	excess := len(ended) - limit
	if excess <= 0 {
		return nil
	}
	slices.SortFunc(ended, older)
	kept := keptPlans(s, ended)
	var surplus []*v1alpha1.UpdatePlan
	for _, plan := range ended {
		if len(surplus) < excess && !kept[plan.Name] {
			// A copy: what the cache holds is not for writing.
			surplus = append(surplus, plan.DeepCopy())
		}
	}
	return surplus
}

// keptPlans are the plans that stay whatever the limit is. ended is sorted.
func keptPlans(s *scope, ended []*v1alpha1.UpdatePlan) map[string]bool {
	status, kept := &s.stack.Status, map[string]bool{}
	if status.LastPreview != nil {
		// Without it the Stack would be previewed again.
		kept[status.LastPreview.Plan] = true
	}
	if s.plan != nil {
		kept[s.plan.Name] = true
	}
	for _, plan := range slices.Backward(ended) {
		if planstate.Of(plan) == planstate.Applied {
			kept[plan.Name] = true
			break
		}
	}
	for _, plan := range ended {
		// The head of the chain, and what the Stack's status does not name as the head yet.
		if record := plan.Status.Record; record != nil && (status.RecordHead == nil || record.Index >= status.RecordHead.Index) {
			kept[plan.Name] = true
		}
	}
	return kept
}

// older orders plans by their records; those without one, which ended before there were records, come first, by their numbers.
func older(a, b *v1alpha1.UpdatePlan) int {
	index := func(plan *v1alpha1.UpdatePlan) int64 {
		if plan.Status.Record == nil {
			return 0
		}
		return plan.Status.Record.Index
	}
	return cmp.Or(cmp.Compare(index(a), index(b)), cmp.Compare(a.Spec.Sequence, b.Spec.Sequence), cmp.Compare(a.Name, b.Name))
}

// sweep deletes what was stored for plans of the Stack that were never published: what still belongs to the Stack itself, is
// older than orphanAge, and is named by no plan. Secrets are found in the cache; ConfigMaps, which are not in there, are
// looked for only when something else is to be deleted.
func (r *Reconciler) sweep(ctx context.Context, s *scope, pruned bool) error {
	if s.stack.Status.Operation != nil {
		return nil
	}
	secrets, err := r.orphans(ctx, r.client, s, "Secret", v1alpha1.ComponentPlanFile)
	if err != nil || len(secrets) == 0 && !pruned {
		return err
	}
	maps, err := r.orphans(ctx, r.uncached, s, "ConfigMap", v1alpha1.ComponentPlanChanges)
	if err != nil {
		return err
	}
	if len(secrets)+len(maps) == 0 {
		return nil
	}
	// The cache may not have a plan yet that was published only just now.
	list := &v1alpha1.UpdatePlanList{}
	if err := r.uncached.List(ctx, list, client.InNamespace(s.stack.Namespace), client.MatchingFields{"spec.stackRef.name": s.stack.Name}); err != nil {
		return fmt.Errorf("listing the UpdatePlans: %w", err)
	}
	for _, o := range append(secrets, maps...) {
		if named(list.Items, o) {
			continue
		}
		if err := r.remove(ctx, o); err != nil {
			return fmt.Errorf("deleting the orphaned %s %q: %w", o.Kind, o.Name, err)
		}
		log.FromContext(ctx).Info("Deleted what was stored for a plan that was never published", "kind", o.Kind, "name", o.Name)
	}
	return nil
}

// orphans finds objects of a kind that were stored for a plan and still belong to the Stack itself.
func (r *Reconciler) orphans(ctx context.Context, reader client.Reader, s *scope, kind, component string) ([]*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	labels := client.MatchingLabels{v1alpha1.LabelStack: planstore.LabelValue(s.stack.Name), v1alpha1.LabelComponent: component}
	if err := reader.List(ctx, list, client.InNamespace(s.stack.Namespace), labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the stored plans (%s): %w", kind, err)
	}
	var found []*metav1.PartialObjectMetadata
	for i := range list.Items {
		o := &list.Items[i]
		if s.now.Sub(o.CreationTimestamp.Time) < orphanAge || !o.DeletionTimestamp.IsZero() || !ownedBy(o, s.stack) {
			continue
		}
		o = o.DeepCopy()
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		found = append(found, o)
	}
	return found, nil
}

// ownedBy reports whether an object is the Stack's, and no plan owns it.
func ownedBy(o client.Object, stack *v1alpha1.Stack) bool {
	owned := ownership.Of(o, stack)
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "UpdatePlan" {
			return false
		}
		owned = owned || owner.Kind == "Stack" && owner.UID == stack.UID
	}
	return owned
}

// named reports whether a plan needs an object.
func named(list []v1alpha1.UpdatePlan, o *metav1.PartialObjectMetadata) bool {
	for i := range list {
		spec := &list[i].Spec
		if o.Kind == "Secret" && slices.Contains(spec.Artifact.Chunks, o.Name) || o.Kind == "ConfigMap" && planstore.HoldsChanges(o.Name, spec.ChangesConfigMap) {
			return true
		}
	}
	return false
}
