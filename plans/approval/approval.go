// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approval decides whether an UpdatePlan may be applied: a chain of small checks, in order, each of which can only
// hold the plan back.
//
//	is it what was published? → did it end? → did it expire? → was it rejected? → was it approved, by enough?
//
// Decisions come from readers, and a policy weighs them:
//
//	annotationDecisions ──┐
//	signatureDecisions ───┴─▶ weigh ─▶ enough, or the policies ─▶ Verdict
//
// An annotation proves nothing by itself: whoever may edit the object could have written it. It counts because the API
// server's admission policies (config/admission) let nobody write one but in his own name, and it counts only while
// Input.Admission says that these policies were proven to be in force. What cannot be proven is not counted.
//
// status.decisions is a memory and no authority: it tells what was seen, when and by whom, and what was proven then. An
// approval counts while its annotation is there and still deserves it. A rejection ends the plan whatever becomes of it.
package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/policy"
	"github.com/plangate/plangate/plans/redact"
)

// State is where a plan stands. The zero value is invalid and allows nothing.
type State string

// Where a plan can stand.
const (
	// Waiting: an approval is missing.
	Waiting State = "Waiting"
	// Approved: it may be applied now.
	Approved State = "Approved"
	// Rejected: somebody ended it.
	Rejected State = "Rejected"
	// Ended: it can be neither approved nor applied; Reason says why.
	Ended State = "Ended"
)

// Input is what is decided on.
type Input struct {
	// Plan is the object as it was read, with its annotations, managed fields and status.
	Plan *v1alpha1.UpdatePlan
	// Cluster is the id that plans of this cluster are made with. Empty: it is not compared.
	Cluster string
	// Now is the time of the decision.
	Now time.Time
	// Admission is what was proven of the admission policies. The zero value: nothing was.
	Admission Admission
	// Rules are the policies that decide who must approve, and whose signers are trusted. Signatures do not depend on Admission.
	Rules Rules
}

// seenAt is when a signature was verified for the first time, by its evidence; zero: it was not.
func (in Input) seenAt(evidence string) time.Time {
	for _, d := range in.Plan.Status.Decisions {
		if d.Method == v1alpha1.MethodSignature && d.Evidence == evidence && d.Verified && d.Verdict != v1alpha1.DecisionRefused {
			return d.ObservedAt.Time
		}
	}
	return time.Time{}
}

// Admission is what is known of the admission policies that vouch for annotations. The zero value vouches for nothing.
type Admission struct {
	// Enforced is true when they were proven to be in force.
	Enforced bool
	// Why says, when they were not, what is wrong and what would help.
	Why string
}

func (a Admission) words() string {
	if a.Why == "" {
		return "it is not known whether the admission policies are in force"
	}
	return a.Why
}

// Verdict is what was decided.
type Verdict struct {
	// State is where the plan stands.
	State State
	// Reason is a reason of the plan's conditions.
	Reason string
	// Message says it in words.
	Message string
	// Decisions are those that are new: not in the status yet.
	Decisions []v1alpha1.Decision
	// Requirements says who must still approve, or how that was met.
	Requirements string
	// Unguarded is true when an approval by annotation was seen that nothing vouches for. Whoever may write such a thing may
	// write others, so that this must be remembered in status.unguardedSince.
	Unguarded bool
	// Counted are the approvals that count now, new or not, and only of a verdict that allows.
	Counted []v1alpha1.Decision
	// Policy is what the policies came to. Nil: none selects the Stack.
	Policy *v1alpha1.PolicyVerdict
	// LookAgain is when the verdict can become another without anybody doing anything. Zero: it cannot.
	LookAgain time.Time
}

// Allows tells whether the plan may be applied now.
func (v Verdict) Allows() bool { return v.State == Approved }

// check holds a plan back, or returns nil.
type check func(Input) *Verdict

// Verify decides whether a plan may be applied. It allows nothing without an approval of exactly the plan's digest.
func Verify(in Input) Verdict {
	if in.Plan == nil || in.Now.IsZero() {
		return Verdict{State: Ended, Reason: v1alpha1.ReasonSpecInvalid, Message: "no plan, or no time, to decide on: this is a bug"}
	}
	// What is said of a plan that has ended is not read any more.
	for _, c := range []check{published, living, inTime} {
		if v := c(in); v != nil {
			return *v
		}
	}
	all := signatureDecisions(in)
	for _, d := range slices.Backward(annotationDecisions(in)) {
		all = slices.Insert(all, 0, heard{Decision: d})
	}
	v := possible(in, weigh(in, all))
	found := make([]v1alpha1.Decision, 0, len(all))
	for _, h := range all {
		found = append(found, h.Decision)
		if v.Allows() && h.Verdict == v1alpha1.DecisionApproved && h.counts(in) {
			v.Counted = append(v.Counted, h.Decision)
		}
	}
	v.Unguarded = slices.ContainsFunc(found, func(d v1alpha1.Decision) bool { return d.Refusal == v1alpha1.RefusedNotEnforced })
	v.Decisions = told(in.Plan.Status.Decisions, found)
	return v
}

