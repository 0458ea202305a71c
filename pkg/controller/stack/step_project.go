// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/workspace"
)

// lookPause is how soon a look that takes its time is asked for again.
const lookPause = time.Second

// anchor is what a new commit is compared with: the preview that runs, or else the last one that ended. Nothing is compared
// with one that failed: the next try takes the newest commit anyway.
type anchor struct {
	revision, tree, inputsDigest string
}

func (s *scope) anchor() *anchor {
	if op := s.stack.Status.Operation; op != nil {
		return &anchor{op.Revision, op.Tree, op.InputsDigest}
	}
	last := s.stack.Status.LastPreview
	if last == nil || last.Tree == "" || last.Result != v1alpha1.PreviewChanges && last.Result != v1alpha1.PreviewNoChanges {
		return nil
	}
	return &anchor{last.Revision, last.Tree, last.InputsDigest}
}

// inputsOf is the digest of what a preview of a commit would be made from now; that of a destroy is of no commit.
func (s *scope) inputsOf(revision string) string {
	request := s.stack.Annotations[v1alpha1.AnnotationRequestPlan]
	if demand.Of(s.stack) == demand.Destroy {
		return plans.DestroyInputsDigest(s.stack.Generation, s.configDigest, demand.Token(s.stack), demand.Deleting(s.stack), request)
	}
	return plans.InputsDigest(s.stack.Generation, revision, s.configDigest, request)
}

// tree is the project's tree at the newest commit, as far as it is known; "" for a destroy, which needs no source.
func (s *scope) tree() string {
	if demand.Of(s.stack) == demand.Destroy {
		return ""
	}
	return s.stack.Status.ObservedTree
}

// settleInputs finds the digest of what is wanted. A commit whose project is that of the anchor is as good as the anchor's.
func (s *scope) settleInputs() {
	wanted := s.revision.Commit
	if a := s.anchor(); a != nil && a.tree != "" && a.tree == s.stack.Status.ObservedTree {
		wanted = a.revision
	}
	s.inputsDigest = s.inputsOf(wanted)
}

// onlyCommitMoved reports whether the anchor is of another commit, and all else is the same.
func (s *scope) onlyCommitMoved() bool {
	a := s.anchor()
	return a != nil && a.revision != s.revision.Commit && s.inputsDigest != a.inputsDigest && s.inputsOf(a.revision) == a.inputsDigest
}

// untouched is the commit whose project is, file by file, that of the newest one; "" when there is no other such one.
func (s *scope) untouched() string {
	last := s.stack.Status.LastPreview
	tree := s.stack.Status.ObservedTree
	if last == nil || tree == "" || tree != last.Tree || last.Revision == s.stack.Status.ObservedRevision {
		return ""
	}
	return last.Revision
}

// sameProject finds out whether a new commit touches the project at all. One that does not makes no new plan. What cannot be
// found out counts as touched: the preview says then what is wrong.
func (r *Reconciler) sameProject(ctx context.Context, s *scope) outcome.Outcome {
	if !s.onlyCommitMoved() || s.ws == nil || !workspaces.IsReady(s.ws) {
		return outcome.Done()
	}
	if op := s.stack.Status.Operation; op != nil && op.Tree == "" {
		tree, o := r.treeOf(ctx, s, op.Revision)
		if o.Kind != outcome.KindDone {
			return o
		}
		op.Tree = tree
	}
	if s.stack.Status.ObservedTree == "" {
		tree, o := r.treeOf(ctx, s, s.revision.Commit)
		if o.Kind != outcome.KindDone {
			return o
		}
		s.stack.Status.ObservedTree = tree
	}
	s.settleInputs()
	if a := s.anchor(); s.inputsDigest == a.inputsDigest {
		log.FromContext(ctx).Info("The new commit touches nothing of the project", "revision", s.revision.Commit, "asRevision", a.revision)
	}
	if s.stack.Status.Operation == nil {
		s.trigger = why(s)
	}
	return outcome.Done()
}

// treeOf asks the agent for the tree of the project at a commit; "" when it cannot be found.
func (r *Reconciler) treeOf(ctx context.Context, s *scope, commit string) (string, outcome.Outcome) {
	source := sourceOf(s.stack, commit, s.revision.Ref)
	sight, err := r.agents.Look(ctx, workspaces.Target(s.ws), &workspace.Look{Type: workspace.LookSource, Operation: workspace.Operation{Source: source}})
	switch {
	case operations.IsInvalid(err), operations.IsUnimplemented(err):
		return "", outcome.Done()
	case err != nil:
		return "", outcome.RetryAfter(v1alpha1.ReasonPreviewDue, err, agentPause)
	case sight.Pending:
		return "", outcome.Wait(v1alpha1.ReasonPreviewDue, fmt.Sprintf("finding out whether commit %.12s touches the project", commit), lookPause)
	case sight.Reason != "":
		log.FromContext(ctx).Info("Could not find out what a commit touches", "revision", commit, "reason", sight.Reason, "message", sight.Message)
		return "", outcome.Done()
	default:
		return sight.Tree, outcome.Done()
	}
}

// sourceOf is the Stack's source at a commit.
func sourceOf(stack *v1alpha1.Stack, commit, ref string) workspace.Source {
	return workspace.Source{URL: stack.Spec.ProjectRepo, Commit: commit, Ref: ref, Dir: stack.Spec.RepoDir, Paths: stack.Spec.ProjectPaths}
}

// where names what of the repository counts, for people.
func where(stack *v1alpha1.Stack) string {
	dir := stack.Spec.RepoDir
	if dir == "" {
		dir = "."
	}
	text := fmt.Sprintf("%q", dir)
	if len(stack.Spec.ProjectPaths) > 0 {
		text += " and spec.projectPaths"
	}
	return text
}
