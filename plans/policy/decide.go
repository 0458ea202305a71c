// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// Bounds of what a verdict may hold, as the CRD has them.
const (
	maxRequirements = 50
	maxWarnings     = 20
	maxPolicies     = 50
	// pollTimed is when to look again at a plan whose rules look at the clock.
	pollTimed = time.Minute
)

// Input is what is decided on.
type Input struct {
	// Plan is the plan; its spec was checked against its digest before.
	Plan *v1alpha1.UpdatePlan
	// Stack is the plan's Stack as it is now.
	Stack Stack
	// Changes are all changes of the plan, not only those that its spec lists. Fewer than its statement counts hold the plan.
	Changes []v1alpha1.ResourceChange
	// Origin tells who had a hand in the change.
	Origin Origin
	// Votes are all approvals and rejections of this plan's digest, in any order.
	Votes []Vote
	// Now is the time of the decision.
	Now time.Time
	// Policies are all that select the Stack, in any order. The caller read all there are: one that is missing asks for nothing.
	Policies []*Compiled
}

// Verdict is what policies came to. The zero value allows nothing.
type Verdict struct {
	v1alpha1.PolicyVerdict
	// LookAgain is when the verdict can become another without anybody doing anything: a window opens or closes, an approval
	// gets too old, a rule looks at the clock. Zero: it cannot.
	LookAgain time.Time
	// Served tells, for each vote of the input in its order, what it serves in words. Empty: nothing.
	Served []string
}

// Allows tells whether the plan may be applied now.
func (v Verdict) Allows() bool { return v.State == v1alpha1.PolicyAllowed }

// Decide evaluates all rules of all policies, counts the votes and looks at the windows. Equal input in any order gives an
// equal verdict.
func Decide(in Input) Verdict {
	if in.Plan == nil || in.Now.IsZero() {
		return Verdict{PolicyVerdict: v1alpha1.PolicyVerdict{State: v1alpha1.PolicyHeld, Message: "There is no plan, or no time, to decide on: this is a bug."}}
	}
	policies := sorted(in.Policies)
	d := decision{in: &in, policies: policies, schedule: newSchedule(policies, in.Now)}
	d.evaluate()
	d.ballot = newBallot(&in, policies)
	d.tally = d.ballot.count(d.demands)
	return d.verdict()
}

// decision is a decision in the making.
type decision struct {
	in       *Input
	policies []*Compiled
	schedule schedule

	// denied, broken, warnings and approved are what rules came to, in words.
	denied, broken []v1alpha1.PolicyRequirement
	warnings       []string
	approved       []v1alpha1.PolicyRequirement
	demands        []demand
	timed          bool

	ballot *ballot
	tally  tally
}

// incomplete says why the rules cannot see all changes; "": they can.
func incomplete(in *Input) string {
	statement, err := plans.Parse(in.Plan.Spec.Statement)
	if err != nil {
		return "The plan's statement cannot be read, so that nobody can say whether rules see all of its changes."
	}
	if want := statement.Predicate.Changes.Count; want != len(in.Changes) {
		return fmt.Sprintf("Rules must see all %d changes of the plan, and %d could be read.", want, len(in.Changes))
	}
	return ""
}

// verdict puts together what was found, the strictest first.
func (d *decision) verdict() Verdict {
	v := Verdict{Served: make([]string, len(d.in.Votes))}
	v.Policies, v.Digest = evaluated(d.policies), digestAll(d.policies)
	v.Warnings = capTexts(d.warnings)
	waiting := d.requirements(&v)
	held := d.windows()
	v.Requirements = capRequirements(append(append(append(d.denied, d.broken...), held...), v.Requirements...))
	veto := d.ballot.veto(d.policies)
	switch {
	case veto != nil:
		v.State, v.Message = v1alpha1.PolicyRejected, "The plan was rejected by "+veto.Identity+"."
	case len(d.denied) > 0:
		v.State, v.Message = v1alpha1.PolicyDenied, d.denied[0].Words
	case len(d.broken) > 0:
		v.State, v.Message = v1alpha1.PolicyHeld, d.broken[0].Words
	case len(waiting) > 0:
		v.State, v.Message = v1alpha1.PolicyWaiting, "Missing: "+strings.Join(waiting, "; ")+"."
		if len(held) > 0 {
			v.Message += " " + held[0].Words
		}
	case len(held) > 0:
		v.State, v.Message = v1alpha1.PolicyHeld, held[0].Words
	default:
		v.State, v.Message = v1alpha1.PolicyAllowed, "All that is asked is met."
	}
	if len(held) > 0 && !d.schedule.opens.IsZero() {
		v.HeldUntil = &metav1.Time{Time: d.schedule.opens}
	}
	v.Message = fit(v.Message)
	v.LookAgain = d.lookAgain()
	return v
}

