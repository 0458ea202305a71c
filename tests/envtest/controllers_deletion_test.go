// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// collect does what the garbage collector would: no controller manager runs here.
func (r *rig) collect() {
	r.t.Helper()
	alive := map[string]bool{}
	for _, o := range r.listStacks() {
		alive[string(o.UID)] = true
	}
	for _, o := range r.listPlans() {
		if !alive[o.Spec.StackRef.UID] {
			r.g.Expect(client.IgnoreNotFound(r.client.Delete(r.ctx, &o))).To(Succeed())
		}
	}
	secrets := &corev1.SecretList{}
	r.g.Expect(r.client.List(r.ctx, secrets, client.InNamespace(r.namespace))).To(Succeed())
	for _, o := range secrets.Items {
		if len(o.OwnerReferences) > 0 && o.OwnerReferences[0].Kind == "Stack" && !alive[string(o.OwnerReferences[0].UID)] {
			r.g.Expect(client.IgnoreNotFound(r.client.Delete(r.ctx, &o))).To(Succeed())
		}
	}
	for _, o := range r.listWorkspaces() {
		if len(o.OwnerReferences) > 0 && !alive[string(o.OwnerReferences[0].UID)] {
			r.g.Expect(client.IgnoreNotFound(r.client.Delete(r.ctx, &o))).To(Succeed())
		}
	}
}

func (r *rig) stackGone() bool { return len(r.listStacks()) == 0 }

func TestAStackThatIsDeletedGoesOnlyWhenNothingRuns(t *testing.T) {
	for name, policy := range map[string]metav1.DeletionPropagation{"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			plan := r.waiting(1)
			r.agents.hold = true
			r.approve(plan)
			r.until("the apply runs", func() bool { return r.reasonOf(1) == v1alpha1.ReasonApplying })
			r.g.Expect(r.client.Delete(r.ctx, r.stack(), client.PropagationPolicy(policy))).To(Succeed())
			if policy == metav1.DeletePropagationForeground {
				// The garbage collector deletes all that the Stack owns, at once.
				r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
				r.g.Expect(r.client.Delete(r.ctx, r.workspace())).To(Succeed())
			}
			for range 4 {
				r.round()
			}
			r.g.Expect(r.listStacks()).To(HaveLen(1))
			r.g.Expect(r.listPlans()).To(HaveLen(1))
			r.g.Expect(r.listWorkspaces()).To(HaveLen(1))
			r.g.Expect(r.pod().DeletionTimestamp.IsZero()).To(BeTrue(), "nothing is taken from under an operation")
			r.g.Expect(r.workspace().Status.Pod).NotTo(BeNil(), "the operation is still followed")

			r.agents.hold = false
			if policy == metav1.DeletePropagationForeground {
				r.until("plan and Workspace are gone", func() bool { return len(r.listPlans())+len(r.listWorkspaces()) == 0 })
				st := r.stack()
				r.until("the Stack lets go", func() bool {
					st = r.stack()
					return !contains(st.Finalizers, v1alpha1.Finalizer)
				})
				st.Finalizers = nil
				r.g.Expect(r.client.Update(r.ctx, st)).To(Succeed())
			}
			r.until("the Stack is gone", r.stackGone)
			r.until("everything is gone", func() bool { r.collect(); return len(r.listPlans())+len(r.listWorkspaces()) == 0 })
			r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
		})
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func TestAStackThatIsDeletedWhilePreviewingStopsThePreview(t *testing.T) {
	r := newRig(t)
	r.agents.hold = true
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.until("the preview runs", func() bool { return len(r.agents.ran(workspace.Preview)) == 1 })
	r.g.Expect(r.client.Delete(r.ctx, r.stack())).To(Succeed())
	r.until("the Stack is gone", r.stackGone)
	r.g.Expect(r.agents.calls).To(ContainElement("Cancel"))
}

