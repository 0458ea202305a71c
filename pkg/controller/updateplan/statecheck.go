// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/workspace"
)

// lookPause is how soon a look that takes its time, or that an operation is in the way of, is asked for again.
const lookPause = 5 * time.Second

// whileWaiting keeps an eye on the state of a plan that waits for its approval, and comes back when its time is over.
func (r *Reconciler) whileWaiting(ctx context.Context, s *scope) outcome.Outcome {
	again := r.checkState(ctx, s)
	if s.obsolete != nil {
		return outcome.Done()
	}
	after := s.untilExpiry()
	if s.verdict.Reason == v1alpha1.ReasonAdmissionNotEnforced {
		after = min(after, proofTimer)
	}
	if at := s.verdict.LookAgain; !at.IsZero() {
		after = min(after, max(at.Sub(s.now), time.Second))
	}
	if again > 0 {
		after = min(after, again)
	}
	return outcome.Wait(s.verdict.Reason, s.verdict.Message, after)
}

// checkState ends a plan when somebody else has changed Pulumi's state since its preview, and returns when to look again; 0:
// when something happens. It never asks for a pod, and is not among what keeps one: what moves while there is none is found
// before the apply.
func (r *Reconciler) checkState(ctx context.Context, s *scope) time.Duration {
	if left := r.untilStateCheck(s); left != 0 {
		return max(left, 0)
	}
	ws, stack := &v1alpha1.Workspace{}, &v1alpha1.Stack{}
	key := client.ObjectKey{Namespace: s.plan.Namespace, Name: s.plan.Spec.StackRef.Name}
	if r.client.Get(ctx, key, ws) != nil || r.client.Get(ctx, key, stack) != nil || !workspaces.IsReady(ws) {
		return 0 // their watches tell
	}
	if stack.Spec.Suspend || stack.Status.Operation != nil {
		return 0
	}
	look, err := r.stateLook(ctx, s, stack)
	if err != nil {
		return r.checked(ctx, s, &workspace.Sight{Message: err.Error(), Reason: v1alpha1.ReasonSecretUnavailable})
	}
	sight, err := r.agents.Look(ctx, workspaces.Target(ws), look)
	switch {
	case operations.IsBusy(err), err == nil && sight.Pending:
		return lookPause
	case err != nil:
		return r.checked(ctx, s, &workspace.Sight{Message: err.Error(), Reason: workspace.ReasonInternal})
	default:
		return r.checked(ctx, s, sight)
	}
}

// untilStateCheck is how long to wait for the next look; 0: it is due; negative: there is none.
func (r *Reconciler) untilStateCheck(s *scope) time.Duration {
	every := r.settings.StateCheckInterval
	if every <= 0 {
		return -1
	}
	last := s.plan.CreationTimestamp.Time
	if c := s.plan.Status.StateCheck; c != nil && c.TriedAt.After(last) {
		last = c.TriedAt.Time
	}
	return max(last.Add(every).Sub(s.now), 0)
}

// stateLook is the question, with the digest that is expected and what it takes to reach the backend.
func (r *Reconciler) stateLook(ctx context.Context, s *scope, stack *v1alpha1.Stack) (*workspace.Look, error) {
	in, err := r.inputs.Gather(ctx, stack)
	if err != nil {
		return nil, err
	}
	bound, op := s.plan.Spec.Binding, workspace.Operation{}
	in.Operation(stack, &op)
	op.Config, op.SecretConfig, op.FallbackSalt = nil, nil, ""
	if s.plan.Spec.Operation == v1alpha1.PlanOperationDestroy {
		op.Project = stack.Status.Project
	} else {
		op.Source = workspace.Source{URL: bound.Repository, Commit: bound.Revision, Dir: bound.Directory}
	}
	op.Expect = &workspace.Facts{StateDigest: bound.StateDigest}
	return &workspace.Look{Type: workspace.LookState, Operation: op}, nil
}

// checked takes in what a look found.
func (r *Reconciler) checked(ctx context.Context, s *scope, sight *workspace.Sight) time.Duration {
	now := metav1.NewTime(s.now.Truncate(time.Second))
	if s.plan.Status.StateCheck == nil {
		s.plan.Status.StateCheck = &v1alpha1.StateCheck{}
	}
	c, bound := s.plan.Status.StateCheck, s.plan.Spec.Binding
	c.TriedAt, c.Problem = now, ""
	switch {
	case sight.Reason != "":
		c.Problem = conditions.Shorten(sight.Message, 1024)
		log.FromContext(ctx).V(1).Info("Could not look at the state", "reason", sight.Reason, "message", sight.Message)
	case sight.StateDigest == bound.StateDigest:
		c.CheckedAt = &now
	default:
		detail := sight.Detail
		if detail == "" {
			detail = "Pulumi's state was changed since the preview"
		}
		s.mismatches = []v1alpha1.Mismatch{{Field: "stateDigest", Was: bound.StateDigest, Is: sight.StateDigest, Detail: conditions.Shorten(detail, 1024)}}
		s.obsolete = &ending{v1alpha1.ReasonStale, fmt.Sprintf("somebody else has changed the state while the plan waited: %s", words(s.mismatches))}
	}
	return r.settings.StateCheckInterval
}
