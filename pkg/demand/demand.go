// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demand reads from a Stack what it asks for: its spec, a destroy, or to be let go.
//
// It must never ask for a destroy that the Stack itself does not ask for in so many words: destroyOnFinalize of a Stack that is
// being deleted, or the annotation.
package demand

import (
	"strings"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Demand is what a Stack asks for. The zero value is invalid.
type Demand int

// What a Stack can ask for.
const (
	// Update: the world as the spec says.
	Update Demand = iota + 1
	// Destroy: all that the state holds shall go.
	Destroy
	// LetGo: the Stack is being deleted, and what it made stays.
	LetGo
)

// Of tells what a Stack asks for.
func Of(stack *v1alpha1.Stack) Demand {
	switch {
	case Deleting(stack) && stack.Spec.DestroyOnFinalize && !Orphaned(stack) && !NothingMade(stack):
		return Destroy
	case Deleting(stack):
		return LetGo
	case Token(stack) != "":
		return Destroy
	default:
		return Update
	}
}

// Deleting reports whether the Stack is being deleted.
func Deleting(stack *v1alpha1.Stack) bool { return !stack.DeletionTimestamp.IsZero() }

// Token is the value of the annotation that asks for a destroy; "" when none does.
func Token(stack *v1alpha1.Stack) string {
	return strings.TrimSpace(stack.Annotations[v1alpha1.AnnotationDestroy])
}

// Orphaned reports whether the Stack's annotation lets it go without a destroy: it must name this very Stack.
func Orphaned(stack *v1alpha1.Stack) bool {
	return stack.UID != "" && stack.Annotations[v1alpha1.AnnotationOrphan] == string(stack.UID)
}

// NothingMade reports whether nothing can have been made by the Stack: an apply comes of a plan, and a plan of a preview that
// writes the project down. Where the Stack names its project itself, a destroy looks for the state instead.
func NothingMade(stack *v1alpha1.Stack) bool {
	return LacksProject(stack) && stack.Status.PlanSequence == 0 && stack.Status.LastAppliedPlan == nil
}

// Operation is the plan that the Stack asks for; "" for a Stack that is to be let go.
func Operation(stack *v1alpha1.Stack) v1alpha1.PlanOperation {
	switch Of(stack) {
	case Update:
		return v1alpha1.PlanOperationUpdate
	case Destroy:
		return v1alpha1.PlanOperationDestroy
	default:
		return ""
	}
}

// Wants reports whether a plan's operation serves what the Stack asks for. To take over what is drifted is a way to an update.
func Wants(stack *v1alpha1.Stack, operation v1alpha1.PlanOperation) bool {
	if operation == v1alpha1.PlanOperationRefresh {
		return Of(stack) == Update
	}
	return operation != "" && operation == Operation(stack)
}

// LacksProject reports whether the name of the Pulumi project, by which a destroy finds the state, is written down nowhere.
func LacksProject(stack *v1alpha1.Stack) bool {
	return stack.Status.Project == "" && !strings.Contains(stack.Spec.Stack, "/")
}
