// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

const (
	// MaxListed is how many changes an UpdatePlan lists itself.
	MaxListed = 100
	// maxListedBytes is how large that list may get as JSON. The API server takes objects of up to 1.5 MiB.
	maxListedBytes = 384 << 10
	// maxItems is how many properties, and how many unbound or unstable inputs, a listed change has.
	maxItems = 50
)

// Plan is what a preview found: all changes, the destructive ones first, secrets masked.
type Plan struct {
	Changes []v1alpha1.ResourceChange
	Summary v1alpha1.PlanSummary
	// Pending are the operations that were cut off before, and what the plan does about each: see WithPending.
	Pending []v1alpha1.PendingOperation
}

// New sorts and counts changes. same is how many resources stay as they are and are not listed.
func New(changes []v1alpha1.ResourceChange, same int) Plan {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b v1alpha1.ResourceChange) int {
		return cmp.Or(
			cmp.Compare(weight(a), weight(b)),
			cmp.Compare(rank(a.Operation), rank(b.Operation)),
			cmp.Compare(a.URN, b.URN),
		)
	})
	return Plan{Changes: changes, Summary: Summarize(changes, same)}
}

// rank puts what destroys first. A step that is not known by name may destroy, so it comes right after those that do.
func rank(op v1alpha1.ChangeOperation) int {
	order := []v1alpha1.ChangeOperation{
		v1alpha1.ChangeDelete, v1alpha1.ChangeReplace, v1alpha1.ChangeOther, v1alpha1.ChangeRemove, v1alpha1.ChangeUpdate,
		v1alpha1.ChangeCreate, v1alpha1.ChangeImport, v1alpha1.ChangeRefresh, v1alpha1.ChangeRead, v1alpha1.ChangeOutputs,
		v1alpha1.ChangeSame,
	}
	if i := slices.Index(order, op); i >= 0 {
		return i
	}
	return rank(v1alpha1.ChangeOther)
}

// weight puts what Pulumi keeps for itself last.
func weight(c v1alpha1.ResourceChange) int {
	if c.Operation != v1alpha1.ChangeOutputs && Bookkeeping(c.Type, c.Name) {
		return 1
	}
	return 0
}

// Bookkeeping tells whether a resource is one that Pulumi keeps for itself: the stack's own entry, and providers that no
// program asked for. Changes of those are listed, but not counted: there is nothing in the world that they change.
func Bookkeeping(typ, name string) bool {
	if typ == "pulumi:pulumi:Stack" {
		return true
	}
	return strings.HasPrefix(typ, "pulumi:providers:") && (name == "default" || strings.HasPrefix(name, "default_"))
}

// passive tells whether a change alone is no reason to apply: it touches nothing but, at most, what the state remembers of
// a resource, and the next apply does that by the way.
func passive(op v1alpha1.ChangeOperation) bool {
	switch op {
	case v1alpha1.ChangeSame, v1alpha1.ChangeRead, v1alpha1.ChangeRefresh:
		return true
	}
	return false
}

// Empty tells whether there is nothing to do: no resource and no output changes. Reads, and differences between the state
// and the real resource that the plan does not act on, are not something to do.
func (p Plan) Empty() bool {
	return !slices.ContainsFunc(p.Changes, func(c v1alpha1.ResourceChange) bool { return !passive(c.Operation) })
}

// First returns the first n changes, and fewer or with fewer properties when they would be too large for an object. Each
// change is named before the room that is left goes to properties, from the first change on.
func (p Plan) First(n int) []v1alpha1.ResourceChange {
	listed := make([]v1alpha1.ResourceChange, 0, min(n, len(p.Changes)))
	budget := maxListedBytes
	for _, c := range p.Changes[:min(n, len(p.Changes))] {
		if budget -= jsonSize(bare(c)); budget < 0 {
			break
		}
		listed = append(listed, c)
	}
	for i, c := range listed {
		c = trimmed(c)
		more := jsonSize(c) - jsonSize(bare(c))
		if more > budget {
			listed[i] = bare(c)
			continue
		}
		budget -= more
		listed[i] = c
	}
	return listed
}

// Fits tells whether First(MaxListed) is the whole list, so that nothing needs to be kept beside the UpdatePlan.
func (p Plan) Fits() bool {
	return len(p.Changes) <= MaxListed && ChangesDigest(p.First(MaxListed)) == ChangesDigest(p.Changes)
}

// Masked returns the plan with literal secret values masked in every text of it: what Pulumi did not mark but the caller
// knows to be secret.
func (p Plan) Masked(secrets []string) Plan {
	if len(secrets) == 0 {
		return p
	}
	mask := redact.Masker(secrets)
	changes := slices.Clone(p.Changes)
	for i := range changes {
		changes[i] = masked(changes[i], mask)
	}
	pending := slices.Clone(p.Pending)
	for i := range pending {
		pending[i].URN = redact.Shorten(mask(pending[i].URN), maxURN)
	}
	return Plan{Changes: changes, Summary: p.Summary, Pending: pending}
}

