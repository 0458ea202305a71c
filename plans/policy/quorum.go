// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plangate/plangate/api/v1alpha1"
)

// demand is one requirement of one rule.
type demand struct {
	// policy is nil for what is asked where no policy asks for anything.
	policy  *Compiled
	rule    string
	message string
	v1alpha1.ApprovalRequirement
}

// count is how many approvals are asked for.
func (d demand) count() int { return max(int(d.Count), 1) }

// class is the class of people that is asked for; "" for those with the verb approve.
func (d demand) class() string {
	if d.Of == v1alpha1.VotersClass {
		return d.Class
	}
	return ""
}

// people tells whether people are asked for.
func (d demand) people() bool { return d.Of != v1alpha1.VotersSigners }

// who names what is asked for: "2 people", "1 of class security".
func (d demand) who() string {
	n := d.count()
	switch d.Of {
	case v1alpha1.VotersClass:
		return fmt.Sprintf("%d of class %s", n, d.Class)
	case v1alpha1.VotersSigners:
		if len(d.Signers) == 1 {
			return "a signature of " + d.Signers[0]
		}
		return fmt.Sprintf("%d of the signatures of %s", n, strings.Join(d.Signers, ", "))
	}
	if n == 1 {
		return "1 person"
	}
	return fmt.Sprintf("%d people", n)
}

// tally is how the count came out.
type tally struct {
	// by are those who meet each demand, in order; as many as are asked for, or fewer.
	by [][]string
	// served names, for each vote, the demands that it serves.
	served [][]int
	// ignored says why votes do not count.
	ignored []string
}

// met tells whether a demand is met.
func (t tally) met(demands []demand, i int) bool { return len(t.by[i]) >= demands[i].count() }

// count counts the votes for demands. People are assigned to People and to classes so that all is met if it can be, each to
// one of them; whoever counts for one of those counts for every demand of it. Keys are told apart from people, and serve every
// demand that names them.
func (b *ballot) count(demands []demand) tally {
	t := tally{by: make([][]string, len(demands)), served: make([][]int, len(b.votes))}
	counted, ignored := b.approvals()
	t.ignored = ignored
	classOf := b.assignPeople(demands, counted)
	for i, d := range demands {
		names := b.meets(d, counted, classOf)
		t.by[i] = slices.Sorted(maps.Keys(names))
		t.by[i] = t.by[i][:min(len(t.by[i]), d.count())]
		for _, v := range counted {
			if slices.Contains(t.by[i], names.nameOf(b.votes[v])) && b.serves(d, b.votes[v], classOf) {
				t.served[v] = append(t.served[v], i)
			}
		}
	}
	return t
}

// assignPeople gives each person the class for which they count: "" for the verb approve.
func (b *ballot) assignPeople(demands []demand, counted []int) map[string]string {
	needed := map[string]int{}
	for _, d := range demands {
		if d.people() {
			needed[d.class()] = max(needed[d.class()], d.count())
		}
	}
	var pairs []pair
	for _, i := range counted {
		v := b.votes[i]
		for seat := range needed[v.Class] {
			if v.Kind == VotePerson {
				pairs = append(pairs, pair{seat: fmt.Sprintf("%s/%02d", v.Class, seat), identity: v.Identity})
			}
		}
	}
	classOf := map[string]string{}
	for identity, seat := range seats(pairs) {
		classOf[identity] = seat[:strings.LastIndex(seat, "/")]
	}
	return classOf
}

// named are those who meet a demand, under the names that people know them by, with their identities.
type named map[string]string

// nameOf is the name under which a vote meets a demand; "" if it does not.
func (n named) nameOf(v Vote) string {
	for name, identity := range n {
		if identity == v.identity() {
			return name
		}
	}
	return ""
}

// meets returns who meets a demand. A signer is named as the policy names it; two names of one key are one signer, and two
// keys under one name too.
func (b *ballot) meets(d demand, counted []int, classOf map[string]string) named {
	names := named{}
	var pairs []pair
	for _, i := range counted {
		v := b.votes[i]
		if d.people() && b.serves(d, v, classOf) {
			names[v.Identity] = v.identity()
		}
		if d.people() {
			continue
		}
		for _, name := range d.signerNames(v) {
			pairs = append(pairs, pair{seat: name, identity: v.identity()})
		}
	}
	for identity, name := range seats(pairs) {
		names[name] = identity
	}
	return names
}

// serves tells whether a vote that counts is one of those that a demand asks for.
func (b *ballot) serves(d demand, v Vote, classOf map[string]string) bool {
	if !d.people() {
		return len(d.signerNames(v)) > 0
	}
	class, assigned := classOf[v.Identity]
	return v.Kind == VotePerson && assigned && class == d.class() && v.Class == class
}

// signerNames returns the names, of those that the demand asks for, that the vote was made under.
func (d demand) signerNames(v Vote) []string {
	var names []string
	for _, s := range v.Signers {
		if v.Kind == VoteSigner && d.policy != nil && s.Policy.key() == d.policy.ref.key() && slices.Contains(d.Signers, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}
