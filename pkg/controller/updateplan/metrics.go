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

func init() {
	metrics.Registry.MustRegister(mismatchesTotal)
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

// label keeps the label's values few, whatever an agent says.
func label(field string) string {
	if slices.Contains(plans.BoundFields(), field) {
		return field
	}
	return "other"
}
