// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// auditLog keeps what goes to the audit log.
type auditLog struct {
	mu    sync.Mutex
	lines []string
	// err is the error of every write. Nil: none.
	err error
	// before and after are called around each write.
	before, after func(deed string)
}

func (a *auditLog) Write(text []byte) (int, error) {
	if a.before != nil {
		a.before("audit")
	}
	a.mu.Lock()
	err := a.err
	if err == nil {
		a.lines = append(a.lines, strings.TrimSuffix(string(text), "\n"))
	}
	a.mu.Unlock()
	if a.after != nil {
		a.after("audit")
	}
	return len(text), err
}

// auditLine is what somebody reads who knows nothing but docs/audit.md.
type auditLine struct {
	Schema  string          `json:"schema"`
	Cluster string          `json:"cluster"`
	Digest  string          `json:"digest"`
	Record  json.RawMessage `json:"record"`
}

// audited are the records in the audit log, by their digest.
func (r *rig) audited() map[string]plans.Record {
	r.t.Helper()
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	found := map[string]plans.Record{}
	for _, text := range r.audit.lines {
		line, record := auditLine{}, plans.Record{}
		for _, into := range []any{&line, &record} {
			decoder := json.NewDecoder(strings.NewReader(text))
			if into == any(&record) {
				decoder = json.NewDecoder(bytes.NewReader(line.Record))
			}
			decoder.DisallowUnknownFields()
			r.g.Expect(decoder.Decode(into)).To(Succeed())
		}
		r.g.Expect(line.Schema).To(Equal("plangate.dev/audit/v1alpha1"))
		r.g.Expect(line.Cluster).To(Equal(cluster))
		r.g.Expect(plans.BytesDigest(line.Record)).To(Equal(line.Digest))
		found[line.Digest] = record
	}
	return found
}

// chain verifies the records of the Stack as they are in the cluster.
func (r *rig) chain() plans.Chain {
	r.t.Helper()
	st, links := r.stack(), []plans.Link{}
	for _, p := range r.listPlans() {
		if record := p.Status.Record; record != nil && p.Spec.StackRef.UID == string(st.UID) {
			links = append(links, plans.Link{Record: planstate.Record(&p, record.Index, record.Previous), Digest: record.Digest})
		}
	}
	return plans.VerifyChain(links, st.Status.RecordHead)
}

// whole checks that the Stack's plans that have ended are one chain of that length, and that the audit log holds just that.
func (r *rig) whole(length int, when string) {
	r.t.Helper()
	chain := r.chain()
	r.g.Expect(chain.Faults).To(BeEmpty(), "%s: %s", when, r.describe())
	r.g.Expect(chain.Notes).To(BeEmpty(), when)
	r.g.Expect(chain.Links).To(HaveLen(length), when)
	audited := r.audited()
	r.g.Expect(audited).To(HaveLen(length), "%s: each end goes out, and no two records of one end", when)
	for _, link := range chain.Links {
		r.g.Expect(audited).To(HaveKeyWithValue(link.Digest, link.Record), when)
	}
	r.g.Expect(r.stack().Status.RecordNext).To(BeNil(), when)
}

func TestEveryEndIsAChainAndALineInTheAuditLog(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	r.g.Expect(r.audited()).To(BeEmpty(), "nothing has ended")
	r.sources.push("main", builder.OtherCommit)
	r.approve(r.waiting(2))
	r.ends(2)
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Config = builder.Stack("", "").Config("a", 1).Obj().Spec.Config })
	third := r.waiting(3)
	r.annotate(third, v1alpha1.AnnotationReject, third.Spec.Digest+" not <now> & not later")
	third = r.ends(3)
	r.whole(3, "three ends")
	outcomes, records := []string{}, r.chain().Links
	for _, link := range records {
		outcomes = append(outcomes, link.Record.Outcome)
	}
	r.g.Expect(outcomes).To(Equal([]string{v1alpha1.ReasonSuperseded, v1alpha1.ReasonApplied, v1alpha1.ReasonRejected}))
	applied := records[1].Record
	r.g.Expect(applied.Apply.ID).To(Equal(r.plan(2).Status.Operation.ID))
	r.g.Expect(applied.Decisions).To(HaveLen(1))
	r.g.Expect(applied.Decisions[0].Digest).To(Equal(r.plan(2).Spec.Digest))
	r.g.Expect(r.stack().Status.RecordHead).To(Equal(&v1alpha1.RecordHead{Plan: third.Name, Digest: third.Status.Record.Digest, Index: 3}))

	// What was recorded cannot be written over, not even by those who may write the status.
	before := third.DeepCopy()
	third.Status.Record.Previous = builder.Digest("mine")
	r.g.Expect(r.client.Status().Patch(r.ctx, third, client.MergeFrom(before))).To(MatchError(ContainSubstring("a record never changes")))
	third = before.DeepCopy()
	third.Status.Record = nil
	r.g.Expect(r.client.Status().Patch(r.ctx, third, client.MergeFrom(before))).To(MatchError(ContainSubstring("a record never changes")))
	third = before.DeepCopy()
	third.Status.Decisions[0].By = "nobody"
	r.g.Expect(r.client.Status().Patch(r.ctx, third, client.MergeFrom(before))).To(Succeed())
	r.g.Expect(r.chain().Faults).To(HaveLen(1), "and what else was written over is found")
}

