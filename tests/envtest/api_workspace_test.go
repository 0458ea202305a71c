// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

func TestWorkspaceFields(t *testing.T) {
	base := builder.Workspace(newNamespace(t), "web").Obj()
	const wantPositive = "idleTimeout may not be negative"
	testVerdicts(t, base, map[string]verdictCase{
		"nothing":              {edit: all(), reason: "the operator's defaults"},
		"no spec":              {edit: unset("spec"), reason: "the operator's defaults"},
		"an idle timeout":      {edit: set("spec.idleTimeout", "1h30m"), reason: "the plain case"},
		"0 keeps the pod":      {edit: set("spec.idleTimeout", "0s"), reason: "documented"},
		"a negative timeout":   {edit: set("spec.idleTimeout", "-1s"), want: wantPositive, reason: "the pod would go before it came"},
		"a timeout in days":    {edit: set("spec.idleTimeout", "1d"), want: "spec.idleTimeout", reason: "Go does not read it"},
		"no timeout at all":    {edit: set("spec.idleTimeout", "soon"), want: "spec.idleTimeout", reason: "Go does not read it"},
		"a pull policy":        {edit: set("spec.imagePullPolicy", "Never"), reason: "Kubernetes knows it"},
		"no pull policy":       {edit: set("spec.imagePullPolicy", "Sometimes"), want: `Unsupported value: "Sometimes"`, reason: "Kubernetes does not know it"},
		"a cache":              {edit: set("spec.cache.persistentVolumeClaim", "cache"), reason: "the plain case"},
		"a cache of no name":   {edit: set("spec.cache.persistentVolumeClaim", ""), want: "spec.cache.persistentVolumeClaim", reason: "no claim has it"},
		"a cache of nothing":   {edit: set("spec.cache", map[string]any{}), want: "spec.cache.persistentVolumeClaim: Required value", reason: "there is one kind of cache"},
		"a text for a pod":     {edit: set("spec.podTemplate", "text"), want: "spec.podTemplate", reason: "it is laid over an object"},
		"an unknown field":     {edit: set("spec.git", map[string]any{}), want: `unknown field "spec.git"`, reason: "PKO's field; a Workspace has no source"},
		"bad resources":        {edit: set("spec.resources.limits.cpu", "lots"), want: "spec.resources.limits.cpu", reason: "Kubernetes does not read it"},
		"resources as numbers": {edit: set("spec.resources.limits.cpu", 2), reason: "Kubernetes reads both"},
	})
}

func TestWorkspaceKeepsWhatItIsGiven(t *testing.T) {
	g := NewWithT(t)
	template := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"a": "b"}},
		"spec":     map[string]any{"nodeSelector": map[string]any{"x": "y"}, "notAField": []any{1.5, nil, map[string]any{"z": true}}},
	}
	workspace := builder.Workspace(newNamespace(t), "web").PodTemplate(template).IdleTimeout(90 * time.Minute).
		Spec(func(s *v1alpha1.WorkspaceSpec) {
			s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		}).Obj()
	g.Expect(world.client.Create(t.Context(), workspace)).To(Succeed())

	kept := &unstructured.Unstructured{}
	kept.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Workspace"))
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(workspace), kept)).To(Succeed())
	g.Expect(onWire(kept.Object["spec"])).To(Equal(map[string]any{
		"podTemplate": onWire(template),
		"idleTimeout": "1h30m0s",
		"resources":   map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	}))
}

// What a Stack or Workspace was observed to be has a door of its own, too.
func TestOtherStatusSubresources(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)

	stack := builder.Stack(namespace, "web").Status(func(s *v1alpha1.StackStatus) { s.ObservedGeneration = 9 }).Obj()
	g.Expect(world.client.Create(t.Context(), stack)).To(Succeed())
	g.Expect(stack.Status.ObservedGeneration).To(BeZero())
	stack.Status.ObservedGeneration, stack.Spec.Branch = 1, "other"
	g.Expect(world.client.Status().Update(t.Context(), stack)).To(Succeed())
	g.Expect(stack.Spec.Branch).To(Equal("main"))
	g.Expect(stack.Status.ObservedGeneration).To(Equal(int64(1)))
	g.Expect(stack.Generation).To(Equal(int64(1)), "a status write is no new generation")

	workspace := builder.Workspace(namespace, "web").Image("a").Status(func(s *v1alpha1.WorkspaceStatus) { s.Address = "x" }).Obj()
	g.Expect(world.client.Create(t.Context(), workspace)).To(Succeed())
	g.Expect(workspace.Status.Address).To(BeEmpty())
	workspace.Status.Address, workspace.Spec.Image = "10.0.0.1:1", "b"
	g.Expect(world.client.Status().Update(t.Context(), workspace)).To(Succeed())
	g.Expect(workspace.Spec.Image).To(Equal("a"))
	g.Expect(workspace.Status.Address).To(Equal("10.0.0.1:1"))
}
