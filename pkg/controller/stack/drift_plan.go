// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"errors"
	"fmt"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/workspace"
)

// wantsRepair tells whether drift is to be planned to be put back: it was found, twice where once is not enough, a plan about it
// is wanted and was not made yet, and it is no fight that somebody has to settle first.
func wantsRepair(stack *v1alpha1.Stack) bool {
	d := stack.Status.Drift
	if d == nil || driftAction(stack) != v1alpha1.DriftPlan || d.Operation != nil || d.Unconfirmed || d.Digest == "" || d.Planned == d.Digest {
		return false
	}
	// What is in conflict or cannot be read cannot be previewed: trying would only fail.
	class := drift.Class(d.Class)
	return (class == drift.Changed || class == drift.Deleted) && (d.Loop == nil || released(stack))
}

// aboutDrift says why a preview about drift is due; nil when none is.
func aboutDrift(s *scope) *v1alpha1.PlanTrigger {
	switch {
	case demand.Of(s.stack) != demand.Update:
		return nil
	case s.asked(v1alpha1.AnnotationAcceptDrift, observedAccept(s.stack)):
		return &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRequested, Message: fmt.Sprintf("the annotation %s asked that the state take over what is drifted", v1alpha1.AnnotationAcceptDrift)}
	case wantsRepair(s.stack):
		return &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerDrifted, Message: conditions.Shorten("the real resources are not as Pulumi left them: "+s.stack.Status.Drift.Summary, 1024)}
	default:
		return nil
	}
}

func observedAccept(stack *v1alpha1.Stack) string {
	if stack.Status.Drift == nil {
		return ""
	}
	return stack.Status.Drift.ObservedAccept
}

// afterDriftPlan says why a preview is due after a plan about drift; known tells whether it is one.
func afterDriftPlan(plan *v1alpha1.UpdatePlan) (again *v1alpha1.PlanTrigger, known bool) {
	switch {
	case plan.Spec.Operation == v1alpha1.PlanOperationRefresh:
		if !planstate.Ended(plan) {
			return nil, true
		}
		reason, _ := planstate.Reason(plan)
		message := fmt.Sprintf("UpdatePlan %q, by which the state takes over what was drifted, ended as %s: what the program wants is looked at anew", plan.Name, reason)
		return &v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRetry, Message: conditions.Shorten(message, 1024)}, true
	case plan.Spec.Trigger.Type == v1alpha1.TriggerDrifted:
		// The next look at the real resources, which is due now, says whether there is something to put back.
		return nil, true
	}
	return nil, false
}

// accepts tells whether a preview is for a plan by which the state takes over what is drifted.
func accepts(trigger *v1alpha1.PlanTrigger, s *scope) bool {
	return demand.Of(s.stack) == demand.Update && trigger.Type == v1alpha1.TriggerRequested && s.stack.Status.LastPreview != nil && s.stack.Status.LastPreview.InputsDigest == s.inputsDigest &&
		s.asked(v1alpha1.AnnotationAcceptDrift, observedAccept(s.stack))
}

// refreshed tells whether a preview reads the real resources first: when the spec says so, when it is about drift, and when drift
// is known that is to be planned, so that one plan tells it and another change apart.
func refreshed(stack *v1alpha1.Stack, trigger *v1alpha1.PlanTrigger) bool {
	d := stack.Status.Drift
	known := d != nil && driftAction(stack) == v1alpha1.DriftPlan && (d.Class == v1alpha1.DriftChanged || d.Class == v1alpha1.DriftDeleted)
	return stack.Spec.Refresh || trigger.Type == v1alpha1.TriggerDrifted || known
}

// orderFor makes a preview what it is for.
func orderFor(op *v1alpha1.PreviewOperation, order *workspace.Operation) {
	if op.Operation == v1alpha1.PlanOperationDestroy {
		return
	}
	order.Options.Refresh = op.Refresh
	if op.Operation == v1alpha1.PlanOperationRefresh {
		order.Type, order.Probe = workspace.DriftCheck, false
	}
}

