// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

var settings = Settings{ManagerImage: "manager:1", WorkspaceImage: "pulumi:1"}

func render(t testing.TB, ws *v1alpha1.Workspace) (*corev1.Pod, string) {
	t.Helper()
	pod, digest, err := renderPod(ws, settings)
	if err != nil {
		t.Fatal(err)
	}
	return pod, digest
}

// The API server itself says so too, in tests/envtest; this says what exactly is meant.
func TestThePodMeetsTheRestrictedStandard(t *testing.T) {
	pod, _ := render(t, builder.Workspace("ns", "web").Cache("claim").Obj())
	spec := pod.Spec
	if spec.HostNetwork || spec.HostPID || spec.HostIPC || spec.SecurityContext == nil || !*spec.SecurityContext.RunAsNonRoot || spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context: %+v", spec.SecurityContext)
	}
	for _, c := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || len(s.Capabilities.Add) != 0 {
			t.Errorf("container %q: %+v", c.Name, s)
		}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				t.Errorf("container %q has a port of the host", c.Name)
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			t.Errorf("volume %q is of the host", v.Name)
		}
	}
}

// requiredSigners tells which ConfigMap or Secret is mounted where, and what the agent is told of it.
func requiredSigners(p *corev1.Pod) any {
	var words string
	for _, v := range p.Spec.Volumes {
		if v.Name != volumeSigners {
			continue
		}
		if v.ConfigMap != nil {
			words += v.ConfigMap.Name
		}
		words += "/"
		if v.Secret != nil {
			words += v.Secret.SecretName
		}
	}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		if m.Name == volumeSigners && m.ReadOnly && m.SubPath == "" {
			words += m.MountPath + " read-only, "
		}
	}
	for _, argument := range p.Spec.Containers[0].Command {
		if strings.Contains(argument, "signers") {
			words += argument
		}
	}
	return words
}

