// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/locks"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/workspace"
)

const (
	// lockPause is how long a lock is left alone after a first attempt that met it; it doubles up to maxLockPause.
	lockPause    = 5 * time.Second
	maxLockPause = 2 * time.Minute
)

// A lock is met by an attempt to apply, which then changes nothing: the attempt ends, and the plan is as it was, approved and
// not started. It is tried again, all that it is tied to checked anew, until the lock is gone, the plan has expired, or the Stack
// has moved on. docs/design/0006-partial-and-locks.md has the cases.

// waitForLock waits while a lock that was met is left alone. Whoever unlocks it makes the plan go on at once.
func (r *Reconciler) waitForLock(_ context.Context, s *scope) outcome.Outcome {
	wait := s.plan.Status.Lock
	if wait == nil || s.stack.Annotations[v1alpha1.AnnotationUnlock] != wait.Unlock {
		return outcome.Done()
	}
	if left := wait.NextAttemptAt.Sub(s.now); left > 0 {
		return outcome.Wait(v1alpha1.ReasonLocked, lockWords(wait), min(left, s.untilExpiry()))
	}
	return outcome.Done()
}

func lockWords(wait *v1alpha1.LockWait) string {
	return conditions.Shorten(fmt.Sprintf("approved; the stack is locked: %s. It is waited for and not broken; attempt %d is at %s. If its holder is dead: annotate the Stack with %s=<lock id>",
		locks.Text(wait.Locks), wait.Attempts+1, wait.NextAttemptAt.UTC().Format(time.RFC3339), v1alpha1.AnnotationUnlock), 2048)
}

// isLocked reports whether an attempt ended at somebody's lock, before anything was changed.
func isLocked(res *workspace.Result) bool {
	return res.Outcome == workspace.Failed && res.Reason == workspace.ReasonLocked && res.Steps.Done == 0
}

// locked takes back an attempt that met a lock. One write does all of it: until it is done the attempt is followed, and its
// result is the same.
func (r *Reconciler) locked(ctx context.Context, s *scope, res *workspace.Result) outcome.Outcome {
	list, err := r.plansOf(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	met := res.Locks
	if len(met) == 0 {
		met = []workspace.Lock{{Text: conditions.Shorten(res.Message, 512)}}
	}
	op, wait := s.plan.Status.Operation, &v1alpha1.LockWait{Attempts: 1}
	if before := s.plan.Status.Lock; before != nil {
		wait.Attempts = before.Attempts + 1
	}
	pause := lockPause
	for i := int32(1); i < wait.Attempts && pause < maxLockPause; i++ {
		pause *= 2
	}
	wait.Locks, wait.Unlock = locks.Seen(met, list), op.Unlock
	wait.MetAt, wait.NextAttemptAt = metav1.NewTime(s.now), metav1.NewTime(s.now.Add(min(pause, maxLockPause)))
	s.plan.Status.Lock, s.plan.Status.Operation = wait, nil
	s.plan.Status.ReleasedLocks = locks.Released(s.plan.Status.ReleasedLocks, res.Released)
	log.FromContext(ctx).Info("Waiting for a lock", "operation", op.ID, "locks", locks.Text(wait.Locks), "attempts", wait.Attempts)
	return outcome.Wait(v1alpha1.ReasonLocked, lockWords(wait), min(pause, maxLockPause))
}

// plansOf are all plans of the Stack, past the cache: they vouch for which locks are ours.
func (r *Reconciler) plansOf(ctx context.Context, s *scope) ([]v1alpha1.UpdatePlan, error) {
	list := &v1alpha1.UpdatePlanList{}
	err := r.uncached.List(ctx, list, client.InNamespace(s.plan.Namespace), client.MatchingFields{indexStack: s.plan.Spec.StackRef.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the UpdatePlans of Stack %q: %w", s.plan.Spec.StackRef.Name, err)
	}
	return list.Items, nil
}

// mayRelease are the locks that the attempt may remove.
func (r *Reconciler) mayRelease(ctx context.Context, s *scope) ([]workspace.LockRelease, error) {
	list, err := r.plansOf(ctx, s)
	if err != nil {
		return nil, err
	}
	op := s.plan.Status.Operation
	return locks.Allowed(ctx, r.uncached, s.plan.Namespace, op.Host, op.Unlock, list)
}

// tellReleased tells the locks that were removed since the last write, on the plan and on its Stack.
func (r *Reconciler) tellReleased(s *scope) {
	for _, l := range s.plan.Status.ReleasedLocks {
		known := false
		for _, before := range s.before.Status.ReleasedLocks {
			known = known || before.ID == l.ID && before.Holder == l.Holder && before.ReleasedAt.Equal(&l.ReleasedAt)
		}
		if known {
			continue
		}
		note := fmt.Sprintf("%s: %s. It was %s", l.Cause, l.By, locks.Text([]v1alpha1.StackLock{l.StackLock}))
		events.Emit(r.recorder, s.plan, "Warning", "LockReleased", "Apply", note)
		stack := &v1alpha1.Stack{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Stack"}}
		stack.Namespace, stack.Name, stack.UID = s.plan.Namespace, s.plan.Spec.StackRef.Name, types.UID(s.plan.Spec.StackRef.UID)
		events.Emit(r.recorder, stack, "Warning", "LockReleased", "Apply", fmt.Sprintf("for UpdatePlan %q: %s", s.plan.Name, note))
	}
}