// succeeded tells whether the preview came to something that a plan can be made of.
func (s *scope) succeeded() bool {
	return s.result.Outcome == workspace.Succeeded || s.mayAccept()
}

// mayAccept tells whether the result of a preview that failed is enough: to accept what is drifted it takes a look at the real
// resources, and not what the program wants.
func (s *scope) mayAccept() bool {
	op := s.stack.Status.Operation
	return op != nil && op.Operation == v1alpha1.PlanOperationRefresh && s.result.Outcome == workspace.Failed && len(s.result.Events) > 0
}

// planned notes that a plan was made about the drift that is known, so that none is made again.
func (s *scope) planned() {
	d := s.stack.Status.Drift
	op := s.stack.Status.Operation
	if d == nil || op == nil {
		return
	}
	if op.Trigger.Type == v1alpha1.TriggerDrifted || op.Operation == v1alpha1.PlanOperationRefresh || op.Refresh {
		d.Planned = d.Digest
	}
	if op.Operation == v1alpha1.PlanOperationRefresh {
		d.ObservedAccept = conditions.Shorten(s.stack.Annotations[v1alpha1.AnnotationAcceptDrift], 1024)
	}
}

// aboutDrift tells whether the running preview is about drift alone: when it fails, the Stack is as settled as it was.
func (s *scope) aboutDrift() bool {
	op := s.stack.Status.Operation
	return op != nil && (op.Trigger.Type == v1alpha1.TriggerDrifted || op.Operation == v1alpha1.PlanOperationRefresh)
}

// notPlanned ends a preview about drift that came to nothing: it is said, and looked at again at the usual pace, and not tried again
// and again.
func (r *Reconciler) notPlanned(s *scope, err error) outcome.Outcome {
	s.planned()
	d := s.driftStatus()
	what := "the drift could not be planned to be put back: "
	if s.stack.Status.Operation.Operation == v1alpha1.PlanOperationRefresh {
		what = "the drift could not be planned to be accepted: "
	}
	d.Message = conditions.Shorten(what+err.Error(), 4096)
	at := whole(s.now.Add(r.settings.RetryMaxInterval))
	if d.NextCheck == nil || at.Before(d.NextCheck) {
		d.NextCheck = &at
	}
	s.stack.Status.Operation, s.result, s.trigger = nil, nil, nil
	return outcome.Done()
}

// acceptance makes the list of what the state is to take over, and the changes that show it.
func acceptance(result *workspace.Result) (plan plans.Plan, list []byte, err error) {
	report, err := reportOf(result, nil)
	if err != nil {
		return plan, nil, err
	}
	if list, err = report.Accept(); err != nil {
		return plan, nil, err
	}
	if result.Facts.DriftDigest == "" {
		return plan, nil, errors.New("not all of the real resources could be read")
	}
	var changes []v1alpha1.ResourceChange
	for _, f := range report.Resources {
		if c, drifted := changeOf(f); drifted {
			changes = append(changes, c)
		}
	}
	plan = plans.New(changes, report.Same)
	if plan.Summary.Brief == "" {
		return plan, nil, errors.New("there is nothing to accept")
	}
	return plan, list, nil
}

// changeOf shows what a resource's state takes over.
func changeOf(f drift.Finding) (v1alpha1.ResourceChange, bool) {
	c := v1alpha1.ResourceChange{
		Operation: v1alpha1.ChangeRefresh, Type: conditions.Shorten(f.Type, 512), Name: conditions.Shorten(f.Name, 512), URN: conditions.Shorten(f.URN, 2048),
	}
	if f.Class == drift.Deleted {
		yes, no := "true", "false"
		c.Properties = []v1alpha1.PropertyChange{{Path: "(exists)", Old: &yes, New: &no}}
		return c, true
	}
	for _, p := range f.Properties {
		if p.Kind == drift.Moved {
			c.Properties = append(c.Properties, v1alpha1.PropertyChange{Path: p.Path, Old: p.Left, New: p.Live})
		}
	}
	return c, len(c.Properties) > 0
}
