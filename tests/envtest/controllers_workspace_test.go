// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// restrict makes the API server hold the namespace to the restricted pod security standard.
func (r *rig) restrict() {
	r.t.Helper()
	namespace := &corev1.Namespace{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Name: r.namespace}, namespace)).To(Succeed())
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	r.g.Expect(r.client.Update(r.ctx, namespace)).To(Succeed())
}

func TestThePodIsAllowedUnderTheRestrictedStandard(t *testing.T) {
	r := newRig(t)
	r.restrict()
	privileged := corev1.Pod{ObjectMeta: meta1(r.namespace, "control"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	r.g.Expect(apierrors.IsForbidden(r.client.Create(r.ctx, &privileged))).To(BeTrue(), "the standard is in force")
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	r.g.Expect(r.pod().Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
}

func TestAPodThatTheAPIServerRefusesIsSaidAndHeals(t *testing.T) {
	r := newRig(t)
	r.restrict()
	template := map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"hostNetwork": true}}}}
	r.create(builder.Stack(r.namespace, "web").WorkspaceTemplate(template).Obj())
	r.until("the pod was refused", func() bool {
		return len(r.listWorkspaces()) == 1 && line(r.workspace().Status.Conditions, v1alpha1.ConditionReady) == "False PodFailed"
	})
	r.settle()
	r.g.Expect(message(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("hostNetwork"))
	r.edit(func(s *v1alpha1.Stack) { s.Spec.WorkspaceTemplate = nil })
	r.waiting(1)
}

func TestAnIdlePodGoesAndComesBackForAnApproval(t *testing.T) {
	r := newRig(t)
	r.idle = 3 * time.Second
	r.restart(r.client)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	first := r.pod().UID
	r.until("the pod is gone", func() bool {
		time.Sleep(300 * time.Millisecond)
		err := r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web-workspace"}, &corev1.Pod{})
		return apierrors.IsNotFound(err)
	})
	r.settle()
	r.g.Expect(line(r.workspace().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Idle"))
	r.g.Expect(r.workspace().Status.Pod).To(BeNil())
	r.g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False WaitingForApproval"))
	r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(1))
	r.approve(plan)
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	pods := map[string]bool{string(first): true, r.agents.ran(workspace.Apply)[0].PodUID: true}
	r.g.Expect(pods).To(HaveLen(2))
}

func TestAPodIsNeverRemovedUnderAnOperation(t *testing.T) {
	for name, kind := range map[string]workspace.OperationType{"a preview": workspace.Preview, "an apply": workspace.Apply} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.idle = 500 * time.Millisecond
			r.restart(r.client)
			r.create(builder.Stack(r.namespace, "web").Obj())
			if kind == workspace.Apply {
				r.approve(r.waiting(1))
			}
			r.agents.hold = true
			r.until("the operation runs", func() bool { return len(r.agents.ran(kind)) == 1 })
			uid := r.pod().UID
			ws := r.workspace()
			ws.Spec.PodTemplate = builder.Workspace("", "").PodTemplate(map[string]any{"spec": map[string]any{"priority": 1}}).Obj().Spec.PodTemplate
			r.g.Expect(r.client.Update(r.ctx, ws)).To(Succeed())
			time.Sleep(time.Second)
			for range 3 {
				r.round()
			}
			ws = r.workspace()
			ws.Spec.PodTemplate = builder.Workspace("", "").PodTemplate(map[string]any{"spec": map[string]any{"no such field": 1}}).Obj().Spec.PodTemplate
			r.g.Expect(r.client.Update(r.ctx, ws)).To(Succeed())
			for range 3 {
				r.round()
			}
			r.g.Expect(r.pod().UID).To(Equal(uid))
			r.g.Expect(r.pod().DeletionTimestamp.IsZero()).To(BeTrue())
			r.g.Expect(line(r.workspace().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False SpecInvalid"))
			r.g.Expect(r.workspace().Status.Pod).NotTo(BeNil(), "a spec that cannot be used hides no operation that runs")
			ws = r.workspace()
			ws.Spec.PodTemplate = nil
			r.g.Expect(r.client.Update(r.ctx, ws)).To(Succeed())
			r.agents.hold = false
			if kind == workspace.Apply {
				r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
				return
			}
			r.until("plan 1 waits", func() bool { return r.reasonOf(1) == v1alpha1.ReasonWaitingForApproval })
			r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(1))
		})
	}
}

