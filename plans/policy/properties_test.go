// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

// histories is how many random decisions each property is tried on.
const histories = 600

// world makes policies and votes at random, from a few of each, so that they meet.
type world struct{ *rand.Rand }

func newWorld() world { return world{rand.New(rand.NewPCG(4, 2))} } //nolint:gosec // a test that must be repeatable

func pick[T any](w world, from ...T) T { return from[w.IntN(len(from))] }

var (
	policyNames = []string{"p", "q", "r"}
	signerNames = []string{"ci", "scan"}
)

func (w world) requirement() v1alpha1.ApprovalRequirement {
	n := int32(1 + w.IntN(3)) //nolint:gosec // small
	return pick(w, people(n), class(min(n, 2), "security"), class(1, "dba"), signers(1, pick(w, signerNames...)), signers(min(n, 2), signerNames...))
}

// policy makes one of a few rules, all of which may match.
func (w world) policy(name string) Source {
	var list []v1alpha1.PolicyRule
	for i := range w.IntN(4) {
		when := pick(w, "", "plan.summary.create > 0", "plan.summary.delete > 0", "now.getDayOfWeek() == 2")
		r := require(when, w.requirement())
		if w.IntN(2) == 0 {
			r.Require = append(r.Require, w.requirement())
		}
		switch w.IntN(8) {
		case 0:
			r = deny(pick(w, "plan.summary.delete > 0", "plan.summary.replace > 0"))
		case 1, 2:
			r = auto(when)
		}
		r.Name = fmt.Sprintf("rule-%d", i)
		list = append(list, r)
	}
	s := trusting(rules(name, list...), signerNames...)
	if w.IntN(4) == 0 {
		s = maxAge(s, time.Duration(1+w.IntN(4))*time.Hour)
	}
	if w.IntN(4) == 0 {
		s = bots(s, "bob")
	}
	if w.IntN(5) == 0 {
		s = separated(s, mapped(pick(w, "alice", "bob", "carol")))
	}
	return s
}

func (w world) policies() []Source {
	var all []Source
	for _, name := range policyNames[:w.IntN(len(policyNames)+1)] {
		all = append(all, w.policy(name))
	}
	return all
}

func (w world) vote() Vote {
	v := by(pick(w, "alice", "bob", "carol", "dave", "author"))
	v.Class = pick(w, "", "", "security", "dba")
	if w.IntN(3) == 0 {
		v = signed(pick(w, "k1", "k2", "k3"))
		for range w.IntN(3) {
			v.Signers = append(v.Signers, SignerName{Policy: Ref{Kind: KindPolicy, Namespace: "team-a", Name: pick(w, policyNames...)}, Name: pick(w, signerNames...)})
		}
	}
	v.At = now.Add(-time.Duration(w.IntN(300)) * time.Minute)
	return v
}

func (w world) votes() []Vote {
	votes := make([]Vote, w.IntN(9))
	for i := range votes {
		votes[i] = w.vote()
	}
	return votes
}

// decided counts verdicts, so that a property that was never put to the test does not pass.
type decided map[v1alpha1.PolicyState]int

func (d decided) enough(t *testing.T, states ...v1alpha1.PolicyState) {
	t.Helper()
	for _, s := range states {
		if d[s] < histories/50 {
			t.Errorf("only %d of %d random decisions came to %s: %v", d[s], histories, s, d)
		}
	}
}

func TestRemovingAnApprovalNeverAllows(t *testing.T) {
	w, seen := newWorld(), decided{}
	for range histories {
		in := input(t, w.policies(), w.votes()...)
		v := Decide(in)
		seen[v.State]++
		for i := range in.Votes {
			fewer := in
			fewer.Votes = slices.Delete(slices.Clone(in.Votes), i, i+1)
			if !v.Allows() && Decide(fewer).Allows() {
				t.Fatalf("without vote %d it is allowed: %+v\n%+v", i, in.Votes, v.Requirements)
			}
		}
	}
	seen.enough(t, allowed, waiting)
}

func TestOrderNeverMatters(t *testing.T) {
	w, seen := newWorld(), decided{}
	for range histories {
		in := input(t, w.policies(), w.votes()...)
		v := Decide(in)
		seen[v.State]++
		other := in
		other.Votes, other.Policies = slices.Clone(in.Votes), slices.Clone(in.Policies)
		w.Shuffle(len(other.Votes), func(i, j int) { other.Votes[i], other.Votes[j] = other.Votes[j], other.Votes[i] })
		w.Shuffle(len(other.Policies), func(i, j int) { other.Policies[i], other.Policies[j] = other.Policies[j], other.Policies[i] })
		if diff := cmp.Diff(v.PolicyVerdict, Decide(other).PolicyVerdict); diff != "" {
			t.Fatalf("in another order: -one +other\n%s", diff)
		}
	}
	seen.enough(t, allowed, waiting)
}

