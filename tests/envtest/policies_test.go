// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/controller/approvalpolicy"
	"github.com/plangate/plangate/pkg/policies"
	"github.com/plangate/plangate/plans/policy"
	"github.com/plangate/plangate/tests/builder"
)

// reconcilePolicy lets the controller look at a policy once, and returns its status.
func reconcilePolicy(t *testing.T, ref policy.Ref) v1alpha1.ApprovalPolicyStatus {
	t.Helper()
	status, _ := reconcilePolicyWith(t, ref, events.NewFakeRecorder(10))
	return status
}

func reconcilePolicyWith(t *testing.T, ref policy.Ref, recorder events.EventRecorder) (status v1alpha1.ApprovalPolicyStatus, version string) {
	t.Helper()
	g := NewWithT(t)
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	kind := approvalpolicy.Namespaced()
	if ref.Kind == policy.KindClusterPolicy {
		kind = approvalpolicy.Cluster()
	}
	r := approvalpolicy.New(kind, world.client, world.client, policies.NewCache(), recorder)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	g.Expect(err).NotTo(HaveOccurred())
	if ref.Kind == policy.KindClusterPolicy {
		p := &v1alpha1.ClusterApprovalPolicy{}
		g.Expect(world.client.Get(t.Context(), key, p)).To(Succeed())
		return p.Status, p.ResourceVersion
	}
	p := &v1alpha1.ApprovalPolicy{}
	g.Expect(world.client.Get(t.Context(), key, p)).To(Succeed())
	return p.Status, p.ResourceVersion
}

func namespacedPolicy(namespace, name string, rules ...v1alpha1.PolicyRule) *v1alpha1.ApprovalPolicy {
	return &v1alpha1.ApprovalPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ApprovalPolicySpec{PolicyTerms: v1alpha1.PolicyTerms{Rules: rules}},
	}
}

func refOf(p *v1alpha1.ApprovalPolicy) policy.Ref { return policy.FromPolicy(p).Ref }

func TestAPolicyTellsWhetherItCanBeEvaluated(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	g.Expect(world.client.Create(t.Context(), builder.Stack(namespace, "web").Obj())).To(Succeed())
	p := namespacedPolicy(namespace, "team", v1alpha1.PolicyRule{Name: "typo", Effect: v1alpha1.EffectDeny, When: `plan.changes.exists(c, c.operation == "Deleted")`})
	g.Expect(world.client.Create(t.Context(), p)).To(Succeed())
	recorder := events.NewFakeRecorder(10)

	status, _ := reconcilePolicyWith(t, refOf(p), recorder)
	g.Expect(line(status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("False PolicyInvalid"))
	g.Expect(status.Problems).To(HaveLen(1))
	g.Expect(status.Problems[0]).To(ContainSubstring(`spec.rules[typo]: when: Change.operation is never "Deleted"`))
	g.Expect(status.Rules).To(BeEquivalentTo(1))
	g.Expect(status.SelectedStacks).To(BeEquivalentTo(1))
	g.Expect(status.ObservedGeneration).To(Equal(p.Generation))
	g.Expect(<-recorder.Events).To(ContainSubstring("Warning PolicyInvalid"))

	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(p), p)).To(Succeed())
	p.Spec.Rules[0].When = `plan.changes.exists(c, c.operation == "Delete")`
	p.Spec.StackSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	g.Expect(world.client.Update(t.Context(), p)).To(Succeed())
	status, version := reconcilePolicyWith(t, refOf(p), recorder)
	g.Expect(line(status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("True Compiled"))
	g.Expect(status.Problems).To(BeEmpty())
	g.Expect(status.SelectedStacks).To(BeEquivalentTo(0))
	g.Expect(<-recorder.Events).To(ContainSubstring("Normal Compiled"))

	_, again := reconcilePolicyWith(t, refOf(p), recorder)
	g.Expect(again).To(Equal(version), "looking again writes nothing")
	g.Expect(recorder.Events).To(BeEmpty())

	columns, rows := table(t, "/apis/plangate.dev/v1alpha1/namespaces/"+namespace+"/approvalpolicies", false)
	g.Expect(columns).To(Equal([]string{"Name", "Ready", "Rules", "Selected", "Age"}))
	g.Expect(rows[0]).To(HaveKeyWithValue("Ready", "True"))
	g.Expect(rows[0]).To(HaveKeyWithValue("Rules", BeEquivalentTo(1)))
	g.Expect(rows[0]).To(HaveKeyWithValue("Selected", BeEquivalentTo(0)))
}

