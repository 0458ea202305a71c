// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/admission"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// takeAway removes what a file below config has installed, until the test ends.
func takeAway(t *testing.T, path ...string) {
	t.Helper()
	objects, err := manifestsOf(path...)
	if err != nil {
		t.Fatal(err)
	}
	restoreAtEnd(t, path...)
	for _, o := range objects {
		if err := world.client.Delete(background, o); err != nil {
			t.Fatal(err)
		}
	}
}

// restoreAtEnd puts everything back as it was installed, and waits until it is in force.
func restoreAtEnd(t *testing.T, path ...string) {
	t.Cleanup(func() {
		if err := restore(path...); err != nil {
			t.Fatal(err)
		}
	})
}

func restore(path ...string) error {
	objects, err := manifestsOf(path...)
	if err != nil {
		return err
	}
	for _, o := range objects {
		there := o.DeepCopy()
		err := world.client.Get(background, client.ObjectKeyFromObject(o), there)
		switch {
		case apierrors.IsNotFound(err):
			err = world.client.Create(background, o)
		case err == nil:
			o.SetResourceVersion(there.GetResourceVersion())
			err = world.client.Update(background, o)
		}
		if err != nil {
			return err
		}
	}
	return inForce(background)
}

// changed edits the policy of UpdatePlans, or its binding.
func changed[T client.Object](t *testing.T, o T, change func(o T)) {
	t.Helper()
	o.SetName(admission.PolicyName)
	if err := world.client.Get(background, client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	change(o)
	if err := world.client.Update(background, o); err != nil {
		t.Fatal(err)
	}
}

// Whoever may write policies opens the door of the API server, and the operator closes its own.
func TestAttackOnThePolicies(t *testing.T) {
	policy := func(t *testing.T, change func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec)) {
		changed(t, &admissionregistrationv1.ValidatingAdmissionPolicy{}, func(o *admissionregistrationv1.ValidatingAdmissionPolicy) { change(&o.Spec) })
	}
	binding := func(t *testing.T, change func(s *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec)) {
		changed(t, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, func(o *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { change(&o.Spec) })
	}
	cases := map[string]struct {
		attack func(t *testing.T, namespace string)
		// words are those of the plan.
		words string
		// open is true when a forgery goes through afterwards.
		open bool
	}{
		"the policy removed": {func(t *testing.T, _ string) {
			o := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: admission.PolicyName}}
			if err := world.client.Delete(background, o); err != nil {
				t.Fatal(err)
			}
		}, `there is no ValidatingAdmissionPolicy "updateplans.plangate.dev"`, true},
		"the binding removed": {func(t *testing.T, _ string) {
			o := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: admission.PolicyName}}
			if err := world.client.Delete(background, o); err != nil {
				t.Fatal(err)
			}
		}, `there is no ValidatingAdmissionPolicyBinding "updateplans.plangate.dev"`, true},
		"the binding made to warn": {func(t *testing.T, _ string) {
			binding(t, func(s *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) {
				s.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
			})
		}, "ValidatingAdmissionPolicyBinding \"updateplans.plangate.dev\" is not the one", true},
		"a namespace left out by the binding": {func(t *testing.T, namespace string) {
			binding(t, func(s *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) {
				s.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace}},
				}}}
			})
		}, "ValidatingAdmissionPolicyBinding \"updateplans.plangate.dev\" is not the one", true},
		"a user left out by the policy": {func(t *testing.T, _ string) {
			policy(t, func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
				s.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-mallory", Expression: "request.userInfo.username != '" + mallory + "'"}}
			})
		}, "ValidatingAdmissionPolicy \"updateplans.plangate.dev\" is not the one", true},
		"a rule removed, and the one that is probed left": {func(t *testing.T, _ string) {
			policy(t, func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) { s.Validations = s.Validations[:1] })
		}, "ValidatingAdmissionPolicy \"updateplans.plangate.dev\" is not the one", true},
		"another operator named": {func(t *testing.T, _ string) {
			policy(t, func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
				for i := range s.Variables {
					if s.Variables[i].Name == "operator" {
						s.Variables[i].Expression = "'" + mallory + "'"
					}
				}
			})
		}, "ValidatingAdmissionPolicy \"updateplans.plangate.dev\" is not the one that this operator, " + operator, false},
		"the failure policy changed": {func(t *testing.T, _ string) {
			policy(t, func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
				ignore := admissionregistrationv1.Ignore
				s.FailurePolicy = &ignore
			})
		}, "ValidatingAdmissionPolicy \"updateplans.plangate.dev\" is not the one", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			plan := r.waiting(1)
			restoreAtEnd(t, "admission", "updateplans.yaml")
			tc.attack(t, r.namespace)
			forgery := map[string]any{"metadata": map[string]any{"annotations": map[string]any{approveKey: plan.Spec.Digest + " by " + alice}}}
			if tc.open {
				// The API server takes a moment to notice.
				r.g.Eventually(func() error { return patchAs(as(mallory), plan, forgery) }).WithTimeout(20 * time.Second).Should(Succeed())
			}
			for range 3 {
				r.round()
			}
			plan = r.plan(1)
			r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
			r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False WaitingForApproval"))
			if tc.open {
				r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionApproved)).To(Equal("Unknown AdmissionNotEnforced"))
				r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring(tc.words))
				r.g.Expect(plan.Status.UnguardedSince).NotTo(BeNil())
				r.g.Expect(plan.Status.Decisions).To(HaveLen(1))
				r.g.Expect(plan.Status.Decisions[0].Refusal).To(Equal(v1alpha1.RefusedNotEnforced))
				r.g.Expect(plan.Status.Decisions[0].By).To(HavePrefix("unverified (it says " + alice + ")"))
			}
			tell("whoever may write policies", name, "closed", message(plan.Status.Conditions, v1alpha1.ConditionReady))

			// They are back: what was forged is never worth anything, and a new plan is as good as any.
			r.g.Expect(restore("admission", "updateplans.yaml")).To(Succeed())
			r.restart(r.client)
			for range 3 {
				r.round()
			}
			r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
			if tc.open {
				r.g.Expect(patchAs(as(bob), plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationApprove: plan.Spec.Digest}}})).To(Succeed())
				for range 3 {
					r.round()
				}
				r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty(), "no annotation approves this plan any more")
				r.annotate(r.stack(), v1alpha1.AnnotationRequestPlan, "again")
			}
			last := int64(1)
			if tc.open {
				last = 2
			}
			r.approve(r.waiting(last))
			r.g.Expect(line(r.ends(last).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
		})
	}
}

