// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
)

func hexes(c string, n int) string { return strings.Repeat(c, n) }

func text(s string) *string { return &s }

// specInput is a plan with something of everything.
func specInput() SpecInput {
	return SpecInput{
		Namespace: "team-a",
		Cluster:   "4b7c1a52-8f1d-4b59-a4f4-9b6f4f5d2f10",
		Nonce:     hexes("a", 32),
		Stack:     v1alpha1.StackReference{Name: "web", UID: "uid-1", Generation: 3, ResourceVersion: "4711"},
		Sequence:  7,
		Trigger:   v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSpecChanged, Message: "generation 3 <b> & \u2028", Completes: &v1alpha1.CompletedPlan{Name: "web-6", Digest: "sha256:" + hexes("d", 64), Result: "Interrupted"}},
		Authors:   []string{"alice@example.com", "system:serviceaccount:flux-system:kustomize-controller"},
		Binding: v1alpha1.Binding{
			Revision: hexes("1", 40), Repository: "https://git.example/repo", Directory: "infra", Tree: hexes("2", 40),
			ConfigDigest: "sha256:" + hexes("3", 64), StateDigest: "sha256:" + hexes("4", 64), DriftDigest: "sha256:" + hexes("b", 64), Refresh: true, PulumiVersion: "v3.276.0",
			Targets: []string{"urn:pulumi:dev::demo::files:index:File::one", "**two"}, TargetDependents: true,
			ConfigEntries:  []v1alpha1.ConfigEntry{{Name: "spec.config[size]", Digest: hexes("6", 16)}, {Name: "spec.secretsRef[pw] (Secret db/password)", Digest: hexes("7", 16)}},
			Plugins:        []v1alpha1.Plugin{{Name: "files", Version: "0.1.0", Digest: "sha256:" + hexes("8", 64)}, {Name: "random", Digest: "sha256:" + hexes("9", 64)}},
			WorkspaceImage: "registry.example/pulumi@sha256:" + hexes("0", 64),
		},
		Artifact: v1alpha1.Artifact{Digest: "sha256:" + hexes("5", 64), Size: 1234, Chunks: []string{"web-plan-555555555555-0", "web-plan-555555555555-1"}},
		NotAfter: time.Date(2026, 12, 1, 12, 0, 0, 123, time.FixedZone("CET", 3600)),
		Plan: New([]v1alpha1.ResourceChange{
			{Operation: v1alpha1.ChangeCreate, Type: "files:index:File", Name: "new", URN: "urn:new", Unbound: []string{"content"}},
			{
				Operation: v1alpha1.ChangeReplace, Type: "files:index:File", Name: "one", URN: "urn:one", MoreProperties: 2,
				Properties: []v1alpha1.PropertyChange{{Path: "path", Old: text(`"a"`), New: text(`"b"`), Replaces: true}},
			},
		}, 4).WithPending([]Pending{{Operation: "creating", URN: "urn:new"}, {Operation: "deleting", URN: "urn:gone"}}, false),
	}
}

func mustSpec(t testing.TB, in SpecInput) v1alpha1.UpdatePlanSpec {
	t.Helper()
	spec, err := NewSpec(in)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// eachChange calls visit with the path of every value below v after changing it a little, and puts it back. It fails on a
// kind that it does not know, so that a new field cannot slip through.
func eachChange(t *testing.T, path string, v reflect.Value, visit func(path string)) {
	t.Helper()
	if v.Type() == reflect.TypeFor[time.Time]() {
		changeTo(path, v, reflect.ValueOf(v.Interface().(time.Time).Add(time.Second)), visit)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachChange(t, path+"."+v.Type().Field(i).Name, v.Field(i), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachChange(t, fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
		if v.Len() > 0 {
			changeTo(path+"[less]", v, v.Slice(0, v.Len()-1), visit)
		}
		changeTo(path+"[more]", v, reflect.Append(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, 1), v), reflect.Zero(v.Type().Elem())), visit)
	case reflect.Pointer:
		if v.IsNil() {
			changeTo(path+"[set]", v, reflect.New(v.Type().Elem()), visit)
			return
		}
		changeTo(path+"[unset]", v, reflect.Zero(v.Type()), visit)
		eachChange(t, path, v.Elem(), visit)
	case reflect.String:
		changeTo(path, v, reflect.ValueOf(v.String()+"x").Convert(v.Type()), visit)
	case reflect.Bool:
		changeTo(path, v, reflect.ValueOf(!v.Bool()), visit)
	case reflect.Int, reflect.Int32, reflect.Int64:
		changeTo(path, v, reflect.ValueOf(v.Int()+1).Convert(v.Type()), visit)
	default:
		t.Fatalf("%s: the test knows nothing of %s", path, v.Kind())
	}
}

func changeTo(path string, v, to reflect.Value, visit func(string)) {
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	v.Set(to)
	visit(path)
	v.Set(before)
}
