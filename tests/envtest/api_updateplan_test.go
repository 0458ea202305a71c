// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/tests/builder"
)

const wantImmutable = "an UpdatePlan's spec never changes: a new change is a new UpdatePlan"

func TestUpdatePlanFields(t *testing.T) {
	base := builder.UpdatePlan(newNamespace(t), "web-1-01234567").Obj()
	change := func(i int) any {
		return map[string]any{"operation": "Create", "type": "t", "name": fmt.Sprint("n", i), "urn": fmt.Sprint("urn:", i)}
	}
	name := func(i int) any { return fmt.Sprint("name-", i) }
	property := func(i int) any { return map[string]any{"path": fmt.Sprint("p", i)} }
	testVerdicts(t, base, map[string]verdictCase{
		"a plan":     {edit: all(), reason: "the plain case"},
		"no changes": {edit: unset("spec.changes"), reason: "a plan may change outputs alone"},

		"a short digest":        {edit: set("spec.digest", "sha256:0123"), want: "spec.digest", reason: "an approval names all of it"},
		"an upper-case digest":  {edit: set("spec.digest", "sha256:"+strings.Repeat("AB", 32)), want: "spec.digest", reason: "it is compared as text"},
		"another algorithm":     {edit: set("spec.digest", "sha512:"+strings.Repeat("ab", 32)), want: "spec.digest", reason: "there is one"},
		"a digest with a tail":  {edit: set("spec.digest", base.Spec.Digest+"\n"), want: "spec.digest", reason: "$ must not match before a line's end"},
		"no digest":             {edit: unset("spec.digest"), want: "spec.digest: Required value", reason: "it is what is approved"},
		"a bad artifact digest": {edit: set("spec.artifact.digest", "sha256:xyz"), want: "spec.artifact.digest", reason: "it is compared as text"},
		"a negative size":       {edit: set("spec.artifact.size", -1), want: "spec.artifact.size", reason: "no file has it"},
		"no chunk":              {edit: set("spec.artifact.chunks", []any{}), want: "spec.artifact.chunks", reason: "the file is somewhere"},
		"64 chunks":             {edit: set("spec.artifact.chunks", times(64, name)), reason: "the most"},
		"65 chunks":             {edit: set("spec.artifact.chunks", times(65, name)), want: "spec.artifact.chunks: Too many", reason: "the object is bounded"},

		"no statement":       {edit: unset("spec.statement"), want: "spec.statement: Required value", reason: "it is what is signed"},
		"an empty statement": {edit: set("spec.statement", ""), want: "spec.statement", reason: "it is what is signed"},
		"a 64 KiB statement": {edit: set("spec.statement", strings.Repeat("s", 65536)), reason: "the most"},
		"a longer statement": {edit: set("spec.statement", strings.Repeat("s", 65537)), want: "spec.statement: Too long", reason: "the object is bounded"},

		"sequence 0":             {edit: set("spec.sequence", 0), want: "spec.sequence", reason: "counting starts at 1"},
		"a destroy":              {edit: set("spec.operation", "Destroy"), want: `spec.operation: Unsupported value: "Destroy"`, reason: "this version cannot do it"},
		"an unknown trigger":     {edit: set("spec.trigger.type", "Whim"), want: `spec.trigger.type: Unsupported value: "Whim"`, reason: "an unknown value is never taken for a known one"},
		"a long trigger message": {edit: set("spec.trigger.message", strings.Repeat("m", 1025)), want: "spec.trigger.message: Too long", reason: "the object is bounded"},
		"no expiry":              {edit: unset("spec.notAfter"), want: "spec.notAfter: Required value", reason: "every plan ends"},
		"a bad expiry":           {edit: set("spec.notAfter", "tomorrow"), want: "spec.notAfter", reason: "it is a time"},
		"no brief":               {edit: unset("spec.summary.brief"), want: "spec.summary.brief: Required value", reason: "it is a column"},
		"no state digest":        {edit: unset("spec.binding.stateDigest"), want: "spec.binding.stateDigest: Required value", reason: "an approval is tied to it"},
		"no revision":            {edit: unset("spec.binding.revision"), want: "spec.binding.revision: Required value", reason: "an approval is tied to it"},
		"no Stack version":       {edit: unset("spec.stackRef.resourceVersion"), want: "spec.stackRef.resourceVersion: Required value", reason: "a plan is tied to the read of its Stack"},

		"100 changes":       {edit: set("spec.changes", times(100, change)), reason: "the most"},
		"101 changes":       {edit: set("spec.changes", times(101, change)), want: "spec.changes: Too many", reason: "the object is bounded"},
		"an unknown change": {edit: set("spec.changes.*.operation", "Explode"), want: `Unsupported value: "Explode"`, reason: "what is not known by name is Other"},
		"51 properties":     {edit: set("spec.changes.*.properties", times(51, property)), want: "properties: Too many", reason: "the object is bounded"},
		"51 unbound inputs": {edit: set("spec.changes.*.unbound", times(51, name)), want: "unbound: Too many", reason: "the object is bounded"},
		"a long old value":  {edit: set("spec.changes.*.properties", []any{map[string]any{"path": "p", "old": strings.Repeat("v", 513)}}), want: "old: Too long", reason: "values are shortened before"},

		"an unknown field":             {edit: set("spec.approvePlan", "x"), want: `unknown field "spec.approvePlan"`, reason: "never ignored in silence"},
		"an unknown fact":              {edit: set("spec.binding.weather", "x"), want: `unknown field "spec.binding.weather"`, reason: "at any depth"},
		"an unknown field of a change": {edit: set("spec.changes.*.x", "x"), want: "unknown field", reason: "at any depth"},
	})
}

