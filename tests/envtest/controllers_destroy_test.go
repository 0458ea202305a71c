// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// applied makes a Stack whose first plan was applied.
func (r *rig) applied(destroyOnFinalize bool, resources ...doomed) {
	r.t.Helper()
	stack := builder.Stack(r.namespace, "web").Obj()
	stack.Spec.DestroyOnFinalize = destroyOnFinalize
	r.create(stack)
	r.approve(r.waiting(1))
	r.ends(1)
	r.agents.resources = resources
}

func (r *rig) delete(policy metav1.DeletionPropagation) {
	r.t.Helper()
	r.g.Expect(r.client.Delete(r.ctx, r.stack(), client.PropagationPolicy(policy))).To(Succeed())
	if policy == metav1.DeletePropagationForeground {
		r.foreground()
	}
}

// foreground does what the garbage collector does at once when an owner is deleted in the foreground: whatever refers to it goes.
func (r *rig) foreground() {
	uid := r.stack().UID
	owned := func(o client.Object) {
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == uid {
				r.g.Expect(client.IgnoreNotFound(r.client.Delete(r.ctx, o))).To(Succeed())
			}
		}
	}
	for _, o := range r.listPlans() {
		owned(&o)
	}
	for _, o := range r.listWorkspaces() {
		owned(&o)
	}
	secrets := &corev1.SecretList{}
	r.g.Expect(r.client.List(r.ctx, secrets, client.InNamespace(r.namespace))).To(Succeed())
	for _, o := range secrets.Items {
		owned(&o)
	}
}

// letGo runs until the Stack has no finalizer of the operator's, and removes the garbage collector's, which does not run here.
func (r *rig) letGo() {
	r.t.Helper()
	r.until("the Stack lets go", func() bool {
		list := r.listStacks()
		return len(list) == 0 || !contains(list[0].Finalizers, v1alpha1.Finalizer)
	})
	if list := r.listStacks(); len(list) > 0 {
		list[0].Finalizers = nil
		r.g.Expect(r.client.Update(r.ctx, &list[0])).To(Succeed())
	}
}

func TestADeletedStackIsDestroyedOnlyAfterItsApprovalAndThenGoes(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRig(t)
			r.applied(true, doom("a", "delete"), doom("b", "retain"))
			r.sources.err = errors.New("the repository is gone")
			r.delete(policy)
			plan := r.waiting(2)
			r.g.Expect(plan.Spec.Operation).To(Equal(v1alpha1.PlanOperationDestroy))
			r.g.Expect(plan.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerDeleted))
			r.g.Expect(plan.Spec.Summary.Brief).To(Equal("destroy -1, 1 retained"))
			r.g.Expect(strings.Join(plan.Status.Diff, "\n")).To(And(ContainSubstring("delete a"), ContainSubstring("stays in the real world")))
			r.g.Expect(plan.Spec.Statement).To(ContainSubstring(plans.DestroyConstraint))
			r.g.Expect(plan.OwnerReferences).To(BeEmpty(), "the garbage collector must not take it")
			for range 4 {
				r.round()
			}
			r.g.Expect(r.agents.ran(workspace.Destroy)).To(BeEmpty())
			st := r.stack()
			r.g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False WaitingForApproval"))
			r.g.Expect(message(st.Status.Conditions, v1alpha1.ConditionReady)).To(And(ContainSubstring(plan.Name), ContainSubstring(v1alpha1.AnnotationOrphan+"="+string(st.UID))))

			r.approve(plan)
			r.letGo()
			r.g.Expect(r.agents.ran(workspace.Destroy)).To(HaveLen(1))
			op := r.agents.ran(workspace.Destroy)[0]
			r.g.Expect(op.PlanDigest).To(Equal(plan.Spec.Artifact.Digest))
			r.g.Expect(op.Expect.StateDigest).To(Equal(plan.Spec.Binding.StateDigest))
			r.g.Expect(op.Source).To(Equal(workspace.Source{}))
			for _, o := range r.listPlans() {
				r.g.Expect(o.OwnerReferences).To(HaveLen(1), "%s is given to the garbage collector", o.Name)
				r.g.Expect(string(o.OwnerReferences[0].UID)).To(Equal(o.Spec.StackRef.UID))
			}
			r.g.Expect(r.listWorkspaces()[0].OwnerReferences).To(HaveLen(1))
		})
	}
}

