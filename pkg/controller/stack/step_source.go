// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/source"
)

// look reads the Stack's Workspace, its plans, and the plan of its last preview.
func (r *Reconciler) look(ctx context.Context, s *scope) outcome.Outcome {
	ws := &v1alpha1.Workspace{}
	err := r.client.Get(ctx, s.key(), ws)
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Workspace %q: %w", s.stack.Name, err))
	}
	if err == nil {
		s.ws = ws
	}
	if err := r.lookAtPlans(ctx, s); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if err := r.releaseForeign(ctx, s); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	last := s.stack.Status.LastPreview
	if last == nil || last.Plan == "" {
		return outcome.Done()
	}
	plan := &v1alpha1.UpdatePlan{}
	key := client.ObjectKey{Namespace: s.stack.Namespace, Name: last.Plan}
	err = r.client.Get(ctx, key, plan)
	if apierrors.IsNotFound(err) {
		// The cache may not have it yet.
		err = r.uncached.Get(ctx, key, plan)
	}
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading UpdatePlan %q: %w", last.Plan, err))
	}
	// One that was deleted and made anew is not the operator's: the plan is gone.
	if err == nil && (last.PlanUID == "" || last.PlanUID == string(plan.UID)) {
		s.plan = plan
	}
	return outcome.Done()
}

// resolveSource resolves the branch to a commit.
func (r *Reconciler) resolveSource(ctx context.Context, s *scope) outcome.Outcome {
	spec := &s.stack.Spec
	if err := source.CheckURL(spec.ProjectRepo); err != nil {
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, err)
	}
	revision, err := r.sources.Resolve(ctx, spec.ProjectRepo, spec.Branch, spec.Commit)
	if err != nil {
		return outcome.RetryAfter(v1alpha1.ReasonSourceUnavailable, err, r.settings.RetryInterval)
	}
	s.revision = revision
	status := &s.stack.Status
	if status.ObservedRevision != revision.Commit || status.ObservedGeneration != s.stack.Generation {
		status.ObservedTree = ""
	}
	s.stack.Status.ObservedRevision = revision.Commit
	s.stack.Status.ShortRevision = revision.Commit[:min(12, len(revision.Commit))]
	return outcome.Done()
}

// resolveInputs resolves configuration and environment to a digest.
func (r *Reconciler) resolveInputs(ctx context.Context, s *scope) outcome.Outcome {
	digest, entries, err := r.inputs.Digest(ctx, s.stack)
	switch {
	case inputs.IsInvalid(err):
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, err)
	case inputs.IsUnavailable(err):
		return outcome.RetryAfter(v1alpha1.ReasonSecretUnavailable, err, r.atMostPoll(s, r.settings.RetryMaxInterval))
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.configDigest, s.configEntries = digest, entries
	s.stack.Status.ConfigDigest = digest
	s.settleInputs()
	return outcome.Done()
}
