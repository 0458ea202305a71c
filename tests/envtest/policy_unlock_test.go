// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"strings"
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

// personWith is a client of a person with these ClusterRoles.
func personWith(t *testing.T, user string, roles ...string) client.Client {
	t.Helper()
	for _, name := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}
		if err := world.client.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = world.client.Delete(context.WithoutCancel(t.Context()), binding) })
	}
	return as(user, "system:authenticated")
}

func TestToHaveALockReleasedTakesARightOfItsOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	editor := role("test-stack-editor", rule("stacks", "get", "create", "update", "patch"), rule("stacks/status", "get", "update", "patch"))
	g.Expect(world.client.Create(t.Context(), editor)).To(Succeed())
	t.Cleanup(func() { _ = world.client.Delete(context.WithoutCancel(t.Context()), editor) })
	namespace := newNamespace(t)
	dana, erin := personWith(t, "dana", editor.Name), personWith(t, "erin", "plangate-unlocker")
	stack := builder.Stack(namespace, "web").Obj()
	g.Expect(world.client.Create(t.Context(), stack)).To(Succeed())

	annotate := func(c client.Client, value string) error {
		o := &v1alpha1.Stack{}
		if err := world.client.Get(t.Context(), client.ObjectKeyFromObject(stack), o); err != nil {
			return err
		}
		before := o.DeepCopy()
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[v1alpha1.AnnotationUnlock] = value
		if value == "" {
			delete(o.Annotations, v1alpha1.AnnotationUnlock)
		}
		return c.Patch(t.Context(), o, client.MergeFrom(before))
	}
	refused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `may not have a lock released`)
	}
	// A policy, and a binding of a role, come into force after a moment.
	// Until then the annotation is written, and to write the same again would be no change.
	probe := 0
	g.Eventually(func() bool {
		probe++
		return refused(annotate(dana, fmt.Sprintf("probe-%d", probe)))
	}, 5*time.Minute, 50*time.Millisecond).Should(BeTrue(), "an editor may not")
	g.Eventually(func() error { return annotate(erin, theirLock) }, 5*time.Minute, 50*time.Millisecond).Should(Succeed(), "an unlocker may")

	g.Expect(annotate(erin, "anything goes")).To(MatchError(ContainSubstring("the whole id of one lock")))
	g.Expect(refused(annotate(dana, "another"))).To(BeTrue(), "nor name another lock")
	fresh := builder.Stack(namespace, "other").Obj()
	fresh.Annotations = map[string]string{v1alpha1.AnnotationUnlock: theirLock}
	g.Expect(refused(dana.Create(t.Context(), fresh))).To(BeTrue(), "nor make a Stack with it")

	o := &v1alpha1.Stack{}
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(stack), o)).To(Succeed())
	o.Spec.Suspend = true
	g.Expect(dana.Update(t.Context(), o)).To(Succeed(), "an annotation that is there is in nobody's way")
	o.Annotations[v1alpha1.AnnotationUnlock] = "smuggled"
	o.Status.ShortRevision = "x"
	_ = dana.Status().Update(t.Context(), o)
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(stack), o)).To(Succeed())
	g.Expect(o.Annotations[v1alpha1.AnnotationUnlock]).To(Equal(theirLock), "nor smuggle it in with the status")
	g.Expect(annotate(dana, "")).To(Succeed(), "to take it away takes no right")
}
