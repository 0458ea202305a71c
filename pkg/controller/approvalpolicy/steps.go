// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approvalpolicy

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/plans/policy"
)

// scope is what one loop knows about a policy. Steps fill it in.
type scope struct {
	before, object client.Object
	compiled       *policy.Compiled
	// selected is how many Stacks are selected; nil: that could not be found out.
	selected *int32
}

func newScope(object client.Object) *scope {
	before, _ := object.DeepCopyObject().(client.Object)
	return &scope{before: before, object: object}
}

// compile compiles the policy.
func (r *Reconciler) compile(_ context.Context, s *scope) outcome.Outcome {
	source, err := r.kind.source(s.object)
	if err != nil {
		return outcome.Stall(v1alpha1.ReasonPolicyInvalid, err)
	}
	s.compiled = r.cache.Compile(source)
	return outcome.Done()
}

// count counts the Stacks that the policy selects.
func (r *Reconciler) count(ctx context.Context, s *scope) outcome.Outcome {
	stacks := &v1alpha1.StackList{}
	if err := r.client.List(ctx, stacks, client.InNamespace(s.object.GetNamespace())); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("counting the Stacks: %w", err))
	}
	labels := map[string]map[string]string{}
	if !s.compiled.SelectsAnyNamespace() {
		namespaces := &metav1.PartialObjectMetadataList{}
		namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		if err := r.uncached.List(ctx, namespaces); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading the labels of namespaces: %w", err))
		}
		for i := range namespaces.Items {
			labels[namespaces.Items[i].Name] = namespaces.Items[i].Labels
		}
	}
	selected := int32(0)
	for i := range stacks.Items {
		stack := &stacks.Items[i]
		if s.compiled.Selects(policy.Stack{Namespace: stack.Namespace, Name: stack.Name, Labels: stack.Labels}, labels[stack.Namespace]) {
			selected++
		}
	}
	s.selected = &selected
	return outcome.Done()
}

// writeStatus computes the status from the scope and writes it, once.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.compiled == nil {
		return nil
	}
	before, status := r.kind.status(s.before), r.kind.status(s.object)
	computeStatus(status, s, metav1.NewTime(r.now()))
	if err := apply.Status(ctx, r.client, s.before, s.object, fieldOwner); err != nil {
		return err
	}
	events.Transition(r.recorder, s.object, v1alpha1.ConditionReady, "Compile", before.Conditions, status.Conditions, func(reason string) bool {
		return reason != v1alpha1.ReasonCompiled
	})
	return nil
}

// computeStatus writes into the status what the loop found.
func computeStatus(status *v1alpha1.ApprovalPolicyStatus, s *scope, now metav1.Time) {
	status.ObservedGeneration = s.object.GetGeneration()
	status.Rules = int32(s.compiled.Rules()) //nolint:gosec // at most 100
	status.Problems = s.compiled.Problems()
	if s.selected != nil {
		status.SelectedStacks = *s.selected
	}
	set := conditions.Setter{Conditions: &status.Conditions, Generation: s.object.GetGeneration(), Now: now}
	if len(status.Problems) > 0 {
		set.False(v1alpha1.ConditionReady, v1alpha1.ReasonPolicyInvalid,
			"The policy cannot be evaluated, and every plan that it selects is held until it is put right: "+strings.Join(status.Problems, "; "))
		return
	}
	set.True(v1alpha1.ConditionReady, v1alpha1.ReasonCompiled, "The policy can be evaluated.")
}