func TestAClusterPolicyCountsByNamespace(t *testing.T) {
	g := NewWithT(t)
	namespace, other := newNamespace(t), newNamespace(t)
	for _, n := range []string{namespace, other} {
		g.Expect(world.client.Create(t.Context(), builder.Stack(n, "web").Obj())).To(Succeed())
	}
	labelNamespace(t, namespace, "counted", namespace)
	ref := applyPolicy(t, "", "{apiVersion: plangate.dev/v1alpha1, kind: ClusterApprovalPolicy, metadata: {name: counted-"+namespace+"}, spec: {namespaceSelector: {matchLabels: {counted: "+namespace+"}}}}")
	g.Expect(reconcilePolicy(t, ref).SelectedStacks).To(BeEquivalentTo(1))
}

func TestWhatTheSchemaOfPoliciesRefuses(t *testing.T) {
	namespace := newNamespace(t)
	for name, tc := range map[string]struct{ spec, says string }{
		"an effect that is not known":          {"rules: [{name: x, effect: Allow}]", "supported values"},
		"Require without require":              {"rules: [{name: x, effect: Require}]", "require belongs to the effect Require"},
		"require without Require":              {"rules: [{name: x, effect: Deny, require: [{of: People}]}]", "require belongs to the effect Require"},
		"a class without a name":               {"rules: [{name: x, effect: Require, require: [{of: Class}]}]", "class belongs to of: Class"},
		"people of a class":                    {"rules: [{name: x, effect: Require, require: [{of: People, class: dba}]}]", "class belongs to of: Class"},
		"signers without names":                {"rules: [{name: x, effect: Require, require: [{of: Signers}]}]", "signers belongs to of: Signers"},
		"more signers than there are":          {"rules: [{name: x, effect: Require, require: [{of: Signers, count: 2, signers: [ci]}]}]", "count is more than there are signers"},
		"nobody":                               {"rules: [{name: x, effect: Require, require: [{of: People, count: 0}]}]", "greater than or equal to 1"},
		"two rules of one name":                {"rules: [{name: x, effect: Deny}, {name: x, effect: Warn}]", "Duplicate value"},
		"an age of nothing":                    {"maxAge: 0s", "maxAge must be at least 1m"},
		"a window of no length":                {`windows: [{name: w, action: Allow, from: "09:00", to: "09:00"}]`, "from and to are the same"},
		"a window that ends before it began":   {`windows: [{name: w, action: Deny, firstDate: "2026-12-02", lastDate: "2026-12-01"}]`, "lastDate is before firstDate"},
		"a time that there is not":             {`windows: [{name: w, action: Allow, from: "25:00"}]`, "should match"},
		"a day that there is not":              {"windows: [{name: w, action: Allow, days: [Funday]}]", "supported values"},
		"a field that there is not":            {"autoApprove: true", "unknown field"},
		"a veto of a class without a name":     {"vetoers: [{of: Class}]", "class belongs to of: Class"},
		"an expression longer than can be":     {"rules: [{name: x, effect: Deny, when: '" + strings.Repeat("a", 4097) + "'}]", "Too long"},
		"a signer with two kinds of keys":      {"signers: [{name: ci, ssh: x, pem: z}]", "exactly one of ssh, pem and oidc"},
		"a hand in the change that is unknown": {"separation: {bar: [Manager]}", "supported values"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{policy.KindPolicy, policy.KindClusterPolicy} {
				text := "{apiVersion: plangate.dev/v1alpha1, kind: " + kind + ", metadata: {name: refused}, spec: {" + tc.spec + "}}"
				err := createText(t, namespace, text)
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)))
			}
		})
	}
}

