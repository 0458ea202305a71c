// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plangate/plangate/api/v1alpha1"
)

func TestWhatDoesNotCompileIsSaid(t *testing.T) {
	for when, says := range map[string]string{
		"plan.summary.deletes > 0":                                   "undefined field 'deletes'",
		"plan.summary.delete":                                        "it is int and must be bool",
		"plan.summary.delete > 'x'":                                  "no matching overload",
		"plans.summary.delete > 0":                                   "undeclared reference to 'plans'",
		"plan.operation == 'Updates'":                                `Plan.operation is never "Updates": it is one of Update, Destroy`,
		"'Drift' == plan.trigger":                                    `Plan.trigger is never "Drift"`,
		"plan.changes.exists(c, c.operation in ['delete'])":          `Change.operation is never "delete"`,
		"plan.changes.all(c, c.operation != 'Deleted')":              `Change.operation is never "Deleted"`,
		"plan.changes.exists(c, c.type.matches('('))":                "invalid matches argument",
		"now > timestamp('yesterday')":                               "invalid timestamp",
		"stack.name + 'x' == 'y'":                                    "texts and lists cannot be added up",
		"(plan.changes + plan.changes).size() > 0":                   "texts and lists cannot be added up",
		"plan.changes == plan.changes":                               "whole lists of changes cannot be compared",
		"plan.changes.exists(c, c in plan.changes)":                  "whole lists of changes cannot be compared",
		"stack.name.replace('a', 'b') == 'c'":                        "undeclared reference to 'replace'",
		"[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))":       "nesting limit",
		"plan.changes.exists(c,":                                     "Syntax error",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200): "recursion",
	} {
		c := Compile(rules("p", deny(when)))
		if len(c.Problems()) != 1 || !strings.HasPrefix(c.Problems()[0], "spec.rules[deny]: when: ") || !strings.Contains(c.Problems()[0], says) {
			t.Errorf("%s: problems are %q, want %q", when, c.Problems(), says)
		}
	}
}

func TestExpressionsSeeAllThatIsPromised(t *testing.T) {
	before, after := `"1"`, `"2"`
	c := change(v1alpha1.ChangeUpdate, "aws:rds/instance:Instance", "orders")
	c.Properties = []v1alpha1.PropertyChange{{Path: "engineVersion", Old: &before, New: &after, Replaces: true}, {Path: "name", New: &after}}
	c.Unbound = []string{"endpoint"}
	plan, changes := newPlan(t, c)
	for _, when := range []string{
		`plan.operation == "Update" && plan.trigger == "SourceChanged" && plan.sequence == 3`,
		`plan.revision.size() == 40 && plan.repository == "https://git.example/repo" && plan.directory == "" && !plan.refresh`,
		`plan.notAfter - now == duration("24h")`,
		`plan.summary.update == 1 && plan.summary.create + plan.summary.replace + plan.summary.delete + plan.summary.other + plan.summary.outputs == 0`,
		`plan.summary.same == 3 && plan.summary.unbound == 1 && plan.summary.brief.contains("~1")`,
		`plan.changes[0].name == "orders" && plan.changes[0].urn.endsWith("::orders") && plan.changes[0].type.startsWith("aws:rds")`,
		`plan.changes.all(c, c.properties.exists(p, p.path == "engineVersion" && p.old == "\"1\"" && p.new == "\"2\"" && p.replaces))`,
		`plan.changes[0].properties[1].old == "" && "endpoint" in plan.changes[0].unbound`,
		`plan.unbound.size() == 1 && plan.unbound[0].input == "endpoint" && plan.unbound[0].urn == plan.changes[0].urn`,
		`plan.changes.filter(c, c.operation == "Update").map(c, c.name) == ["orders"]`,
		`stack.name == "web" && stack.namespace == "team-a" && stack.labels["env"] == "prod" && stack.labels[?"tier"].orValue("none") == "none" && !("tier" in stack.labels)`,
		`author.spec == "author" && author.requester == "" && author.commits.exists(a, a.lowerAscii().endsWith("@example.com"))`,
		`now == timestamp("2026-12-01T10:00:00Z") && now.getDayOfWeek() == 2 && now.getHours("Europe/Vienna") == 11`,
		`window.open && window.active.size() == 0`,
		`has(plan.changes)`,
	} {
		in := input(t, []Source{rules("p", auto(when))})
		in.Plan, in.Changes = plan, changes
		if v := Decide(in); !v.Allows() {
			t.Errorf("%s: %s %v %v", when, v.Message, v.Warnings, in.Policies[0].Problems())
		}
	}
}

// A rule that looks for a word that plans do have must compile, and one that plans get is to be added here.
func TestWordsAreThoseOfTheCRD(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "plangate.dev_updateplans.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for name, tc := range map[string]struct {
		schema apiextensionsv1.JSONSchemaProps
		words  []string
	}{
		"plan.operation":   {spec.Properties["operation"], words[typePlan]["operation"]},
		"plan.trigger":     {spec.Properties["trigger"].Properties["type"], words[typePlan]["trigger"]},
		"change.operation": {spec.Properties["changes"].Items.Schema.Properties["operation"], words[typeChange]["operation"]},
	} {
		if len(tc.schema.Enum) == 0 {
			t.Errorf("%s: no values in the CRD", name)
		}
		for _, value := range tc.schema.Enum {
			if word := strings.Trim(string(value.Raw), `"`); !slices.Contains(tc.words, word) {
				t.Errorf("%s can be %q, which rules are told it is never", name, word)
			}
		}
	}
}