func masked(c v1alpha1.ResourceChange, mask func(string) string) v1alpha1.ResourceChange {
	short := func(s string, limit int) string { return redact.Shorten(mask(s), limit) }
	c.Type, c.Name, c.URN = short(c.Type, 512), short(c.Name, 512), short(c.URN, 2048)
	c.Properties = slices.Clone(c.Properties)
	for i := range c.Properties {
		p := &c.Properties[i]
		p.Path = short(p.Path, 512)
		p.Old, p.New = maskedPointer(p.Old, mask), maskedPointer(p.New, mask)
	}
	c.Unbound, c.Unstable = slices.Clone(c.Unbound), slices.Clone(c.Unstable)
	for _, paths := range [][]string{c.Unbound, c.Unstable} {
		for i := range paths {
			paths[i] = short(paths[i], 512)
		}
	}
	return c
}

func maskedPointer(s *string, mask func(string) string) *string {
	if s == nil {
		return nil
	}
	masked := redact.Shorten(mask(*s), redact.MaxValue)
	return &masked
}

// trimmed cuts the lists in a change to what an UpdatePlan may hold.
func trimmed(c v1alpha1.ResourceChange) v1alpha1.ResourceChange {
	if more := len(c.Properties) - maxItems; more > 0 {
		c.Properties, c.MoreProperties = c.Properties[:maxItems], c.MoreProperties+int32(more) //nolint:gosec // bounded by the plan file's size
	}
	c.Unbound = c.Unbound[:min(len(c.Unbound), maxItems)]
	c.Unstable = c.Unstable[:min(len(c.Unstable), maxItems)]
	return c
}

// bare is a change without its lists.
func bare(c v1alpha1.ResourceChange) v1alpha1.ResourceChange {
	c.MoreProperties += int32(len(c.Properties)) //nolint:gosec // bounded by the plan file's size
	c.Properties, c.Unbound, c.Unstable = nil, nil, nil
	return c
}

func jsonSize(c v1alpha1.ResourceChange) int {
	b, err := json.Marshal(c)
	if err != nil {
		return maxListedBytes + 1
	}
	return len(b)
}

// Summarize counts changes. same is how many resources stay as they are and are not among them.
func Summarize(changes []v1alpha1.ResourceChange, same int) v1alpha1.PlanSummary {
	s := v1alpha1.PlanSummary{Same: int32(same)} //nolint:gosec // resources of one stack
	var t tally
	for _, c := range changes {
		t.add(c)
		s.Unbound += int32(len(c.Unbound))   //nolint:gosec // bounded by the plan file's size
		s.Unstable += int32(len(c.Unstable)) //nolint:gosec // bounded by the plan file's size
		if c.Guard == v1alpha1.GuardProtected {
			s.Protected++
		}
		if weight(c) > 0 {
			continue
		}
		if c.Guard == v1alpha1.GuardRetained {
			s.Retained++
			continue
		}
		switch c.Operation {
		case v1alpha1.ChangeCreate:
			s.Create++
		case v1alpha1.ChangeUpdate:
			s.Update++
		case v1alpha1.ChangeReplace:
			s.Replace++
		case v1alpha1.ChangeDelete:
			s.Delete++
		case v1alpha1.ChangeSame:
			s.Same++
		case v1alpha1.ChangeOutputs:
			s.Outputs += int32(len(c.Properties)) + c.MoreProperties //nolint:gosec // outputs of one stack
		default:
			s.Other++
		}
	}
	s.Brief = brief(s, t)
	return s
}

// tally counts what the summary's fields do not tell apart.
type tally struct {
	// active are changes that are something to do, drifted and other those that a summary counts as other.
	active, drifted, other int
}

func (t *tally) add(c v1alpha1.ResourceChange) {
	if !passive(c.Operation) {
		t.active++
	}
	if c.Guard == v1alpha1.GuardRetained {
		return // told as such
	}
	switch c.Operation {
	case v1alpha1.ChangeRefresh:
		t.drifted++
	case v1alpha1.ChangeImport, v1alpha1.ChangeRemove, v1alpha1.ChangeOther:
		t.other++
	}
}

// brief says the counts in a line: "+1 ~2 -/+3 -4, 2 drifted, 2 unbound".
func brief(s v1alpha1.PlanSummary, t tally) string {
	var words []string
	for _, w := range []struct {
		sign  string
		count int32
	}{{"+", s.Create}, {"~", s.Update}, {"-/+", s.Replace}, {"-", s.Delete}} {
		if w.count > 0 {
			words = append(words, fmt.Sprintf("%s%d", w.sign, w.count))
		}
	}
	if len(words) == 0 {
		words = []string{quiet(s, t)}
	}
	parts := []string{strings.Join(words, " ")}
	for _, w := range []struct {
		count int
		word  string
	}{{t.other, "other"}, {t.drifted, "drifted"}, {int(s.Retained), "retained"}, {int(s.Protected), "protected"}, {int(s.Unbound), "unbound"}, {int(s.Unstable), "unstable"}} {
		if w.count > 0 && parts[0] != fmt.Sprintf("%d %s", w.count, w.word) {
			parts = append(parts, fmt.Sprintf("%d %s", w.count, w.word))
		}
	}
	return strings.Join(parts, ", ")
}

// quiet says what there is when nothing is made, changed or deleted.
func quiet(s v1alpha1.PlanSummary, t tally) string {
	switch {
	case t.active == 0:
		return "no changes"
	case t.other > 0:
		return fmt.Sprintf("%d other", t.other)
	case s.Retained > 0:
		return fmt.Sprintf("%d retained", s.Retained)
	case s.Outputs > 0:
		return "outputs only"
	}
	return "bookkeeping only"
}
