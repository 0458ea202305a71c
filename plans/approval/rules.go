// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
	"github.com/plangate/plangate/plans/policy"
	"github.com/plangate/plangate/plans/redact"
)

// Rules are the policies that select the plan's Stack, with what they look at. The zero value: no policy does, and one person
// must approve.
type Rules struct {
	// Policies are all that select the Stack. One that is left out asks for nothing.
	Policies []*policy.Compiled
	// Stack is the plan's Stack as it is now.
	Stack policy.Stack
	// Changes are all changes of the plan. Not needed without policies.
	Changes []v1alpha1.ResourceChange
}

// heard is a decision with what a policy must know of who made it.
type heard struct {
	v1alpha1.Decision
	// identity tells a signer's key or workload from all others. Empty: it is no signature.
	identity string
	// signers are the names under which policies trust the signer.
	signers []policy.SignerName
}

// signatureDecisions verifies the signatures that the plan carries, against the signers of each policy that selects it.
func signatureDecisions(in Input) []heard {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(in.Plan.Annotations)), isSignature) {
		return nil
	}
	bySlot, refused := map[string]*heard{}, map[string]signature.Refusal{}
	input := signature.Input{Statement: in.Plan.Spec.Statement, Cluster: cluster(in), Now: in.Now}
	verify := func(signers *signature.Signers, ref policy.Ref) {
		input.Signers = signers
		report := signature.VerifyAll(input, in.Plan.Annotations, in.seenAt)
		for _, v := range report.Verified {
			if bySlot[v.Slot] == nil {
				bySlot[v.Slot] = &heard{Decision: signed(v), identity: v.Identity}
			}
			bySlot[v.Slot].signers = append(bySlot[v.Slot].signers, policy.SignerName{Policy: ref, Name: v.Signer})
		}
		for _, r := range report.Refused {
			// A policy that knows the signer says more than one that does not.
			if was, ok := refused[r.Slot]; !ok || was.Reason == signature.UnknownSigner {
				refused[r.Slot] = r
			}
		}
	}
	trusted := false
	for _, p := range in.Rules.Policies {
		if s := p.Trusted(); s != nil {
			trusted = true
			verify(s, p.Ref())
		}
	}
	if !trusted {
		verify(&signature.Signers{}, policy.Ref{})
	}
	return append(inOrder(bySlot), refusals(in, bySlot, refused)...)
}

func isSignature(annotation string) bool {
	return strings.HasPrefix(annotation, v1alpha1.AnnotationSignaturePrefix)
}

// cluster is the cluster that a signed statement must name.
func cluster(in Input) string {
	if in.Cluster != "" {
		return in.Cluster
	}
	statement, err := plans.Parse(in.Plan.Spec.Statement)
	if err != nil {
		return ""
	}
	return statement.Predicate.Cluster
}

func inOrder(bySlot map[string]*heard) []heard {
	found := make([]heard, 0, len(bySlot))
	for _, slot := range slices.Sorted(maps.Keys(bySlot)) {
		found = append(found, *bySlot[slot])
	}
	return found
}

// refusals are the signatures that count for no policy.
func refusals(in Input, counted map[string]*heard, refused map[string]signature.Refusal) []heard {
	var found []heard
	for _, slot := range slices.Sorted(maps.Keys(refused)) {
		if counted[slot] != nil || len(found) == MaxRefused {
			continue
		}
		key := v1alpha1.AnnotationSignaturePrefix + slot
		r := refused[slot]
		found = append(found, heard{Decision: v1alpha1.Decision{
			Verdict: v1alpha1.DecisionRefused, Method: v1alpha1.MethodSignature, Key: shownKey(key), By: "unverified signature",
			Refusal: v1alpha1.Refusal(r.Reason), Reason: redact.Shorten("UpdatePlan "+in.Plan.Namespace+"/"+in.Plan.Name+", annotation "+shownKey(key)+": "+r.Message, maxWords),
			ObservedAt: metav1.NewTime(in.Now), Evidence: plans.BytesDigest([]byte(in.Plan.Annotations[key])),
		}})
	}
	return found
}

