// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

func TestAChangeWaitsIsApprovedAndApplied(t *testing.T) {
	r := newRig(t)
	g := r.g
	r.create(builder.Stack(r.namespace, "web").Config("greeting", "hello").Obj())

	plan := r.waiting(1)
	g.Expect(plan.Name).To(HavePrefix("web-1-"))
	g.Expect(plan.Spec.Binding.Revision).To(Equal(builder.Commit))
	g.Expect(plan.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerSpecChanged))
	g.Expect(plan.Spec.Changes).NotTo(BeEmpty())
	g.Expect(plan.Status.HowToApprove).To(ContainSubstring(plan.Spec.Digest))
	g.Expect(plan.Status.HowToReject).To(ContainSubstring(plan.Spec.Digest))
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionApproved)).To(Equal("Unknown WaitingForApproval"))
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionApplied)).To(Equal("Unknown NotApplied"))
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionObsolete)).To(Equal("False Current"))
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReconciling)).To(Equal("absent"), "nobody works on what waits for a person")
	st := r.stack()
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False WaitingForApproval"))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReconciling)).To(Equal("absent"))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionStalled)).To(Equal("absent"))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionPreviewed)).To(Equal("True PreviewSucceeded"))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionSourceReady)).To(Equal("True Resolved"))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionWorkspaceReady)).To(Equal("True WorkspaceReady"))
	g.Expect(st.Status.CurrentPlan.Name).To(Equal(plan.Name))
	g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())

	r.approve(plan)
	plan = r.ends(1)
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionApproved)).To(Equal("True Approved"))
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionRecorded)).To(Equal("True Recorded"))
	g.Expect(plan.Status.Decisions).To(HaveLen(1))
	g.Expect(plan.Status.Decisions[0].By).To(Equal(alice))
	g.Expect(plan.Status.Decisions[0].Verified).To(BeTrue())
	g.Expect(plan.Status.Decisions[0].Requirement).To(Equal("one approval by a person"))
	g.Expect(plan.Spec.Authors).To(Equal([]string{operator}), "who made the Stack")
	g.Expect(plan.Status.HowToApprove).To(BeEmpty())
	g.Expect(plan.Status.Operation.Done).To(BeEquivalentTo(2))

	applies := r.agents.ran(workspace.Apply)
	g.Expect(applies).To(HaveLen(1))
	g.Expect(applies[0].PlanDigest).To(Equal(plan.Spec.Artifact.Digest))
	g.Expect(applies[0].Expect.StateDigest).To(Equal(plan.Spec.Binding.StateDigest))
	g.Expect(string(applies[0].Config["greeting"])).To(Equal(`"hello"`))

	st = r.stack()
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
	g.Expect(st.Status.CurrentPlan).To(BeNil())
	g.Expect(st.Status.LastAppliedPlan.Name).To(Equal(plan.Name))
	g.Expect(st.Status.Outputs).To(Equal(map[string]apiextensionsv1.JSON{"url": {Raw: []byte(`"http://example.com"`)}, "password": {Raw: []byte(`"[secret]"`)}}))
	outputs := &corev1.Secret{}
	g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: st.Status.OutputsSecret}, outputs)).To(Succeed())
	g.Expect(string(outputs.Data["url"])).To(Equal("http://example.com"))
	g.Expect(string(outputs.Data["password"])).To(Equal(canaryOutput))

	pod := r.pod().UID
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Config["greeting"] = builder.JSON("goodbye") })
	second := r.waiting(2)
	g.Expect(second.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerConfigChanged))
	g.Expect(r.pod().UID).To(Equal(pod), "a change of configuration never replaces the pod")
	g.Expect(r.stack().Status.LastAppliedPlan.Name).To(Equal(plan.Name))
}

func TestEventsAreToldOncePerTransition(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.approve(r.waiting(1))
	r.ends(1)
	for range 5 {
		r.round()
	}
	seen := map[string]int{}
	for _, e := range r.recorder.all() {
		seen[e]++
	}
	for e, n := range seen {
		if n > 1 {
			t.Errorf("told %d times: %s", n, e)
		}
	}
	all := strings.Join(r.recorder.all(), "\n")
	for _, want := range []string{"*v1alpha1.UpdatePlan Normal WaitingForApproval", "*v1alpha1.UpdatePlan Normal Applying", "*v1alpha1.UpdatePlan Normal Applied", "*v1alpha1.Stack Normal InSync", "*v1alpha1.Workspace Normal AgentReady"} {
		r.g.Expect(all).To(ContainSubstring(want))
	}
}

func TestAWrongDigestIsRefusedAndSaid(t *testing.T) {
	r := newRig(t)
	g := r.g
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	for _, wrong := range []string{plan.Spec.Digest[:20], builder.Digest("another"), "yes", plan.Spec.Digest + " "} {
		g.Expect(r.tryAnnotate(r.plan(1), v1alpha1.AnnotationApprove, wrong)).To(MatchError(ContainSubstring("what is said must be exactly " + plan.Spec.Digest + " by " + alice)))
	}
	r.settle()
	g.Expect(r.plan(1).Status.Decisions).To(BeEmpty(), "the API server did not take it")
	g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())

	r.approve(r.plan(1))
	g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"), "a mistake costs nothing")
}

func TestARejectionEndsThePlan(t *testing.T) {
	r := newRig(t)
	g := r.g
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.annotate(plan, v1alpha1.AnnotationReject, plan.Spec.Digest+" not on a Friday")
	plan = r.ends(1)
	g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Rejected"))
	g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("not on a Friday"))
	g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionStalled)).To(Equal("True Rejected"))
	r.approveTooLate(plan)
	r.settle()
	g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty(), "a plan that was rejected stays so")
	g.Expect(r.plan(2)).To(BeNil(), "what was rejected is not asked for again by itself")

	r.annotate(r.stack(), v1alpha1.AnnotationRequestPlan, "now")
	second := r.waiting(2)
	g.Expect(second.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerRequested))
}

func TestWhatMovesEndsAWaitingPlan(t *testing.T) {
	tests := map[string]struct {
		reason string
		move   func(r *rig)
		want   v1alpha1.TriggerType
	}{
		"a new commit": {
			reason: "the plan is of the commit before",
			move:   func(r *rig) { r.sources.push("main", builder.OtherCommit) },
			want:   v1alpha1.TriggerSourceChanged,
		},
		"an edit of the spec": {
			reason: "the plan is of the spec before",
			move:   func(r *rig) { r.edit(func(s *v1alpha1.Stack) { s.Spec.Refresh = true }) },
			want:   v1alpha1.TriggerConfigChanged,
		},
		"another secret value": {
			reason: "the plan was computed with the value before",
			move:   func(r *rig) { r.secret("token", "value", "another value") },
			want:   v1alpha1.TriggerConfigChanged,
		},
		"a new key of the Stack": {
			reason: "nobody can tell any more whether the secrets are the same",
			move: func(r *rig) {
				r.g.Expect(r.client.Delete(r.ctx, &corev1.Secret{ObjectMeta: meta1(r.namespace, "web-plangate-key")})).To(Succeed())
			},
			want: v1alpha1.TriggerConfigChanged,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.secret("token", "value", canarySecret)
			r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "token", "value").Obj())
			r.waiting(1)
			tc.move(r)
			first := r.ends(1)
			r.g.Expect(line(first.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Superseded"), tc.reason)
			second := r.waiting(2)
			r.g.Expect(second.Spec.Trigger.Type).To(Equal(tc.want))
			r.approveTooLate(first)
			r.settle()
			r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
			r.approve(r.plan(2))
			r.g.Expect(line(r.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
		})
	}
}
