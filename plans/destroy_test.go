// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"reflect"
	"strings"
	"testing"

	"github.com/plangate/plangate/api/v1alpha1"
)

// destroyInput is specInput as a destroy, with something protected and something retained.
func destroyInput() SpecInput {
	in := specInput()
	in.Operation = v1alpha1.PlanOperationDestroy
	b := &in.Binding
	b.Revision, b.Repository, b.Directory, b.Tree = "", "", "", ""
	b.Refresh, b.DriftDigest, b.Targets, b.TargetDependents = false, "", nil, false
	in.Plan = NewDestroy([]v1alpha1.ResourceChange{
		{Operation: v1alpha1.ChangeDelete, Type: "files:index:File", Name: "a", URN: "urn:a"},
		{Operation: v1alpha1.ChangeDelete, Type: "files:index:File", Name: "b", URN: "urn:b", Guard: v1alpha1.GuardProtected},
		{Operation: v1alpha1.ChangeRemove, Type: "files:index:File", Name: "c", URN: "urn:c", Guard: v1alpha1.GuardRetained},
	})
	return in
}

func TestADestroySaysWhatItIsHeldTo(t *testing.T) {
	spec := mustSpec(t, destroyInput())
	s, err := Parse(spec.Statement)
	if err != nil {
		t.Fatal(err)
	}
	if s.Subject[0].Name != DestroySubjectName || s.Predicate.Constraint != DestroyConstraint {
		t.Errorf("subject %q, constraint %q", s.Subject[0].Name, s.Predicate.Constraint)
	}
	if got := spec.Summary.Brief; got != "destroy -2, 1 retained, 1 protected" {
		t.Errorf("brief = %q", got)
	}
	lines := strings.Join(DiffLines(&spec), "\n")
	for _, want := range []string{"delete a", "protected: Pulumi refuses", "stays in the real world", "nothing of this can be done: 1 resource is protected"} {
		if !strings.Contains(lines, want) {
			t.Errorf("DiffLines() do not say %q:\n%s", want, lines)
		}
	}
	if update := mustSpec(t, specInput()); Impossible(&update) != "" || strings.Contains(update.Statement, `"constraint"`) {
		t.Error("an Update is held to its plan file, and says nothing of a constraint")
	}
}

// TestADestroyBindsEverything changes every single value of a destroy's statement, and then of its spec.
func TestADestroyBindsEverything(t *testing.T) {
	spec := mustSpec(t, destroyInput())
	in := statementInput(&spec, "team-a", "cluster", hexes("a", 32), StateChanges(spec.Changes, spec.Changes, ""))
	base, err := NewStatement(in)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{Digest(base): "unchanged"}
	eachChange(t, "input", reflect.ValueOf(&in).Elem(), func(path string) {
		if s, err := NewStatement(in); err == nil {
			if twin, ok := seen[Digest(s)]; ok {
				t.Errorf("changing %s gives the digest of %s", path, twin)
			}
			seen[Digest(s)] = path
		}
	})
	found := 0
	eachChange(t, "spec", reflect.ValueOf(&spec).Elem(), func(path string) {
		found++
		if CheckSpec("team-a", &spec) == nil {
			t.Errorf("CheckSpec() did not find that %s was changed", path)
		}
	})
	if len(seen) < 20 || found < 50 {
		t.Fatalf("the test is broken: %d statements, %d changes", len(seen), found)
	}
}

func TestADestroyIsTiedToNoSourceAndToAllElse(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Binding){
		"a commit":         func(b *v1alpha1.Binding) { b.Revision = hexes("1", 40) },
		"a repository":     func(b *v1alpha1.Binding) { b.Repository = "https://git.example/repo" },
		"a tree":           func(b *v1alpha1.Binding) { b.Tree = hexes("2", 40) },
		"a refresh":        func(b *v1alpha1.Binding) { b.Refresh = true },
		"what was read":    func(b *v1alpha1.Binding) { b.DriftDigest = "sha256:" + hexes("3", 64) },
		"a target":         func(b *v1alpha1.Binding) { b.Targets = []string{"urn:a"} },
		"dependents":       func(b *v1alpha1.Binding) { b.TargetDependents = true },
		"no state":         func(b *v1alpha1.Binding) { b.StateDigest = "" },
		"no configuration": func(b *v1alpha1.Binding) { b.ConfigDigest = "" },
		"no image":         func(b *v1alpha1.Binding) { b.WorkspaceImage = "" },
		"no CLI":           func(b *v1alpha1.Binding) { b.PulumiVersion = "" },
		"a wrong entry":    func(b *v1alpha1.Binding) { b.ConfigEntries[0].Digest = "x" },
		"a wrong plugin":   func(b *v1alpha1.Binding) { b.Plugins[0].Digest = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			in := destroyInput()
			change(&in.Binding)
			if _, err := NewSpec(in); err == nil {
				t.Error("NewSpec() took it")
			}
		})
	}
	update := specInput()
	update.Binding.Tree = ""
	if _, err := NewSpec(update); err == nil {
		t.Error("NewSpec() took an Update without a tree")
	}
}