// published holds back a plan that is not what the operator published under this name and digest.
func published(in Input) *Verdict {
	p := in.Plan
	if err := plans.CheckSpec(p.Namespace, &p.Spec); err != nil {
		return ended(v1alpha1.ReasonSpecInvalid, fmt.Sprintf("The plan is not what was published: %s.", redact.Shorten(redact.Printable(err.Error()), 512)))
	}
	if want := plans.PlanName(p.Spec.StackRef.Name, p.Spec.Sequence, p.Spec.Digest); p.Name != want {
		// A copy under another name would be applied a second time under the same approval.
		return ended(v1alpha1.ReasonSpecInvalid, fmt.Sprintf("The plan is a copy: it was published as %q.", want))
	}
	statement, err := plans.Parse(p.Spec.Statement)
	if err != nil || in.Cluster != "" && statement.Predicate.Cluster != in.Cluster {
		return ended(v1alpha1.ReasonSpecInvalid, "The plan was published in another cluster.")
	}
	return nil
}

// living holds back a plan that has ended.
func living(in Input) *Verdict {
	if !in.Plan.DeletionTimestamp.IsZero() {
		return ended(v1alpha1.ReasonDeleting, "The plan is being deleted.")
	}
	conditions := in.Plan.Status.Conditions
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionObsolete); c != nil && c.Status == metav1.ConditionTrue {
		return ended(c.Reason, "The plan is obsolete: "+c.Message)
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionApplied); c != nil && c.Status != metav1.ConditionUnknown {
		return ended(c.Reason, "The plan was applied, or tried, already: "+c.Message)
	}
	return nil
}

// inTime holds back a plan whose time is over, unless its approval was used in time.
func inTime(in Input) *Verdict {
	if in.Plan.Status.Operation != nil || in.Now.Before(in.Plan.Spec.NotAfter.Time) {
		return nil
	}
	return ended(v1alpha1.ReasonExpired, fmt.Sprintf("The plan expired at %s.", in.Plan.Spec.NotAfter.UTC().Format(time.RFC3339)))
}

func ended(reason, message string) *Verdict {
	return &Verdict{State: Ended, Reason: reason, Message: message, Requirements: "None: the plan has ended."}
}

// possible holds back a plan that no approval can start, and says what to do. It can still be rejected.
func possible(in Input, v Verdict) Verdict {
	why := plans.Impossible(&in.Plan.Spec)
	if why == "" || v.State == Rejected || v.State == Ended {
		return v
	}
	return Verdict{
		State: Waiting, Reason: v1alpha1.ReasonProtected, Message: redact.Shorten(why, maxWords),
		Requirements: redact.Shorten("No approval is enough: "+why, maxWords), Policy: v.Policy, LookAgain: v.LookAgain,
	}
}

// weigh counts decisions that are about this very digest. A rejection, also one that only the status remembers, wins over any
// number of approvals.
func weigh(in Input, found []heard) Verdict {
	digest := in.Plan.Spec.Digest
	if policy.AnyRejectionEnds(in.Rules.Policies) {
		rejections := about(in.Plan.Status.Decisions, v1alpha1.DecisionRejected, digest)
		for _, h := range found {
			rejections = append(rejections, about([]v1alpha1.Decision{h.Decision}, v1alpha1.DecisionRejected, digest)...)
		}
		if len(rejections) > 0 {
			return rejected(rejections[0])
		}
	}
	if len(in.Rules.Policies) > 0 {
		return byPolicy(in, found)
	}
	var approvals []v1alpha1.Decision
	for i, h := range found {
		if h.Verdict != v1alpha1.DecisionApproved || h.Digest != digest || !h.counts(in) || !serves(h.Decision) {
			continue
		}
		found[i].Requirement = onePerson
		approvals = append(approvals, found[i].Decision)
	}
	met, words := enough(in, approvals)
	if met {
		return Verdict{State: Approved, Reason: v1alpha1.ReasonApproved, Message: words, Requirements: words}
	}
	v := Verdict{State: Waiting, Reason: v1alpha1.ReasonWaitingForApproval, Message: waitingMessage(in, found), Requirements: words}
	if !in.Admission.Enforced {
		v.Reason = v1alpha1.ReasonAdmissionNotEnforced
	}
	return v
}

func rejected(by v1alpha1.Decision) Verdict {
	return Verdict{
		State: Rejected, Reason: v1alpha1.ReasonRejected,
		Message:      "The plan was rejected by " + by.By + because(by.Reason) + ".",
		Requirements: "None: the plan was rejected.",
	}
}