func TestRenderPod(t *testing.T) {
	type m = map[string]any
	main := func(p *corev1.Pod) corev1.Container { return p.Spec.Containers[0] }
	overlay := func(v any) *v1alpha1.Workspace { return builder.Workspace("ns", "web").PodTemplate(v).Obj() }
	tests := map[string]struct {
		reason string
		ws     *v1alpha1.Workspace
		check  func(*corev1.Pod) any
		want   any
		err    string
	}{
		"the default image": {reason: "the Workspace names none", ws: builder.Workspace("ns", "web").Obj(), check: func(p *corev1.Pod) any { return main(p).Image }, want: "pulumi:1"},
		"an image":          {reason: "it is the user's own", ws: builder.Workspace("ns", "web").Image("mine").Obj(), check: func(p *corev1.Pod) any { return main(p).Image }, want: "mine"},
		"the agent":         {reason: "it comes from the operator's image", ws: builder.Workspace("ns", "web").Obj(), check: func(p *corev1.Pod) any { return p.Spec.InitContainers[0].Image }, want: "manager:1"},
		"a claim": {
			reason: "plugins outlive the pod", ws: builder.Workspace("ns", "web").Cache("claim").Obj(),
			check: func(p *corev1.Pod) any { return p.Spec.Volumes[3].PersistentVolumeClaim.ClaimName }, want: "claim",
		},
		"resources": {
			reason: "they are of the container that runs Pulumi",
			ws: builder.Workspace("ns", "web").Spec(func(s *v1alpha1.WorkspaceSpec) {
				s.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("2")}
			}).Obj(),
			check: func(p *corev1.Pod) any { limits := main(p).Resources.Limits; return limits.Cpu().String() }, want: "2",
		},
		"a container of the template": {
			reason: "the one named pulumi is changed, another is added",
			ws:     overlay(m{"spec": m{"containers": []m{{"name": "pulumi", "env": []m{{"name": "A", "value": "b"}}}, {"name": "sidecar", "image": "s"}}}}),
			check: func(p *corev1.Pod) any {
				var names []string
				for _, c := range p.Spec.Containers {
					names = append(names, c.Name)
					for _, e := range c.Env {
						names = append(names, e.Name)
					}
				}
				return strings.Join(names, " ")
			},
			want: "pulumi A PLANGATE_GRACE PLANGATE_POD_UID sidecar",
		},
		"a volume of the template": {
			reason: "the operator's volumes stay", ws: overlay(m{"spec": m{"volumes": []m{{"name": "more", "emptyDir": m{}}}}}),
			check: func(p *corev1.Pod) any { return len(p.Spec.Volumes) }, want: 5,
		},
		"labels of the template": {
			reason: "all but those that pods are found by",
			ws:     overlay(m{"metadata": m{"labels": m{"a": "b", "plangate.dev/workspace": "other"}, "annotations": m{"c": "d"}}}),
			check: func(p *corev1.Pod) any {
				return []string{p.Labels["a"], p.Labels["plangate.dev/workspace"], p.Annotations["c"]}
			}, want: []string{"b", "web", "d"},
		},
		"required signers of a ConfigMap": {
			reason: "the agent reads the mounted file",
			ws:     builder.Workspace("ns", "web").Spec(func(s *v1alpha1.WorkspaceSpec) { s.RequiredSigners = &v1alpha1.RequiredSigners{ConfigMap: "signers"} }).Obj(),
			check:  requiredSigners, want: "signers//plangate/signers read-only, --require-signers=/plangate/signers/signers.yaml",
		},
		"required signers of a Secret": {
			reason: "the agent reads the mounted file",
			ws:     builder.Workspace("ns", "web").Spec(func(s *v1alpha1.WorkspaceSpec) { s.RequiredSigners = &v1alpha1.RequiredSigners{Secret: "hidden"} }).Obj(),
			check:  requiredSigners, want: "/hidden/plangate/signers read-only, --require-signers=/plangate/signers/signers.yaml",
		},
		"no required signers":          {reason: "nothing else is in the pod", ws: builder.Workspace("ns", "web").Obj(), check: requiredSigners, want: ""},
		"a node selector":              {reason: "any field of a pod's spec", ws: overlay(m{"spec": m{"nodeSelector": m{"a": "b"}}}), check: func(p *corev1.Pod) any { return p.Spec.NodeSelector }, want: map[string]string{"a": "b"}},
		"an unknown field":             {reason: "nothing is ignored", ws: overlay(m{"spec": m{"nodeSelektor": m{}}}), err: "nodeSelektor"},
		"an unknown field deep inside": {reason: "nothing is ignored", ws: overlay(m{"spec": m{"containers": []m{{"name": "pulumi", "imge": "x"}}}}), err: "imge"},
		"a name":                       {reason: "there is one pod, and it has its name", ws: overlay(m{"metadata": m{"name": "other"}}), err: "name"},
		"a namespace":                  {reason: "a pod is never made elsewhere", ws: overlay(m{"metadata": m{"namespace": "kube-system"}}), err: "namespace"},
		"owners":                       {reason: "the pod has none", ws: overlay(m{"metadata": m{"ownerReferences": []m{}}}), err: "ownerReferences"},
		"a wrong type":                 {reason: "nothing is guessed", ws: overlay(m{"spec": m{"priority": "high"}}), err: "priority"},
		"no object":                    {reason: "nothing is guessed", ws: overlay([]string{}), err: "podTemplate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod, _, err := renderPod(tc.ws, settings)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("renderPod(): %s: %v", tc.reason, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.check(pod)); diff != "" {
				t.Errorf("renderPod(): %s: -want +got\n%s", tc.reason, diff)
			}
			// An owner would let the garbage collector take the pod from under an operation.
			if pod.Name != "web-workspace" || pod.Namespace != "ns" || len(pod.OwnerReferences) != 0 || !isPodOf(tc.ws, pod) {
				t.Errorf("renderPod(): %s/%s owned by %+v, labels %v", pod.Namespace, pod.Name, pod.OwnerReferences, pod.Labels)
			}
		})
	}
}

func TestThePodIsReplacedForWhatItIsMadeOfAlone(t *testing.T) {
	ws := builder.Workspace("ns", "web")
	_, first := render(t, ws.Obj())
	for range 20 {
		if _, again := render(t, ws.Obj()); again != first {
			t.Fatal("the same Workspace gives another digest")
		}
	}
	if _, other := render(t, ws.NeededAt(builder.Epoch).IdleTimeout(5).Obj()); other != first {
		t.Error("when the pod is needed has replaced it")
	}
	if _, other := render(t, ws.Image("mine").Obj()); other == first {
		t.Error("another image does not replace the pod")
	}
	upgraded, digest, err := renderPod(builder.Workspace("ns", "web").Obj(), Settings{ManagerImage: "manager:2", WorkspaceImage: "pulumi:1"})
	if err != nil || digest == first || upgraded.Annotations[annotationTemplate] != digest {
		t.Errorf("an upgrade of the operator does not replace the pod: %v", err)
	}
}

func TestThePodHoldsNothingOfTheStack(t *testing.T) {
	pod, _ := render(t, builder.Workspace("ns", "web").Obj())
	text, err := json.Marshal(pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"PULUMI_", "git.example.com", "plangate-key"} {
		if strings.Contains(string(text), word) {
			t.Errorf("the pod holds %q", word)
		}
	}
}