// The approval was accepted; while the workspace is on its way, the policies go.
func TestAttackBetweenApprovalAndApply(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.approve(plan)
	r.sources.err = errors.New("the remote does not answer")
	r.round()
	r.g.Expect(line(r.plan(1).Status.Conditions, v1alpha1.ConditionApproved)).To(Equal("True Approved"))
	r.g.Expect(r.plan(1).Status.Operation).To(BeNil())
	takeAway(t, "admission", "updateplans.yaml")
	r.sources.err = nil
	for range 5 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty(), "the operator asked again right before it")
	words := message(r.plan(1).Status.Conditions, v1alpha1.ConditionReady)
	r.g.Expect(words).To(ContainSubstring("there is no ValidatingAdmissionPolicy"))
	tell("whoever may write policies", "the policy removed between approval and apply", "closed", words)
	r.g.Expect(restore("admission", "updateplans.yaml")).To(Succeed())
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"), "what was accepted while they were in force counts again")
}

// Whoever holds the operator's own token writes into the status that alice approved.
func TestAttackWithAForgedStatus(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	before := plan.DeepCopy()
	plan.Status.Decisions = []v1alpha1.Decision{{
		Verdict: v1alpha1.DecisionApproved, Method: v1alpha1.MethodAnnotation, Key: approveKey, By: alice, Verified: true, Digest: plan.Spec.Digest,
		ObservedAt: metav1.Now(), Evidence: builder.Digest(plan.Spec.Digest + " by " + alice),
	}}
	r.g.Expect(as(operator).Status().Patch(background, plan, client.MergeFrom(before))).To(Succeed())
	for range 4 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	r.g.Expect(line(r.plan(1).Status.Conditions, v1alpha1.ConditionApproved)).To(Equal("Unknown WaitingForApproval"))
	tell("the operator's stolen token", "a status that says alice approved", "not counted", message(r.plan(1).Status.Conditions, v1alpha1.ConditionReady))
}