// Nothing but creation writes a plan's spec, whichever way one comes; everything around the spec can change.
func TestUpdatePlanIsImmutable(t *testing.T) {
	g := NewWithT(t)
	plan := builder.UpdatePlan(newNamespace(t), "web-1-01234567").Spec(func(s *v1alpha1.UpdatePlanSpec) { s.ChangesConfigMap = "all" }).Obj()
	g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	mergePatch := func(patch string) error {
		return world.client.Patch(t.Context(), plan.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	jsonPatch := func(patch string) error {
		return world.client.Patch(t.Context(), plan.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(patch)))
	}

	refused := map[string]func() error{
		"update": func() error {
			changed := plan.DeepCopy()
			changed.Spec.Summary.Delete = 7
			return world.client.Update(t.Context(), changed)
		},
		"update that drops an optional field": func() error {
			changed := plan.DeepCopy()
			changed.Spec.ChangesConfigMap = ""
			return world.client.Update(t.Context(), changed)
		},
		"merge patch of the digest": func() error { return mergePatch(`{"spec":{"digest":"` + builder.Digest("other") + `"}}`) },
		"merge patch that removes":  func() error { return mergePatch(`{"spec":{"changesConfigMap":null}}`) },
		"merge patch that adds":     func() error { return mergePatch(`{"spec":{"binding":{"directory":"x"}}}`) },
		"JSON patch within a list":  func() error { return jsonPatch(`[{"op":"replace","path":"/spec/changes/0/name","value":"x"}]`) },
		"JSON patch of the expiry": func() error {
			return jsonPatch(`[{"op":"replace","path":"/spec/notAfter","value":"2999-01-01T00:00:00Z"}]`)
		},
		"server-side apply, forced":             func() error { return apply(t, plan, "spec.summary.brief", "+0") },
		"server-side apply that adds":           func() error { return apply(t, plan, "spec.binding.directory", "x") },
		"server-side apply of the Stack's name": func() error { return apply(t, plan, "spec.stackRef.name", "other") },
	}
	for name, write := range refused {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(write()).To(MatchError(ContainSubstring(wantImmutable)))
		})
	}
	t.Run("a spec cannot be taken away", func(t *testing.T) {
		NewWithT(t).Expect(mergePatch(`{"spec":null}`)).To(MatchError(ContainSubstring("spec: Required value")))
	})
	t.Run("an update of nothing is accepted", func(t *testing.T) {
		NewWithT(t).Expect(world.client.Update(t.Context(), plan.DeepCopy())).To(Succeed())
	})
	t.Run("annotations, labels and finalizers can change", func(t *testing.T) {
		NewWithT(t).Expect(mergePatch(`{"metadata":{"annotations":{"example.com/note":"x"},"labels":{"a":"b"},"finalizers":["plangate.dev/operation"]}}`)).To(Succeed())
		NewWithT(t).Expect(mergePatch(`{"metadata":{"finalizers":null}}`)).To(Succeed())
	})

	got := &v1alpha1.UpdatePlan{}
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(plan), got)).To(Succeed())
	g.Expect(got.Spec).To(Equal(plan.Spec))
	g.Expect(got.Generation).To(Equal(int64(1)))
}

// apply applies one field as another field manager, by force.
func apply(t *testing.T, plan *v1alpha1.UpdatePlan, path string, value any) error {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UpdatePlan"))
	object.SetNamespace(plan.Namespace)
	object.SetName(plan.Name)
	set(path, value)(object.Object)
	return world.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("somebody"), client.ForceOwnership)
}

func TestUpdatePlanSelectableFields(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	first := builder.UpdatePlan(namespace, "web-1-01234567").StackRef("web", "1001").Obj()
	second := builder.UpdatePlan(namespace, "web-2-01234567").StackRef("web", "1002").Obj()
	third := builder.UpdatePlan(namespace, "api-1-01234567").StackRef("api", "1002").Obj()
	for _, plan := range []*v1alpha1.UpdatePlan{first, second, third} {
		g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	}
	list := func(fields client.MatchingFields) ([]string, error) {
		found := &v1alpha1.UpdatePlanList{}
		err := world.client.List(t.Context(), found, client.InNamespace(namespace), fields)
		var names []string
		for i := range found.Items {
			names = append(names, found.Items[i].Name)
		}
		return names, err
	}

	cases := map[string]struct {
		fields client.MatchingFields
		want   []string
	}{
		"by the Stack's resourceVersion": {client.MatchingFields{"spec.stackRef.resourceVersion": "1001"}, []string{first.Name}},
		"by the Stack's name":            {client.MatchingFields{"spec.stackRef.name": "web"}, []string{first.Name, second.Name}},
		"by both":                        {client.MatchingFields{"spec.stackRef.name": "api", "spec.stackRef.resourceVersion": "1002"}, []string{third.Name}},
		"by the digest":                  {client.MatchingFields{"spec.digest": second.Spec.Digest}, []string{second.Name}},
		"by a value that none has":       {client.MatchingFields{"spec.stackRef.resourceVersion": "1"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			names, err := list(tc.fields)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(names).To(ConsistOf(tc.want))
		})
	}
	t.Run("other fields cannot be selected by", func(t *testing.T) {
		_, err := list(client.MatchingFields{"spec.sequence": "1"})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("field label not supported")))
	})
}