func TestADeletedStackThatDoesNotAskForADestroyGoesAsBefore(t *testing.T) {
	r := newRig(t)
	r.applied(false, doom("a", "delete"))
	r.delete(metav1.DeletePropagationBackground)
	r.until("the Stack is gone", r.stackGone)
	r.g.Expect(r.agents.ran(workspace.PreviewDestroy)).To(BeEmpty())
	r.g.Expect(r.agents.ran(workspace.Destroy)).To(BeEmpty())
}

func TestADestroyByAnnotationLeavesTheStackAndStaysDestroyed(t *testing.T) {
	r := newRig(t)
	r.applied(false, doom("a", "delete"))
	r.annotate(r.stack(), v1alpha1.AnnotationDestroy, "now")
	plan := r.waiting(2)
	r.g.Expect(plan.Spec.Operation).To(Equal(v1alpha1.PlanOperationDestroy))
	r.approve(plan)
	r.g.Expect(line(r.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.settle()
	r.g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Destroyed"))
	r.sources.push("main", builder.OtherCommit)
	for range 4 {
		r.round()
	}
	r.g.Expect(r.plan(3)).To(BeNil(), "what was destroyed is not made again")

	st := r.stack()
	before := st.DeepCopy()
	delete(st.Annotations, v1alpha1.AnnotationDestroy)
	r.g.Expect(r.client.Patch(r.ctx, st, client.MergeFrom(before))).To(Succeed())
	r.g.Expect(r.waiting(3).Spec.Operation).To(Equal(v1alpha1.PlanOperationUpdate))
}

func TestAProtectedResourceMakesADestroyThatNoApprovalStarts(t *testing.T) {
	r := newRig(t)
	r.applied(true, doom("a", "delete"), doom("precious", "protected"))
	r.delete(metav1.DeletePropagationBackground)
	r.until("the plan says so", func() bool { return r.reasonOf(2) == v1alpha1.ReasonProtected })
	plan := r.plan(2)
	r.g.Expect(plan.Status.HowToApprove).To(BeEmpty())
	r.g.Expect(plan.Status.Requirements).To(And(ContainSubstring("precious"), ContainSubstring("unprotect")))
	r.approve(plan)
	for range 4 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Destroy)).To(BeEmpty())
	r.g.Expect(r.listStacks()).To(HaveLen(1))

	r.agents.resources[1].Fate, r.agents.state = "delete", builder.Digest("unprotected")
	r.annotate(r.stack(), v1alpha1.AnnotationRequestPlan, "again")
	r.approve(r.waiting(3))
	r.until("the Stack is gone", r.stackGone)
}

func TestADestroyThatIsDoneInPartIsFollowedByAPlanForTheRest(t *testing.T) {
	r := newRig(t)
	r.applied(true, doom("a", "delete"), doom("b", "delete"))
	r.agents.destroy = func(workspace.Operation) *workspace.Result {
		r.agents.resources = r.agents.resources[1:]
		return &workspace.Result{Outcome: workspace.Partial, Message: "b is in use", Steps: workspace.Steps{Done: 1, Total: 2}}
	}
	r.delete(metav1.DeletePropagationBackground)
	r.approve(r.waiting(2))
	r.g.Expect(line(r.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False PartiallyApplied"))
	rest := r.waiting(3)
	r.g.Expect(rest.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerRetry))
	r.g.Expect(rest.Spec.Changes).To(HaveLen(1))
	r.g.Expect(r.stack().Finalizers).To(ContainElement(v1alpha1.Finalizer))
	r.agents.destroy = nil
	r.approve(rest)
	r.until("the Stack is gone", r.stackGone)
}

func TestAnOrphanGoesWithoutADestroyAndOnlyByItsOwnUID(t *testing.T) {
	r := newRig(t)
	r.applied(true, doom("a", "delete"))
	r.delete(metav1.DeletePropagationBackground)
	r.waiting(2)
	r.annotate(r.stack(), v1alpha1.AnnotationOrphan, "yes")
	for range 4 {
		r.round()
	}
	r.g.Expect(r.listStacks()).To(HaveLen(1))
	r.annotate(r.stack(), v1alpha1.AnnotationOrphan, string(r.stack().UID))
	r.until("the Stack is gone", r.stackGone)
	r.g.Expect(r.agents.ran(workspace.Destroy)).To(BeEmpty())
	plan := r.plan(2)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False StackGone"))
	r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionObsolete)).To(ContainSubstring(v1alpha1.AnnotationOrphan))
	r.g.Expect(plan.Status.Record).NotTo(BeNil())
	r.g.Expect(r.recorder.all()).To(ContainElement(And(ContainSubstring("Warning Orphaned"), ContainSubstring("kubectl-annotate"))))
}

