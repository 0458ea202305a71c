// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// made creates a Stack that is destroyed when it is deleted, from a branch of its own, and applies its first plan.
func (w *world) made(files ...file) *v1alpha1.UpdatePlan {
	w.t.Helper()
	w.push(program(files...))
	w.git("push", "-q", "origin", "HEAD:passing")
	stack := w.newStack()
	stack.Spec.Branch, stack.Spec.DestroyOnFinalize = "passing", true
	w.create(stack)
	first := w.plan()
	w.applied(first)
	w.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonInSync)
	return first
}

func (w *world) deleteStack(policy metav1.DeletionPropagation) {
	w.t.Helper()
	if err := cluster.client.Delete(w.ctx(), w.stack(), client.PropagationPolicy(policy)); err != nil {
		w.t.Fatalf("deleting the Stack: %v", err)
	}
}

// gone waits until the Stack, its plans and its Workspace are gone.
func (w *world) gone() {
	w.t.Helper()
	eventually(w.t, "Stack, plans and Workspace to be gone", slow, func() error {
		err := cluster.client.Get(w.ctx(), client.ObjectKey{Namespace: w.namespace, Name: stackName}, &v1alpha1.Stack{})
		if err == nil {
			return errors.New("the Stack is there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		plans, workspaces := &v1alpha1.UpdatePlanList{}, &v1alpha1.WorkspaceList{}
		for _, list := range []client.ObjectList{plans, workspaces} {
			if err := cluster.client.List(w.ctx(), list, client.InNamespace(w.namespace)); err != nil {
				return err
			}
		}
		if left := len(plans.Items) + len(workspaces.Items); left > 0 {
			return fmt.Errorf("%d plans and Workspaces are there", left)
		}
		return nil
	})
}

// All propagations that kubectl has, the foreground with a source that is gone; the files are looked at from a pod of the next Stack.
func TestADeletedStackIsDestroyedAfterItsApprovalAlsoWhenTheSourceIsGone(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.made(file{name: "one", content: "first"}, file{name: "two", content: "second"})
			if policy == metav1.DeletePropagationForeground {
				w.git("push", "-q", "origin", "--delete", "passing")
			}
			w.deleteStack(policy)
			plan := w.plan(first)
			if plan.Spec.Operation != v1alpha1.PlanOperationDestroy || plan.Spec.Trigger.Type != v1alpha1.TriggerDeleted || plan.Spec.Summary.Delete != 2 {
				t.Fatalf("the plan is %s because of %s: %+v", plan.Spec.Operation, plan.Spec.Trigger.Type, plan.Spec.Summary)
			}
			described := w.kubectl("describe", "updateplan", plan.Name)
			for _, want := range []string{"delete one", "delete two", "destroy -2", plan.Status.HowToApprove} {
				if !strings.Contains(described, want) {
					t.Errorf("kubectl describe does not say %q:\n%s", want, described)
				}
			}
			if got := w.file("one") + w.file("two"); got != "firstsecond" {
				t.Fatalf("before the approval the files hold %q", got)
			}
			w.approve(plan)
			w.gone()

			w.push(program(file{name: "other", content: "third"}))
			w.create(w.newStack())
			w.applied(w.plan())
			if got := w.file("one") + w.file("two"); got != "" {
				t.Errorf("after the destroy the files hold %q", got)
			}
		})
	}
}

func TestAnOrphanedStackGoesAndWhatItMadeStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.made(file{name: "kept", content: "first"})
	w.deleteStack(metav1.DeletePropagationBackground)
	w.plan(first)
	w.annotate(w.stack(), v1alpha1.AnnotationOrphan, string(w.stack().UID))
	w.gone()
	events := w.kubectl("get", "events", "-o", "custom-columns=REASON:.reason,NOTE:.message")
	if !strings.Contains(events, v1alpha1.ReasonOrphaned) {
		t.Errorf("no event tells of it:\n%s", events)
	}
	w.create(w.newStack())
	w.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonInSync)
	if got := w.file("kept"); got != "first" {
		t.Errorf("the file holds %q", got)
	}
}

// A namespace that is deleted takes the pods and plans first: the Stack says what can be done, and goes when somebody says so.
func TestAStackInANamespaceThatIsDeletedSaysWhatToDoAndGoesAsAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.made(file{name: "kept", content: "first"})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := cluster.client.Delete(w.ctx(), namespace); err != nil {
		t.Fatalf("deleting the namespace: %v", err)
	}
	command := v1alpha1.AnnotationOrphan + "=" + string(w.stack().UID)
	eventually(t, "the Stack to say that its namespace goes", slow, func() error {
		ready := meta.FindStatusCondition(w.stack().Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonNamespaceTerminating || !strings.Contains(ready.Message, command) {
			return fmt.Errorf("the Stack says %+v", ready)
		}
		return nil
	})
	w.annotate(w.stack(), v1alpha1.AnnotationOrphan, string(w.stack().UID))
	eventually(t, "the namespace to be gone", slow, func() error {
		err := cluster.client.Get(w.ctx(), client.ObjectKeyFromObject(namespace), namespace)
		if err == nil {
			return fmt.Errorf("it is there: %+v", namespace.Status)
		}
		return client.IgnoreNotFound(err)
	})
}