func TestAWaitingPlanOfADeletedStackCannotBeApplied(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.g.Expect(r.client.Delete(r.ctx, r.stack())).To(Succeed())
	r.until("the Stack is gone", r.stackGone)
	// The admission policy refuses it, or, when it has not seen the end yet, the operator does not count it.
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApprove, plan.Spec.Digest))
	if err := as(alice).Patch(r.ctx, plan.DeepCopy(), patch); err != nil {
		r.g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), err.Error())
	}
	plan = r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False StackGone"))

	r.create(builder.Stack(r.namespace, "web").Obj())
	r.round()
	r.g.Expect(reason(r.stack().Status.Conditions, v1alpha1.ConditionReady)).NotTo(Equal(v1alpha1.ReasonInSync))
	r.until("what the old Stack left is gone", func() bool {
		r.collect()
		if p := r.plan(1); p != nil && p.Name == plan.Name {
			return false
		}
		if list := r.listWorkspaces(); len(list) > 0 {
			return ownership.Of(&list[0], r.stack())
		}
		err := r.client.Delete(r.ctx, &corev1.Pod{ObjectMeta: meta1(r.namespace, "web-workspace")}, client.GracePeriodSeconds(0))
		r.g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		err = r.client.Delete(r.ctx, &corev1.Secret{ObjectMeta: meta1(r.namespace, "web-workspace-tls")})
		r.g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return true
	})
	r.waiting(1)
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
}

func TestAPlanThatIsDeletedWhileItWaitsIsMadeAnew(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
	r.until("the plan is gone", func() bool { return r.plan(1) == nil })
	next := r.waiting(2)
	r.g.Expect(next.Spec.Trigger.Message).To(ContainSubstring("was deleted"))
}

func TestAPlanThatIsDeletedWhileItIsAppliedEndsFirst(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.agents.hold = true
	r.approve(plan)
	r.until("the apply runs", func() bool { return r.reasonOf(1) == v1alpha1.ReasonApplying })
	r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
	for range 3 {
		r.round()
	}
	r.g.Expect(r.plan(1)).NotTo(BeNil())
	r.agents.hold = false
	r.until("the plan is gone", func() bool { return r.plan(1) == nil })
	r.until("the Stack is in sync", func() bool {
		return line(r.stack().Status.Conditions, v1alpha1.ConditionReady) == "True InSync"
	})
	r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
}

// Outputs cannot be kept in a namespace that is ending; that must not hold the namespace back.
func TestAPlanThatIsDeletedGoesAlthoughItsOutputsCannotBeKept(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.agents.hold = true
	r.approve(plan)
	r.until("the apply runs", func() bool { return r.reasonOf(1) == v1alpha1.ReasonApplying })
	namespace := &corev1.Namespace{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Name: r.namespace}, namespace)).To(Succeed())
	r.g.Expect(r.client.Delete(r.ctx, namespace)).To(Succeed())
	r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
	r.agents.hold = false
	r.until("the plan is gone", func() bool { return r.plan(1) == nil })
	err := r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web-plangate-outputs"}, &corev1.Secret{})
	r.g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the case is not what it should be")
}

func TestASuspendedStackRestsAndGoesOn(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true })
	r.approve(plan)
	r.settle()
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	st := r.stack()
	r.g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("Unknown Suspended"))
	r.g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReconciling)).To(Equal("absent"))
	r.g.Expect(line(st.Status.Conditions, v1alpha1.ConditionStalled)).To(Equal("absent"))
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = false })
	r.waiting(2)
}

func TestAnApplyThatRunsIsLetEndWhenTheStackIsSuspended(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.agents.hold = false
	plan := r.waiting(1)
	r.agents.hold = true
	r.approve(plan)
	r.until("the apply runs", func() bool { return r.reasonOf(1) == v1alpha1.ReasonApplying })
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true })
	r.settle()
	r.g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonApplying))
	r.agents.hold = false
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.settle()
	r.g.Expect(r.stack().Status.LastAppliedPlan).NotTo(BeNil())
}
