// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

const (
	// MaxPending is how many operations that were cut off an UpdatePlan lists.
	MaxPending = 50
	maxURN     = 2048
)

// Pending is an operation that the state notes as begun and not ended. The fields are those of workspace.Pending.
type Pending struct {
	// Operation is Pulumi's word: "creating", "updating", "deleting", "reading", "importing".
	Operation string
	URN       string
}

// PendingType is the kind of a pending operation.
func PendingType(operation string) v1alpha1.PendingType {
	switch operation {
	case "creating":
		return v1alpha1.PendingCreating
	case "updating":
		return v1alpha1.PendingUpdating
	case "deleting":
		return v1alpha1.PendingDeleting
	case "reading":
		return v1alpha1.PendingReading
	case "importing":
		return v1alpha1.PendingImporting
	default:
		return v1alpha1.PendingOther
	}
}

// WithPending returns the plan with what it does about each operation that was cut off before. refresh tells whether the plan
// was made, and is applied, with the real resources read first.
//
// What is said here is what Pulumi does: it keeps the note of a create in the state, whatever comes, until somebody clears it
// or gives it an id; it drops all other notes with the next update; neither stops a plan.
func (p Plan) WithPending(found []Pending, refresh bool) Plan {
	planned := map[string]v1alpha1.ChangeOperation{}
	for _, c := range p.Changes {
		if touches(c.Operation) {
			planned[c.URN] = c.Operation
		}
	}
	p.Pending = nil
	for _, f := range found {
		urn := redact.Shorten(redact.Printable(f.URN), maxURN)
		op := v1alpha1.PendingOperation{Operation: PendingType(f.Operation), URN: urn}
		op.Effect = effect(op.Operation, planned[urn], refresh)
		op.Message = pendingWords(op)
		p.Pending = append(p.Pending, op)
	}
	SortPending(p.Pending)
	return p
}

// SortPending puts first what may have made something of which the state knows nothing.
func SortPending(list []v1alpha1.PendingOperation) {
	order := []v1alpha1.PendingType{v1alpha1.PendingCreating, v1alpha1.PendingOther, v1alpha1.PendingImporting, v1alpha1.PendingDeleting, v1alpha1.PendingUpdating, v1alpha1.PendingReading}
	slices.SortStableFunc(list, func(a, b v1alpha1.PendingOperation) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Operation), slices.Index(order, b.Operation)), cmp.Compare(a.URN, b.URN))
	})
}

// FirstPending are those that an UpdatePlan, or a Stack's status, lists; nil when there are none.
func FirstPending(list []v1alpha1.PendingOperation) []v1alpha1.PendingOperation {
	if len(list) == 0 {
		return nil
	}
	return list[:min(len(list), MaxPending)]
}

// touches tells whether a change does something to the resource itself.
func touches(op v1alpha1.ChangeOperation) bool {
	switch op {
	case v1alpha1.ChangeSame, v1alpha1.ChangeRefresh, v1alpha1.ChangeOutputs:
		return false
	default:
		return true
	}
}

func effect(pending v1alpha1.PendingType, planned v1alpha1.ChangeOperation, refresh bool) v1alpha1.PendingEffect {
	creating := pending == v1alpha1.PendingCreating
	switch {
	case creating && planned == v1alpha1.ChangeCreate:
		return v1alpha1.PendingCreatesAgain
	case creating, pending == v1alpha1.PendingOther:
		return v1alpha1.PendingKeeps
	case refresh:
		return v1alpha1.PendingRefreshes
	case planned != "":
		return v1alpha1.PendingDoesAgain
	default:
		return v1alpha1.PendingForgets
	}
}

// pendingWords says in words what an operation that was cut off means for whoever approves the plan.
func pendingWords(op v1alpha1.PendingOperation) string {
	switch op.Effect {
	case v1alpha1.PendingCreatesAgain:
		return "it may exist in the real world, and the state knows no id of it; this plan creates it again: if it exists there are then two, or the provider refuses. Look before you approve. The note of it stays in the state"
	case v1alpha1.PendingKeeps:
		if op.Operation == v1alpha1.PendingCreating {
			return "it may exist in the real world, and the state knows no id of it; this plan does not create it, and leaves the note in the state: see `pulumi refresh` with --import-pending-creates or --clear-pending-creates"
		}
		return "this version does not know what it means; this plan does nothing about it"
	case v1alpha1.PendingRefreshes:
		return "whether it was done was read from the real resource for this plan, and is read again before it is applied"
	case v1alpha1.PendingDoesAgain:
		return fmt.Sprintf("whether it was done (%s) is not known; this plan does what is missing according to the state, which may be behind", op.Operation)
	default:
		return fmt.Sprintf("whether it was done (%s) is not known; this plan does nothing to it, and Pulumi drops the note when it is applied: set spec.refresh to look at the real resource", op.Operation)
	}
}

// PendingDigest digests a list of pending operations as it is listed.
func PendingDigest(list []v1alpha1.PendingOperation) string {
	if list == nil {
		list = []v1alpha1.PendingOperation{}
	}
	return digestOf("plangate.dev/pending/v1", list)
}

// StatePending describes the list of an UpdatePlan for its statement. count is how many there are in all.
func StatePending(listed []v1alpha1.PendingOperation, count int32) StatedPending {
	return StatedPending{Count: count, Listed: len(listed), ListedDigest: PendingDigest(listed)}
}

// PendingLine says what is pending in a line; "" when nothing is.
func PendingLine(list []v1alpha1.PendingOperation, count int) string {
	if len(list) == 0 {
		return ""
	}
	text := ""
	for i, op := range list[:min(len(list), 3)] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", op.Operation, op.URN)
	}
	if more := count - min(len(list), 3); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d operations were cut off, and whether they were done is not known: %s", count, text)
}

// opening is what is to be known before the changes: whose rest the plan is, and what was cut off before it.
func opening(spec *v1alpha1.UpdatePlanSpec) []string {
	var lines []string
	if c := spec.Trigger.Completes; c != nil {
		lines = append(lines, fmt.Sprintf("! completes UpdatePlan %s, which ended as %s", c.Name, c.Result))
	}
	shown := spec.Pending[:min(len(spec.Pending), maxOpening-3)]
	for _, p := range shown {
		lines = append(lines, fmt.Sprintf("! cut off while %s %s: %s", strings.ToLower(string(p.Operation)), shortenMiddle(p.URN, 160), p.Message))
	}
	if more := int(spec.PendingCount) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("! and %d more that were cut off: see spec.pending", more))
	}
	return lines
}
