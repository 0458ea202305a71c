// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
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
	spec := s.stack.Spec
	revision, err := r.sources.ResolveNow(ctx, spec.ProjectRepo, spec.Branch, spec.Commit)
	if err != nil && !source.IsNotFound(err) {
		return outcome.RetryAfter(v1alpha1.ReasonSourceUnavailable, err, agentPause)
	}
	image, err := workspaces.Image(ctx, r.uncached, s.plan.Namespace, *s.ws.Status.Pod)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	case image == "":
		return outcome.Wait(v1alpha1.ReasonApproved, fmt.Sprintf("approved; it is not known which image pod %q runs", s.ws.Status.Pod.Name), agentPause)
	}
	s.inputs, s.ref = in, revision.Ref
	now := s.plan.Spec.Binding
	now.Repository, now.Directory, now.Revision, now.WorkspaceImage = spec.ProjectRepo, spec.RepoDir, revision.Commit, image
	now.ConfigDigest, now.ConfigEntries, now.Refresh = in.ConfigDigest, in.ConfigEntries, spec.Refresh || s.plan.Spec.Binding.Refresh
	if mismatches := plans.Compare(s.plan.Spec.Binding, now); len(mismatches) > 0 {
		s.mismatches = mismatches
		s.obsolete = &ending{v1alpha1.ReasonStale, "nothing was changed: " + words(mismatches)}
	}
	return outcome.Done()
}

// expected is the part of the binding that the agent compares.
func expected(bound v1alpha1.Binding) *workspace.Facts {
	f := &workspace.Facts{Commit: bound.Revision, Tree: bound.Tree, StateDigest: bound.StateDigest, PulumiVersion: bound.PulumiVersion, RefreshedDigest: bound.RefreshedDigest}
	for _, p := range bound.Plugins {
		f.Plugins = append(f.Plugins, workspace.Plugin(p))
	}
	return f
}
