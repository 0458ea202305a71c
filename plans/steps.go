// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import "github.com/plangate/plangate/api/v1alpha1"

// MaxSteps is how many steps of each kind an UpdatePlan lists itself.
const MaxSteps = 50

// ReportSteps returns what an UpdatePlan's status says of the steps; nil when none was begun, so that there is nothing to say.
// complete tells whether the steps are all that were done.
func ReportSteps(done, rest []v1alpha1.StepState, complete bool) *v1alpha1.StepReport {
	begun := len(done) > 0
	for _, s := range rest {
		begun = begun || s.Outcome != v1alpha1.StepNotStarted
	}
	if !begun {
		return nil
	}
	return &v1alpha1.StepReport{
		Done: done[:min(len(done), MaxSteps)], DoneCount: int32(len(done)), //nolint:gosec // resources of one stack
		NotDone: rest[:min(len(rest), MaxSteps)], NotDoneCount: int32(len(rest)), //nolint:gosec // resources of one stack
		Complete: complete,
	}
}
