// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

// TestCompareKnowsEveryField fails when a field is added to Binding and not compared.
func TestCompareKnowsEveryField(t *testing.T) {
	bound := specInput().Binding
	typ := reflect.TypeFor[v1alpha1.Binding]()
	var names []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		now := bound
		field := reflect.ValueOf(&now).Elem().Field(i)
		eachChange(t, name, field, func(path string) {
			moved := Compare(bound, now)
			if len(moved) != 1 || moved[0].Field != name || moved[0].Was == moved[0].Is || moved[0].Detail == "" {
				t.Errorf("Compare() after %s was changed = %+v, want one mismatch of %s", path, moved, name)
			}
		})
	}
	var compared []string
	for _, f := range boundFields {
		compared = append(compared, f.name)
	}
	if diff := cmp.Diff(names, compared); diff != "" {
		t.Errorf("fields compared: -Binding +boundFields\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	bound := specInput().Binding
	if moved := Compare(bound, bound); len(moved) != 0 {
		t.Errorf("Compare() with itself = %+v", moved)
	}
	now := bound
	now.StateDigest, now.Revision = "sha256:"+hexes("9", 64), hexes("8", 40)
	now.Repository = "https://git.example/" + strings.Repeat("ä", 900)
	want := []v1alpha1.Mismatch{
		{Field: "revision", Was: bound.Revision, Is: now.Revision, Detail: "another commit is wanted"},
		{Field: "repository", Was: bound.Repository, Is: "https://git.example/" + strings.Repeat("ä", 244) + "…", Detail: "the program comes from another repository"},
		{Field: "stateDigest", Was: bound.StateDigest, Is: now.StateDigest, Detail: "Pulumi's state was changed since the preview"},
	}
	if diff := cmp.Diff(want, Compare(bound, now)); diff != "" {
		t.Errorf("Compare(): -want +got\n%s", diff)
	}
}

func TestNewBinding(t *testing.T) {
	want := specInput().Binding
	in := BindingInput{
		Repository: want.Repository, Directory: want.Directory, ConfigDigest: want.ConfigDigest, Refresh: want.Refresh,
		Facts: Facts{Commit: want.Revision, Tree: want.Tree, StateDigest: want.StateDigest, PulumiVersion: want.PulumiVersion},
	}
	got, err := NewBinding(in)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("NewBinding(): %v, -want +got\n%s", err, diff)
	}
	if _, err := NewBinding(BindingInput{}); err == nil || strings.Count(err.Error(), "missing") != 6 {
		t.Errorf("NewBinding() of nothing = %v, want it to name 6 fields", err)
	}
}
