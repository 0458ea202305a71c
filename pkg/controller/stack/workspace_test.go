// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

func TestRenderWorkspace(t *testing.T) {
	type m = map[string]any
	tests := map[string]struct {
		reason string
		stack  *builder.StackBuilder
		check  func(*v1alpha1.Workspace) any
		want   any
		err    string
	}{
		"nothing": {
			reason: "the operator's defaults", stack: builder.Stack("ns", "web"),
			check: func(w *v1alpha1.Workspace) any { return w.Spec }, want: v1alpha1.WorkspaceSpec{},
		},
		"the service account of the Stack": {
			reason: "it is a field of its own", stack: builder.Stack("ns", "web").ServiceAccount("deployer"),
			check: func(w *v1alpha1.Workspace) any { return w.Spec.ServiceAccountName }, want: "deployer",
		},
		"the service account of the template": {
			reason: "the template is laid over", stack: builder.Stack("ns", "web").ServiceAccount("deployer").WorkspaceTemplate(m{"spec": m{"serviceAccountName": "other"}}),
			check: func(w *v1alpha1.Workspace) any { return w.Spec.ServiceAccountName }, want: "other",
		},
		"labels and annotations": {
			reason: "both, and the operator's own label", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"metadata": m{"labels": m{"a": "b", "plangate.dev/stack": "forged"}, "annotations": m{"c": "d"}}}),
			check: func(w *v1alpha1.Workspace) any { return []map[string]string{w.Labels, w.Annotations} },
			want:  []map[string]string{{"a": "b", "plangate.dev/stack": "web", "plangate.dev/stack-uid": "uid"}, {"c": "d"}},
		},
		"a duration": {
			reason: "any field of a Workspace's spec", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"spec": m{"idleTimeout": "90s"}}),
			check: func(w *v1alpha1.Workspace) any { return w.Spec.IdleTimeout }, want: &metav1.Duration{Duration: 90 * time.Second},
		},
		"an unknown field":            {reason: "nothing is ignored", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"spec": m{"imge": "x"}}), err: "imge"},
		"an unknown field at the top": {reason: "nothing is ignored", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"status": m{}}), err: "status"},
		"a name":                      {reason: "it is the Stack's", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"metadata": m{"name": "x"}}), err: "name"},
		"a wrong type":                {reason: "nothing is guessed", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"spec": m{"image": 1}}), err: "image"},
		"the time of need":            {reason: "it is the operator's", stack: builder.Stack("ns", "web").WorkspaceTemplate(m{"metadata": m{"annotations": m{v1alpha1.AnnotationNeededAt: "x"}}}), err: "needed-at"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := renderWorkspace(tc.stack.UID("uid").Obj())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("renderWorkspace(): %s: %v", tc.reason, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.check(got)); diff != "" {
				t.Errorf("renderWorkspace(): %s: -want +got\n%s", tc.reason, diff)
			}
			if len(got.OwnerReferences) > 0 || got.Labels[v1alpha1.LabelStackUID] != "uid" {
				t.Errorf("renderWorkspace(): owners %+v, labels %v: the garbage collector must not take it from under a destroy", got.OwnerReferences, got.Labels)
			}
		})
	}
}

func TestSameSpecComparesPodTemplatesByValue(t *testing.T) {
	spec := func(raw string) v1alpha1.WorkspaceSpec {
		return v1alpha1.WorkspaceSpec{PodTemplate: &runtime.RawExtension{Raw: []byte(raw)}}
	}
	if !sameSpec(spec(`{"a":1,"b":2}`), spec(`{ "b": 2, "a": 1 }`)) {
		t.Error("the order of keys makes a difference: the Workspace is written in each loop")
	}
	if sameSpec(spec(`{"a":1}`), spec(`{"a":2}`)) || sameSpec(spec(`{"a":1}`), v1alpha1.WorkspaceSpec{}) {
		t.Error("another pod template is taken for the same")
	}
}
