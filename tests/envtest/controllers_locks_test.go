// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

const theirLock = "11111111-2222-4333-8444-555555555555"

// theirs is a lock of somebody else.
var theirs = workspace.Lock{ID: theirLock, User: "alice", Host: "laptop", PID: 4711, At: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}

// lockedBy makes applies meet these locks, and keep the agent's promise: what may be released is, and nothing else.
func (a *fakeAgents) lockedBy(held *[]workspace.Lock) {
	apply := a.apply
	a.apply = func(op workspace.Operation) *workspace.Result {
		var released []workspace.ReleasedLock
		*held = slices.DeleteFunc(*held, func(l workspace.Lock) bool {
			for _, r := range op.Release {
				if r.ID != "" && r.ID == l.ID || r.Host != "" && r.Host == l.Host {
					released = append(released, workspace.ReleasedLock{Lock: l, Operation: r.Operation, Cause: r.Cause, By: r.By, ReleasedAt: time.Now()})
					return true
				}
			}
			return false
		})
		if len(*held) > 0 {
			return &workspace.Result{Outcome: workspace.Failed, Reason: workspace.ReasonLocked, Message: "the stack is locked", Locks: slices.Clone(*held), Released: released}
		}
		result := apply(op)
		result.Released = released
		return result
	}
}

// planWaitingForLock brings a rig's first plan to where it waits for a lock.
func planWaitingForLock(t *testing.T, held *[]workspace.Lock) *rig {
	r := newRig(t)
	r.agents.lockedBy(held)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.approve(r.waiting(1))
	r.until("the plan waits for the lock", func() bool { return r.reasonOf(1) == v1alpha1.ReasonLocked })
	r.settle()
	return r
}