func TestSelectors(t *testing.T) {
	labels := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like", Values: []string{"prod"}}}}
	cluster := Ref{Kind: KindClusterPolicy, Name: "c"}
	for name, tc := range map[string]struct {
		source Source
		want   bool
	}{
		"everything of the namespace":              {Source{Ref: Ref{Kind: KindPolicy, Namespace: "team-a"}}, true},
		"nothing of another":                       {Source{Ref: Ref{Kind: KindPolicy, Namespace: "team-b"}}, false},
		"by the Stack's label":                     {Source{Ref: Ref{Kind: KindPolicy, Namespace: "team-a"}, StackSelector: labels("env", "prod")}, true},
		"not by another":                           {Source{Ref: Ref{Kind: KindPolicy, Namespace: "team-a"}, StackSelector: labels("env", "dev")}, false},
		"everything anywhere":                      {Source{Ref: cluster}, true},
		"by the namespace's label":                 {Source{Ref: cluster, NamespaceSelector: labels("team", "a")}, true},
		"not by another of the namespace":          {Source{Ref: cluster, NamespaceSelector: labels("team", "b")}, false},
		"by both":                                  {Source{Ref: cluster, NamespaceSelector: labels("team", "a"), StackSelector: labels("env", "dev")}, false},
		"everything, where it makes no sense":      {Source{Ref: cluster, NamespaceSelector: bad}, true},
		"everything, where that of the Stack does": {Source{Ref: cluster, StackSelector: bad}, true},
		"everything, where the kind is not known":  {Source{Ref: Ref{Kind: "Other"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := Compile(tc.source)
			if got := c.Selects(stack, map[string]string{"team": "a"}); got != tc.want {
				t.Errorf("Selects() = %t", got)
			}
			if senseless := strings.Contains(name, "where it") || strings.Contains(name, "where that"); senseless != (len(c.Problems()) == 1) {
				t.Errorf("problems: %v", c.Problems())
			}
		})
	}
}

func TestRulesSeeChangesThatThePlanDoesNotList(t *testing.T) {
	hidden := append(manyChanges(150), change(v1alpha1.ChangeCreate, "aws:iam/user:User", "intruder"))
	in := input(t, []Source{rules("p", deny(`plan.changes.exists(c, c.type.startsWith("aws:iam") && c.operation == "Create")`))}, by("alice"))
	in.Plan, in.Changes = newPlan(t, hidden...)
	if slices.ContainsFunc(in.Plan.Spec.Changes, func(c v1alpha1.ResourceChange) bool { return c.Name == "intruder" }) {
		t.Fatal("the plan lists it: the test proves nothing")
	}
	if v := Decide(in); v.State != denied {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	in.Changes = in.Plan.Spec.Changes
	if v := Decide(in); v.State != held || !strings.Contains(v.Message, "all 151 changes of the plan, and 100 could be read") {
		t.Errorf("with the listed ones alone: %s: %s", v.State, v.Message)
	}
}

func TestAVerdictFitsIntoTheStatus(t *testing.T) {
	long := strings.Repeat("ü", 256)
	var policies []Source
	for p := range 20 {
		var list []v1alpha1.PolicyRule
		for i := range 10 {
			r := require("", people(10))
			r.Name, r.Message = fmt.Sprintf("rule-%d", i), long
			list = append(list, r, v1alpha1.PolicyRule{Name: fmt.Sprintf("warn-%d", i), Effect: v1alpha1.EffectWarn, Message: long})
		}
		policies = append(policies, rules(fmt.Sprintf("p-%02d", p), list...))
	}
	v := Decide(input(t, policies, by("alice")))
	if v.State != waiting || len(v.Requirements) != maxRequirements || len(v.Warnings) != maxWarnings || len(v.Message) > maxWords {
		t.Errorf("%s with %d requirements, %d warnings, %d bytes", v.State, len(v.Requirements), len(v.Warnings), len(v.Message))
	}
	for _, r := range v.Requirements {
		if len(r.Words) > maxWords {
			t.Errorf("%d bytes of words", len(r.Words))
		}
	}
	if last := v.Requirements[maxRequirements-1]; last.State != v1alpha1.RequirementMissing || last.Words != "and 151 more" {
		t.Errorf("the last is %+v", last)
	}
}

func TestManyRulesOverManyChangesEnd(t *testing.T) {
	var list []v1alpha1.PolicyRule
	for i := range 100 {
		r := deny("plan.changes.all(c, plan.changes.all(d, plan.changes.all(e, e.type == c.type && d.type != 'x')))")
		r.Name = fmt.Sprintf("deny-%d", i)
		list = append(list, r)
	}
	in := input(t, []Source{rules("p", list...)}, by("alice"))
	in.Plan, in.Changes = newPlan(t, manyChanges(1000)...)
	began := time.Now()
	v := Decide(in)
	if v.State != held || !strings.Contains(v.Message, "cost too much") && !strings.Contains(v.Message, "look at more than") {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	t.Logf("held after %s", time.Since(began))
}
