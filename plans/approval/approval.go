// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approval decides whether an UpdatePlan may be applied: a chain of small checks, in order, each of which can only
// hold the plan back.
//
//	is it what was published? → did it end? → did it expire? → was it rejected? → was it approved, by enough?
//
// In this version one approval is enough, and it counts for what it is: an annotation that somebody wrote who may write
// annotations on the plan. Who that was is not verified, and every decision says so. Records that the API server's
// admission vouches for, signatures, quorums and policies come in as further readers beside annotationDecisions and as
// further conditions in enough; nothing else has to change.
//
// What has been accepted is kept in status.decisions. The status is written by the operator alone (RBAC on the status
// subresource), so an accepted approval stays accepted when its annotation is removed. Whoever can write the status can
// approve; whoever can write the spec of a plan can not, since the spec is checked against the digest that is approved.
package approval

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
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
	found := annotationDecisions(in)
	v := possible(in, weigh(in, append(slices.Clone(in.Plan.Status.Decisions), found...)))
	v.Decisions = unrecorded(in.Plan.Status.Decisions, found)
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
	return Verdict{State: Waiting, Reason: v1alpha1.ReasonProtected, Message: redact.Shorten(why, maxWords), Requirements: redact.Shorten("No approval is enough: "+why, maxWords)}
}

// weigh counts decisions that are about this very digest. A rejection wins over any number of approvals.
func weigh(in Input, decisions []v1alpha1.Decision) Verdict {
	rejections := counting(decisions, v1alpha1.DecisionRejected, in.Plan.Spec.Digest)
	if len(rejections) > 0 {
		r := rejections[0]
		return Verdict{
			State: Rejected, Reason: v1alpha1.ReasonRejected,
			Message:      "The plan was rejected by " + r.By + because(r.Reason) + ".",
			Requirements: "None: the plan was rejected.",
		}
	}
	met, words := enough(counting(decisions, v1alpha1.DecisionApproved, in.Plan.Spec.Digest))
	if !met {
		return Verdict{State: Waiting, Reason: v1alpha1.ReasonWaitingForApproval, Message: waitingMessage(in, decisions), Requirements: words}
	}
	return Verdict{State: Approved, Reason: v1alpha1.ReasonApproved, Message: words, Requirements: words}
}

// enough is the policy: with none configured, one approval.
func enough(approvals []v1alpha1.Decision) (bool, string) {
	if len(approvals) == 0 {
		return false, "One approval of the plan's digest, by anybody who may annotate the plan. Identities are not verified in this version."
	}
	a := approvals[0]
	words := fmt.Sprintf("Approved by %s at %s%s.", a.By, a.ObservedAt.UTC().Format(time.RFC3339), because(a.Reason))
	if !a.Verified {
		words += " One approval was needed; the identity behind it was not verified."
	}
	return true, redact.Shorten(words, maxWords)
}

// counting returns the decisions of a kind that name exactly this digest.
func counting(decisions []v1alpha1.Decision, verdict v1alpha1.DecisionVerdict, digest string) []v1alpha1.Decision {
	var found []v1alpha1.Decision
	for _, d := range decisions {
		if d.Verdict == verdict && d.Digest == digest && digest != "" {
			found = append(found, d)
		}
	}
	return found
}

// waitingMessage tells what is missing and, when the last attempt was refused, why.
func waitingMessage(in Input, decisions []v1alpha1.Decision) string {
	message := "The plan waits for an approval: " + ApproveCommand(in.Plan)
	for _, d := range slices.Backward(decisions) {
		if d.Verdict == v1alpha1.DecisionRefused {
			return redact.Shorten("The last approval or rejection was refused: "+d.Reason, maxWords)
		}
	}
	return redact.Shorten(message, maxWords)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", reason)
}

// MaxDecisions is how many decisions a status keeps.
const MaxDecisions = 20

// Record adds new decisions to those of a status and keeps the last MaxDecisions. Decisions that count are never dropped
// in favour of refused ones: otherwise anybody could push an approval out by being refused twenty times.
func Record(recorded, found []v1alpha1.Decision) []v1alpha1.Decision {
	all := append(slices.Clone(recorded), unrecorded(recorded, found)...)
	for len(all) > MaxDecisions {
		oldest := slices.IndexFunc(all, func(d v1alpha1.Decision) bool { return d.Verdict == v1alpha1.DecisionRefused })
		all = slices.Delete(all, max(0, oldest), max(0, oldest)+1)
	}
	return all
}

// unrecorded returns the decisions that were not written down yet. Two are the same when the same thing was written in the
// same place and came to the same.
func unrecorded(recorded, found []v1alpha1.Decision) []v1alpha1.Decision {
	var fresh []v1alpha1.Decision
	for _, f := range found {
		same := func(d v1alpha1.Decision) bool {
			return d.Method == f.Method && d.Evidence == f.Evidence && d.Verdict == f.Verdict
		}
		if !slices.ContainsFunc(recorded, same) && !slices.ContainsFunc(fresh, same) {
			fresh = append(fresh, f)
		}
	}
	return fresh
}