func TestALockOfSomebodyElseIsToldAndWaitedForAndThePlanGoesOn(t *testing.T) {
	t.Parallel()
	held := []workspace.Lock{theirs}
	r := planWaitingForLock(t, &held)
	p := r.plan(1)
	r.g.Expect(line(p.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("Unknown Locked"))
	r.g.Expect(message(p.Status.Conditions, v1alpha1.ConditionReady)).To(And(ContainSubstring("alice@laptop (pid 4711)"), ContainSubstring("since 2026-11-30T12:00:00Z"), ContainSubstring(theirLock)))
	r.g.Expect(p.Status.Operation).To(BeNil(), "nothing was started that could have changed anything")
	r.g.Expect(line(p.Status.Conditions, v1alpha1.ConditionApproved)).To(Equal("True Approved"))
	r.g.Expect(p.Status.Lock.Attempts).To(Equal(int32(1)))
	r.g.Expect(r.stack().Status.Locks).To(HaveLen(1))
	r.g.Expect(r.stack().Status.Locks[0].ID).To(Equal(theirLock))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1), "it is left alone for a while")

	// Later, it is tried again; the pauses grow.
	offset := time.Duration(0)
	r.planClock = func() time.Time { return time.Now().Add(offset) }
	r.restart(r.client)
	for n := int32(2); n <= 4; n++ {
		last := r.plan(1).Status.Lock
		offset += last.NextAttemptAt.Sub(last.MetAt.Time) + time.Second
		r.until("another attempt", func() bool { w := r.plan(1).Status.Lock; return w != nil && w.Attempts == n })
		next := r.plan(1).Status.Lock
		r.g.Expect(next.NextAttemptAt.Sub(next.MetAt.Time)).To(And(BeNumerically(">=", last.NextAttemptAt.Sub(last.MetAt.Time)), BeNumerically("<=", 2*time.Minute)))
	}
	held = nil // it vanishes by itself
	offset += 3 * time.Minute
	done := r.ends(1)
	r.g.Expect(line(done.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(done.Status.Lock).To(BeNil())
	r.g.Expect(done.Status.ReleasedLocks).To(BeEmpty())
	r.g.Expect(r.stack().Status.Locks).To(BeEmpty())
	for _, op := range r.agents.ran(workspace.Apply) {
		r.g.Expect(op.Release).To(BeEmpty(), "nobody has allowed to break it")
	}
}

func TestTheAnnotationReleasesTheLockThatItNamesAndNoOther(t *testing.T) {
	t.Parallel()
	held := []workspace.Lock{theirs}
	r := planWaitingForLock(t, &held)

	r.annotate(r.stack(), v1alpha1.AnnotationUnlock, theirLock[:8])
	r.settle()
	u := r.stack().Status.Unlock
	r.g.Expect(u).NotTo(BeNil())
	r.g.Expect(u.State).To(Equal(v1alpha1.UnlockNotHeld))
	r.g.Expect(u.Message).To(And(ContainSubstring("nothing is released"), ContainSubstring(theirLock), ContainSubstring("alice@laptop")))
	r.g.Expect(r.recorder.all()).To(ContainElement(ContainSubstring("Warning UnlockIgnored: nothing is released")))
	r.g.Expect(held).To(HaveLen(1))

	r.annotate(r.stack(), v1alpha1.AnnotationUnlock, theirLock)
	done := r.ends(1)
	r.g.Expect(line(done.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(done.Status.ReleasedLocks).To(HaveLen(1))
	got := done.Status.ReleasedLocks[0]
	r.g.Expect(got.ID + " " + got.Holder + " " + string(got.Cause) + " " + got.Ours).To(Equal(theirLock + " alice@laptop (pid 4711) Requested "))
	r.g.Expect(done.Status.Operation.Unlock).To(Equal(theirLock))
	events := r.recorder.all()
	r.g.Expect(events).To(ContainElement(And(HavePrefix("*v1alpha1.UpdatePlan Warning LockReleased: "), ContainSubstring("alice@laptop"))))
	r.g.Expect(events).To(ContainElement(And(HavePrefix("*v1alpha1.Stack Warning LockReleased: "), ContainSubstring("alice@laptop"))))
	r.g.Expect(strings.Join(r.audit.lines, "\n")).To(ContainSubstring(fmt.Sprintf(`"released":[{"id":%q,"holder":"alice@laptop (pid 4711)","since":"2026-11-30T12:00:00Z","operation":"","cause":"Requested"`, theirLock)))
	r.g.Expect(r.stack().Status.Unlock.State).To(Equal(v1alpha1.UnlockReleased))
	r.whole(1, "a record with a lock")
}

func TestAPlanThatWaitsForALockStillExpiresAndSaysWhy(t *testing.T) {
	t.Parallel()
	held := []workspace.Lock{theirs}
	r := planWaitingForLock(t, &held)
	r.planClock = func() time.Time { return time.Now().Add(2 * time.Hour) }
	r.settings.Now = r.planClock
	r.restart(r.client)
	done := r.ends(1)
	r.g.Expect(line(done.Status.Conditions, v1alpha1.ConditionObsolete)).To(Equal("True Expired"))
	r.g.Expect(message(done.Status.Conditions, v1alpha1.ConditionObsolete)).To(ContainSubstring("alice@laptop"))
}

// The whole story of a pod that dies: what was cut off is told, the next plan completes the first, its lock is ours, and it goes
// only because the pod is gone.
func TestTheLockOfADeadPodIsReleasedOnceThatIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held := []workspace.Lock{}
	r.agents.lockedBy(&held)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.agents.hold = false
	first := r.waiting(1)
	r.agents.hold = true
	r.approve(first)
	r.until("the plan is being applied", func() bool { p := r.plan(1); return p.Status.Operation != nil })
	op := r.plan(1).Status.Operation
	host := r.pod().Spec.Hostname
	r.g.Expect(host).To(MatchRegexp(`^web-workspace-[a-z2-7]{8}$`))
	r.g.Expect(op.Host).To(Equal(host), "by it the lock is known, and it is written down before anything is started")
	r.settle()

	held = []workspace.Lock{{ID: "ours", User: "pulumi", Host: host, PID: 17, At: time.Now()}}
	preview := r.agents.preview
	r.agents.preview = func(o workspace.Operation) *workspace.Result {
		res := preview(o)
		res.Locks = slices.Clone(held)
		res.Pending = []workspace.Pending{{Operation: "creating", URN: first.Spec.Changes[0].URN}}
		return res
	}
	r.agents.dead = map[string]bool{string(r.pod().UID): true}
	r.g.Expect(r.client.Delete(r.ctx, r.pod(), client.GracePeriodSeconds(0))).To(Succeed())
	r.agents.hold = false
	interrupted := r.ends(1)
	r.g.Expect(line(interrupted.Status.Conditions, v1alpha1.ConditionApplied)).To(Equal("False Interrupted"))

	next := r.waiting(2)
	r.g.Expect(next.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerRetry))
	r.g.Expect(next.Spec.Trigger.Completes).To(Equal(&v1alpha1.CompletedPlan{Name: first.Name, Digest: first.Spec.Digest, Result: v1alpha1.ReasonInterrupted}))
	r.g.Expect(next.Spec.Pending).To(HaveLen(1))
	r.g.Expect(next.Spec.Pending[0].Operation).To(Equal(v1alpha1.PendingCreating))
	r.g.Expect(next.Status.Diff[0]).To(HavePrefix("! completes UpdatePlan " + first.Name))
	r.g.Expect(next.Status.Diff[1]).To(HavePrefix("! cut off while creating "))
	st := r.stack()
	r.g.Expect(st.Status.Pending).To(HaveLen(1))
	r.g.Expect(st.Status.Locks).To(HaveLen(1))
	r.g.Expect(st.Status.Locks[0].Ours).To(Equal(op.ID))

	r.approve(next)
	done := r.ends(2)
	r.g.Expect(line(done.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(done.Status.ReleasedLocks).To(HaveLen(1))
	r.g.Expect(done.Status.ReleasedLocks[0].Ours).To(Equal(op.ID))
	r.g.Expect(done.Status.ReleasedLocks[0].Cause).To(Equal(v1alpha1.LockOwnDead))
	r.g.Expect(done.Status.ReleasedLocks[0].By).To(ContainSubstring(op.Pod.UID))
	r.g.Expect(strings.Join(r.audit.lines, "\n")).To(And(ContainSubstring(`"cause":"OwnDead"`), ContainSubstring(fmt.Sprintf(`"completes":%q`, first.Name))))
	r.g.Expect(r.stack().Status.Locks).To(BeEmpty())
}

// A pod that the API server still has is not proven gone, whatever its plan says.
func TestTheLockOfAPodThatMayLiveIsNotReleased(t *testing.T) {
	t.Parallel()
	held := []workspace.Lock{}
	r := newRig(t)
	r.agents.lockedBy(&held)
	r.create(builder.Stack(r.namespace, "web").Obj())
	first := r.waiting(1)
	r.agents.apply = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Interrupted, Reason: workspace.ReasonAgentDied, Message: "the agent died"}
	}
	r.approve(first)
	r.ends(1)
	// Somebody wrote another host into the plan than its pod has: the pod lives all the same.
	p := r.plan(1)
	p.Status.Operation.Host = "elsewhere"
	r.g.Expect(r.client.Status().Update(r.ctx, p)).To(Succeed())
	held = []workspace.Lock{{ID: "x", Host: "elsewhere", PID: 1}}
	r.agents.lockedBy(&held)
	r.approve(r.waiting(2))
	r.until("the plan waits for the lock", func() bool { return r.reasonOf(2) == v1alpha1.ReasonLocked })
	r.g.Expect(held).To(HaveLen(1))
}

func TestAPodWhoseWorkspaceWasTornAwayIsLeftUntilItsOperationHasEnded(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		t.Run(fmt.Sprintf("the Workspace comes back %t", recreated), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			first := r.waiting(1)
			r.agents.hold = true
			r.approve(first)
			r.until("the plan is being applied", func() bool { return len(r.agents.ran(workspace.Apply)) == 1 })
			uid := r.pod().UID
			ws := r.workspace()
			ws.Finalizers = nil
			r.g.Expect(r.client.Update(r.ctx, ws)).To(Succeed())
			r.g.Expect(r.client.Delete(r.ctx, ws)).To(Succeed())
			if recreated {
				copied := &v1alpha1.Workspace{ObjectMeta: meta1(ws.Namespace, ws.Name), Spec: ws.Spec}
				copied.Labels, copied.OwnerReferences = ws.Labels, ws.OwnerReferences
				r.create(copied)
			}
			for range 5 {
				_, err := r.workspaces.Reconcile(r.ctx, request(ws))
				r.g.Expect(err).NotTo(HaveOccurred())
				r.round()
				r.g.Expect(r.pod().UID).To(Equal(uid))
				r.g.Expect(r.pod().DeletionTimestamp.IsZero()).To(BeTrue(), "an operation runs in it")
				r.g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonApplying))
			}
			r.agents.hold = false
			done := r.ends(1)
			r.g.Expect(line(done.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
			r.until("the orphan goes", func() bool {
				_, err := r.workspaces.Reconcile(r.ctx, request(ws))
				r.g.Expect(err).NotTo(HaveOccurred())
				pod := &corev1.Pod{}
				err = r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web-workspace"}, pod)
				return apierrors.IsNotFound(err) || pod.UID != uid || !pod.DeletionTimestamp.IsZero()
			})
		})
	}
}

