// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/workspace"
)

// stillFresh compares what the plan is bound to with what is true now, as far as it can be seen from outside the pod: the
// commit, asked of the remote, the configuration and the pod's image, read from the API server. The agent compares the rest.
func (r *Reconciler) stillFresh(ctx context.Context, s *scope) outcome.Outcome {
	in, err := r.inputs.Gather(ctx, s.stack)
	switch {
	case inputs.IsUnavailable(err), inputs.IsInvalid(err):
		// The Stack's own controller says so too; when the value is back and the same, the plan goes on.
		return outcome.RetryAfter(v1alpha1.ReasonSecretUnavailable, err, agentPause)
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	now := s.plan.Spec.Binding
	now.ConfigDigest, now.ConfigEntries = in.ConfigDigest, in.ConfigEntries
	if s.plan.Spec.Operation != v1alpha1.PlanOperationDestroy {
		if o := r.sourceNow(ctx, s, &now); o.Kind != outcome.KindDone {
			return o
		}
	}
	image, err := workspaces.Image(ctx, r.uncached, s.plan.Namespace, *s.ws.Status.Pod)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	case image == "":
		return outcome.Wait(v1alpha1.ReasonApproved, fmt.Sprintf("approved; it is not known which image pod %q runs", s.ws.Status.Pod.Name), agentPause)
	}
	s.inputs, now.WorkspaceImage = in, image
	if mismatches := plans.Compare(s.plan.Spec.Binding, now); len(mismatches) > 0 {
		s.mismatches = mismatches
		s.obsolete = &ending{v1alpha1.ReasonStale, "nothing was changed: " + words(mismatches)}
	}
	return outcome.Done()
}

// sourceNow asks the remote for the commit that is wanted now. A destroy has no source.
func (r *Reconciler) sourceNow(ctx context.Context, s *scope, now *v1alpha1.Binding) outcome.Outcome {
	spec := s.stack.Spec
	revision, err := r.sources.ResolveNow(ctx, spec.ProjectRepo, spec.Branch, spec.Commit)
	if err != nil && !source.IsNotFound(err) {
		return outcome.RetryAfter(v1alpha1.ReasonSourceUnavailable, err, agentPause)
	}
	commit, o := r.sameProject(ctx, s, revision)
	if o.Kind != outcome.KindDone {
		return o
	}
	s.ref = revision.Ref
	now.Repository, now.Directory, now.Revision, now.Refresh = spec.ProjectRepo, spec.RepoDir, commit, spec.Refresh || s.plan.Spec.Binding.Refresh
	now.Targets, now.TargetDependents = spec.Targets, spec.TargetDependents
	return outcome.Done()
}

// sameProject returns the bound commit when the newest one changes nothing of the project, and else the newest one. Then the
// bound commit is what is checked out and applied; the agent compares its tree.
func (r *Reconciler) sameProject(ctx context.Context, s *scope, newest source.Revision) (string, outcome.Outcome) {
	bound, status := s.plan.Spec.Binding, s.stack.Status
	switch {
	case newest.Commit == bound.Revision, newest.Commit == "":
		return newest.Commit, outcome.Done()
	case status.ObservedRevision == newest.Commit && status.ObservedTree == bound.Tree:
		return bound.Revision, outcome.Done()
	}
	sight, err := r.agents.Look(ctx, workspaces.Target(s.ws), &workspace.Look{Type: workspace.LookSource, Operation: workspace.Operation{
		Source: workspace.Source{URL: bound.Repository, Commit: newest.Commit, Ref: newest.Ref, Dir: bound.Directory, Paths: s.stack.Spec.ProjectPaths},
	}})
	switch {
	case operations.IsInvalid(err), operations.IsUnimplemented(err):
		return newest.Commit, outcome.Done()
	case err != nil:
		return "", outcome.RetryAfter(v1alpha1.ReasonApproved, err, agentPause)
	case sight.Pending:
		return "", outcome.Wait(v1alpha1.ReasonApproved, fmt.Sprintf("approved; finding out whether commit %.12s touches the project", newest.Commit), time.Second)
	case sight.Reason == "" && sight.Tree == bound.Tree:
		return bound.Revision, outcome.Done()
	default:
		return newest.Commit, outcome.Done()
	}
}

// expected is the part of the binding that the agent compares.
func expected(bound v1alpha1.Binding) *workspace.Facts {
	f := &workspace.Facts{Commit: bound.Revision, Tree: bound.Tree, StateDigest: bound.StateDigest, DriftDigest: bound.DriftDigest, PulumiVersion: bound.PulumiVersion}
	for _, p := range bound.Plugins {
		f.Plugins = append(f.Plugins, workspace.Plugin(p))
	}
	return f
}