func TestTheSamplesOfPoliciesCanBeEvaluated(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "policies", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(2))
	namespace := newNamespace(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reconcilePolicy(t, applyPolicy(t, namespace, string(text))).Problems).To(BeEmpty(), file)
	}
}

// deafCache is a cache that saw nothing yet, or cannot be read.
type deafCache struct {
	client.Reader
	err error
}

func (s deafCache) List(context.Context, client.ObjectList, ...client.ListOption) error { return s.err }

func TestPoliciesAreReadPastTheCacheRightBeforeAnApply(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	r := policyRequest(t, namespace, examplePlans()["bucket"], votesOf(t, "alice", policy.Ref{}))
	g.Expect(world.client.Create(t.Context(), namespacedPolicy(namespace, "deny", v1alpha1.PolicyRule{Name: "all", Effect: v1alpha1.EffectDeny}))).To(Succeed())

	old := policies.New(deafCache{}, world.client)
	r.Fresh = false
	v, err := old.Decide(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.State).To(Equal(v1alpha1.PolicyAllowed), "the cache is as old as it is said to be")
	r.Fresh = true
	v, err = old.Decide(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.State).To(Equal(v1alpha1.PolicyDenied))

	broken := errors.New("broken")
	v, err = policies.New(world.client, deafCache{err: broken}).Decide(t.Context(), r)
	g.Expect(err).To(MatchError(broken))
	g.Expect(v.Allows()).To(BeFalse())
	r.Stack.UID = "another"
	_, err = old.Decide(t.Context(), r)
	g.Expect(err).To(MatchError(ContainSubstring("not the one that the plan is of")))
}

func TestAChangeOfAPolicyReopensTheCount(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	gatherer := policies.New(world.client, world.client)
	r := policyRequest(t, namespace, examplePlans()["bucket"], votesOf(t, "alice", policy.Ref{}))
	p := namespacedPolicy(namespace, "team", v1alpha1.PolicyRule{Name: "people", Effect: v1alpha1.EffectRequire, Require: []v1alpha1.ApprovalRequirement{{Of: v1alpha1.VotersPeople}}})
	g.Expect(world.client.Create(t.Context(), p)).To(Succeed())
	first, err := gatherer.Decide(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.State).To(Equal(v1alpha1.PolicyAllowed))
	g.Expect(first.Served).To(Equal([]string{"people of ApprovalPolicy team"}))

	p.Spec.Rules[0].Require[0].Count = 2
	g.Expect(world.client.Update(t.Context(), p)).To(Succeed())
	second, err := gatherer.Decide(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second.State).To(Equal(v1alpha1.PolicyWaiting))
	g.Expect(second.Digest).NotTo(Equal(first.Digest))
	g.Expect(second.Policies).To(Equal([]v1alpha1.EvaluatedPolicy{{Kind: policy.KindPolicy, Name: "team", Generation: p.Generation}}))

	plan := builder.UpdatePlan(namespace, "web-1-01234567").Obj()
	g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	g.Expect(policies.OpenPlans(world.client)(t.Context(), p)).To(ConsistOf(request(plan)))
	plan.Status.Policy = &second.PolicyVerdict
	g.Expect(world.client.Status().Update(t.Context(), plan)).To(Succeed(), "a plan's status has room for the verdict")
}

func TestALabelOfTheNamespaceSelectsWhateverTheStackSays(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	applyPolicy(t, "", "{apiVersion: plangate.dev/v1alpha1, kind: ClusterApprovalPolicy, metadata: {name: by-"+namespace+"}, spec: {namespaceSelector: {matchLabels: {guarded: "+namespace+"}}, rules: [{name: all, effect: Deny}]}}")
	gatherer := policies.New(world.client, world.client)
	r := policyRequest(t, namespace, examplePlans()["bucket"], votesOf(t, "alice", policy.Ref{}))
	r.Stack.Labels = map[string]string{"guarded": "no"}
	v, err := gatherer.Decide(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.State).To(Equal(v1alpha1.PolicyAllowed))
	labelNamespace(t, namespace, "guarded", namespace)
	v, err = gatherer.Decide(t.Context(), r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.State).To(Equal(v1alpha1.PolicyDenied))
}
