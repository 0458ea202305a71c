// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

// installPolicy creates the objects of a file of config/admission, and takes them away after the test.
func installPolicy(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := world.client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("creating %s %q: %v", o.GetKind(), o.GetName(), err)
		}
		t.Cleanup(func() { _ = world.client.Delete(t.Context(), o) })
	}
}

// personWith is a client of a person with these ClusterRoles.
func personWith(t *testing.T, user string, roles ...string) client.Client {
	t.Helper()
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}
		if err := world.client.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = world.client.Delete(t.Context(), binding) })
	}
	config := rest.CopyConfig(world.config)
	config.Impersonate.UserName = user
	c, err := client.New(config, client.Options{Scheme: world.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestToHaveALockReleasedTakesARightOfItsOwn(t *testing.T) {
	// Not parallel: the policy holds for the whole API server.
	g := NewWithT(t)
	installPolicy(t, "../../config/admission/stack-unlock.yaml")
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-stack-editor"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"plangate.dev"}, Resources: []string{"stacks", "stacks/status"}, Verbs: []string{"get", "create", "update", "patch"},
	}}}
	g.Expect(world.client.Create(t.Context(), editor)).To(Succeed())
	t.Cleanup(func() { _ = world.client.Delete(t.Context(), editor) })
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
