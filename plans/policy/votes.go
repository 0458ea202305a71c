// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
)

// VoteKind tells votes apart. The zero value counts for nothing.
type VoteKind string

// Who can vote.
const (
	// VotePerson: a user whom the API server authenticated.
	VotePerson VoteKind = "Person"
	// VoteSigner: a key or workload whose signature was verified.
	VoteSigner VoteKind = "Signer"
)

// SignerName names a signer of a policy.
type SignerName struct {
	// Policy is the policy that trusts it; the generation does not matter.
	Policy Ref
	Name   string
}

// Vote is an approval or a rejection of exactly this plan's digest. Whether it is one was found out before.
type Vote struct {
	// Verdict is DecisionApproved or DecisionRejected; any other counts for nothing.
	Verdict v1alpha1.DecisionVerdict
	// Kind tells who voted.
	Kind VoteKind
	// Identity is the user's name, or what tells the key or workload from all others: the key's fingerprint. It is compared as
	// it is. Empty: the vote counts for nothing.
	Identity string
	// Verified is true when the identity was authenticated. One that was not counts for nothing.
	Verified bool
	// Class is the class whose verb the person used: "security" for approve-security. Empty: the verb approve.
	Class string
	// Signers are the names under which policies trust the key or workload, where it is good for this Stack and now.
	Signers []SignerName
	// At is when it was first seen. Zero: not known, which is too old for any maxAge.
	At time.Time
}

// Origin tells who had a hand in a change, as far as it is known.
type Origin struct {
	// SpecAuthor is the user who last edited the Stack's spec. Empty: not known.
	SpecAuthor string
	// Requester is the user who asked for the plan. Empty: not known, or nobody did.
	Requester string
	// CommitAuthors are the e-mail addresses of those who wrote the commit. Empty: not known.
	CommitAuthors []string
}

// Stack is the Stack that a plan is of, as it is now.
type Stack struct {
	Namespace, Name string
	Labels          map[string]string
}

// systemPrefix begins the names of service accounts, nodes and the cluster's own parts.
const systemPrefix = "system:"

// ballot are the votes, with all that the policies together say of who counts.
type ballot struct {
	votes  []Vote
	now    time.Time
	maxAge time.Duration
	bots   map[string]bool
	// barred tells why a user may not approve.
	barred map[string]string
	// unknown says which hand in the change is not known where that holds the count. Empty: none.
	unknown []string
	// rejected are the identities that rejected.
	rejected map[string]bool
	// expires is when the first of the approvals that count gets too old. Zero: none does.
	expires time.Time
}

// newBallot combines what the policies say of who counts; the strictest holds.
func newBallot(in *Input, policies []*Compiled) *ballot {
	b := &ballot{votes: in.Votes, now: in.Now, maxAge: shortestAge(policies), bots: map[string]bool{}, barred: map[string]string{}, rejected: map[string]bool{}}
	b.bar(in.Origin.SpecAuthor, "is the author of the Stack's spec")
	b.bar(in.Origin.Requester, "asked for the plan")
	for _, p := range policies {
		for _, name := range p.terms.Bots {
			b.bots[name] = true
		}
		b.separate(in, p)
	}
	for _, v := range in.Votes {
		if v.Verdict == v1alpha1.DecisionRejected && v.Verified {
			b.rejected[v.identity()] = true
		}
	}
	return b
}

func (b *ballot) bar(user, why string) {
	if user != "" && b.barred[user] == "" {
		b.barred[user] = why
	}
}

// separate bars whom one policy bars, and notes whom it would bar if it were known who they are.
func (b *ballot) separate(in *Input, p *Compiled) {
	note := func(what string) {
		what = fmt.Sprintf("%s (%s)", what, p.ref)
		if p.terms.Separation.WhenUnknown != v1alpha1.UnknownCount && !slices.Contains(b.unknown, what) {
			b.unknown = append(b.unknown, what)
		}
	}
	for _, role := range p.barred {
		switch role {
		case v1alpha1.RoleSpecAuthor:
			if in.Origin.SpecAuthor == "" {
				note("it is not known who last edited the Stack's spec")
			}
		case v1alpha1.RoleRequester:
			if in.Origin.Requester == "" && in.Plan.Spec.Trigger.Type == v1alpha1.TriggerRequested {
				note("it is not known who asked for the plan")
			}
		default:
			b.barCommitters(in.Origin.CommitAuthors, p.terms.Separation, note)
		}
	}
}