// onePerson is the requirement that stands where no policy says otherwise.
const onePerson = "one approval by a person"

// serves tells whether an approval can serve onePerson. One of a class that a policy would have to ask for does not.
func serves(d v1alpha1.Decision) bool { return d.Method == v1alpha1.MethodAnnotation && d.Class == "" }

// enough is the policy: with none configured, one approval by a person who has the verb approve and is no author.
func enough(in Input, approvals []v1alpha1.Decision) (bool, string) {
	if len(approvals) == 0 {
		return false, redact.Shorten("One approval of the plan's digest, by a person with the verb approve on updateplans or on the Stack. "+authors(in.Plan.Spec.Authors), maxWords)
	}
	a := approvals[0]
	words := fmt.Sprintf("Approved by %s at %s%s. One approval by a person was needed.", a.By, a.ObservedAt.UTC().Format(time.RFC3339), because(a.Reason))
	if len(in.Plan.Spec.Authors) == 0 {
		words += " Who wrote the change is not known."
	}
	return true, redact.Shorten(words, maxWords)
}

// authors says who must not approve.
func authors(names []string) string {
	if len(names) == 0 {
		return "Who wrote the change is not known, so that it may be the same person."
	}
	return "Not by an author of the change: " + strings.Join(names, ", ") + "."
}

// about returns the decisions of a kind that name exactly this digest.
func about(decisions []v1alpha1.Decision, verdict v1alpha1.DecisionVerdict, digest string) []v1alpha1.Decision {
	var found []v1alpha1.Decision
	for _, d := range decisions {
		if d.Verdict == verdict && d.Digest == digest && digest != "" {
			found = append(found, d)
		}
	}
	return found
}

// refusedWords begin what is said of an attempt that did not count.
const refusedWords = "The last approval or rejection was refused: "

// waitingMessage tells what is missing: what is wrong with the cluster or, when the last attempt was refused, with that.
func waitingMessage(in Input, found []heard) string {
	if !in.Admission.Enforced {
		return redact.Shorten("Approvals by annotation do not count: "+in.Admission.words()+". Signatures count.", maxWords)
	}
	said := slices.Clone(in.Plan.Status.Decisions)
	for _, h := range found {
		said = append(said, unrecorded(said, []v1alpha1.Decision{h.Decision})...)
	}
	for _, d := range slices.Backward(said) {
		if d.Verdict == v1alpha1.DecisionRefused {
			return redact.Shorten(refusedWords+d.Reason, maxWords)
		}
	}
	return redact.Shorten("The plan waits for an approval: "+ApproveCommand(in.Plan), maxWords)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", reason)
}

const (
	// MaxDecisions is how many decisions a status keeps that count.
	MaxDecisions = 50
	// MaxRefused is how many it keeps that do not: the last ones.
	MaxRefused = 5
)

// Record adds new decisions to those of a status, and keeps what counts and the last MaxRefused of what does not.
func Record(recorded, found []v1alpha1.Decision) []v1alpha1.Decision {
	all := append(slices.Clone(recorded), unrecorded(recorded, found)...)
	refused := 0
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Verdict != v1alpha1.DecisionRefused {
			continue
		}
		refused++
		if refused > MaxRefused {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all[max(0, len(all)-MaxDecisions):]
}

// told returns the decisions that are to be written down: those that count, and no more refused ones than a status keeps, so
// that a heap of junk is not written down anew with every look at it.
func told(recorded, found []v1alpha1.Decision) []v1alpha1.Decision {
	fresh := unrecorded(recorded, found)
	refused := func(list []v1alpha1.Decision) int { return len(list) - len(accepted(list)) }
	room := MaxRefused - (refused(found) - refused(fresh))
	return slices.DeleteFunc(fresh, func(d v1alpha1.Decision) bool {
		if d.Verdict != v1alpha1.DecisionRefused {
			return false
		}
		room--
		return room < 0
	})
}

// accepted returns the decisions that were not refused.
func accepted(list []v1alpha1.Decision) []v1alpha1.Decision {
	return slices.DeleteFunc(slices.Clone(list), func(d v1alpha1.Decision) bool { return d.Verdict == v1alpha1.DecisionRefused })
}

// unrecorded returns the decisions that were not written down yet. Two are the same when the same thing was written in the
// same place and came to the same.
func unrecorded(recorded, found []v1alpha1.Decision) []v1alpha1.Decision {
	var fresh []v1alpha1.Decision
	for _, f := range found {
		same := func(d v1alpha1.Decision) bool {
			return d.Method == f.Method && d.Key == f.Key && d.Evidence == f.Evidence && d.Verdict == f.Verdict
		}
		if !slices.ContainsFunc(recorded, same) && !slices.ContainsFunc(fresh, same) {
			fresh = append(fresh, f)
		}
	}
	return fresh
}
