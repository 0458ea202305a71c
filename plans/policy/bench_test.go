// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"testing"

	"github.com/plangate/plangate/api/v1alpha1"
)

// typical is a rule of everyday size that looks at every change and matches none.
func typical(n int) v1alpha1.PolicyRule {
	r := require(fmt.Sprintf(`plan.changes.exists(c, c.operation in ["Delete", "Replace"] && (c.type.startsWith("aws:rds") || c.type.matches("^gcp:(sql|kms)%d")))`, n), people(2))
	r.Name = fmt.Sprintf("typical-%d", n)
	return r
}

func manyChanges(n int) []v1alpha1.ResourceChange {
	changes := make([]v1alpha1.ResourceChange, n)
	for i := range changes {
		changes[i] = change(v1alpha1.ChangeDelete, "kubernetes:core/v1:ConfigMap", fmt.Sprintf("settings-%d", i))
	}
	return changes
}

// BenchmarkDecide is what policy costs a plan each time that it is looked at: all rules over all changes, and the count.
func BenchmarkDecide(b *testing.B) {
	for _, numberOfRules := range []int{1, 10, 100} {
		for _, changes := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("rules=%d/changes=%d", numberOfRules, changes), func(b *testing.B) {
				s := rules("p")
				for i := range numberOfRules {
					s.Terms.Rules = append(s.Terms.Rules, typical(i))
				}
				in := input(b, []Source{s}, by("alice"), by("bob"))
				in.Plan, in.Changes = newPlan(b, manyChanges(changes)...)
				for b.Loop() {
					if v := Decide(in); v.State != allowed {
						b.Fatalf("%+v", v)
					}
				}
			})
		}
	}
}

// BenchmarkCompile is what a policy costs when it is new or changed.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			s := rules("p")
			for i := range n {
				s.Terms.Rules = append(s.Terms.Rules, typical(i))
			}
			for b.Loop() {
				if c := Compile(s); len(c.Problems()) > 0 {
					b.Fatal(c.Problems())
				}
			}
		})
	}
}
