// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Each cause of failure must be told on the Stack in words that name it, and be over by itself when the cause is gone.
func TestAFailureIsToldOnTheStackAndHealsWhenItsCauseIsGone(t *testing.T) {
	t.Parallel()
	good := program(file{name: "a", content: "${greeting}"})
	for name, tc := range map[string]struct {
		// spoil prepares the world and the Stack so that it fails.
		spoil func(*world, *v1alpha1.Stack)
		// kind and reason are of the condition that tells; says is in its message.
		kind, reason, says string
		// heal takes the cause away.
		heal func(*world)
	}{
		"a repository that does not exist": {
			spoil: func(_ *world, s *v1alpha1.Stack) {
				s.Spec.ProjectRepo = strings.TrimSuffix(s.Spec.ProjectRepo, ".git") + "-later.git"
			},
			kind:   v1alpha1.ConditionSourceReady,
			reason: v1alpha1.ReasonSourceUnavailable, says: "-later.git",
			heal: func(w *world) {
				w.git("remote", "set-url", "origin", strings.TrimSuffix(w.url, ".git")+"-later.git")
				w.push(good)
			},
		},
		"a branch that does not exist": {
			spoil:  func(w *world, s *v1alpha1.Stack) { w.push(good); s.Spec.Branch = "release" },
			kind:   v1alpha1.ConditionSourceReady,
			reason: v1alpha1.ReasonSourceUnavailable, says: `"release"`,
			heal: func(w *world) { w.git("push", "-q", "origin", "HEAD:release") },
		},
		"a Secret that does not exist": {
			spoil: func(w *world, s *v1alpha1.Stack) {
				w.push(good)
				s.Spec.SecretsRef = map[string]v1alpha1.ResourceRef{"web:password": {
					Type: v1alpha1.ResourceRefSecret, SecretRef: &v1alpha1.SecretSelector{Name: "later", Key: "password"},
				}}
			},
			kind:   v1alpha1.ConditionPreviewed,
			reason: v1alpha1.ReasonSecretUnavailable, says: `"later"`,
			heal: func(w *world) {
				w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "later"}, StringData: map[string]string{"password": "pw"}})
			},
		},
		"a program with a syntax error": {
			spoil: func(w *world, _ *v1alpha1.Stack) {
				w.push(map[string]string{"Pulumi.yaml": "name: web\nruntime: yaml\nresources:\n  a: [unclosed\n"})
			},
			kind:   v1alpha1.ConditionPreviewed,
			reason: v1alpha1.ReasonPreviewFailed, says: "Pulumi.yaml",
			heal: func(w *world) { w.push(good) },
		},
		"a resource that the program gets wrong": {
			spoil: func(w *world, _ *v1alpha1.Stack) {
				files := program(file{name: "a", content: "x"})
				files["Pulumi.yaml"] = strings.Replace(files["Pulumi.yaml"], "/state/files/a", "relative", 1)
				w.push(files)
			},
			kind:   v1alpha1.ConditionPreviewed,
			reason: v1alpha1.ReasonPreviewFailed, says: "must be absolute",
			heal: func(w *world) { w.push(good) },
		},
		"a backend that cannot be reached": {
			spoil:  func(w *world, s *v1alpha1.Stack) { w.push(good); s.Spec.Backend = "file:///state/later" },
			kind:   v1alpha1.ConditionPreviewed,
			reason: v1alpha1.ReasonPreviewFailed, says: "/state/later",
			heal: func(w *world) { w.inPod("mkdir -p /state/later") },
		},
		"a wrong passphrase": {
			spoil: func(w *world, _ *v1alpha1.Stack) {
				files := program(file{name: "a", content: "x"})
				// The salt of another passphrase than the Stack's.
				files["Pulumi.dev.yaml"] += "encryptionsalt: v1:5S3Wl4Qf0Lw=:v1:wK0yRZ6rkm1BqWQ0:F9S7Yy3dNfVxXcRvKk6b7oP1mBPfGw==\n"
				w.push(files)
			},
			kind:   v1alpha1.ConditionPreviewed,
			reason: v1alpha1.ReasonPreviewFailed, says: "passphrase",
			heal: func(w *world) { w.push(good) },
		},
		"a workspace image that does not exist": {
			spoil: func(w *world, s *v1alpha1.Stack) {
				w.push(good)
				s.Spec.WorkspaceTemplate.Raw = []byte(strings.Replace(template, `{"spec":{`, `{"spec":{"image":"localhost/plangate/no-such-image:dev","imagePullPolicy":"Never",`, 1))
			},
			kind:   v1alpha1.ConditionWorkspaceReady,
			reason: v1alpha1.ReasonWorkspaceFailed, says: "no-such-image",
			heal: func(w *world) {
				w.edit(func(s *v1alpha1.StackSpec) { s.WorkspaceTemplate.Raw = []byte(template) })
			},
		},
		"a workspaceTemplate with a typo": {
			spoil: func(w *world, s *v1alpha1.Stack) {
				w.push(good)
				s.Spec.WorkspaceTemplate.Raw = []byte(strings.Replace(template, `{"spec":{`, `{"spec":{"imag":"x",`, 1))
			},
			kind:   v1alpha1.ConditionWorkspaceReady,
			reason: v1alpha1.ReasonSpecInvalid, says: `"imag"`,
			heal: func(w *world) {
				w.edit(func(s *v1alpha1.StackSpec) { s.WorkspaceTemplate.Raw = []byte(template) })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.newStack()
			tc.spoil(w, s)
			w.create(s)
			if message := w.condition(tc.kind, metav1.ConditionFalse, tc.reason); !strings.Contains(message, tc.says) {
				t.Errorf("the condition does not name the cause %q: %q", tc.says, message)
			}
			w.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, tc.reason)
			tc.heal(w)
			w.applied(w.plan())
			w.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonInSync)
		})
	}
}
