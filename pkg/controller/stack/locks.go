// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/locks"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
)

// setLocks tells the locks that are known: those that the plan that is to be applied has met, or else those that the last
// preview saw. A loop that could not look leaves all as it is.
func setLocks(s *scope, stopped outcome.Stopped) {
	if stopped.Step == stepLook {
		return
	}
	status := &s.stack.Status
	if s.result != nil {
		status.Locks = locks.Seen(s.result.Locks, s.plans)
	}
	if s.plan != nil {
		wait := s.plan.Status.Lock
		switch planstate.Of(s.plan) {
		case planstate.Applying, planstate.Approved:
			if wait != nil {
				status.Locks = wait.Locks
			}
		case planstate.Applied:
			// It has held the lock itself, and was given it alone.
			status.Locks = nil
		}
	}
	status.Unlock = locks.Unlock(s.stack.Annotations[v1alpha1.AnnotationUnlock], status.Locks, s.plans)
}

// tellUnlock tells once that an annotation names a lock that nobody holds.
func (r *Reconciler) tellUnlock(s *scope) {
	was, is := s.before.Status.Unlock, s.stack.Status.Unlock
	if is == nil || is.State != v1alpha1.UnlockNotHeld || was != nil && was.Lock == is.Lock && was.State == is.State {
		return
	}
	events.Emit(r.recorder, s.stack, "Warning", "UnlockIgnored", "Reconcile", is.Message)
}