// requirements adds how it stands with each demand, and returns what is missing.
func (d *decision) requirements(v *Verdict) []string {
	var missing []string
	for i, m := range d.demands {
		r := m.requirement()
		r.By = make([]string, len(d.tally.by[i]))
		for n, name := range d.tally.by[i] {
			r.By[n] = redact.Shorten(redact.Printable(name), 320)
		}
		r.State = v1alpha1.RequirementMet
		words := fmt.Sprintf("%s: %s", m.title(), m.who())
		switch by := strings.Join(r.By, ", "); {
		case d.tally.met(d.demands, i):
			words += "; met by " + by
		default:
			r.State = v1alpha1.RequirementMissing
			if by != "" {
				words += "; so far " + by
			}
			short := m.count() - len(r.By)
			words += fmt.Sprintf("; %d missing", short)
			missing = append(missing, m.short(short))
		}
		r.Words = fit(words + because(m.message) + ".")
		v.Requirements = append(v.Requirements, r)
	}
	for vote, served := range d.tally.served {
		for _, i := range served {
			if v.Served[vote] != "" {
				v.Served[vote] += "; "
			}
			v.Served[vote] += d.demands[i].title()
		}
		v.Served[vote] = fit(v.Served[vote])
	}
	if len(missing) > 0 {
		missing = append(missing, d.tally.ignored...)
		if len(d.ballot.unknown) > 0 {
			missing = append(missing, "no person's approval counts, since "+strings.Join(d.ballot.unknown, ", "))
		}
	}
	v.Requirements = append(v.Requirements, d.approved...)
	return missing
}

// requirement is a demand as the status has it, without how it stands.
func (d demand) requirement() v1alpha1.PolicyRequirement {
	r := v1alpha1.PolicyRequirement{Rule: d.rule, Of: d.Of, Class: d.Class, Needed: int32(d.count())} //nolint:gosec // at most 10
	if d.policy != nil {
		r.Policy = d.policy.ref.String()
	}
	return r
}

// short says how many are missing.
func (d demand) short(missing int) string {
	if d.policy == nil {
		return "the approval of 1 person, since no rule asks for anything else"
	}
	return fmt.Sprintf("%d more for %s, which asks for %s", missing, d.title(), d.who())
}

// title names the rule that asks.
func (d demand) title() string {
	if d.policy == nil {
		return "where no rule asks for anything"
	}
	return d.rule + " of " + d.policy.ref.String()
}

// windows says which policies' windows hold the start.
func (d *decision) windows() []v1alpha1.PolicyRequirement {
	var held []v1alpha1.PolicyRequirement
	until := "; there is no time in which they all let it start"
	if !d.schedule.opens.IsZero() {
		until = " until " + d.schedule.opens.UTC().Format(time.RFC3339)
	}
	for _, p := range d.schedule.closed {
		held = append(held, v1alpha1.PolicyRequirement{
			Policy: p.ref.String(), State: v1alpha1.RequirementBlocked,
			Words: fit(fmt.Sprintf("The windows of %s let no apply start now%s; approvals are kept.", p.ref, until)),
		})
	}
	return held
}

// lookAgain is when the verdict can become another by itself.
func (d *decision) lookAgain() time.Time {
	next := d.schedule.changes
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	earlier(d.ballot.expires)
	if d.timed {
		earlier(d.in.Now.Add(pollTimed))
	}
	return next
}

func evaluated(policies []*Compiled) []v1alpha1.EvaluatedPolicy {
	var all []v1alpha1.EvaluatedPolicy
	for _, p := range policies[:min(len(policies), maxPolicies)] {
		all = append(all, v1alpha1.EvaluatedPolicy{Kind: p.ref.Kind, Name: p.ref.Name, Generation: p.ref.Generation})
	}
	return all
}

// digestAll is the digest of all policies, whatever their number.
func digestAll(policies []*Compiled) string {
	h := sha256.New()
	for _, p := range policies {
		h.Write([]byte(p.digest + "\n"))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return " (" + message + ")"
}

// fit makes a text one that the status may hold.
func fit(text string) string { return redact.Shorten(redact.Printable(text), maxWords) }

func capTexts(texts []string) []string {
	for i := range texts {
		texts[i] = fit(texts[i])
	}
	if more := len(texts) - maxWarnings + 1; more > 1 {
		texts = append(texts[:maxWarnings-1], fmt.Sprintf("and %d more", more))
	}
	return texts
}

// capRequirements cuts the list to what the status may hold. What holds the plan is at its beginning.
func capRequirements(all []v1alpha1.PolicyRequirement) []v1alpha1.PolicyRequirement {
	more := len(all) - maxRequirements + 1
	if more <= 1 {
		return all
	}
	rest := v1alpha1.PolicyRequirement{State: v1alpha1.RequirementMet, Words: fmt.Sprintf("and %d more", more)}
	for _, r := range all[maxRequirements-1:] {
		if r.State != v1alpha1.RequirementMet {
			rest.State = v1alpha1.RequirementMissing
		}
	}
	return append(all[:maxRequirements-1:maxRequirements-1], rest)
}