// Somebody pushes, and in the same second alice approves the plan from before.
func TestAttackWithTheApprovalOfASupersededPlan(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Refresh = true })
	err := r.tryAnnotate(plan, v1alpha1.AnnotationApprove, plan.Spec.Digest)
	r.g.Expect(err).NotTo(HaveOccurred(), "the API server cannot know yet")
	next := r.waiting(2)
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	r.g.Expect(line(r.plan(1).Status.Conditions, v1alpha1.ConditionObsolete)).To(Equal("True Superseded"))
	judge(t, alice, "the old plan's digest on the new plan", notExact, r.tryAnnotate(next, v1alpha1.AnnotationApprove, plan.Spec.Digest))
	judge(t, bob, "approving the old plan, when it has ended", "has ended: Superseded", patchAs(as(bob), plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationApprove: plan.Spec.Digest}}}))
	tell(alice, "approving a plan in the second in which it is superseded", "not applied", message(r.plan(1).Status.Conditions, v1alpha1.ConditionReady))
}

// The author edits, then approves; somebody else must.
func TestAttackByTheAuthorFromEndToEnd(t *testing.T) {
	r := newRig(t)
	r.g.Expect(as(carol).Create(background, builder.Stack(r.namespace, "web").Obj())).To(Succeed())
	plan := r.waiting(1)
	r.g.Expect(plan.Spec.Authors).To(Equal([]string{carol}))
	r.g.Expect(plan.Status.Requirements).To(ContainSubstring("Not by an author of the change: " + carol))
	judge(t, carol, "the Stack's author approves its plan", "an author of a change cannot approve it", patchAs(as(carol), plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationApprove: plan.Spec.Digest}}}))
	r.approve(plan)
	plan = r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(plan.Status.Decisions[0].By).To(Equal(alice))
}

// Who may impersonate is that person, and the audit log has both names.
func TestImpersonationIsRecorded(t *testing.T) {
	g := NewWithT(t)
	plan := builder.UpdatePlan(newNamespace(t), "web-1-01234567").Obj()
	g.Expect(world.client.Create(background, plan)).To(Succeed())
	// as(alice) is the administrator, who impersonates her.
	g.Expect(patchAs(as(alice), plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationApprove: plan.Spec.Digest}}})).To(Succeed())
	type event struct {
		User             struct{ Username string }
		ImpersonatedUser struct{ Username string }
		ObjectRef        struct{ Name, Namespace string }
		Annotations      map[string]string
	}
	find := func() *event {
		f, err := os.Open(world.auditLog)
		if err != nil {
			return nil
		}
		defer func() { _ = f.Close() }()
		for s := bufio.NewScanner(f); s.Scan(); {
			e := event{}
			if json.Unmarshal(s.Bytes(), &e) == nil && e.ObjectRef.Namespace == plan.Namespace && e.Annotations["updateplans.plangate.dev/decision"] != "" {
				return &e
			}
		}
		return nil
	}
	var e *event
	g.Eventually(func() *event { e = find(); return e }).WithTimeout(20 * time.Second).ShouldNot(BeNil())
	g.Expect(e.User.Username).To(Equal("admin"))
	g.Expect(e.ImpersonatedUser.Username).To(Equal(alice))
	g.Expect(e.Annotations["updateplans.plangate.dev/decision"]).To(Equal("approve.plangate.dev/alice.example.com = " + plan.Spec.Digest + " by " + alice))
	g.Expect(strings.Split(e.Annotations["updateplans.plangate.dev/groups"], ",")).To(ContainElement("system:authenticated"))
	tell("admin, as alice", "an approval", "let through, and both names are in the audit log", e.Annotations["updateplans.plangate.dev/decision"])
}

// The operator with the rights of config/rbac and no more goes the whole way, proofs included.
func TestTheOperatorsOwnRightsAreEnough(t *testing.T) {
	r := newRig(t)
	r.g.Expect(world.client.Create(background, builder.Stack(r.namespace, "web").Obj())).To(Succeed())
	r.restart(as(operator))
	plan := r.waiting(1)
	r.approve(plan)
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
}
