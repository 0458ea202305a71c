// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

const otherTree = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

func TestACommitThatTouchesNothingOfTheProjectMakesNoNewPlan(t *testing.T) {
	r := newRig(t)
	g := r.g
	r.agents.trees = map[string]string{builder.OtherCommit: tree}
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.sources.push("main", builder.OtherCommit)
	r.settle()

	g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonWaitingForApproval))
	g.Expect(r.plan(2)).To(BeNil())
	g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(1), "it is not previewed again")
	st := r.stack()
	g.Expect(st.Status.ObservedRevision).To(Equal(builder.OtherCommit))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False WaitingForApproval"))
	g.Expect(message(st.Status.Conditions, v1alpha1.ConditionSourceReady)).To(And(
		ContainSubstring("commit "+builder.OtherCommit+" touches nothing under"), ContainSubstring(builder.Commit[:12])))

	r.approve(plan)
	g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	applied := r.agents.ran(workspace.Apply)
	g.Expect(applied).To(HaveLen(1))
	g.Expect(applied[0].Source.Commit).To(Equal(builder.Commit), "what was approved is what is checked out")
	g.Expect(applied[0].Expect.Tree).To(Equal(tree))
	g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
}

func TestACommitThatTouchesTheProjectEndsThePlanWithAWordOfIt(t *testing.T) {
	r := newRig(t)
	r.agents.trees = map[string]string{builder.OtherCommit: otherTree}
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	r.sources.push("main", builder.OtherCommit)
	ended := r.ends(1)
	r.g.Expect(line(ended.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Superseded"))
	r.g.Expect(message(ended.Status.Conditions, v1alpha1.ConditionObsolete)).To(ContainSubstring(builder.OtherCommit[:12]))
	r.g.Expect(r.waiting(2).Spec.Binding.Tree).To(Equal(otherTree))
}

func TestACommitThatTouchesNothingDoesNotDropARunningPreview(t *testing.T) {
	r := newRig(t)
	r.agents.trees = map[string]string{builder.OtherCommit: tree}
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.agents.hold = true
	r.until("it is previewed", func() bool { return len(r.agents.ran(workspace.Preview)) == 1 })
	r.sources.push("main", builder.OtherCommit)
	for range 5 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(1), "the running preview is as good as one of the new commit")
	r.g.Expect(strings.Join(r.agents.calls, " ")).NotTo(ContainSubstring("Cancel"))
	r.agents.release()
	r.g.Expect(r.waiting(1).Spec.Binding.Revision).To(Equal(builder.Commit))
}

func TestAStateThatSomebodyElseChangedEndsAWaitingPlan(t *testing.T) {
	r := newRig(t)
	g := r.g
	r.stateCheck = time.Nanosecond // each loop looks
	r.restart(r.client)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.until("the state was looked at", func() bool {
		p := r.plan(1)
		return p != nil && p.Status.StateCheck != nil && p.Status.StateCheck.CheckedAt != nil
	})
	g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonWaitingForApproval))

	r.agents.lookErr = context.DeadlineExceeded
	r.until("the problem is said", func() bool { return r.plan(1).Status.StateCheck.Problem != "" })
	g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonWaitingForApproval), "what cannot be read has not moved")
	r.agents.lookErr = nil

	r.agents.state = builder.Digest("somebody's")
	r.until("plan 1 ends", func() bool { return r.reasonOf(1) == v1alpha1.ReasonStale })
	g.Expect(message(r.plan(1).Status.Conditions, v1alpha1.ConditionObsolete)).To(And(
		ContainSubstring("somebody else has changed the state"), ContainSubstring("changed urn:pulumi:dev::web::files:index:File::a")))
	r.until("a new plan waits", func() bool { return r.reasonOf(2) == v1alpha1.ReasonWaitingForApproval })
	g.Expect(r.plan(2).Spec.Binding.StateDigest).To(Equal(builder.Digest("somebody's")))
	for _, look := range r.agents.looks {
		g.Expect(look.Operation.SecretConfig).To(BeEmpty(), "a look is given no more than it needs")
	}
}

func TestALookAtTheStateNeverWakesThePod(t *testing.T) {
	r := newRig(t)
	r.idle = time.Second
	r.restart(r.client)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	r.until("the pod is gone", func() bool {
		pods := &corev1.PodList{}
		r.g.Expect(r.client.List(r.ctx, pods, client.InNamespace(r.namespace))).To(Succeed())
		time.Sleep(50 * time.Millisecond)
		return len(pods.Items) == 0
	})
	r.stateCheck = time.Nanosecond
	r.restart(r.client)
	for range 5 {
		r.round()
	}
	r.g.Expect(r.agents.looks).To(BeEmpty())
	r.g.Expect(line(r.workspace().Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("Idle"))
	r.g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonWaitingForApproval))
}

// countingClient counts whole reads of Secrets.
type countingClient struct {
	client.Client
	reads *atomic.Int32
}

