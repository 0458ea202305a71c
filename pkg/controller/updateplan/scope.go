// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/workspace"
)

// Names of the steps, in order.
const (
	stepSupersede = "supersede"
	stepVerify    = "verify"
	stepApply     = "apply"
	stepRecord    = "record"
	stepRelease   = "release"
)

// scope is what one loop knows about an UpdatePlan. Steps fill it in.
type scope struct {
	before *v1alpha1.UpdatePlan
	plan   *v1alpha1.UpdatePlan
	now    time.Time

	// obsolete says why the plan can no longer be applied; nil: it can.
	obsolete *ending
	// mismatches are the bound facts that were found moved from outside the pod.
	mismatches []v1alpha1.Mismatch
	// verdict is what was decided about the approval in this loop.
	verdict approval.Verdict
	// approval is what the agent verifies again, set by the checks before an apply.
	approval *workspace.Approval
	// stack is the Stack, read past the cache; set by the checks before an apply.
	stack *v1alpha1.Stack
	// ws is the Stack's Workspace.
	ws *v1alpha1.Workspace
	// inputs are the Stack's, read for the apply.
	inputs *inputs.Inputs
	// ref is the reference that the commit comes from.
	ref string
	// result is how the operation stands.
	result *workspace.Result
	// recorded is set when the end was recorded in this loop.
	recorded bool
	// gone is set when the finalizer was removed.
	gone bool
}

// ending is why a plan ends without being applied.
type ending struct{ reason, message string }

func newScope(plan *v1alpha1.UpdatePlan, now time.Time) *scope {
	return &scope{before: plan.DeepCopy(), plan: plan, now: now}
}

func (s *scope) key() types.NamespacedName { return client.ObjectKeyFromObject(s.plan) }

// started reports whether the intent to apply was written down.
func (s *scope) started() bool { return s.plan.Status.Operation != nil }

// ended reports whether nothing can happen to the plan any more, by its status or by what this loop found.
func (s *scope) ended() bool {
	return s.obsolete != nil || s.verdict.State == approval.Rejected || planstate.Ended(s.plan)
}