// An operator dies at its N-th deed, for every N, while a plan waits for a lock and is then unlocked.
func TestAnOperatorMayDieAtAnyMomentWhileAPlanWaitsForALock(t *testing.T) {
	deeds := lockAndDeath(t, &mortal{})
	t.Logf("an operator does %d deeds", deeds)
	for _, after := range []bool{false, true} {
		for fatal := 1; fatal <= deeds; fatal++ {
			t.Run(fmt.Sprintf("at deed %d, done %t", fatal, after), func(t *testing.T) {
				t.Parallel()
				lockAndDeath(t, &mortal{fatal: fatal, after: after})
			})
		}
	}
}

func lockAndDeath(t *testing.T, m *mortal) int {
	held := []workspace.Lock{theirs}
	r := newRig(t)
	r.agents.lockedBy(&held)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	dying := true
	r.agents.before = func(call string) {
		if dying && call != "Result" {
			m.before(call)
		}
	}
	r.agents.after = func(call string) {
		if dying && call != "Result" {
			m.afterwards(call)
		}
	}
	r.restart(m.client(t))
	died := r.unlockedLife()
	dying = false
	deeds := m.done
	if died {
		r.restart(r.client)
		r.unlockedLife()
	}
	r.settle()
	applied := 0
	for _, result := range r.agents.pods[string(r.pod().UID)].results {
		if result.Type == workspace.Apply && result.Outcome == workspace.Succeeded {
			applied++
		}
	}
	r.g.Expect(applied).To(Equal(1), "died at %s: applied once", m.at)
	p := r.plan(1)
	r.g.Expect(p.Status.ReleasedLocks).To(HaveLen(1), "died at %s: the release is told once", m.at)
	r.g.Expect(line(p.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"), "died at %s", m.at)
	r.whole(1, "died at "+m.at)
	return deeds
}

// unlockedLife runs rounds in which the plan is approved, and unlocked when it waits for the lock, until the Stack is in sync.
func (r *rig) unlockedLife() (died bool) {
	defer func() {
		if d := recover(); d != nil {
			if _, ok := d.(death); !ok {
				panic(d)
			}
			died = true
		}
	}()
	for range 60 {
		r.round()
		p := r.plan(1)
		if p.Annotations[v1alpha1.AnnotationApprove] == "" {
			r.approve(p)
		}
		if p.Status.Lock != nil && r.stack().Annotations[v1alpha1.AnnotationUnlock] == "" {
			r.annotate(r.stack(), v1alpha1.AnnotationUnlock, theirLock)
		}
		if meta.IsStatusConditionTrue(r.stack().Status.Conditions, v1alpha1.ConditionReady) {
			return false
		}
	}
	r.t.Fatalf("the Stack is not in sync after 60 rounds; problems: %v\n%s", r.problems, r.describe())
	return false
}
