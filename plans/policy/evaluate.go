// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

// evaluate looks at every rule of every policy, and notes what each comes to.
func (d *decision) evaluate() {
	if why := incomplete(d.in); why != "" && len(d.policies) > 0 {
		d.broken = append(d.broken, v1alpha1.PolicyRequirement{State: v1alpha1.RequirementBlocked, Words: why})
		return
	}
	sees := variables(d.in)
	for _, p := range d.policies {
		if len(p.problems) > 0 {
			d.broken = append(d.broken, v1alpha1.PolicyRequirement{
				Policy: p.ref.String(), State: v1alpha1.RequirementBlocked,
				Words: fit(fmt.Sprintf("%s cannot be evaluated, and holds the plan until it is put right: %s.", p.ref, strings.Join(p.problems, "; "))),
			})
			continue
		}
		sees["window"] = newObject(typeWindow, &windowValue{open: d.schedule.open, active: d.schedule.active[p.ref.key()]})
		for _, r := range p.rules {
			d.timed = d.timed || r.timed
			matches, err := r.matches(sees)
			d.note(p, r, matches, err)
		}
	}
	if len(d.denied)+len(d.broken)+len(d.demands)+len(d.approved) == 0 {
		d.demands = append(d.demands, demand{ApprovalRequirement: v1alpha1.ApprovalRequirement{Count: 1, Of: v1alpha1.VotersPeople}})
	}
	if len(d.denied)+len(d.broken)+len(d.demands) > 0 {
		d.approved = nil
	}
}

// ended is a context whose time is over. A program looks at its context once, after as many turns of its loops as it may
// take, so that it ends there and nowhere else: what a rule comes to does not depend on how fast the machine is.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// matches evaluates a rule's expression.
func (r rule) matches(sees map[string]any) (bool, error) {
	switch {
	case r.When == "":
		return true, nil
	case r.program == nil:
		return false, fmt.Errorf("its expression was not compiled: this is a bug")
	}
	value, _, err := r.program.ContextEval(ended, sees)
	switch {
	case errors.Is(err, interpreter.InterruptError{}):
		return false, fmt.Errorf("its loops cost too much for a plan of this size")
	case err != nil:
		return false, fmt.Errorf("%s", redact.Printable(oneLine(err.Error())))
	}
	matches, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it came to %s, not to true or false", value.Type())
	}
	return bool(matches), nil
}

// note notes what a rule comes to. Whatever cannot be understood holds the plan, or approves nothing.
func (d *decision) note(p *Compiled, r rule, matches bool, err error) {
	title := r.Name + " of " + p.ref.String()
	entry := v1alpha1.PolicyRequirement{Policy: p.ref.String(), Rule: r.Name, State: v1alpha1.RequirementBlocked}
	if err != nil {
		words := fmt.Sprintf("%s cannot be evaluated for this plan: %s.", title, err)
		switch r.Effect {
		case v1alpha1.EffectAutoApprove, v1alpha1.EffectWarn:
			d.warnings = append(d.warnings, words)
		default:
			entry.Words = fit(words)
			d.broken = append(d.broken, entry)
		}
		return
	}
	if !matches {
		return
	}
	switch r.Effect {
	case v1alpha1.EffectRequire:
		for _, q := range r.Require {
			d.demands = append(d.demands, demand{policy: p, rule: r.Name, message: r.Message, ApprovalRequirement: q})
		}
	case v1alpha1.EffectAutoApprove:
		entry.State, entry.Words = v1alpha1.RequirementMet, fit(fmt.Sprintf("%s: nobody's approval is needed%s.", title, because(r.Message)))
		d.approved = append(d.approved, entry)
	case v1alpha1.EffectWarn:
		d.warnings = append(d.warnings, title+because(r.Message))
	default: // Deny, and whatever is not known
		entry.Words = fit(fmt.Sprintf("%s denies the plan%s.", title, because(r.Message)))
		d.denied = append(d.denied, entry)
	}
}
