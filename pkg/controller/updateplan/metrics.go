// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
)

// mismatchesTotal counts what had moved when approved plans were to be applied.
var mismatchesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "plangate_updateplan_mismatches_total",
	Help: "Bound facts that had moved when a plan ended Stale, by field of spec.binding.",
}, []string{"field"})

// refusedTotal counts approvals and rejections that were written and did not count. What the API server refuses to write is in
// its own metrics: apiserver_validating_admission_policy_check_total.
var refusedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "plangate_updateplan_decisions_refused_total",
	Help: "Approvals and rejections that were written on an UpdatePlan and refused by the operator, by why.",
}, []string{"reason"})

// refusals are all words for why a decision can be refused.
var refusals = []v1alpha1.Refusal{
	v1alpha1.RefusedMalformed, v1alpha1.RefusedOtherDigest, v1alpha1.RefusedUnknownAnnotation, v1alpha1.RefusedNotStamped,
	v1alpha1.RefusedNotEnforced, v1alpha1.RefusedAuthor, v1alpha1.RefusedRepeated, v1alpha1.RefusedTooLate,
	v1alpha1.RefusedInvalid, v1alpha1.RefusedTooLong, v1alpha1.RefusedTooMany, v1alpha1.RefusedOtherStatement, v1alpha1.RefusedOtherPurpose,
	v1alpha1.RefusedOtherCluster, v1alpha1.RefusedUnknownSigner, v1alpha1.RefusedSignerExpired, v1alpha1.RefusedSignerNotForStack, v1alpha1.RefusedTokenStale,
}

func init() {
	metrics.Registry.MustRegister(mismatchesTotal, refusedTotal)
	for _, refusal := range refusals {
		refusedTotal.WithLabelValues(string(refusal))
	}
	for _, field := range plans.BoundFields() {
		mismatchesTotal.WithLabelValues(field)
	}
}

// countMismatches counts the mismatches of a plan whose end as Stale was written down just now.
func countMismatches(s *scope) {
	if reason, _ := planstate.Reason(s.plan); planstate.Ended(s.before) || reason != v1alpha1.ReasonStale {
		return
	}
	moved := s.mismatches
	if op := s.plan.Status.Operation; op != nil {
		moved = op.Mismatches
	}
	for _, m := range moved {
		mismatchesTotal.WithLabelValues(label(m.Field)).Inc()
	}
}

// countRefused counts a decision that was refused, and written down just now.
func countRefused(d v1alpha1.Decision) {
	reason := string(d.Refusal)
	if !slices.Contains(refusals, d.Refusal) {
		reason = "other"
	}
	refusedTotal.WithLabelValues(reason).Inc()
}

// label keeps the label's values few, whatever an agent says.
func label(field string) string {
	if slices.Contains(plans.BoundFields(), field) {
		return field
	}
	return "other"
}