func TestAPodThatEndsCutsItsOperationOff(t *testing.T) {
	for name, kind := range map[string]workspace.OperationType{"a preview is run again": workspace.Preview, "an apply is said to be interrupted": workspace.Apply} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			if kind == workspace.Apply {
				r.approve(r.waiting(1))
			}
			r.agents.hold = true
			r.until("the operation runs", func() bool { return len(r.agents.ran(kind)) == 1 })
			r.agents.dead = map[string]bool{string(r.pod().UID): true}
			r.g.Expect(r.client.Delete(r.ctx, r.pod(), client.GracePeriodSeconds(0))).To(Succeed())
			r.agents.hold = false
			if kind == workspace.Preview {
				r.until("the preview was cut off", func() bool {
					last := r.stack().Status.LastPreview
					return last != nil && last.Result == v1alpha1.PreviewInterrupted
				})
				time.Sleep(time.Second)
				r.waiting(1)
				r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(2))
				return
			}
			plan := r.ends(1)
			r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Interrupted"))
			r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("not known for sure"))
			r.waiting(2)
			r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
		})
	}
}

func TestAWorkspaceThatIsDeletedUnderAWaitingPlanComesBackWithTheApproval(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.g.Expect(r.client.Delete(r.ctx, r.workspace())).To(Succeed())
	r.until("the Workspace is gone", func() bool { return len(r.listWorkspaces()) == 0 })
	err := r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web-workspace"}, &corev1.Pod{})
	r.g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the pod goes with its Workspace")
	r.g.Expect(r.client.Delete(r.ctx, &corev1.Secret{ObjectMeta: meta1(r.namespace, "web-workspace-tls")})).To(Succeed())
	r.approve(plan)
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
}

func TestACertificateThatWasDeletedIsMadeAgain(t *testing.T) {
	tests := map[string]struct {
		reason string
		spoil  func(r *rig)
	}{
		"before the pod starts again": {
			reason: "a pod without the Secret never starts",
			spoil: func(r *rig) {
				r.g.Expect(r.client.Delete(r.ctx, r.pod(), client.GracePeriodSeconds(0))).To(Succeed())
			},
		},
		"while the agent cannot be understood": {
			reason: "its certificate may be the cause",
			spoil:  func(r *rig) { r.agents.unreachable = errors.New("bad certificate") },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			r.waiting(1)
			key := client.ObjectKey{Namespace: r.namespace, Name: "web-workspace-tls"}
			secret := &corev1.Secret{}
			r.g.Expect(r.client.Get(r.ctx, key, secret)).To(Succeed())
			r.g.Expect(r.client.Delete(r.ctx, secret)).To(Succeed())
			tc.spoil(r)
			for range 3 {
				r.round()
			}
			r.g.Expect(r.client.Get(r.ctx, key, &corev1.Secret{})).To(Succeed(), tc.reason)
		})
	}
}

func TestAWorkspaceStandsAlone(t *testing.T) {
	r := newRig(t)
	r.create(builder.Workspace(r.namespace, "web").Image("mine").Obj())
	r.settle()
	ws := r.workspace()
	r.g.Expect(line(ws.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True AgentReady"))
	r.g.Expect(line(ws.Status.Conditions, v1alpha1.ConditionReconciling)).To(Equal("absent"))
	r.g.Expect(ws.Status.Address).To(Equal("127.0.0.1:50051"))
	r.g.Expect(ws.Status.PulumiVersion).To(Equal(pulumiVersion))
	r.g.Expect(r.pod().Spec.Containers[0].Image).To(Equal("mine"))
	uid := r.pod().UID
	ws.Spec.Image = "another"
	r.g.Expect(r.client.Update(r.ctx, ws)).To(Succeed())
	r.until("the pod was replaced", func() bool {
		pod := &corev1.Pod{}
		err := r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web-workspace"}, pod)
		return err == nil && pod.UID != uid
	})
	r.settle()
	r.g.Expect(line(r.workspace().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True AgentReady"))
}
