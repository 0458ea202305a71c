// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
)

func TestThePodIsResetFromGitAndNeverReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := program(file{name: "hello", content: "${greeting}"}, file{name: "pw", content: "${password}"})
	files["Pulumi.yaml"] = strings.Replace(files["Pulumi.yaml"], "config:\n", "config:\n  password:\n    type: string\n    secret: true\n", 1)
	w.push(files)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"password": "s3cr3t-value"}})
	s := w.newStack()
	s.Spec.SecretsRef = map[string]v1alpha1.ResourceRef{"web:password": {
		Type: v1alpha1.ResourceRefSecret, SecretRef: &v1alpha1.SecretSelector{Name: "db", Key: "password"},
	}}
	w.create(s)
	plan := w.applied(w.plan())
	if got := w.file("pw"); got != "s3cr3t-value" {
		t.Errorf("the secret did not reach the program: %q", got)
	}
	pod := w.podUID()
	checkout := w.inPod("dirname $(find /plangate/work -name Pulumi.yaml -not -path '*/.git/*' | head -n 1)")

	for i := range 10 {
		// A file that a program left in the tree, and a configuration that somebody edited in place.
		w.inPod(fmt.Sprintf("cd %s && echo stray > stray.txt && echo '{}' > Pulumi.dev.yaml", checkout))
		want := fmt.Sprintf("greeting %d", i)
		w.setConfig("web:greeting", want)
		if i%3 == 2 {
			w.push(map[string]string{"note.txt": want})
		}
		plan = w.settle(plan, want)
		if got := w.inPod(fmt.Sprintf("cd %s && git status --porcelain --ignored && ls stray.txt 2>/dev/null || true", checkout)); got != "" {
			t.Fatalf("the checkout is not clean: %s", got)
		}
		if got := w.podUID(); got != pod {
			t.Fatalf("change %d replaced the pod: its UID was %s, is %s", i, pod, got)
		}
	}
	// Removed from the Stack, the key is back at its committed value.
	w.setConfig("web:greeting", nil)
	w.settle(plan, "hello from git")
	if got := w.podUID(); got != pod {
		t.Errorf("the pod was replaced: its UID was %s, is %s", pod, got)
	}
}

// settle applies the plans that come until the file "hello" holds what is wanted, and returns the last plan. A new commit
// and a new configuration may come as one plan or as two.
func (w *world) settle(last *v1alpha1.UpdatePlan, want string) *v1alpha1.UpdatePlan {
	w.t.Helper()
	for range 3 {
		last = w.plan(last)
		w.approve(last)
		eventually(w.t, "the plan to end", slow, func() error {
			if has(w.read(last), v1alpha1.ReasonApplied) == nil || has(w.read(last), v1alpha1.ReasonSuperseded) == nil {
				return nil
			}
			return has(w.read(last), v1alpha1.ReasonStale)
		})
		if w.file("hello") == want {
			return last
		}
	}
	w.t.Fatalf("the file holds %q, want %q", w.file("hello"), want)
	return nil
}
