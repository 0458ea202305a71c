// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// newKey makes a key pair for ssh-keygen, and returns the private key's file and the public key.
func (w *world) newKey() (file, public string) {
	w.t.Helper()
	file = filepath.Join(w.t.TempDir(), "key")
	w.shell("ssh-keygen -q -t ed25519 -N '' -f " + file)
	text, err := os.ReadFile(file + ".pub")
	if err != nil {
		w.t.Fatal(err)
	}
	return file, strings.TrimSpace(string(text))
}

// sign signs a plan as a CI job does.
func (w *world) sign(plan *v1alpha1.UpdatePlan, key, slot string) {
	w.t.Helper()
	w.shell(fmt.Sprintf("../../config/samples/ci/sign-ssh.sh -n %s -s %s -k %s %s", w.namespace, slot, key, plan.Name))
}

// stands waits until a plan says this of what its policies ask.
func (w *world) stands(plan *v1alpha1.UpdatePlan, state v1alpha1.PolicyState, words string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("the plan to be %s: %s", state, words), slow, func() error {
		p := w.read(plan).Status.Policy
		if p == nil || p.State != state || !strings.Contains(string(mustJSON(w.t, p)), words) {
			return fmt.Errorf("its policies say %+v", p)
		}
		return nil
	})
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signedStack is a Stack whose pod applies nothing without a signature of this key, whatever the operator says.
func (w *world) signedStack(public string) *v1alpha1.Stack {
	w.t.Helper()
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "signers"}, Data: map[string]string{"signers.yaml": fmt.Sprintf("signers:\n  - {name: ci, ssh: %q}\n", public)}})
	s := w.newStack()
	s.Spec.WorkspaceTemplate = &runtime.RawExtension{Raw: []byte(strings.Replace(template, `{"spec":{`, `{"spec":{"requiredSigners":{"configMap":"signers"},`, 1))}
	return s
}

// policy asks for the CI job's signature and for one person.
func (w *world) policy(public string) *v1alpha1.ApprovalPolicy {
	w.t.Helper()
	p := &v1alpha1.ApprovalPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "two-of-two"},
		Spec: v1alpha1.ApprovalPolicySpec{PolicyTerms: v1alpha1.PolicyTerms{
			Signers: []v1alpha1.TrustedSigner{{Name: "ci", SSH: public}},
			Rules: []v1alpha1.PolicyRule{
				{Name: "tested", Effect: v1alpha1.EffectRequire, Require: []v1alpha1.ApprovalRequirement{{Of: v1alpha1.VotersSigners, Signers: []string{"ci"}}}},
				{Name: "seen", Effect: v1alpha1.EffectRequire, Require: []v1alpha1.ApprovalRequirement{{Of: v1alpha1.VotersPeople}}},
			},
		}},
	}
	w.create(p)
	return p
}

// Nothing is applied before the CI job signed and a person approved; the pod verifies the signature by a list of its own.
func TestAPlanIsAppliedOnceACIJobSignedAndAPersonApprovedAsItsPolicyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, public := w.newKey()
	stranger, _ := w.newKey()
	w.policy(public)
	w.push(program(file{name: "a", content: "signed"}))
	w.create(w.signedStack(public))
	plan := w.plan()
	w.stands(plan, v1alpha1.PolicyWaiting, "tested")

	w.sign(plan, stranger, "stranger")
	w.approve(plan)
	w.stands(plan, v1alpha1.PolicyWaiting, approver)
	if got := w.file("a"); got != "" {
		t.Fatalf("it was applied without the signature: %q", got)
	}
	w.sign(plan, key, "ci")
	done := w.becomes(plan, v1alpha1.ReasonApplied)
	if got := w.file("a"); got != "signed" {
		t.Errorf("the file holds %q", got)
	}
	said := map[string]bool{}
	for _, d := range done.Status.Decisions {
		said[fmt.Sprintf("%s %s %t", d.Method, d.By, d.Verified)] = true
	}
	for _, want := range []string{"Annotation " + approver + " true", "Signature ci true"} {
		if !said[want] {
			t.Errorf("the record does not say %q: %v", want, said)
		}
	}
	described := w.kubectl("describe", "updateplan", plan.Name)
	for _, want := range []string{"tested", "seen", "ApprovalPolicy two-of-two", approver} {
		if !strings.Contains(described, want) {
			t.Errorf("kubectl describe does not say %q", want)
		}
	}
}

// The operator's own word is not enough for a pod that has a list of signers: an approval by a person alone applies nothing.
func TestAPodWithRequiredSignersAppliesNothingThatOnlyTheOperatorAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, public := w.newKey()
	w.push(program(file{name: "a", content: "unsigned"}))
	w.create(w.signedStack(public))
	plan := w.plan()
	w.approve(plan)
	eventually(t, "the pod to refuse the plan", slow, func() error {
		now := w.read(plan)
		if op := now.Status.Operation; op == nil || !strings.Contains(op.Message, "required signers: 0 of 1") {
			return has(now, "refused for want of a signature")
		}
		return nil
	})
	if got := w.file("a"); got != "" {
		t.Errorf("it was applied without a signature: %q", got)
	}
}

// A rule that is added to a policy while a plan waits, or after it was approved, is asked of that plan too; what was approved is not lost.
func TestARuleThatIsAddedHoldsAPlanThatWasApprovedAndIsGoneWithoutAnotherApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, public := w.newKey()
	policy := w.policy(public)
	w.push(program(file{name: "a", content: "held"}))
	w.create(w.newStack())
	plan := w.plan()
	w.approve(plan)
	w.stands(plan, v1alpha1.PolicyWaiting, approver)

	change := func(rules []v1alpha1.PolicyRule) {
		t.Helper()
		before := policy.DeepCopy()
		policy.Spec.Rules = rules
		if err := cluster.client.Patch(t.Context(), policy, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	change([]v1alpha1.PolicyRule{{Name: "freeze", Effect: v1alpha1.EffectDeny, Message: "nothing moves this week"}, policy.Spec.Rules[1]})
	w.stands(plan, v1alpha1.PolicyDenied, "nothing moves this week")
	if got := w.file("a"); got != "" {
		t.Fatalf("it was applied though a rule denies it: %q", got)
	}
	change(policy.Spec.Rules[1:])
	w.becomes(plan, v1alpha1.ReasonApplied)
	if got := w.file("a"); got != "held" {
		t.Errorf("the file holds %q", got)
	}
}
