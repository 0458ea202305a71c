// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
)

const (
	allowed  = v1alpha1.PolicyAllowed
	waiting  = v1alpha1.PolicyWaiting
	held     = v1alpha1.PolicyHeld
	denied   = v1alpha1.PolicyDenied
	rejected = v1alpha1.PolicyRejected
)

func TestDecide(t *testing.T) {
	signer := func(policy, name string) SignerName {
		return SignerName{Policy: Ref{Kind: KindPolicy, Namespace: "team-a", Name: policy}, Name: name}
	}
	unverified := by("alice")
	unverified.Verified = false
	for name, tc := range map[string]struct {
		policies []Source
		votes    []Vote
		state    v1alpha1.PolicyState
		says     string
	}{
		"no policy: one person is missing":                                 {state: waiting, says: "1 person"},
		"no policy: one person is enough":                                  {votes: []Vote{by("alice")}, state: allowed},
		"no policy: the author is not":                                     {votes: []Vote{by("author")}, state: waiting, says: "author is the author of the Stack's spec"},
		"no policy: an identity that was not verified is not":              {votes: []Vote{unverified}, state: waiting, says: "not verified"},
		"no policy: a service account is not":                              {votes: []Vote{by("system:serviceaccount:flux:flux")}, state: waiting, says: "does not count as a person"},
		"no policy: a signature is not":                                    {votes: []Vote{signed("key")}, state: waiting},
		"no policy: an approval in a class is not":                         {votes: []Vote{as("alice", "security")}, state: waiting},
		"no policy: a rejection ends it":                                   {votes: []Vote{by("alice"), rejection(by("bob"))}, state: rejected, says: "bob"},
		"a policy without rules that match asks for one person":            {policies: []Source{rules("p", deny("plan.summary.delete > 0"))}, state: waiting, says: "1 person"},
		"a denial beats an approval":                                       {policies: []Source{rules("p", deny("plan.summary.create > 0"))}, votes: []Vote{by("alice")}, state: denied, says: "deny of ApprovalPolicy p denies"},
		"a denial beats an automatic approval":                             {policies: []Source{rules("p", deny("true")), rules("q", auto("true"))}, state: denied},
		"an automatic approval needs nobody":                               {policies: []Source{rules("p", auto("plan.summary.delete == 0"))}, state: allowed},
		"an automatic approval that does not match approves nothing":       {policies: []Source{rules("p", auto("plan.summary.delete > 0"))}, state: waiting},
		"a requirement beats an automatic approval":                        {policies: []Source{rules("p", auto("true")), rules("q", require("true", people(1)))}, state: waiting},
		"a rule without an expression is about every plan":                 {policies: []Source{rules("p", require("", people(2)))}, votes: []Vote{by("alice")}, state: waiting, says: "1 more"},
		"two people are two":                                               {policies: []Source{rules("p", require("", people(2)))}, votes: []Vote{by("alice"), by("bob")}, state: allowed},
		"one person twice is one":                                          {policies: []Source{rules("p", require("", people(2)))}, votes: []Vote{by("alice"), by("alice")}, state: waiting},
		"rules that ask for 1 and for 2 ask for 2":                         {policies: []Source{rules("p", require("", people(2))), rules("q", require("", people(1)))}, votes: []Vote{by("alice"), by("bob")}, state: allowed},
		"who is of a class does not count as people":                       {policies: []Source{rules("p", require("", people(1), class(1, "security")))}, votes: []Vote{as("alice", "security")}, state: waiting, says: "1 person"},
		"who approved as both counts as one of them":                       {policies: []Source{rules("p", require("", people(1), class(1, "security")))}, votes: []Vote{as("alice", "security"), by("alice")}, state: waiting},
		"who approved as both counts where they are needed":                {policies: []Source{rules("p", require("", people(1), class(1, "security")))}, votes: []Vote{as("alice", "security"), by("alice"), by("bob")}, state: allowed},
		"the same in another order":                                        {policies: []Source{rules("p", require("", people(1), class(1, "zeta")))}, votes: []Vote{as("alice", "zeta"), by("alice"), as("zoe", "zeta")}, state: allowed},
		"a signer counts":                                                  {policies: []Source{trusting(rules("p", require("", signers(1, "ci"))), "ci")}, votes: []Vote{signed("k1", signer("p", "ci"))}, state: allowed},
		"a signer of another policy does not":                              {policies: []Source{trusting(rules("p", require("", signers(1, "ci"))), "ci")}, votes: []Vote{signed("k1", signer("q", "ci"))}, state: waiting},
		"a signer that is not asked for does not":                          {policies: []Source{trusting(rules("p", require("", signers(1, "ci"))), "ci", "scan")}, votes: []Vote{signed("k1", signer("p", "scan"))}, state: waiting},
		"one key under two names is one":                                   {policies: []Source{trusting(rules("p", require("", signers(2, "ci", "scan"))), "ci", "scan")}, votes: []Vote{signed("k1", signer("p", "ci"), signer("p", "scan"))}, state: waiting},
		"two keys under one name are one":                                  {policies: []Source{trusting(rules("p", require("", signers(2, "ci", "scan"))), "ci", "scan")}, votes: []Vote{signed("k1", signer("p", "ci")), signed("k2", signer("p", "ci"))}, state: waiting},
		"two keys, one under both names, are two":                          {policies: []Source{trusting(rules("p", require("", signers(2, "ci", "scan"))), "ci", "scan")}, votes: []Vote{signed("k1", signer("p", "ci"), signer("p", "scan")), signed("k2", signer("p", "ci"))}, state: allowed},
		"a signature does not count as a person":                           {policies: []Source{trusting(rules("p", require("", people(1))), "ci")}, votes: []Vote{signed("k1", signer("p", "ci"))}, state: waiting},
		"a policy that does not compile holds the plan":                    {policies: []Source{rules("p", deny("plan.summary.deletes > 0"))}, votes: []Vote{by("alice")}, state: held, says: "undefined field 'deletes'"},
		"it holds what another approves by itself":                         {policies: []Source{rules("p", warn("1", "")), rules("q", auto("true"))}, state: held, says: "must be bool"},
		"an effect that is not known holds the plan":                       {policies: []Source{rules("p", v1alpha1.PolicyRule{Name: "x", Effect: "Allow"})}, votes: []Vote{by("alice")}, state: held, says: `"Allow" is not known`},
		"a rule that fails holds the plan":                                 {policies: []Source{rules("p", deny("plan.changes[5].name == 'x'"))}, votes: []Vote{by("alice")}, state: held, says: "index out of bounds: 5"},
		"a requirement that fails holds the plan":                          {policies: []Source{rules("p", require("stack.labels['tier'] == '1'", people(1)))}, votes: []Vote{by("alice")}, state: held, says: "no such key: tier"},
		"an automatic approval that fails approves nothing":                {policies: []Source{rules("p", auto("stack.labels['tier'] == '1'"))}, state: waiting},
		"a rule that costs too much holds the plan":                        {policies: []Source{rules("p", deny(costly))}, votes: []Vote{by("alice")}, state: held, says: "cost"},
		"a warning asks for nothing":                                       {policies: []Source{rules("p", warn("true", "look twice"))}, votes: []Vote{by("alice")}, state: allowed},
		"a veto by somebody who has none ends nothing":                     {policies: []Source{vetoers(rules("p"), v1alpha1.Voters{Of: v1alpha1.VotersClass, Class: "security"})}, votes: []Vote{by("alice"), rejection(by("bob"))}, state: allowed},
		"it takes back their own approval":                                 {policies: []Source{vetoers(rules("p"), v1alpha1.Voters{Of: v1alpha1.VotersClass, Class: "security"})}, votes: []Vote{by("bob"), rejection(by("bob"))}, state: waiting, says: "bob rejected the plan too"},
		"a veto by somebody who has one ends the plan":                     {policies: []Source{vetoers(rules("p"), v1alpha1.Voters{Of: v1alpha1.VotersClass, Class: "security"})}, votes: []Vote{by("alice"), rejection(as("sam", "security"))}, state: rejected},
		"a veto that another policy gives to everybody ends the plan":      {policies: []Source{vetoers(rules("p"), v1alpha1.Voters{Of: v1alpha1.VotersClass, Class: "security"}), rules("q")}, votes: []Vote{by("alice"), rejection(by("bob"))}, state: rejected},
		"a bot is no person":                                               {policies: []Source{bots(rules("p"), "renovate")}, votes: []Vote{by("renovate")}, state: waiting, says: "renovate does not count as a person"},
		"an approval that is too old does not count":                       {policies: []Source{maxAge(rules("p"), time.Hour)}, votes: []Vote{by("alice")}, state: waiting, says: "older than 1h0m0s"},
		"one that is not does":                                             {policies: []Source{maxAge(rules("p"), time.Hour+time.Second)}, votes: []Vote{by("alice")}, state: allowed},
		"the shortest age holds":                                           {policies: []Source{maxAge(rules("p"), time.Hour), maxAge(rules("q"), 3*time.Hour)}, votes: []Vote{by("alice")}, state: waiting},
		"an unmapped committer holds people's approvals":                   {policies: []Source{separated(rules("p"), v1alpha1.Separation{})}, votes: []Vote{by("alice")}, state: waiting, says: `which user is "author@example.com"`},
		"a mapped committer is barred":                                     {policies: []Source{separated(rules("p"), mapped("alice"))}, votes: []Vote{by("alice")}, state: waiting, says: "alice wrote the commit as author@example.com"},
		"somebody else is not":                                             {policies: []Source{separated(rules("p"), mapped("alice"))}, votes: []Vote{by("bob")}, state: allowed},
		"an unmapped committer that policy lets pass holds nothing":        {policies: []Source{separated(rules("p"), v1alpha1.Separation{WhenUnknown: v1alpha1.UnknownCount})}, votes: []Vote{by("alice")}, state: allowed},
		"a signer that a requirement names and the policy does not, holds": {policies: []Source{rules("p", require("", signers(1, "ci")))}, state: held, says: `no signer "ci"`},
	} {
		t.Run(name, func(t *testing.T) {
			v := Decide(input(t, tc.policies, tc.votes...))
			words := v.Message + fmt.Sprint(v.Requirements)
			if v.State != tc.state || !strings.Contains(words, tc.says) {
				t.Errorf("Decide() = %s: %s\n%+v\nwant %s with %q", v.State, v.Message, v.Requirements, tc.state, tc.says)
			}
			if v.Allows() != (tc.state == allowed) || v.Message == "" || v.Digest == "" {
				t.Errorf("Decide() = %+v", v)
			}
		})
	}
}

// costly is cheap to write: two million times something.
var costly = func() string {
	list := "[" + strings.Repeat("1,", 127) + "1]"
	return list + ".all(a, " + list + ".all(b, " + list + ".all(c, a + b + c > 0)))"
}()

func vetoers(s Source, who ...v1alpha1.Voters) Source { s.Terms.Vetoers = who; return s }

func bots(s Source, names ...string) Source { s.Terms.Bots = names; return s }

func maxAge(s Source, age time.Duration) Source {
	s.Terms.MaxAge = &metav1.Duration{Duration: age}
	return s
}

func separated(s Source, by v1alpha1.Separation) Source { s.Terms.Separation = &by; return s }

func mapped(user string) v1alpha1.Separation {
	return v1alpha1.Separation{People: []v1alpha1.KnownPerson{{User: user, Emails: []string{"Author@example.com"}}}}
}