func (b *ballot) barCommitters(emails []string, s *v1alpha1.Separation, note func(string)) {
	if len(emails) == 0 {
		note("it is not known who wrote the commit")
	}
	for _, email := range emails {
		known := false
		for _, person := range s.People {
			if slices.ContainsFunc(person.Emails, func(e string) bool { return strings.EqualFold(e, email) }) {
				b.bar(person.User, "wrote the commit as "+email)
				known = true
			}
		}
		if !known {
			note(fmt.Sprintf("spec.separation.people does not tell which user is %q, who wrote the commit", email))
		}
	}
}

// identity tells voters apart: a user and a key of the same name are two.
func (v Vote) identity() string { return string(v.Kind) + ":" + v.Identity }

// counts tells whether a vote is an approval that counts, or why it does not; "" with false is not worth a word.
func (b *ballot) counts(v Vote) (bool, string) { //nolint:gocyclo // a list of checks, read from top to bottom
	switch {
	case v.Verdict != v1alpha1.DecisionApproved || v.Identity == "":
		return false, ""
	case v.Kind != VotePerson && v.Kind != VoteSigner:
		return false, ""
	case !v.Verified:
		return false, "the identity behind an approval by " + v.Identity + " was not verified"
	case b.rejected[v.identity()]:
		return false, v.Identity + " rejected the plan too"
	case b.maxAge > 0 && (v.At.IsZero() || !b.now.Before(v.At.Add(b.maxAge))):
		return false, fmt.Sprintf("the approval by %s is older than %s", v.Identity, b.maxAge)
	case v.Kind == VoteSigner:
		return true, ""
	case strings.HasPrefix(v.Identity, systemPrefix) || b.bots[v.Identity]:
		return false, v.Identity + " does not count as a person"
	case b.barred[v.Identity] != "":
		return false, v.Identity + " " + b.barred[v.Identity]
	case len(b.unknown) > 0:
		return false, ""
	}
	return true, ""
}

// approvals returns the votes that count as approvals, by their place among all votes, and words on those that do not.
func (b *ballot) approvals() (counted []int, ignored []string) {
	for i, v := range b.votes {
		ok, why := b.counts(v)
		switch {
		case ok:
			counted = append(counted, i)
			if end := v.At.Add(b.maxAge); b.maxAge > 0 && (b.expires.IsZero() || end.Before(b.expires)) {
				b.expires = end
			}
		case why != "" && !slices.Contains(ignored, why):
			ignored = append(ignored, why)
		}
	}
	slices.Sort(ignored)
	return counted, ignored
}

// veto returns the first rejection that ends the plan, by the order of identities; nil: none does.
func (b *ballot) veto(policies []*Compiled) *Vote {
	var found *Vote
	for i, v := range b.votes {
		if v.Verdict != v1alpha1.DecisionRejected || !v.Verified || v.Identity == "" {
			continue
		}
		ends := len(policies) == 0
		for _, p := range policies {
			ends = ends || p.mayVeto(v)
		}
		if ends && (found == nil || v.identity() < found.identity()) {
			found = &b.votes[i]
		}
	}
	return found
}

func (c *Compiled) mayVeto(v Vote) bool {
	if len(c.terms.Vetoers) == 0 || len(c.problems) > 0 {
		return true
	}
	return slices.ContainsFunc(c.terms.Vetoers, func(who v1alpha1.Voters) bool {
		switch who.Of {
		case v1alpha1.VotersPeople:
			return v.Kind == VotePerson && v.Class == ""
		case v1alpha1.VotersClass:
			return v.Kind == VotePerson && v.Class == who.Class
		case v1alpha1.VotersSigners:
			return v.Kind == VoteSigner && slices.ContainsFunc(v.Signers, func(s SignerName) bool {
				return s.Policy.key() == c.ref.key() && slices.Contains(who.Signers, s.Name)
			})
		default:
			return true
		}
	})
}

// pair is one identity that may take one seat.
type pair struct{ seat, identity string }

// seats assigns identities to seats, so that as many seats as can be are taken, at most one by each identity and at most one
// identity to each seat. The order of the pairs does not matter to the result.
func seats(pairs []pair) map[string]string {
	wants := map[string][]string{}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.seat, b.seat), cmp.Compare(a.identity, b.identity)) })
	for _, p := range pairs {
		wants[p.seat] = append(wants[p.seat], p.identity)
	}
	seatOf := map[string]string{}
	var take func(seat string, tried map[string]bool) bool
	take = func(seat string, tried map[string]bool) bool {
		for _, identity := range wants[seat] {
			if tried[identity] {
				continue
			}
			tried[identity] = true
			if other, taken := seatOf[identity]; !taken || take(other, tried) {
				seatOf[identity] = seat
				return true
			}
		}
		return false
	}
	for _, seat := range slices.Sorted(maps.Keys(wants)) {
		take(seat, map[string]bool{})
	}
	return seatOf
}