// Saying it again, in the same class or another, never makes one identity two.
func TestOneIdentityCountsOnce(t *testing.T) {
	w, seen := newWorld(), decided{}
	for range histories {
		in := input(t, []Source{rules("p", require("", people(2), class(1, "security")))}, w.votes()...)
		v := Decide(in)
		seen[v.State]++
		identities := map[string]bool{}
		for _, vote := range in.Votes {
			if vote.Kind == VotePerson && vote.Identity != "author" && vote.Class != "dba" {
				identities[vote.Identity] = true
			}
		}
		if v.Allows() && len(identities) < 3 {
			t.Fatalf("%d identities are three: %+v\n%+v", len(identities), in.Votes, v.Requirements)
		}
		taken := map[string]bool{}
		for _, r := range v.Requirements {
			for _, name := range r.By {
				if taken[name] {
					t.Fatalf("%s counts twice: %+v", name, v.Requirements)
				}
				taken[name] = true
			}
		}
		again := in
		again.Votes = slices.Concat(in.Votes, in.Votes)
		if again := Decide(again); again.State != v.State {
			t.Fatalf("said twice it is %s, not %s", again.State, v.State)
		}
	}
	seen.enough(t, allowed, waiting)
}

// One more policy, of whatever kind, that asks for something never allows what was not; one that cannot be understood, or
// denies, allows nothing at all.
func TestTheStrictestWins(t *testing.T) {
	w, seen := newWorld(), decided{}
	stricter := map[string]Source{
		"a denial":                         rules("z", deny("true")),
		"a requirement":                    rules("z", require("", people(1))),
		"a requirement in a class":         rules("z", require("", class(2, "security"))),
		"a shorter age":                    maxAge(rules("z"), time.Hour),
		"a bot":                            bots(rules("z"), "carol"),
		"separation":                       separated(rules("z"), mapped("dave")),
		"separation of who is not known":   separated(rules("z"), v1alpha1.Separation{}),
		"a warning":                        rules("z", warn("", "look")),
		"a rule that matches nothing":      rules("z", deny("false")),
		"one that does not compile":        rules("z", deny("plan.nonsense")),
		"one with a rule that fails":       rules("z", require("plan.changes[99].name == ''", people(1))),
		"one with an effect of the future": rules("z", v1alpha1.PolicyRule{Name: "x", Effect: "Escalate"}),
		"a window that is closed":          windowed(rules("z"), v1alpha1.Window{Name: "never", Action: v1alpha1.WindowDeny}),
	}
	never := []string{"a denial", "one that does not compile", "one with a rule that fails", "one with an effect of the future", "a window that is closed"}
	for range histories / 3 {
		in := input(t, w.policies(), w.votes()...)
		v := Decide(in)
		seen[v.State] += 3
		for name, s := range stricter {
			more := in
			more.Policies = append(slices.Clone(in.Policies), Compile(s))
			got := Decide(more)
			// What one person is asked for where nothing else is, a requirement asks of others.
			byDefault := slices.ContainsFunc(v.Requirements, func(r v1alpha1.PolicyRequirement) bool { return r.Policy == "" })
			if got.Allows() && (!v.Allows() && !byDefault || slices.Contains(never, name)) {
				t.Fatalf("with %s it is allowed: %+v\n%+v", name, in.Votes, got.Requirements)
			}
			if got.Digest == v.Digest {
				t.Fatalf("with %s the digest is the same", name)
			}
		}
	}
	seen.enough(t, allowed, waiting)
}

// What decides nothing by itself must be said in a way that people can act on.
func TestWhatIsMissingIsSaid(t *testing.T) {
	w, seen := newWorld(), decided{}
	for range histories {
		in := input(t, w.policies(), w.votes()...)
		v := Decide(in)
		seen[v.State]++
		missing := slices.ContainsFunc(v.Requirements, func(r v1alpha1.PolicyRequirement) bool { return r.State == v1alpha1.RequirementMissing })
		if (v.State == waiting) != (missing && v.State != denied && v.State != held && v.State != rejected) {
			t.Fatalf("%s: %+v", v.State, v.Requirements)
		}
		for _, r := range v.Requirements {
			if r.Words == "" || r.Of != "" && (r.State == v1alpha1.RequirementMet) != (len(r.By) == int(r.Needed)) {
				t.Fatalf("%+v", r)
			}
		}
	}
	seen.enough(t, waiting)
}

func windowed(s Source, windows ...v1alpha1.Window) Source { s.Terms.Windows = windows; return s }
