// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// restated gives a changed spec an honest statement and digest: what a forger would do who knows the format.
func restated(t *testing.T, plan *v1alpha1.UpdatePlan) {
	t.Helper()
	s, err := plans.Parse(plan.Spec.Statement)
	if err != nil {
		t.Fatal(err)
	}
	spec := plan.Spec
	text, err := plans.NewStatement(plans.StatementInput{
		Namespace: plan.Namespace, Cluster: s.Predicate.Cluster, Nonce: s.Predicate.Nonce, Stack: spec.StackRef, Sequence: spec.Sequence,
		Operation: spec.Operation, Trigger: spec.Trigger, Authors: spec.Authors, Binding: spec.Binding, Artifact: spec.Artifact, NotAfter: spec.NotAfter.Time,
		Summary: spec.Summary, Changes: plans.StateChanges(spec.Changes, spec.Changes, ""),
		Pending: plans.StatePending(spec.Pending, spec.PendingCount),
	})
	if err != nil {
		t.Fatal(err)
	}
	plan.Spec.Statement, plan.Spec.Digest = text, plans.Digest(text)
	plan.Name = plans.PlanName(spec.StackRef.Name, spec.Sequence, plan.Spec.Digest)
	if err := plans.CheckSpec(plan.Namespace, &plan.Spec); err != nil {
		t.Fatal(err)
	}
}

// Somebody who has got hold of the operator's rights makes an UpdatePlan that the operator did not publish, and alice approves it.
func TestAForgedPlanIsNeverApplied(t *testing.T) {
	tests := map[string]struct {
		reason string
		forge  func(t *testing.T, plan *v1alpha1.UpdatePlan)
		want   string
	}{
		"a copy under another name": {
			reason: "one approval is for one plan",
			forge:  func(_ *testing.T, plan *v1alpha1.UpdatePlan) { plan.Name = "web-copy" },
			want:   "False Superseded",
		},
		"another plan file under the old digest": {
			reason: "the digest is not of that",
			forge: func(_ *testing.T, plan *v1alpha1.UpdatePlan) {
				plan.Name = "web-x"
				plan.Spec.Artifact.Chunks = []string{"mine"}
			},
			want: "False Superseded",
		},
		"other words for the same changes, with an honest digest of their own": {
			reason: "only the Stack's status tells what the operator published",
			forge: func(t *testing.T, plan *v1alpha1.UpdatePlan) {
				plan.Spec.Trigger.Message = "trust me"
				plan.Spec.Sequence = 7
				restated(t, plan)
			},
			want: "False SpecInvalid",
		},
		"the same number, with an honest digest of its own": {
			reason: "it is not the plan that the Stack waits for",
			forge: func(t *testing.T, plan *v1alpha1.UpdatePlan) {
				plan.Spec.Trigger.Message = "trust me"
				restated(t, plan)
			},
			want: "False Superseded",
		},
		"another Stack's": {
			reason: "the UID is of no Stack of that name",
			forge: func(t *testing.T, plan *v1alpha1.UpdatePlan) {
				plan.Spec.StackRef.UID = string(builder.UID(9))
				restated(t, plan)
			},
			want: "False StackGone",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			plan := r.waiting(1)
			forged := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: plan.Name, Labels: plan.Labels}, Spec: *plan.Spec.DeepCopy()}
			tc.forge(t, forged)
			r.create(forged)
			r.approve(forged)
			for range 4 {
				r.round()
			}
			r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty(), tc.reason)
			r.g.Expect(r.client.Get(r.ctx, client.ObjectKeyFromObject(forged), forged)).To(Succeed())
			r.g.Expect(line(forged.Status.Conditions, v1alpha1.ConditionReady)).To(Equal(tc.want))
		})
	}
}

func TestAPlanFromAnotherNamespaceIsNeverApplied(t *testing.T) {
	r, other := newRig(t), newRig(t)
	other.agents = r.agents
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	other.create(builder.Stack(other.namespace, "web").Suspend().Obj())
	copied := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: other.namespace, Name: plan.Name}, Spec: plan.Spec}
	other.create(copied)
	other.approve(copied)
	for range 3 {
		other.round()
	}
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	r.g.Expect(other.client.Get(r.ctx, client.ObjectKeyFromObject(copied), copied)).To(Succeed())
	r.g.Expect(copied.Status.Conditions).NotTo(BeEmpty())
	r.g.Expect(line(copied.Status.Conditions, v1alpha1.ConditionObsolete)).To(HavePrefix("True "))
}

// Somebody knows the id of the preview that runs, which is in the Stack's status, and makes a plan with its label, so that
// the operator takes it for its own when the preview ends.
func TestAPlanIsNotAdoptedForItsLabel(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.agents.hold = true
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Refresh = true })
	r.until("the preview runs", func() bool { return r.stack().Status.Operation != nil })
	st := r.stack()
	forged := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Labels: map[string]string{v1alpha1.LabelOperation: st.Status.Operation.ID}}, Spec: *plan.Spec.DeepCopy()}
	forged.Spec.Sequence, forged.Spec.StackRef.Generation, forged.Spec.Trigger.Message = 2, st.Generation, "trust me"
	forged.Spec.Binding.ConfigDigest, forged.Spec.Binding.Refresh = st.Status.Operation.ConfigDigest, true
	restated(t, forged)
	r.create(forged)
	r.approve(forged)
	r.agents.hold = false
	r.until("the next plan waits", func() bool { return r.stack().Status.CurrentPlan != nil && r.stack().Status.Operation == nil })
	r.settle()
	r.g.Expect(r.stack().Status.CurrentPlan.Name).NotTo(Equal(forged.Name))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
}