func TestInANamespaceThatIsEndingTheStackSaysWhatCanBeDone(t *testing.T) {
	ending := func(r *rig) {
		namespace := &corev1.Namespace{}
		r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Name: r.namespace}, namespace)).To(Succeed())
		r.g.Expect(r.client.Delete(r.ctx, namespace)).To(Succeed())
	}
	t.Run("with a plan that waits", func(t *testing.T) {
		r := newRig(t)
		r.applied(true, doom("a", "delete"))
		r.delete(metav1.DeletePropagationBackground)
		plan := r.waiting(2)
		ending(r)
		r.round()
		st := r.stack()
		r.g.Expect(reason(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal(v1alpha1.ReasonNamespaceTerminating))
		r.g.Expect(message(st.Status.Conditions, v1alpha1.ConditionReady)).To(And(ContainSubstring(plan.Status.HowToApprove), ContainSubstring(v1alpha1.AnnotationOrphan)))
		r.approve(plan)
		r.until("the Stack is gone", r.stackGone)
		r.g.Expect(r.agents.ran(workspace.Destroy)).To(HaveLen(1))
	})
	t.Run("without one", func(t *testing.T) {
		r := newRig(t)
		r.applied(true, doom("a", "delete"))
		ending(r)
		r.delete(metav1.DeletePropagationBackground)
		r.settle()
		st := r.stack()
		r.g.Expect(line(st.Status.Conditions, v1alpha1.ConditionStalled)).To(Equal("True NamespaceTerminating"))
		calls := len(r.agents.calls)
		for range 4 {
			r.round()
		}
		r.g.Expect(r.agents.calls).To(HaveLen(calls), "it does not try again and again")
		r.annotate(r.stack(), v1alpha1.AnnotationOrphan, string(st.UID))
		r.until("the Stack is gone", r.stackGone)
	})
}

// What policies ask of a destroy holds for it, and one person is not two.
func TestADestroyIsHeldByThePoliciesForIt(t *testing.T) {
	r := newRig(t)
	r.applied(true, doom("a", "delete"))
	r.g.Expect(r.client.Create(r.ctx, namespacedPolicy(r.namespace, "destroys",
		v1alpha1.PolicyRule{Name: "updates", When: `plan.operation == "Update"`, Effect: v1alpha1.EffectAutoApprove},
		v1alpha1.PolicyRule{
			Name: "two", When: `plan.operation == "Destroy" && plan.trigger == "Deleted" && plan.summary.delete > 0`, Effect: v1alpha1.EffectRequire,
			Require: []v1alpha1.ApprovalRequirement{{Of: v1alpha1.VotersPeople, Count: 2}},
		}))).To(Succeed())
	r.delete(metav1.DeletePropagationBackground)
	plan := r.waiting(2)
	r.g.Expect(plan.Status.Requirements).To(ContainSubstring("destroys"))
	r.approve(plan)
	for range 4 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Destroy)).To(BeEmpty(), "one of two has approved")
	second := plan.DeepCopy()
	metav1.SetMetaDataAnnotation(&second.ObjectMeta, v1alpha1.AnnotationApprove, plan.Spec.Digest)
	r.g.Expect(as(bob).Patch(r.ctx, second, client.MergeFrom(plan))).To(Succeed())
	r.letGo()
	r.g.Expect(r.agents.ran(workspace.Destroy)).To(HaveLen(1))
}
