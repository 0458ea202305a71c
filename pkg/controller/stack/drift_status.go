// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/plans/drift"
)

// failuresTold is how many checks in a row may fail before what is known counts as not known any more.
const failuresTold = 3

// checksTotal counts looks at the real resources.
var checksTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "plangate_stack_drift_checks_total",
	Help: "Drift checks that ended, by what they found: a class of drift, or Failed.",
}, []string{"class"})

func init() {
	metrics.Registry.MustRegister(checksTotal)
	for _, class := range []drift.Class{drift.None, drift.Noise, drift.Changed, drift.Deleted, drift.Unreadable, drift.Conflict, "Failed"} {
		checksTotal.WithLabelValues(string(class))
	}
}

// setDrifted says what is known of drift.
func setDrifted(set conditions.Setter, s *scope) {
	status := s.stack.Status.Drift
	kind := v1alpha1.ConditionDrifted
	switch {
	case status == nil, status.Class == "":
		setUnseen(set, s)
	case status.Failures >= failuresTold:
		set.Unknown(kind, v1alpha1.ReasonCheckFailed, fmt.Sprintf("%d checks in a row came to no end; before, it was: %s. %s", status.Failures, status.Summary, status.Message))
	case status.Loop != nil && !released(s.stack):
		set.True(kind, v1alpha1.ReasonDriftLoop, loopWords(status))
	case drifted(status):
		set.True(kind, string(status.Class), driftWords(status))
	case drift.Class(status.Class) == drift.None, drift.Class(status.Class) == drift.Noise:
		set.False(kind, string(status.Class), driftWords(status))
	default:
		// Something could not be read, or the class is one that this version does not know.
		set.Unknown(kind, string(status.Class), driftWords(status))
	}
}

// setUnseen says why nothing is known of drift: no check has come to its end.
func setUnseen(set conditions.Setter, s *scope) {
	status, kind := s.stack.Status.Drift, v1alpha1.ConditionDrifted
	switch {
	case status != nil && status.Failures > 0:
		set.Unknown(kind, v1alpha1.ReasonCheckFailed, status.Message)
	case status != nil && driftAction(s.stack) == v1alpha1.DriftOff:
		set.Unknown(kind, v1alpha1.ReasonChecksOff, "spec.drift.action is Off; the annotation "+v1alpha1.AnnotationCheckDrift+" asks for a look")
	case status != nil && status.Message != "":
		set.Unknown(kind, v1alpha1.ReasonNotYetObserved, status.Message)
	default:
		set.Unknown(kind, v1alpha1.ReasonNotYetObserved, "the real resources were not looked at yet")
	}
}

func driftWords(status *v1alpha1.DriftStatus) string {
	text := status.Summary
	for i, r := range status.Resources {
		if i == 3 {
			text += "; …"
			break
		}
		text += fmt.Sprintf("; %s %s: %s", r.Type, r.Name, r.Message)
	}
	if status.Message != "" {
		text += ". " + status.Message
	}
	if status.Report != "" {
		text += fmt.Sprintf(" (all of it: ConfigMap %s)", status.Report)
	}
	return text
}

func loopWords(status *v1alpha1.DriftStatus) string {
	loop := status.Loop
	writer := "somebody"
	if loop.Writer != "" {
		writer = fmt.Sprintf("%q", loop.Writer)
	}
	what := "the same fields"
	if len(loop.Fields) > 0 {
		what = loop.Fields[0]
	}
	return fmt.Sprintf("putting it back would be the %s time in a day for %s, and %s changes it again each time. Nothing is planned: find out who is right, "+
		"or let it be put back once more with the annotation %s=%s", ordinal(int(loop.Times)), what, writer, v1alpha1.AnnotationRepairDrift, loop.Digest)
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	default:
		return fmt.Sprintf("%dth", n)
	}
}

// released tells whether somebody said that drift in a loop is to be put back once more.
func released(stack *v1alpha1.Stack) bool {
	d := stack.Status.Drift
	return d != nil && d.Loop != nil && stack.Annotations[v1alpha1.AnnotationRepairDrift] == d.Loop.Digest
}

// isDriftWarning tells whether a reason of the condition Drifted is one that somebody should see to.
func isDriftWarning(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNotYetObserved, v1alpha1.ReasonChecksOff, string(drift.None), string(drift.Noise):
		return false
	default:
		return true
	}
}