func (c countingClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, secret := o.(*corev1.Secret); secret {
		c.reads.Add(1)
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func TestSecretsAreReadOnlyWhenTheyChange(t *testing.T) {
	r := newRig(t)
	g := r.g
	counting := countingClient{r.client, &atomic.Int32{}}
	r.restart(counting)
	r.secret("token", "value", canarySecret)
	r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "token", "value").Obj())
	r.waiting(1)
	counting.reads.Store(0)

	r.secret("unrelated", "value", "x")
	st := r.stack()
	before := st.DeepCopy()
	st.Status.ShortRevision = "elsewhere"
	g.Expect(r.client.Status().Patch(r.ctx, st, client.MergeFrom(before))).To(Succeed())
	r.annotate(r.stack(), "example.com/note", "nothing of ours")
	r.annotate(r.workspace(), "example.com/note", "nothing of ours")
	for range 5 {
		r.round()
	}
	g.Expect(counting.reads.Load()).To(BeZero(), "a status, an annotation and another Secret are no reason to read a Secret")

	secret := &corev1.Secret{ObjectMeta: meta1(r.namespace, "token")}
	g.Expect(r.client.Get(r.ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	metav1.SetMetaDataLabel(&secret.ObjectMeta, "touched", "yes")
	g.Expect(r.client.Update(r.ctx, secret)).To(Succeed())
	r.settle()
	g.Expect(counting.reads.Load()).NotTo(BeZero(), "it may have changed")
	g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonWaitingForApproval), "its content has not")
	g.Expect(r.plan(2)).To(BeNil())
}

func TestAProbeIsAskedForAndNamedInThePlan(t *testing.T) {
	r := newRig(t)
	g := r.g
	create := readGolden(t, "create")
	r.agents.preview = func(op workspace.Operation) *workspace.Result {
		out := &workspace.Result{Outcome: workspace.Succeeded, Plan: create.plan, Events: create.events}
		if op.Probe {
			out.SecondPlan = []byte(strings.Replace(string(create.plan), `"content": "hello"`, `"content": "another"`, 1))
		}
		return out
	}
	r.create(builder.Stack(r.namespace, "web").Obj())
	strict := r.waiting(1)
	g.Expect(strict.Spec.Enforcement).To(Equal(v1alpha1.EnforcementStrict))
	g.Expect(strict.Spec.Summary.Unstable).To(BeZero())

	r.edit(func(s *v1alpha1.Stack) { s.Spec.Plan = &v1alpha1.PlanSettings{Enforcement: v1alpha1.EnforcementProbe} })
	probed := r.waiting(2)
	g.Expect(probed.Spec.Enforcement).To(Equal(v1alpha1.EnforcementProbe))
	g.Expect(probed.Spec.Summary.Unstable).To(BeEquivalentTo(1))
	g.Expect(probed.Spec.Statement).To(And(ContainSubstring(`"enforcement":"Probe"`), ContainSubstring(`"unstable":1`)))
	g.Expect(strings.Join(probed.Status.Diff, "\n")).To(ContainSubstring("unstable: content (differs from one preview to the next)"))
	for _, op := range r.agents.ran(workspace.Apply) {
		g.Expect(op.Probe).To(BeFalse())
	}
}

func TestAViolatedPlanTellsHowToFindOutWhy(t *testing.T) {
	r := newRig(t)
	r.agents.apply = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Violated, Message: "properties changed", Violations: []string{"properties changed"}}
	}
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.approve(r.waiting(1))
	r.until("plan 1 ends", func() bool { return r.reasonOf(1) == v1alpha1.ReasonViolated })
	r.g.Expect(r.plan(1).Status.Operation.Message).To(ContainSubstring("spec.plan.enforcement: Probe"))
}

func TestAPlanIsPublishedWhenItsInputsStandStill(t *testing.T) {
	r := newRig(t)
	r.settings.SettleTime = 700 * time.Millisecond
	r.restart(r.client)
	r.create(builder.Stack(r.namespace, "web").Config("size", 0).Obj())
	var published time.Time
	begun := time.Now()
	edits := 0
	for deadline := time.Now().Add(time.Minute); r.plan(1) == nil && time.Now().Before(deadline); {
		r.round()
		if edits < 5 && r.stack().Status.Operation != nil {
			edits++
			r.edit(func(s *v1alpha1.Stack) { s.Spec.Config["size"] = builder.JSON(edits) })
			begun = time.Now()
		}
		published = time.Now()
	}
	plan := r.waiting(1)
	r.g.Expect(edits).To(Equal(5))
	r.g.Expect(plan.Spec.StackRef.Generation).To(Equal(r.stack().Generation), "only the last of the edits made a plan")
	r.g.Expect(published.Sub(begun)).To(BeNumerically(">=", r.settings.SettleTime), "it was published while its inputs might still move")
	r.g.Expect(r.plan(2)).To(BeNil())
}

func TestAnApprovalThatIsFasterThanTheLookAtTheBranchAsksWhatTheNewestCommitTouches(t *testing.T) {
	for name, tc := range map[string]struct{ tree, want string }{
		"nothing":     {tree, v1alpha1.ReasonApplied},
		"the project": {otherTree, v1alpha1.ReasonStale},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.agents.trees = map[string]string{builder.OtherCommit: tc.tree}
			r.create(builder.Stack(r.namespace, "web").Obj())
			plan := r.waiting(1)
			r.sources.push("main", builder.OtherCommit)
			r.approve(plan)
			for range 20 { // the Stack's controller sees nothing of it
				if _, err := r.plans.Reconcile(r.ctx, request(plan)); err != nil {
					t.Fatal(err)
				}
			}
			r.g.Expect(r.stack().Status.ObservedRevision).To(Equal(builder.Commit))
			r.g.Expect(r.reasonOf(1)).To(Equal(tc.want))
			if tc.want == v1alpha1.ReasonStale {
				r.g.Expect(message(r.plan(1).Status.Conditions, v1alpha1.ConditionObsolete)).To(ContainSubstring("revision: was " + builder.Commit))
			}
		})
	}
}
