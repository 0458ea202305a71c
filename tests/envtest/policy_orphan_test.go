// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

// stackPerson is a client of somebody who has these verbs on the Stacks of a namespace.
func stackPerson(t *testing.T, namespace, user string, verbs ...string) client.Client {
	t.Helper()
	g := NewWithT(t)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "stacks-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"stacks"}, Verbs: verbs}},
	}
	g.Expect(world.client.Create(t.Context(), role)).To(Succeed())
	g.Expect(world.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "stacks-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	})).To(Succeed())
	return as(user, "system:authenticated")
}

func TestToOrphanAStackIsARightOfItsOwn(t *testing.T) {
	g, namespace := NewWithT(t), newNamespace(t)
	objects, err := manifestsOf("admission", "stack-orphan.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		g.Expect(client.IgnoreAlreadyExists(world.client.Create(t.Context(), o))).To(Succeed())
		t.Cleanup(func() { _ = world.client.Delete(context.WithoutCancel(t.Context()), o) })
	}
	stack := builder.Stack(namespace, "web").Finalizer().Obj()
	stack.Spec.DestroyOnFinalize = true
	g.Expect(world.client.Create(t.Context(), stack)).To(Succeed())
	edit := []string{"get", "create", "update", "patch", "delete"}
	editor, orphaner := stackPerson(t, namespace, "editor", edit...), stackPerson(t, namespace, "orphaner", append(edit, "orphan")...)
	robot := stackPerson(t, namespace, "system:serviceaccount:"+namespace+":robot", edit...)

	annotate := func(c client.Client, value string) error {
		o := stack.DeepCopy()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationOrphan, value)
		return c.Patch(t.Context(), o, client.MergeFrom(stack), client.DryRunAll)
	}
	g.Eventually(func() error { return annotate(editor, string(stack.UID)) }, 20*time.Second, 100*time.Millisecond).Should(MatchError(ContainSubstring("verb orphan")))
	g.Eventually(func() error { return annotate(robot, string(stack.UID)) }, 20*time.Second, 100*time.Millisecond).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
	g.Eventually(func() error { return annotate(orphaner, string(stack.UID)) }, 20*time.Second, 100*time.Millisecond).Should(Succeed())
	g.Expect(annotate(orphaner, "yes")).To(MatchError(ContainSubstring("must be the UID of this very Stack: " + string(stack.UID))))

	born := builder.Stack(namespace, "born").Annotation(v1alpha1.AnnotationOrphan, "x").Obj()
	g.Expect(orphaner.Create(t.Context(), born)).To(MatchError(ContainSubstring("cannot be set when the Stack is made")))

	// What the policy is not about stays as it is, and what is there already does not stand in anybody's way.
	disarm := func(c client.Client) error {
		o := stack.DeepCopy()
		o.Spec.DestroyOnFinalize = false
		return c.Patch(t.Context(), o, client.MergeFrom(stack), client.DryRunAll)
	}
	g.Expect(disarm(editor)).To(Succeed(), "a Stack that is not being deleted may be edited")
	g.Expect(world.client.Delete(t.Context(), stack)).To(Succeed())
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(stack), stack)).To(Succeed())
	g.Expect(disarm(editor)).To(MatchError(ContainSubstring("verb orphan")))
	g.Expect(disarm(orphaner)).To(Succeed())
	before := stack.DeepCopy()
	metav1.SetMetaDataAnnotation(&stack.ObjectMeta, v1alpha1.AnnotationOrphan, string(stack.UID))
	g.Expect(orphaner.Patch(t.Context(), stack, client.MergeFrom(before))).To(Succeed())
	labelled := stack.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	g.Expect(editor.Patch(t.Context(), labelled, client.MergeFrom(stack))).To(Succeed())

	before = labelled.DeepCopy()
	labelled.Finalizers = nil
	g.Expect(world.client.Patch(t.Context(), labelled, client.MergeFrom(before))).To(Succeed())
}