// signed is the decision that a signature makes.
func signed(v signature.Verified) v1alpha1.Decision {
	d := v1alpha1.Decision{
		Method: v1alpha1.MethodSignature, Key: shownKey(v1alpha1.AnnotationSignaturePrefix + v.Slot), By: redact.Shorten(v.Signer, 512), Verified: true,
		Digest: v.Digest, ObservedAt: metav1.NewTime(v.SeenAt), Evidence: v.Evidence, Verdict: v1alpha1.DecisionRefused,
	}
	switch v.Verdict {
	case signature.Approve:
		d.Verdict = v1alpha1.DecisionApproved
	case signature.Reject:
		d.Verdict = v1alpha1.DecisionRejected
	default:
		d.Refusal = v1alpha1.RefusedOtherPurpose
	}
	return d
}

// votes are the decisions about exactly this plan as a policy counts them, and where each of them is.
func votes(in Input, found []heard) (cast []policy.Vote, of []int) {
	for i, h := range found {
		if h.Digest != in.Plan.Spec.Digest || h.Verdict == v1alpha1.DecisionRefused {
			continue
		}
		v := policy.Vote{Verdict: h.Verdict, Kind: policy.VotePerson, Identity: h.By, Verified: h.counts(in), Class: h.Class, At: h.ObservedAt.Time}
		if h.Method == v1alpha1.MethodSignature {
			v.Kind, v.Identity, v.Signers = policy.VoteSigner, h.identity, h.signers
		}
		cast, of = append(cast, v), append(of, i)
	}
	return cast, of
}

// counts tells whether it is proven who decided, and by what is still so.
func (h heard) counts(in Input) bool {
	return h.Verified && (h.Method != v1alpha1.MethodAnnotation || in.Admission.Enforced)
}

// byPolicy has the policies decide, and notes what each decision served.
func byPolicy(in Input, found []heard) Verdict {
	cast, of := votes(in, found)
	decided := policy.Decide(policy.Input{
		Plan: in.Plan, Stack: in.Rules.Stack, Changes: in.Rules.Changes, Origin: origin(in.Plan), Votes: cast, Now: in.Now, Policies: in.Rules.Policies,
	})
	for i, served := range decided.Served {
		found[of[i]].Requirement = redact.Shorten(served, 256)
	}
	v := Verdict{
		State: Waiting, Reason: v1alpha1.ReasonWaitingForApproval, Message: decided.Message, Requirements: requirements(decided.PolicyVerdict),
		Policy: &decided.PolicyVerdict, LookAgain: decided.LookAgain,
	}
	switch decided.State {
	case v1alpha1.PolicyAllowed:
		v.State, v.Reason = Approved, v1alpha1.ReasonApproved
	case v1alpha1.PolicyRejected:
		v.State, v.Reason = Rejected, v1alpha1.ReasonRejected
	case v1alpha1.PolicyDenied:
		v.Reason = v1alpha1.ReasonDeniedByPolicy
	case v1alpha1.PolicyHeld:
		v.Reason = v1alpha1.ReasonHeldByPolicy
	default:
		if words := waitingMessage(in, found); !in.Admission.Enforced || strings.HasPrefix(words, refusedWords) {
			v.Message = redact.Shorten(words+" "+decided.Message, maxWords)
		}
		if !in.Admission.Enforced {
			v.Reason = v1alpha1.ReasonAdmissionNotEnforced
		}
	}
	return v
}

// origin tells who had a hand in the change. Who asked for a plan, and who wrote a commit, is not known yet.
func origin(plan *v1alpha1.UpdatePlan) policy.Origin {
	if len(plan.Spec.Authors) == 0 {
		return policy.Origin{}
	}
	return policy.Origin{SpecAuthor: plan.Spec.Authors[0]}
}

// requirements says in one text how it stands with all that policies ask.
func requirements(v v1alpha1.PolicyVerdict) string {
	words := make([]string, 0, len(v.Requirements)+len(v.Warnings))
	for _, r := range v.Requirements {
		words = append(words, string(r.State)+": "+r.Words)
	}
	for _, w := range v.Warnings {
		words = append(words, "Warning: "+w)
	}
	if len(words) == 0 {
		words = append(words, v.Message)
	}
	return redact.Shorten(strings.Join(words, "; "), maxWords)
}