// A write to one side leaves the other alone: who may write status cannot change the plan, and the other way round.
func TestUpdatePlanStatusSubresource(t *testing.T) {
	g := NewWithT(t)
	plan := builder.UpdatePlan(newNamespace(t), "web-1-01234567").
		Condition(v1alpha1.ConditionApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved, "forged").Obj()
	g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	g.Expect(plan.Status.Conditions).To(BeEmpty(), "a creator cannot bring an approval along")

	want := plan.Spec
	plan.Spec.Summary.Brief = "nothing to see"
	plan.Annotations = map[string]string{"a": "b"}
	plan.Status.Requirements = "one approval"
	g.Expect(world.client.Status().Update(t.Context(), plan)).To(Succeed())
	g.Expect(plan.Spec).To(Equal(want), "a status write does not write the spec")
	g.Expect(plan.Status.Requirements).To(Equal("one approval"))

	plan.Status.Requirements = "none"
	plan.Annotations = map[string]string{"c": "d"}
	g.Expect(world.client.Update(t.Context(), plan)).To(Succeed())
	g.Expect(plan.Status.Requirements).To(Equal("one approval"), "a write does not write the status")
	g.Expect(plan.Annotations).To(HaveKeyWithValue("c", "d"))
}

func TestUpdatePlanStatusFields(t *testing.T) {
	g := NewWithT(t)
	plan := builder.UpdatePlan(newNamespace(t), "web-1-01234567").Obj()
	g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	decision := func(verdict string) map[string]any {
		return map[string]any{"verdict": verdict, "method": "Annotation", "by": "b", "observedAt": "2026-01-02T03:04:05Z", "verified": false}
	}
	cases := map[string]struct {
		status map[string]any
		want   string
	}{
		"a diff":                {status: map[string]any{"diff": times(300, func(int) any { return strings.Repeat("→", 512) })}},
		"301 lines":             {status: map[string]any{"diff": times(301, func(int) any { return "l" })}, want: "Too many"},
		"a long line":           {status: map[string]any{"diff": []any{strings.Repeat("l", 513)}}, want: "Too long"},
		"a decision":            {status: map[string]any{"decisions": []any{decision("Refused")}}},
		"an unknown verdict":    {status: map[string]any{"decisions": []any{decision("Maybe")}}, want: `Unsupported value: "Maybe"`},
		"an unknown method":     {status: map[string]any{"decisions": []any{map[string]any{"verdict": "Refused", "method": "Telepathy", "by": "b", "observedAt": "2026-01-02T03:04:05Z"}}}, want: `Unsupported value: "Telepathy"`},
		"51 decisions":          {status: map[string]any{"decisions": times(51, func(int) any { return decision("Refused") })}, want: "Too many"},
		"an operation of no id": {status: map[string]any{"operation": map[string]any{}}, want: "status.operation.id: Required value"},
		"an unknown field":      {status: map[string]any{"phase": "Ready"}, want: `unknown field "status.phase"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := wire(plan)
			object.Object["status"] = onWire(tc.status)
			err := world.client.Status().Update(t.Context(), object, client.DryRunAll)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// TestDescribeShowsTheDiff: kubectl prints the lines one below the other, as they are, blanks in front included.
func TestDescribeShowsTheDiff(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	value := func(s string) *string { return &s }
	plan := builder.UpdatePlan(namespace, "web-1-01234567").Spec(func(s *v1alpha1.UpdatePlanSpec) {
		s.Changes = append(s.Changes, v1alpha1.ResourceChange{
			Operation: v1alpha1.ChangeOutputs, Type: "pulumi:pulumi:Stack", Name: "dev", URN: "urn:pulumi:dev::project::pulumi:pulumi:Stack::dev",
			Properties: []v1alpha1.PropertyChange{{Path: "greeting", Old: value(`"hello from git"`), New: value(`"50%s <off> \"now\""`)}},
		})
	}).Obj()
	g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	plan.Status.Diff = plans.DiffLines(&plan.Spec)
	g.Expect(world.client.Status().Update(t.Context(), plan)).To(Succeed())
	g.Expect(kubectl(t, "-n", namespace, "describe", "updateplan", plan.Name)).To(ContainSubstring(`
  Diff:
    +   create greeting kubernetes:core/v1:ConfigMap
    outputs
          greeting: "hello from git" → "50%s <off> \"now\""
`))
}
