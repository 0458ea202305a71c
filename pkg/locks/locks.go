// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package locks is what the controllers of Stacks and UpdatePlans know about the locks of a stack in its backend: whose they are,
// and which of them an apply may remove.
//
// It must never allow to remove a lock that is not named by its whole id, or held by a pod of ours that the API server says is gone.
package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/workspace"
)

const (
	// maxLocks is how many locks a status shows, maxReleased how many released ones.
	maxLocks    = 10
	maxReleased = 10
	// maxHosts is how many dead operations of a Stack are looked after.
	maxHosts = 10
	maxText  = 512
)

// Seen are the locks that an agent met, as a status shows them. list are plans of the Stack, by which ours are known.
func Seen(met []workspace.Lock, list []v1alpha1.UpdatePlan) []v1alpha1.StackLock {
	var out []v1alpha1.StackLock
	for _, l := range met[:min(len(met), maxLocks)] {
		out = append(out, shown(l, owner(l.Host, list)))
	}
	return out
}

func shown(l workspace.Lock, ours string) v1alpha1.StackLock {
	s := v1alpha1.StackLock{ID: conditions.Shorten(l.ID, 253), Holder: conditions.Shorten(holder(l), maxText), Ours: ours}
	if !l.At.IsZero() {
		at := metav1.NewTime(l.At.UTC().Truncate(time.Second))
		s.Since = &at
	}
	return s
}

func holder(l workspace.Lock) string {
	switch {
	case l.Text != "":
		return l.Text
	case l.Host == "":
		return "somebody who cannot be told"
	default:
		return fmt.Sprintf("%s@%s (pid %d)", l.User, l.Host, l.PID)
	}
}

// owner is the operation of ours that ran on a host; "" when none did.
func owner(host string, list []v1alpha1.UpdatePlan) string {
	for i := range list {
		if op := list[i].Status.Operation; op != nil && host != "" && op.Host == host {
			return op.ID
		}
	}
	return ""
}

// Text says which locks are held, by whom and since when.
func Text(list []v1alpha1.StackLock) string {
	if len(list) == 0 {
		return "no lock is held"
	}
	texts := make([]string, 0, len(list))
	for _, l := range list {
		text := "held by " + l.Holder
		if l.ID != "" {
			text = fmt.Sprintf("lock %s, %s", l.ID, text)
		}
		if l.Since != nil {
			text += " since " + l.Since.UTC().Format(time.RFC3339)
		}
		if l.Ours != "" {
			text += fmt.Sprintf(" (our operation %s)", l.Ours)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// Allowed are the locks that an apply in a pod may remove: those of operations of the Stack whose pods are proven gone, asked of
// the API server and not of the cache, and the one of the given id. list are the Stack's plans, host is the pod's own.
func Allowed(ctx context.Context, uncached client.Reader, namespace, host, id string, list []v1alpha1.UpdatePlan) ([]workspace.LockRelease, error) {
	var out []workspace.LockRelease
	if id != "" {
		out = append(out, workspace.LockRelease{ID: id, Cause: workspace.LockRequested, By: "annotation " + v1alpha1.AnnotationUnlock + " on the Stack"})
	}
	for _, op := range dead(list, host) {
		lives, err := workspaces.PodLives(ctx, uncached, namespace, op.Pod)
		if err != nil {
			return nil, err
		}
		if lives {
			continue
		}
		out = append(out, workspace.LockRelease{
			Host: op.Host, Operation: op.ID, Cause: workspace.LockOwnDead,
			By: fmt.Sprintf("pod %q (uid %s) is gone, says the API server", op.Pod.Name, op.Pod.UID),
		})
	}
	return out, nil
}

// dead are the operations that may have left a lock on another host than the given one, the newest first.
func dead(list []v1alpha1.UpdatePlan, host string) []*v1alpha1.ApplyOperation {
	var out []*v1alpha1.ApplyOperation
	for i := range list {
		if op := list[i].Status.Operation; op != nil && op.Host != "" && op.Host != host && mayLeaveLock(op.Result) {
			out = append(out, op)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.ApplyOperation) int { return b.StartedAt.Compare(a.StartedAt.Time) })
	out = slices.CompactFunc(out, func(a, b *v1alpha1.ApplyOperation) bool { return a.Host == b.Host })
	return out[:min(len(out), maxHosts)]
}

// mayLeaveLock tells whether an operation that ended in this way may have left its lock. One that was killed after it was asked
// to stop ends as PartiallyApplied.
func mayLeaveLock(result string) bool {
	return result == v1alpha1.ReasonInterrupted || result == v1alpha1.ReasonPartiallyApplied
}

// Released adds the locks that an agent removed to those that a plan shows; the last ones stay. One that is there already, as
// after a restart, is not added again.
func Released(shownBefore []v1alpha1.ReleasedLock, removed []workspace.ReleasedLock) []v1alpha1.ReleasedLock {
	out := slices.Clone(shownBefore)
	for _, r := range removed {
		l := v1alpha1.ReleasedLock{
			StackLock: shown(r.Lock, conditions.Shorten(r.Operation, 64)), Cause: cause(r.Cause), By: conditions.Shorten(r.By, maxText),
			ReleasedAt: metav1.NewTime(r.ReleasedAt.UTC().Truncate(time.Second)),
		}
		if !slices.ContainsFunc(out, func(o v1alpha1.ReleasedLock) bool { return same(o, l) }) {
			out = append(out, l)
		}
	}
	return out[max(0, len(out)-maxReleased):]
}

func same(a, b v1alpha1.ReleasedLock) bool {
	return a.ID == b.ID && a.Holder == b.Holder && a.Since.Equal(b.Since) && a.ReleasedAt.Equal(&b.ReleasedAt)
}

// cause takes what is not known for what somebody asked for: it is never taken for proven.
func cause(c workspace.LockCause) v1alpha1.LockCause {
	if c == workspace.LockOwnDead {
		return v1alpha1.LockOwnDead
	}
	return v1alpha1.LockRequested
}

// Unlock tells what the annotation plangate.dev/unlock comes to; nil when there is none. held are the locks that are known, list the
// Stack's plans.
func Unlock(id string, held []v1alpha1.StackLock, list []v1alpha1.UpdatePlan) *v1alpha1.UnlockStatus {
	if id == "" {
		return nil
	}
	u := &v1alpha1.UnlockStatus{Lock: conditions.Shorten(id, 253)}
	for _, l := range held {
		if l.ID == id {
			u.State = v1alpha1.UnlockPending
			u.Message = conditions.Shorten(Text([]v1alpha1.StackLock{l})+": it is released when an approved plan is applied", 1024)
			return u
		}
	}
	for i := range list {
		for _, l := range list[i].Status.ReleasedLocks {
			if l.ID == id {
				u.State = v1alpha1.UnlockReleased
				u.Message = conditions.Shorten(fmt.Sprintf("%s: released for UpdatePlan %q at %s; the annotation does nothing any more", Text([]v1alpha1.StackLock{l.StackLock}), list[i].Name, l.ReleasedAt.UTC().Format(time.RFC3339)), 1024)
				return u
			}
		}
	}
	u.State = v1alpha1.UnlockNotHeld
	u.Message = conditions.Shorten(fmt.Sprintf("nothing is released: no lock %q is known to be held. Now: %s. The annotation takes the whole id of a lock, and no other lock is ever released by it", id, Text(held)), 1024)
	return u
}