// An end that cannot go out is not recorded; nothing else waits for it.
func TestAnAuditLogThatFailsIsToldAndLosesNothing(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.audit.err = errors.New("no space left on device")
	r.approve(plan)
	r.until("the Stack is in sync", func() bool { return line(r.stack().Status.Conditions, v1alpha1.ConditionReady) == "True InSync" })
	for range 3 {
		r.round()
	}
	plan = r.plan(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionRecorded)).To(Equal("Unknown NotRecorded"))
	r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionRecorded)).To(ContainSubstring("no space left"))
	r.audit.err = nil
	r.ends(1)
	r.whole(1, "afterwards")
}

func TestAPlanThatIsDeletedIsRecordedFirst(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
	r.until("the plan is gone", func() bool { return r.plan(1) == nil })
	r.g.Expect(r.audited()).To(HaveLen(1))
	for digest, record := range r.audited() {
		r.g.Expect(record.Outcome).To(Equal(v1alpha1.ReasonDeleted))
		r.g.Expect(r.stack().Status.RecordHead.Digest).To(Equal(digest), "the next record follows it")
	}
	r.approve(r.waiting(2))
	second := r.ends(2)
	r.g.Expect(second.Status.Record.Index).To(BeEquivalentTo(2))
	chain := r.chain()
	r.g.Expect(chain.Faults).To(BeEmpty())
	r.g.Expect(chain.Notes).To(ConsistOf(ContainSubstring("begins with record 2")))

	r.g.Expect(r.client.Delete(r.ctx, r.stack())).To(Succeed())
	r.until("the Stack is gone", r.stackGone)
	r.until("its plans are gone", func() bool { r.collect(); return len(r.listPlans()) == 0 })
	r.g.Expect(r.audited()).To(HaveLen(2), "an end goes out once")
}

func TestAWaitingPlanOfADeletedStackIsRecordedBeforeTheStackIsGone(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	r.g.Expect(r.client.Delete(r.ctx, r.stack())).To(Succeed())
	r.until("the Stack is gone", r.stackGone)
	r.g.Expect(r.audited()).To(HaveLen(1))
	r.g.Expect(r.plan(1).Status.Record.Index).To(BeEquivalentTo(1))
	r.g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonStackGone))
}

// endMany makes plans of the Stack that end at once: what an attacker, or an operator that was away, leaves.
func (r *rig) endMany(count int) {
	r.t.Helper()
	last := r.plan(1)
	for i := range count {
		spec := last.Spec.DeepCopy()
		spec.Trigger.Message = fmt.Sprintf("plan %d", i)
		// In no order, and some with one number.
		spec.Sequence = []int64{2, 9, 3, 3, 1, 7}[i%6]
		plan := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Labels: last.Labels}, Spec: *spec}
		restated(r.t.(*testing.T), plan)
		plan.Name = fmt.Sprintf("%s-%d", plan.Name, i)
		r.create(plan)
	}
}

// Several plans end at the same time, and the operators that record that die at any deed, again and again.
func TestTheChainNeverForksWhoeverDiesWhen(t *testing.T) {
	const ends = 7
	// The deeds of operators that need not die are few; the seeds go through those of all that do.
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 3))
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Commit(builder.Commit).Obj())
			r.waiting(1)
			r.endMany(ends - 1)
			r.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true })
			for death := range 40 {
				m := &mortal{fatal: 1 + random.IntN(6), after: random.IntN(2) == 0}
				r.audit.before, r.audit.after = m.before, m.afterwards
				r.restart(m.client(t))
				r.dieWithin(12, random)
				if death > 4 && r.stack().Status.RecordNext == nil && r.allRecorded() {
					break
				}
			}
			r.audit.before, r.audit.after = nil, nil
			r.restart(r.client)
			r.settle()
			r.whole(ends, "at last")
		})
	}
}

