// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"fmt"
	"strings"

	"github.com/plangate/plangate/api/v1alpha1"
)

// PathPending is the path under which a change tells of an operation that was cut off.
const PathPending = "(pendingOperation)"

// NewDestroy sorts and counts what a destroy takes away. What Pulumi keeps for itself is listed and not counted.
func NewDestroy(changes []v1alpha1.ResourceChange) Plan {
	p := New(changes, 0)
	p.Summary.Brief = "destroy " + p.Summary.Brief
	return p
}

// Impossible says why no approval can start a plan, and what to do; "" when one can. A Destroy that meets protected resources is
// refused by Pulumi as a whole.
func Impossible(spec *v1alpha1.UpdatePlanSpec) string {
	if spec.Operation != v1alpha1.PlanOperationDestroy || spec.Summary.Protected == 0 {
		return ""
	}
	var names []string
	for _, c := range spec.Changes {
		if c.Guard == v1alpha1.GuardProtected && len(names) < 3 {
			names = append(names, shownName(c))
		}
	}
	n := int(spec.Summary.Protected)
	which := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		which += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d %s protected, and Pulumi refuses to delete protected resources (%s). "+
		"Unprotect what shall go (`pulumi state unprotect URN`, or by an Update that sets the option protect to false, while no destroy is asked for), "+
		"and then ask for a new plan with the annotation %s on the Stack.", n, plural(n, "resource is", "resources are"), which, v1alpha1.AnnotationRequestPlan)
}
