// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

// now is a Tuesday.
var now = time.Date(2026, time.December, 1, 10, 0, 0, 0, time.UTC)

// stack is the Stack that plans of the tests are of.
var stack = Stack{Namespace: "team-a", Name: "web", Labels: map[string]string{"env": "prod"}}

// change is a change of a resource.
func change(op v1alpha1.ChangeOperation, typ, name string) v1alpha1.ResourceChange {
	return v1alpha1.ResourceChange{Operation: op, Type: typ, Name: name, URN: "urn:pulumi:prod::web::" + typ + "::" + name}
}

// newPlan is a plan with changes, and all of them.
func newPlan(tb testing.TB, changes ...v1alpha1.ResourceChange) (*v1alpha1.UpdatePlan, []v1alpha1.ResourceChange) {
	tb.Helper()
	if len(changes) == 0 {
		changes = []v1alpha1.ResourceChange{change(v1alpha1.ChangeCreate, "aws:s3/bucket:Bucket", "logs")}
	}
	p := plans.New(changes, 3)
	hex := strings.Repeat
	in := plans.SpecInput{
		Namespace: "team-a", Cluster: "cluster-1", Nonce: hex("a", 32),
		Stack:    v1alpha1.StackReference{Name: "web", UID: "uid", Generation: 1, ResourceVersion: "1"},
		Sequence: 3, Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSourceChanged},
		Binding: v1alpha1.Binding{
			Revision: hex("1", 40), Repository: "https://git.example/repo", Tree: hex("2", 40),
			ConfigDigest: "sha256:" + hex("3", 64), StateDigest: "sha256:" + hex("4", 64), PulumiVersion: "v3.276.0",
			WorkspaceImage: "sha256:" + hex("6", 64),
		},
		Artifact: v1alpha1.Artifact{Digest: "sha256:" + hex("5", 64), Size: 1, Chunks: []string{"web-plan-0"}},
		NotAfter: now.Add(24 * time.Hour), Plan: p,
	}
	if !p.Fits() {
		in.ChangesConfigMap = "web-changes"
	}
	spec, err := plans.NewSpec(in)
	if err != nil {
		tb.Fatal(err)
	}
	return &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: plans.PlanName("web", 3, spec.Digest)}, Spec: spec}, p.Changes
}

// rules makes a policy of rules alone.
func rules(name string, list ...v1alpha1.PolicyRule) Source {
	return Source{Ref: Ref{Kind: KindPolicy, Namespace: "team-a", Name: name, UID: name, Generation: 1}, Terms: v1alpha1.PolicyTerms{Rules: list}}
}

func deny(when string) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: "deny", When: when, Effect: v1alpha1.EffectDeny}
}

func auto(when string) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: "auto", When: when, Effect: v1alpha1.EffectAutoApprove}
}

func warn(when, message string) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: "warn", When: when, Effect: v1alpha1.EffectWarn, Message: message}
}

func require(when string, of ...v1alpha1.ApprovalRequirement) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: fmt.Sprintf("require-%d", len(of)), When: when, Effect: v1alpha1.EffectRequire, Require: of}
}

func people(n int32) v1alpha1.ApprovalRequirement {
	return v1alpha1.ApprovalRequirement{Count: n, Of: v1alpha1.VotersPeople}
}

func class(n int32, name string) v1alpha1.ApprovalRequirement {
	return v1alpha1.ApprovalRequirement{Count: n, Of: v1alpha1.VotersClass, Class: name}
}

func signers(n int32, names ...string) v1alpha1.ApprovalRequirement {
	return v1alpha1.ApprovalRequirement{Count: n, Of: v1alpha1.VotersSigners, Signers: names}
}

// trusting makes a policy trust signers of these names.
func trusting(s Source, names ...string) Source {
	for _, name := range names {
		s.Terms.Signers = append(s.Terms.Signers, v1alpha1.TrustedSigner{Name: name, SSH: sshKey(name)})
	}
	return s
}

// by is an approval by a person, an hour ago.
func by(user string) Vote {
	return Vote{Verdict: v1alpha1.DecisionApproved, Kind: VotePerson, Identity: user, Verified: true, At: now.Add(-time.Hour)}
}

// as is an approval by a person with the verb of a class.
func as(user, class string) Vote {
	v := by(user)
	v.Class = class
	return v
}

// signed is an approval by a key that policies know under names.
func signed(key string, names ...SignerName) Vote {
	return Vote{Verdict: v1alpha1.DecisionApproved, Kind: VoteSigner, Identity: key, Verified: true, Signers: names, At: now.Add(-time.Hour)}
}

func rejection(v Vote) Vote {
	v.Verdict = v1alpha1.DecisionRejected
	return v
}

// input is a decision on a plan with one new bucket.
func input(tb testing.TB, policies []Source, votes ...Vote) Input {
	tb.Helper()
	plan, changes := newPlan(tb)
	in := Input{Plan: plan, Changes: changes, Stack: stack, Votes: votes, Now: now, Origin: Origin{SpecAuthor: "author", CommitAuthors: []string{"author@example.com"}}}
	for _, s := range policies {
		in.Policies = append(in.Policies, Compile(s))
	}
	return in
}

// sshKey is the public key of a signer of that name.
func sshKey(name string) string {
	seed := sha256.Sum256([]byte(name))
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed[:]).Public())
	if err != nil {
		panic(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}
