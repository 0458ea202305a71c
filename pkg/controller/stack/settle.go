// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Many edits in a short while make one plan. A preview starts at once, one whose inputs move is dropped, and one that is done
// is published when its inputs have stood still for the settle time. So a single edit waits for nothing: its preview takes
// longer than that. Under endless edits no plan would be worth publishing; the Stack's conditions say so then.

// manyDropped is from how many dropped previews on the conditions say so.
const manyDropped = 3

// drop gives up the running preview, and counts that.
func (s *scope) drop() {
	status := &s.stack.Status
	status.Operation = nil
	if status.Unsettled == nil {
		status.Unsettled = &v1alpha1.Unsettled{Since: metav1.NewTime(s.now)}
	}
	status.Unsettled.Dropped++
}

// restless says that previews are dropped again and again; "" when they are not.
func (s *scope) restless() string {
	u := s.stack.Status.Unsettled
	if u == nil || u.Dropped < manyDropped {
		return ""
	}
	return fmt.Sprintf("; what the Stack is made from does not stand still: %d previews were dropped since %s, and no plan is published until it does",
		u.Dropped, u.Since.UTC().Format(time.RFC3339))
}

// previewing says what runs, and where.
func (s *scope) previewing() string {
	op := s.stack.Status.Operation
	if op.Operation == v1alpha1.PlanOperationDestroy {
		return fmt.Sprintf("listing what a destroy takes away in pod %q", op.Pod.Name) + s.restless()
	}
	return fmt.Sprintf("previewing commit %.12s in pod %q", op.Revision, op.Pod.Name) + s.restless()
}

// enforcementOf is enforcement for a plan. A destroy is never previewed twice: no program runs that could say something else.
func enforcementOf(stack *v1alpha1.Stack, operation v1alpha1.PlanOperation) v1alpha1.Enforcement {
	if operation == v1alpha1.PlanOperationDestroy {
		return v1alpha1.EnforcementStrict
	}
	return enforcement(stack)
}

// enforcement is how an apply of the Stack is held to its plan.
func enforcement(stack *v1alpha1.Stack) v1alpha1.Enforcement {
	if p := stack.Spec.Plan; p != nil && p.Enforcement != "" {
		return p.Enforcement
	}
	return v1alpha1.EnforcementStrict
}
