// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Link is a record in a chain.
type Link struct {
	// Record is what the plan says now, made again.
	Record Record
	// Digest is what was recorded.
	Digest string
}

// Fault is a place where a chain is broken.
type Fault struct {
	// Index is the record's, or that of the first one that is missing.
	Index int64
	// Plan is the name of the plan that carries the record. Empty: the record is missing.
	Plan string
	// Problem says what is wrong, in words.
	Problem string
}

// String says where the chain is broken, and how.
func (f Fault) String() string {
	if f.Plan == "" {
		return fmt.Sprintf("record %d: %s", f.Index, f.Problem)
	}
	return fmt.Sprintf("record %d (UpdatePlan %q): %s", f.Index, f.Plan, f.Problem)
}

// Chain is what was found out about a chain of records.
type Chain struct {
	// Links are the records in the order of the chain.
	Links []Link
	// Faults are the places where it is broken. Empty: it is whole, as far as it is there.
	Faults []Fault
	// Notes are what a reader must know of a chain that is whole: what was pruned, what is only just being written.
	Notes []string
}

// VerifyChain checks the records of one Stack: that each is what was recorded, that each follows the one before it, and that
// the last is the head that the Stack's status names. Beginnings are pruned, and the plan that was last applied outlives
// them: a single applied record may stand apart before the others. Anything else that is missing is a fault. head is nil
// when the Stack names none.
func VerifyChain(links []Link, head *v1alpha1.RecordHead) Chain {
	c := Chain{Links: slices.Clone(links)}
	slices.SortStableFunc(c.Links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.Record.Index, b.Record.Index), cmp.Compare(a.Record.Plan.Name, b.Record.Plan.Name))
	})
	for i := range c.Links {
		c.check(i)
	}
	c.checkHead(head)
	return c
}

func (c *Chain) fault(r Record, format string, args ...any) {
	c.Faults = append(c.Faults, Fault{Index: r.Index, Plan: r.Plan.Name, Problem: fmt.Sprintf(format, args...)})
}

// check looks at a record and at what is before it.
func (c *Chain) check(i int) {
	r := c.Links[i].Record
	if d := r.Digest(); d != c.Links[i].Digest {
		c.fault(r, "what the plan says is not what was recorded: its digest is %s, recorded was %s", d, c.Links[i].Digest)
	}
	switch {
	case r.Index < 1:
		c.fault(r, "the chain begins with 1")
	case r.Index == 1 && r.Previous != "":
		c.fault(r, "the first record names one before it: %s", r.Previous)
	case r.Index > 1 && r.Previous == "":
		c.fault(r, "it names no record before it")
	}
	switch {
	case i > 0:
		c.checkBefore(i)
	case r.Index > 1:
		c.Notes = append(c.Notes, fmt.Sprintf("the chain begins with record %d: what was before it is pruned and cannot be verified here", r.Index))
	}
}

// checkBefore compares a record with the one before it.
func (c *Chain) checkBefore(i int) {
	r, before := c.Links[i].Record, c.Links[i-1].Record
	switch gap := r.Index - before.Index; {
	case gap == 0:
		c.fault(r, "the chain forks: UpdatePlan %q has the same number", before.Plan.Name)
	case gap == 1 && r.Previous != c.Links[i-1].Digest:
		c.fault(r, "it follows %s, and not record %d of UpdatePlan %q, which is %s", r.Previous, before.Index, before.Plan.Name, c.Links[i-1].Digest)
	case gap > 1 && i == 1 && before.Outcome == v1alpha1.ReasonApplied:
		c.Notes = append(c.Notes, fmt.Sprintf("records %d to %d are pruned and cannot be verified here", before.Index+1, r.Index-1))
	case gap > 1:
		c.Faults = append(c.Faults, Fault{Index: before.Index + 1, Problem: fmt.Sprintf("missing, up to %d: record %d has nothing to follow", r.Index-1, r.Index)})
	}
}

// checkHead compares the last record with what the Stack's status says.
func (c *Chain) checkHead(head *v1alpha1.RecordHead) {
	last := int64(0)
	if len(c.Links) > 0 {
		last = c.Links[len(c.Links)-1].Record.Index
	}
	switch {
	case head == nil && last > 1:
		c.Faults = append(c.Faults, Fault{Index: last, Problem: "the Stack's status names no head of the chain"})
	case head == nil || last == head.Index+1:
		if last > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("record %d was only just written: the Stack's status does not name it yet", last))
		}
	case last > head.Index:
		c.Faults = append(c.Faults, Fault{Index: last, Problem: fmt.Sprintf("the Stack's status names record %d as the last", head.Index)})
	case last < head.Index:
		c.Faults = append(c.Faults, Fault{Index: last + 1, Problem: fmt.Sprintf("missing, up to %d, which the Stack's status names as the last (UpdatePlan %q)", head.Index, head.Plan)})
	case c.Links[len(c.Links)-1].Digest != head.Digest || c.Links[len(c.Links)-1].Record.Plan.Name != head.Plan:
		c.fault(c.Links[len(c.Links)-1].Record, "the Stack's status names another last record: UpdatePlan %q, %s", head.Plan, head.Digest)
	}
}