func (r *rig) allRecorded() bool {
	for _, p := range r.listPlans() {
		if !planstate.Recorded(&p) {
			return false
		}
	}
	return true
}

// dieWithin lets the controllers look at objects in any order, until the operator dies.
func (r *rig) dieWithin(looks int, random *rand.Rand) {
	defer func() {
		if d := recover(); d != nil {
			if _, ok := d.(death); !ok {
				panic(d)
			}
		}
	}()
	for range looks {
		list := r.listPlans()
		if i := random.IntN(len(list) + 3); i < len(list) {
			_, _ = r.plans.Reconcile(r.ctx, request(&list[i])) // a conflict, or an audit log that fails
			continue
		}
		_, _ = r.stacks.Reconcile(r.ctx, request(r.stack())) // the same
	}
}

// Two operators at once, which the lease forbids: each works on all plans at the same time.
func TestTheChainNeverForksWithTwoOperators(t *testing.T) {
	const ends = 7
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Commit(builder.Commit).Obj())
	r.waiting(1)
	r.endMany(ends - 1)
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true })
	first := *r
	r.restart(r.client)
	var both sync.WaitGroup
	for _, operator := range []rig{first, *r} {
		for i := range ends + 1 {
			both.Go(func() {
				for range 40 {
					if list := operator.listPlans(); i < len(list) {
						_, _ = operator.plans.Reconcile(r.ctx, request(&list[i]))
						continue
					}
					_, _ = operator.stacks.Reconcile(r.ctx, request(operator.stack()))
				}
			})
		}
	}
	both.Wait()
	r.settle()
	r.whole(ends, "at last")
}

// Plans come and end; of each Stack as many are kept as it wants, and the chain says what is gone.
func TestHistoryIsPruned(t *testing.T) {
	r := newRig(t)
	limit := int32(2)
	st := builder.Stack(r.namespace, "web").Config("n", 0).Obj()
	st.Spec.Plan = &v1alpha1.PlanSettings{HistoryLimit: &limit}
	r.create(st)
	r.approve(r.waiting(1))
	r.ends(1)
	for i := range int64(5) {
		r.edit(func(s *v1alpha1.Stack) { s.Spec.Config["n"] = builder.JSON(i + 1) })
		r.waiting(i + 2)
	}
	r.settle()
	var left []int64
	for _, p := range r.listPlans() {
		left = append(left, p.Spec.Sequence)
	}
	r.g.Expect(left).To(ConsistOf(int64(1), int64(5), int64(6)), "the last applied, the head of the chain, and the one that waits")
	r.g.Expect(r.audited()).To(HaveLen(5), "what is pruned has gone out")
	chain := r.chain()
	r.g.Expect(chain.Faults).To(BeEmpty())
	r.g.Expect(chain.Notes).To(ConsistOf("records 2 to 4 are pruned and cannot be verified here"))
	r.g.Expect(r.stack().Status.LastAppliedPlan.Name).To(Equal(r.plan(1).Name))
	owned := 0
	secret := &corev1.Secret{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: r.plan(6).Spec.Artifact.Chunks[0]}, secret)).To(Succeed())
	for _, owner := range secret.OwnerReferences {
		r.g.Expect(owner.Kind).To(Equal("UpdatePlan"), "what is stored goes with its last plan")
		owned++
	}
	r.g.Expect(owned).To(BeNumerically(">", 0))

	// The next apply takes the place of the last one; plans that wait are never pruned.
	r.approve(r.plan(6))
	r.ends(6)
	r.settle()
	left = nil
	for _, p := range r.listPlans() {
		left = append(left, p.Spec.Sequence)
	}
	r.g.Expect(left).To(ConsistOf(int64(5), int64(6)))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(2))
	r.g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
}

func TestAStacksOwnTimeToLive(t *testing.T) {
	r := newRig(t)
	st := builder.Stack(r.namespace, "web").Obj()
	st.Spec.Plan = &v1alpha1.PlanSettings{TimeToLive: &metav1.Duration{Duration: 90 * time.Second}}
	r.create(st)
	plan := r.waiting(1)
	r.g.Expect(time.Until(plan.Spec.NotAfter.Time)).To(BeNumerically("~", 90*time.Second, 30*time.Second))
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Plan.TimeToLive = &metav1.Duration{Duration: 2 * time.Second} })
	r.until("the short plan is there", func() bool { return r.plan(2) != nil })
	time.Sleep(time.Until(r.plan(2).Spec.NotAfter.Time))
	r.g.Expect(line(r.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Expired"))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
}
