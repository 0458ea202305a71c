// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// ErrBroken says that the chain of records is broken. What was printed says where.
var ErrBroken = errors.New("the chain of records is broken")

// Audit verifies the chain of a Stack's records as they are in the cluster, and prints a line for each.
func Audit(ctx context.Context, c client.Reader, key client.ObjectKey, out io.Writer) error {
	stack := &v1alpha1.Stack{}
	if err := c.Get(ctx, key, stack); err != nil {
		return fmt.Errorf("reading Stack %q: %w", key.Name, err)
	}
	list := &v1alpha1.UpdatePlanList{}
	if err := c.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"spec.stackRef.name": key.Name}); err != nil {
		return fmt.Errorf("listing the UpdatePlans of Stack %q: %w", key.Name, err)
	}
	var links []plans.Link
	var notes []string
	for i := range list.Items {
		plan := &list.Items[i]
		record := plan.Status.Record
		switch {
		case plan.Spec.StackRef.UID != string(stack.UID):
			notes = append(notes, fmt.Sprintf("UpdatePlan %q is of another Stack of this name", plan.Name))
		case record != nil:
			links = append(links, plans.Link{Record: planstate.Record(plan, record.Index, record.Previous), Digest: record.Digest})
		case planstate.Recorded(plan):
			notes = append(notes, fmt.Sprintf("UpdatePlan %q ended before there were records", plan.Name))
		case planstate.Ended(plan):
			notes = append(notes, fmt.Sprintf("UpdatePlan %q has ended; that is not recorded yet", plan.Name))
		}
	}
	chain := plans.VerifyChain(links, stack.Status.RecordHead)
	if err := write(out, chain, append(chain.Notes, notes...)); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if len(chain.Faults) > 0 {
		return fmt.Errorf("%w: %s", ErrBroken, redact.Printable(chain.Faults[0].String()))
	}
	return nil
}

func write(out io.Writer, chain plans.Chain, notes []string) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(chain.Links) > 0 {
		fmt.Fprintln(table, "RECORD\tENDED\tPLAN\tOUTCOME\tBY\tDIGEST")
	}
	for _, link := range chain.Links {
		r := link.Record
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", r.Index, r.EndedAt, r.Plan.Name, r.Outcome, by(r), link.Digest)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(out, "note:", redact.Printable(note))
	}
	for _, fault := range chain.Faults {
		fmt.Fprintln(out, "BROKEN:", redact.Printable(fault.String()))
	}
	if len(chain.Faults) > 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d records, each as it was recorded and each following the one before it.\n", len(chain.Links))
	return err
}

// by names those whose decision counted.
func by(r plans.Record) string {
	var who []string
	for _, d := range r.Decisions {
		if d.Digest == r.Plan.Digest && (d.Verdict == string(v1alpha1.DecisionApproved) || d.Verdict == string(v1alpha1.DecisionRejected)) {
			who = append(who, redact.Printable(strings.Join(strings.Fields(d.By), " ")))
		}
	}
	if len(who) == 0 {
		return "-"
	}
	return strings.Join(who, ", ")
}