// A plan that was applied is deleted and made again from a backup, with its approval.
func TestAPlanThatWasAppliedIsNotAppliedAgain(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.approve(plan)
	plan = r.ends(1)
	again := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: plan.Name, Labels: plan.Labels}, Spec: plan.Spec}
	r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
	_, err := r.plans.Reconcile(r.ctx, request(plan))
	r.g.Expect(err).NotTo(HaveOccurred())
	r.agents.state = plan.Spec.Binding.StateDigest // as if the apply had left the state as it was
	r.create(again)
	r.approve(again)
	for range 5 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
}

// Canary values in everything that is secret: none of them may be anywhere but in Secrets and with the agent.
func TestNoSecretValueIsInAnyObjectEventOrLog(t *testing.T) {
	r := newRig(t)
	r.secret("token", "value", canarySecret)
	r.secret("env", "value", canarySecret+"-env")
	works := r.agents.preview
	previews := 0
	r.agents.preview = func(op workspace.Operation) *workspace.Result {
		previews++
		if previews == 1 {
			return &workspace.Result{Outcome: workspace.Failed, Message: "the program failed"}
		}
		result := works(op)
		// The program puts a secret, unmarked, into a property: nobody but the operator knows that it is one.
		result.Plan = []byte(strings.ReplaceAll(string(result.Plan), "hello", canarySecret))
		result.Events = []byte(strings.ReplaceAll(string(result.Events), "hello", canarySecret))
		return result
	}
	r.agents.apply = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{
			Outcome: workspace.Succeeded, SecretOutputs: []string{"password"},
			Outputs: map[string]json.RawMessage{
				"password": json.RawMessage(`"` + canaryOutput + `"`),
				"unmarked": json.RawMessage(`{"token":"Bearer ` + canarySecret + `"}`),
				"plain":    json.RawMessage(`"plain"`),
			},
		}
	}
	r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "token", "value").EnvSecret("TOKEN", "env", "value").
		SecretConfigLiteral("literal", "a literal is in the spec anyway").Obj())
	r.approve(r.waiting(1))
	plan := r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(string(plan.Status.Operation.Outputs["plain"].Raw)).To(Equal(`"plain"`))
	r.g.Expect(string(plan.Status.Operation.Outputs["unmarked"].Raw)).To(Equal(`"[secret]"`))
	apply := r.agents.ran(workspace.Apply)[0]
	r.g.Expect(apply.SecretConfig["token"]).To(Equal(canarySecret), "the agent gets it")

	canaries := []string{canarySecret, canaryOutput}
	look := func(where, text string) {
		found := 0
		for _, canary := range canaries {
			if strings.Contains(text, canary) {
				t.Errorf("%s holds %q", where, canary)
				found++
			}
		}
		t.Logf("case: controllers: %s | none of %d secrets | %d found in %d bytes", where, len(canaries), found, len(text))
	}
	for _, kind := range []string{"StackList", "UpdatePlanList", "WorkspaceList"} {
		lookAt(r, v1alpha1.GroupVersion.WithKind(kind), look)
	}
	for _, kind := range []string{"ConfigMapList", "PodList", "EventList"} {
		lookAt(r, corev1.SchemeGroupVersion.WithKind(kind), look)
	}
	look("an event", strings.Join(r.recorder.all(), "\n"))
	logs.mu.Lock()
	defer logs.mu.Unlock()
	look("the log", logs.text.String())
	look("the audit log", strings.Join(r.audit.lines, "\n"))
	r.g.Expect(r.audit.lines).NotTo(BeEmpty())
}

func lookAt(r *rig, kind schema.GroupVersionKind, look func(where, text string)) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	r.g.Expect(r.client.List(r.ctx, list, client.InNamespace(r.namespace))).To(Succeed())
	for _, o := range list.Items {
		look(fmt.Sprintf("%s %s", o.GetKind(), o.GetName()), string(mustJSON(o.Object)))
	}
}

// A Secret is edited while the preview runs: what it computed with the old value cannot be masked any more.
func TestAPreviewOfASecretThatWasEditedSinceIsNotPublished(t *testing.T) {
	r := newRig(t)
	r.secret("token", "value", canarySecret)
	works := r.agents.preview
	r.agents.preview = func(op workspace.Operation) *workspace.Result {
		result := works(op)
		result.Plan = []byte(strings.ReplaceAll(string(result.Plan), "hello", op.SecretConfig["token"]))
		result.Events = []byte(strings.ReplaceAll(string(result.Events), "hello", op.SecretConfig["token"]))
		return result
	}
	r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "token", "value").Obj())
	r.agents.hold = true
	r.until("the preview runs", func() bool { return len(r.agents.ran(workspace.Preview)) == 1 })
	// It ends between the loop's look at the Secrets and its look at the result.
	r.agents.before = func(call string) {
		if call == "Result" && r.agents.hold {
			r.secret("token", "value", "another value")
			r.agents.hold = false
		}
	}
	plan := r.waiting(1)
	if strings.Contains(string(mustJSON(plan)), canarySecret) {
		t.Error("the plan shows the value from before")
	}
	r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(2))
}

// The golden data is there; otherwise the tests above would say strange things.
func TestGoldenDataIsThere(t *testing.T) {
	for _, name := range []string{"create", "update", "no-changes"} {
		if _, err := os.Stat(filepath.Join("..", "testdata", "plans", name, "plan.json")); err != nil {
			t.Error(err)
		}
	}
}
