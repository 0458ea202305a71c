// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

func property(path, old, now string) v1alpha1.PropertyChange {
	p := v1alpha1.PropertyChange{Path: path}
	if old != "" {
		p.Old = &old
	}
	if now != "" {
		p.New = &now
	}
	return p
}

func forcing(p v1alpha1.PropertyChange) v1alpha1.PropertyChange {
	p.Replaces = true
	return p
}

func changeOf(op v1alpha1.ChangeOperation, typ, name string, properties ...v1alpha1.PropertyChange) v1alpha1.ResourceChange {
	return v1alpha1.ResourceChange{Operation: op, Type: typ, Name: name, URN: "urn:pulumi:dev::demo::" + typ + "::" + name, Properties: properties}
}

func TestDiffLines(t *testing.T) {
	const first = `"urn:pulumi:dev::demo::t::first"`
	with := func(c v1alpha1.ResourceChange, more int32, unbound ...string) v1alpha1.ResourceChange {
		c.MoreProperties, c.Unbound = more, unbound
		return c
	}
	for name, tc := range map[string]struct {
		reason string
		spec   v1alpha1.UpdatePlanSpec
		want   []string
	}{
		"a plan that is limited says so before all": {
			reason: "an approver must not take it for the whole change",
			spec: v1alpha1.UpdatePlanSpec{
				Binding: v1alpha1.Binding{Targets: []string{"urn:pulumi:dev::demo::t::one"}},
				Changes: []v1alpha1.ResourceChange{changeOf("Create", "t", "one")},
			},
			want: []string{"limited to one: whatever else the program wants is not in this plan", "+   create one t"},
		},
		"one that is limited to several and what depends on them": {
			reason: "the flag takes in more than is named",
			spec: v1alpha1.UpdatePlanSpec{
				Binding: v1alpha1.Binding{Targets: []string{"urn:pulumi:dev::demo::t::one", "**two", "x", "y"}, TargetDependents: true},
				Changes: []v1alpha1.ResourceChange{changeOf("Create", "t", "one")},
			},
			want: []string{"limited to one, **two and 2 more and what depends on them: whatever else the program wants is not in this plan", "+   create one t"},
		},
		"something of everything": {
			reason: "the columns stand below each other, and each kind of change has its words",
			spec: v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{
				changeOf("Delete", "files:index:File", "old", property("(id)", `"/old"`, ""), property("path", `"/old"`, "")),
				changeOf("Replace", "kubernetes:core/v1:ConfigMap", "settings", property("(id)", `"ns/settings"`, ""), forcing(property("data.greeting", `"hello from git"`, `"hello from the Stack"`))),
				with(changeOf("Update", "kubernetes:apps/v1:Deployment", "web", property("spec.replicas", "1", "3"), property("spec.paused", "true", ""), property("spec.host", "", "[unknown]")), 2, "spec.host"),
				changeOf("Create", "files:index:File", "new", property("path", "", `"/new"`)),
				changeOf("Outputs", "pulumi:pulumi:Stack", "demo-dev", property("greeting", `"a"`, `"b"`)),
				with(changeOf("Same", "t", "same"), 0, "a", "b"),
			}},
			want: []string{
				`-   delete  old      files:index:File`,
				`      (id): "/old"`,
				`      path: "/old"`,
				`-/+ replace settings kubernetes:core/v1:ConfigMap (data.greeting forces it)`,
				`      (id): "ns/settings" → (a new one)`,
				`      data.greeting: "hello from git" → "hello from the Stack"`,
				`~   update  web      kubernetes:apps/v1:Deployment`,
				`      unbound: spec.host (any value passes)`,
				`      spec.replicas: 1 → 3`,
				`      spec.paused: true → (none)`,
				`      spec.host: (none) → [unknown]`,
				`      (2 more properties)`,
				`+   create  new      files:index:File`,
				`      path: "/new"`,
				`outputs`,
				`      greeting: "a" → "b"`,
				`=   keep    same     t`,
				`      unbound: a, b (any value passes)`,
			},
		},
		"replaced for another's sake": {
			reason: "it must not look as if nothing were the cause, nor as if a secret were known to change",
			spec: v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{
				changeOf("Replace", "t", "a", forcing(property(PathReplacedWith, first, "")), property("secret", "[secret]", "[secret]")),
				changeOf("Replace", "t", "b", forcing(property(PathReplacedWith, "", ""))),
				changeOf("Replace", "t", "c", forcing(property(PathReplacedWith, first, "")), forcing(property("p", "1", "2")), forcing(property("q", "1", "2")), forcing(property("r", "1", "2"))),
				changeOf("Replace", "t", "d", property("p", "[secret]", "[secret]")),
			}},
			want: []string{
				`-/+ replace a t (replaced because of first, which it depends on)`,
				`      secret: [secret] → [secret] (perhaps the same)`,
				`-/+ replace b t (replaced because of a resource it depends on)`,
				`-/+ replace c t (p, q and 1 more force it; replaced because of first, which it depends on)`,
				`      p: 1 → 2`, `      q: 1 → 2`, `      r: 1 → 2`,
				`-/+ replace d t (what forces it is not listed)`,
				`      p: [secret] → [secret]`,
			},
		},
		"bookkeeping": {
			reason: "it is no news beside something else",
			spec:   v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{changeOf("Read", "t", "a"), changeOf("Create", "pulumi:providers:files", "default"), changeOf("Create", "pulumi:pulumi:Stack", "s")}},
			want:   []string{`<   read a t`},
		},
		"only bookkeeping": {
			reason: "it is all there is",
			spec:   v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{changeOf("Create", "pulumi:providers:files", "default")}},
			want:   []string{`+   create default pulumi:providers:files`},
		},
		"nothing": {reason: "an empty list would be computed again and again", want: []string{"no changes"}},
		"a step of a later version, and one that gives up": {
			reason: "what is not known is not passed over",
			spec:   v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{changeOf("Transmogrify", "t", "a"), changeOf("Remove", "t", "b"), changeOf("Refresh", "t", "c", property("(exists)", "true", "false"))}},
			want: []string{
				`?   other  a t`, `-   forget b t (Pulumi gives it up, it is not deleted)`, `!   drift  c t (it is not as Pulumi left it)`, `      (exists): true → false`,
			},
		},
		"a name that is no name": {
			reason: "a line is a line, and nothing fools the terminal",
			spec:   v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{changeOf("Create", "t", "a\n- delete\x1b[2J\tb\u202e")}},
			want:   []string{`+   create a\n- delete\tb\u202e t`},
		},
		"more in a ConfigMap": {
			reason: "how many cannot be said without a statement",
			spec:   v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{changeOf("Read", "t", "a")}, ChangesConfigMap: "web-changes-1", Summary: v1alpha1.PlanSummary{Unbound: 2}},
			want:   []string{`<   read a t`, `and 2 more unbound inputs: any value passes`, `and more: see ConfigMap web-changes-1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, DiffLines(&tc.spec)); diff != "" {
				t.Errorf("DiffLines(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDiffLinesCountWhatTheStatementTells: the number of changes that are not listed is the statement's.
func TestDiffLinesCountWhatTheStatementTells(t *testing.T) {
	in := specInput()
	for i := range 150 {
		c := changeOf("Update", "t", fmt.Sprintf("n%03d", i))
		for j := range 80 {
			c.Properties = append(c.Properties, property(fmt.Sprint("p", j), "1", "2"))
		}
		in.Plan.Changes = append(in.Plan.Changes, c)
	}
	in.Plan, in.ChangesConfigMap = New(in.Plan.Changes, 0), "web-changes-1"
	spec := mustSpec(t, in)
	lines := DiffLines(&spec)
	if got, want := lines[len(lines)-1], "and 52 more changes: see ConfigMap web-changes-1"; got != want {
		t.Errorf("the last line is %q, want %q", got, want)
	}
	heads := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, " ") })
	if len(lines) > maxLines || len(heads) < MaxListed {
		t.Errorf("%d lines, %d heads of changes", len(lines), len(heads))
	}
}

// TestDiffLinesFit: whatever the spec holds, the lines fit the status, are whole characters, and differ where values do.
func TestDiffLinesFit(t *testing.T) {
	long := strings.Repeat("ü€𝄞", 56)
	var changes []v1alpha1.ResourceChange
	for i := range MaxListed {
		c := changeOf("Replace", "type"+long, fmt.Sprint(long[:500], i), forcing(property(long+"a", long+"1", long+"2")), forcing(property(long+"b", `"x"`, long)), property("c", long, `"x"`), property("d", long, ""), property("e", "", long))
		c.Unbound, c.MoreProperties = []string{long, long, "x"}, int32(i%2)
		changes = append(changes, c)
	}
	lines := DiffLines(&v1alpha1.UpdatePlanSpec{Binding: v1alpha1.Binding{Targets: []string{long, long, long}}, Changes: changes, ChangesConfigMap: "c", Summary: v1alpha1.PlanSummary{Unbound: 9999}})
	if len(lines) > maxLines {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if len(l) > maxLine || !utf8.ValidString(l) || strings.ContainsRune(l, utf8.RuneError) {
			t.Errorf("a line of %d bytes: %q", len(l), l)
		}
	}
	one := DiffLines(&v1alpha1.UpdatePlanSpec{Changes: changes[1:2]})
	if !slices.ContainsFunc(one, func(l string) bool { return strings.Contains(l, "1 → ") && strings.HasSuffix(l, "2") }) {
		t.Errorf("the difference at the end of a long value does not show:\n%s", strings.Join(one, "\n"))
	}
	if got := one[len(one)-1]; got != "      (1 more property)" {
		t.Errorf("what is missing is not counted: %q", got)
	}
}

func FuzzDiffLines(f *testing.F) {
	f.Add("Replace", "t", "name", "path", "1", "2", int32(3), 5)
	f.Fuzz(func(t *testing.T, op, typ, name, path, old, now string, more int32, n int) {
		c := changeOf(v1alpha1.ChangeOperation(op), typ, name)
		for range max(0, min(n, 50)) {
			c.Properties, c.Unbound = append(c.Properties, forcing(property(path, old, now))), append(c.Unbound, path)
		}
		c.MoreProperties = max(0, more)
		lines := DiffLines(&v1alpha1.UpdatePlanSpec{Changes: []v1alpha1.ResourceChange{c, c, c}, ChangesConfigMap: name})
		if len(lines) == 0 || len(lines) > maxLines {
			t.Errorf("%d lines", len(lines))
		}
		for _, l := range lines {
			if len(l) > maxLine || !utf8.ValidString(l) || strings.ContainsAny(l, "\n\r\t\x1b") {
				t.Errorf("line %q", l)
			}
		}
	})
}
