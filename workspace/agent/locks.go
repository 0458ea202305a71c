// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/journal"
	"github.com/plangate/plangate/workspace/pulumi"
)

// lookForLocks reads the locks of the stack, where the backend shows them. It comes before the state is read: a state that is
// read while there is no lock is not one in motion.
func (x *execution) lookForLocks(ctx context.Context) error {
	locks, err := x.driver.Locks(ctx, x.target)
	switch {
	case errors.Is(err, pulumi.ErrLocksHidden):
		return nil
	case err != nil:
		return x.partly(fail(workspace.ReasonBackendUnavailable, err))
	}
	x.out.Locks = locks
	return nil
}

// clearWay removes the locks that may be removed, and refuses to go on while there is another: the CLI would only say the same.
func (x *execution) clearWay(ctx context.Context) error {
	if len(x.out.Locks) == 0 {
		return nil
	}
	released, err := x.release(ctx, x.out.Locks)
	if err != nil {
		return fail(workspace.ReasonLocked, err)
	}
	if released {
		// Whoever held it may have moved the state until just now.
		if err := x.compareState(ctx); err != nil {
			return err
		}
	}
	locks, err := x.driver.Locks(ctx, x.target)
	switch {
	case errors.Is(err, pulumi.ErrLocksHidden):
		return nil
	case err != nil:
		return fail(workspace.ReasonBackendUnavailable, err)
	case len(locks) == 0:
		x.out.Locks = nil
		return x.compareState(ctx)
	}
	x.out.Locks = locks
	return fail(workspace.ReasonLocked, errors.New("the stack is locked: "+locksText(locks)))
}

func locksText(locks []workspace.Lock) string {
	texts := make([]string, 0, len(locks))
	for _, l := range locks {
		text := "held by " + pulumi.LockText(l)
		if !l.At.IsZero() {
			text += " since " + l.At.UTC().Format(time.RFC3339)
		}
		if l.ID != "" {
			text += fmt.Sprintf(" (lock %s)", l.ID)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// release removes those locks that may be removed, and tells whether it removed any. Where the backend can only remove all, it
// removes none unless all may be. What it is about to remove is written down first.
func (x *execution) release(ctx context.Context, locks []workspace.Lock) (bool, error) {
	var going []workspace.Lock
	var told []workspace.ReleasedLock
	for _, l := range locks {
		r, ok := x.mayRelease(l)
		if !ok {
			continue
		}
		going = append(going, l)
		told = append(told, workspace.ReleasedLock{Lock: l, Operation: r.Operation, Cause: r.Cause, By: r.By, ReleasedAt: x.config.Now().UTC()})
	}
	if len(going) == 0 {
		return false, nil
	}
	if _, err := x.driver.Locks(ctx, x.target); errors.Is(err, pulumi.ErrLocksHidden) && len(going) < len(locks) {
		return false, nil
	}
	x.out.Released = append(x.out.Released, told...)
	if err := x.journal.Releasing(x.op.ID, x.out.Released); err != nil {
		x.out.Released = x.out.Released[:len(x.out.Released)-len(told)]
		return false, err
	}
	for _, l := range told {
		x.config.Log.Info("Releasing a lock", "operation", x.op.ID, "lock", l.ID, "holder", pulumi.LockText(l.Lock), "cause", l.Cause)
		x.say(fmt.Sprintf("Releasing the lock of %s (%s: %s)", pulumi.LockText(l.Lock), l.Cause, l.By))
	}
	return true, x.driver.Unlock(ctx, x.target, going)
}

// mayRelease says why a lock may be removed: the operator named it or the dead host that holds it, or an operation of this very
// agent that was cut off has left it. A lock without a holder is somebody else's, and one of this living pod is never named.
func (x *execution) mayRelease(l workspace.Lock) (workspace.LockRelease, bool) {
	for _, r := range x.op.Release {
		switch {
		case r.Cause == workspace.LockRequested && r.ID != "" && r.ID == l.ID:
			return r, true
		case r.Cause == workspace.LockOwnDead && r.Host != "" && r.Host == l.Host && r.Host != x.host:
			return r, true
		}
	}
	i := slices.IndexFunc(x.journal.All(), func(r journal.Record) bool { return x.hasLeft(l, &r) })
	if i < 0 {
		return workspace.LockRelease{}, false
	}
	r := x.journal.All()[i]
	return workspace.LockRelease{
		Operation: r.ID, Cause: workspace.LockOwnDead, By: fmt.Sprintf("process %d of this pod, which the agent has found dead", r.PID),
	}, true
}

// hasLeft says whether a lock is left over from an Apply or a Destroy of this agent that was cut off: same stack, host and process, and taken
// while that operation ran. Its process is dead: the agent killed it when it started.
func (x *execution) hasLeft(lock workspace.Lock, r *journal.Record) bool {
	sameStack := r.Type.Mutates() && r.Stack == x.op.Stack && r.Backend == withoutUser(x.op.Backend)
	sameProcess := r.PID != 0 && r.PID == lock.PID && r.Host == lock.Host
	return sameStack && sameProcess && r.Result != nil && mayLeaveLock[r.Result.Outcome] && x.heldDuring(lock, r)
}

// mayLeaveLock are the ends after which a lock can be left: a process that had to be killed leaves its own, too.
var mayLeaveLock = map[workspace.Outcome]bool{workspace.Interrupted: true, workspace.Cancelled: true, workspace.Partial: true}

// heldDuring says whether the lock was taken while the operation ran. The lock's time has whole seconds.
func (x *execution) heldDuring(lock workspace.Lock, r *journal.Record) bool {
	until := r.Result.EndedAt
	if until.IsZero() {
		until = x.started
	}
	return !lock.At.Before(r.StartedAt.Truncate(time.Second)) && !lock.At.After(until.Add(time.Second))
}

// compareState reads the state again and refuses to go on when it is not the one that was approved.
func (x *execution) compareState(ctx context.Context) error {
	deployment, err := x.driver.Export(ctx, x.target)
	if err != nil && !errors.Is(err, pulumi.ErrNoStack) { // none is like an empty one
		return fail(pulumi.ReasonOf(err.Error(), workspace.ReasonBackendUnavailable), err)
	}
	state, err := pulumi.Digest(deployment)
	if err != nil {
		return fail(workspace.ReasonBackendUnavailable, err)
	}
	if state.Digest == x.op.Expect.StateDigest {
		return nil
	}
	x.deployment, x.state, x.out.Facts.StateDigest = deployment, state, state.Digest
	x.out.Mismatches = append(x.out.Mismatches, workspace.Mismatch{
		Field: "stateDigest", Was: x.op.Expect.StateDigest, Is: state.Digest, Detail: x.stateDetail(x.op.Expect.StateDigest),
	})
	return x.mismatched()
}

// guard compares the state once more when the lock is held, where that takes no time.
func (x *execution) guard(ctx context.Context) error {
	if _, err := x.driver.Locks(ctx, x.target); err != nil {
		return nil //nolint:nilerr // it was compared a moment ago
	}
	var moved *stop
	if err := x.compareState(ctx); errors.As(err, &moved) && moved.outcome == workspace.Stale {
		return moved
	}
	return nil
}
