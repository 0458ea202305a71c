// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"reflect"
	"slices"
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
		now := *bound.DeepCopy()
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
		Targets: want.Targets, TargetDependents: want.TargetDependents,
		ConfigEntries: want.ConfigEntries, WorkspaceImage: want.WorkspaceImage,
		Facts: Facts{Commit: want.Revision, Tree: want.Tree, StateDigest: want.StateDigest, DriftDigest: want.DriftDigest, PulumiVersion: want.PulumiVersion, Plugins: want.Plugins},
	}
	got, err := NewBinding(in)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("NewBinding(): %v, -want +got\n%s", err, diff)
	}
	for _, bad := range [][]string{{""}, {"\xff"}, {strings.Repeat("x", 2049)}, slices.Repeat([]string{"x"}, 101)} {
		in.Targets = bad
		if _, err := NewBinding(in); err == nil || !strings.Contains(err.Error(), "target") {
			t.Errorf("NewBinding() with targets %.20q = %v", bad, err)
		}
	}
	if _, err := NewBinding(BindingInput{}); err == nil || strings.Count(err.Error(), "missing") != 7 {
		t.Errorf("NewBinding() of nothing = %v, want it to name 7 fields", err)
	}
}

func TestCompareOfListsShowsWhatDiffers(t *testing.T) {
	bound := specInput().Binding
	now := bound
	now.Plugins = []v1alpha1.Plugin{bound.Plugins[1], {Name: "files", Version: "0.2.0"}}
	now.ConfigDigest = "sha256:" + hexes("e", 64)
	now.ConfigEntries = []v1alpha1.ConfigEntry{bound.ConfigEntries[0], {Name: bound.ConfigEntries[1].Name, Digest: hexes("e", 16)}, {Name: "spec.envRefs[X]", Digest: hexes("f", 16)}}
	want := []v1alpha1.Mismatch{
		{
			Field: "configDigest", Was: bound.ConfigDigest, Is: now.ConfigDigest,
			Detail: "changed spec.secretsRef[pw] (Secret db/password), added spec.envRefs[X]",
		},
		{Field: "plugins", Was: "files v0.1.0 sha256:" + hexes("8", 64), Is: "files v0.2.0 (not found)", Detail: "other provider plugins would apply the plan"},
	}
	if diff := cmp.Diff(want, Compare(bound, now)); diff != "" {
		t.Errorf("Compare(): -want +got\n%s", diff)
	}
}

func TestConfigChanges(t *testing.T) {
	entries := func(pairs ...string) []v1alpha1.ConfigEntry {
		var list []v1alpha1.ConfigEntry
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, v1alpha1.ConfigEntry{Name: pairs[i], Digest: pairs[i+1]})
		}
		return list
	}
	for name, tc := range map[string]struct {
		was, is []v1alpha1.ConfigEntry
		want    string
	}{
		"nothing known before": {is: entries("a", "1"), want: "else"},
		"too many now":         {was: entries("a", "1"), want: "else"},
		"an option moved":      {was: entries("a", "1"), is: entries("a", "1"), want: "else"},
		"one of many":          {was: entries("a", "1", "b", "2"), is: entries("a", "1", "b", "3"), want: "changed b"},
		"all kinds":            {was: entries("a", "1", "b", "2", "c", "3"), is: entries("b", "9", "c", "3", "d", "4"), want: "changed b, added d, removed a"},
		"another key":          {was: entries("a", "1", "b", "2"), is: entries("a", "3", "b", "4"), want: "every entry differs: the Stack's own key was replaced, or all of the configuration"},
		"the only one":         {was: entries("a", "1"), is: entries("a", "3"), want: "changed a"},
	} {
		if got := ConfigChanges(tc.was, tc.is, "else"); got != tc.want {
			t.Errorf("%s: ConfigChanges() = %q, want %q", name, got, tc.want)
		}
	}
}
