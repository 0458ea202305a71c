// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

// Paths of property changes that are no properties' and that are told in words of their own.
const (
	// PathID is the resource's id.
	PathID = "(id)"
	// PathReplacedWith tells for whose sake a resource is replaced: old is the URN of another that is deleted before its
	// replacement is made. Without old it is one that is not known.
	PathReplacedWith = "(replacedWith)"
	// PathKept tells that what is replaced is not deleted: old is true.
	PathKept = "(kept)"
)

const (
	// maxLines and maxLine, in bytes, are what an UpdatePlan's status may hold.
	maxLines = 300
	maxLine  = 512
	// maxClosing is how many lines there can be after the changes, maxOpening before them.
	maxClosing = 5
	maxOpening = 13
	// maxHeads is how many lines there can be between the changes.
	maxHeads  = 2
	maxColumn = 40
	indent    = "      "
)

// words says what happens, in a sign and a verb.
var words = map[v1alpha1.ChangeOperation][2]string{
	v1alpha1.ChangeDelete:  {"-", "delete"},
	v1alpha1.ChangeReplace: {"-/+", "replace"},
	v1alpha1.ChangeRemove:  {"-", "forget"},
	v1alpha1.ChangeUpdate:  {"~", "update"},
	v1alpha1.ChangeCreate:  {"+", "create"},
	v1alpha1.ChangeImport:  {"+", "import"},
	v1alpha1.ChangeRefresh: {"!", "drift"},
	v1alpha1.ChangeRead:    {"<", "read"},
	v1alpha1.ChangeSame:    {"=", "keep"},
	v1alpha1.ChangeOther:   {"?", "other"},
}

// entry is a change in lines: the head, and the details that there may be no room for.
type entry struct {
	head    string
	details []string
	// named are the counts of unbound and of unstable inputs, which the first details name; more is that of the properties that
	// not even the change lists.
	named []named
	more  int
	// shown is how many lines there is room for below the head.
	shown int
}

// named counts inputs of a kind, and says what is to be known of them.
type named struct {
	count      int
	kind, what string
}

// Words for inputs that a plan does not hold an apply to as it should.
const (
	anyPasses = "any value passes"
	differs   = "differs from one preview to the next"
)

// DiffLines says a plan's changes in words, for people, a line each and the properties below it, in the order of the
// changes. It is made of the spec alone, which has no secrets, and never more than an UpdatePlan's status may hold: what
// is left out is counted. What Pulumi keeps for itself is left out unless there is nothing else.
func DiffLines(spec *v1alpha1.UpdatePlanSpec) []string {
	changes := slices.DeleteFunc(slices.Clone(spec.Changes), func(c v1alpha1.ResourceChange) bool { return weight(c) > 0 })
	if len(changes) == 0 {
		changes = spec.Changes
	}
	changes = changes[:min(len(changes), MaxListed)]
	changes, heads := driftFirst(spec, changes)
	entries := entriesOf(changes)
	ration(entries)
	lines := append(opening(spec), limits(spec)...)
	opened := len(lines)
	for i, e := range entries {
		lines = append(append(append(lines, heads[i]...), e.head), e.lines()...)
	}
	lines = append(lines, closing(spec)...)
	if len(lines) == opened {
		lines = append(lines, "no changes")
	}
	for i := range lines {
		lines[i] = oneLine(lines[i])
	}
	return lines
}

// limits says that a plan is not one of the whole program.
func limits(spec *v1alpha1.UpdatePlanSpec) []string {
	targets := spec.Binding.Targets
	if len(targets) == 0 {
		return nil
	}
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		names = append(names, shortenMiddle(nameIn(t), 60))
	}
	line := "limited to " + some(names)
	if spec.Binding.TargetDependents {
		line += " and what depends on " + plural(len(targets), "it", "them")
	}
	return []string{line + ": whatever else the program wants is not in this plan"}
}

func entriesOf(changes []v1alpha1.ResourceChange) []entry {
	verb, name := 0, 0
	for _, c := range changes {
		if c.Operation != v1alpha1.ChangeOutputs {
			verb = max(verb, len(wordsOf(c.Operation)[1]))
			name = max(name, min(utf8.RuneCountInString(shownName(c)), maxColumn))
		}
	}
	entries := make([]entry, 0, len(changes))
	for _, c := range changes {
		e := entry{head: "outputs", more: int(c.MoreProperties)}
		if c.Operation != v1alpha1.ChangeOutputs {
			w := wordsOf(c.Operation)
			e.head = fmt.Sprintf("%-3s %-*s %-*s %s%s", w[0], verb, w[1], name, shownName(c), redact.Shorten(c.Type, 120), remark(c))
		}
		e.name(c.Unbound, "unbound", anyPasses)
		e.name(c.Unstable, "unstable", differs)
		for _, p := range c.Properties {
			if p.Path != PathReplacedWith && p.Path != PathKept {
				e.details = append(e.details, propertyLine(c.Operation, p)+doubt(c, p))
			}
		}
		entries = append(entries, e)
	}
	return entries
}

// name adds a line with what of the inputs is to be known.
func (e *entry) name(paths []string, kind, what string) {
	if len(paths) > 0 {
		e.named = append(e.named, named{len(paths), kind, what})
		e.details = append(e.details, namedLine(paths, kind, what))
	}
}

func wordsOf(op v1alpha1.ChangeOperation) [2]string {
	if w, ok := words[op]; ok {
		return w
	}
	return words[v1alpha1.ChangeOther]
}

func shownName(c v1alpha1.ResourceChange) string { return shortenMiddle(c.Name, 120) }

// remark says in the head of a change what is to be known of it.
func remark(c v1alpha1.ResourceChange) string {
	switch c.Guard {
	case v1alpha1.GuardProtected:
		return " (protected: Pulumi refuses to delete it)"
	case v1alpha1.GuardRetained:
		return " (it stays in the real world, and Pulumi forgets it)"
	}
	switch c.Operation {
	case v1alpha1.ChangeReplace:
		if kept(c) {
			return " (" + cause(c) + "; Pulumi gives the old one up, it is not deleted)"
		}
		return " (" + cause(c) + ")"
	case v1alpha1.ChangeRemove:
		return " (Pulumi gives it up, it is not deleted)"
	case v1alpha1.ChangeRefresh:
		return " (it is not as Pulumi left it)"
	}
	return ""
}

// kept tells whether what is replaced stays where it is.
func kept(c v1alpha1.ResourceChange) bool {
	return slices.ContainsFunc(c.Properties, func(p v1alpha1.PropertyChange) bool { return p.Path == PathKept })
}

// cause says why a resource is replaced.
func cause(c v1alpha1.ResourceChange) string {
	var paths, others []string
	unnamed := false
	for _, p := range c.Properties {
		switch {
		case !p.Replaces:
		case p.Path != PathReplacedWith:
			paths = append(paths, shortenMiddle(p.Path, 60))
		case p.Old == nil:
			unnamed = true
		default:
			others = append(others, shortenMiddle(nameIn(*p.Old), 60))
		}
	}
	var because []string
	if len(paths) > 0 {
		because = append(because, some(paths)+plural(len(paths), " forces it", " force it"))
	}
	if len(others) > 0 {
		because = append(because, "replaced because of "+some(others)+", which it depends on")
	}
	if unnamed {
		because = append(because, "replaced because of a resource it depends on")
	}
	if len(because) == 0 {
		return "what forces it is not listed"
	}
	return strings.Join(because, "; ")
}

// nameIn is the resource's name in a URN that is written as JSON.
func nameIn(text string) string {
	var urn string
	if json.Unmarshal([]byte(text), &urn) != nil {
		urn = text
	}
	if parts := strings.SplitN(urn, "::", 4); len(parts) == 4 {
		return parts[3]
	}
	return urn
}

// doubt tells that a property that looks the same is listed because nobody can say that it is.
func doubt(c v1alpha1.ResourceChange, p v1alpha1.PropertyChange) string {
	together := func(p v1alpha1.PropertyChange) bool { return p.Path == PathReplacedWith }
	if p.Old != nil && p.New != nil && *p.Old == *p.New && slices.ContainsFunc(c.Properties, together) {
		return " (perhaps the same)"
	}
	return ""
}

// namedLine names paths, as many as there is room for.
func namedLine(paths []string, kind, what string) string {
	const room = 400
	tail := " (" + what + ")"
	line := indent + kind + ": " + shortenMiddle(paths[0], 300)
	for i, p := range paths[1:] {
		if len(line)+len(p) > room {
			return fmt.Sprintf("%s and %d more%s", line, len(paths)-1-i, tail)
		}
		line += ", " + p
	}
	return line + tail
}

// propertyLine is a property with its old and new value, or with the one that it has where there can be no other.
func propertyLine(op v1alpha1.ChangeOperation, p v1alpha1.PropertyChange) string {
	line := indent + shortenMiddle(p.Path, 160)
	const colon, arrow = ": ", " → "
	room := maxLine - len(line) - len(colon)
	switch {
	case p.Old == nil && p.New == nil:
		return line
	case p.New == nil && (op == v1alpha1.ChangeDelete || op == v1alpha1.ChangeRemove):
		return line + colon + redact.Shorten(*p.Old, room)
	case p.Old == nil && (op == v1alpha1.ChangeCreate || op == v1alpha1.ChangeImport):
		return line + colon + redact.Shorten(*p.New, room)
	}
	old, now := shareRoom(orNone(p.Old, "(none)"), orNone(p.New, absent(p.Path)), room-len(arrow))
	return line + colon + old + arrow + now
}

func absent(path string) string {
	if path == PathID {
		return "(a new one)"
	}
	return "(none)"
}

func orNone(s *string, none string) string {
	if s == nil {
		return none
	}
	return *s
}

// ration decides how many lines each change has. Every one has its head and room to say that there is more; the rest goes
// to the first changes first, in rounds, so that one with many properties leaves something to the others.
func ration(entries []entry) {
	left := maxLines - maxOpening - maxClosing - maxHeads - len(entries)
	for _, limit := range []int{1, 10, maxLines} {
		for i := range entries {
			e := &entries[i]
			give := min(e.wanted(), limit) - e.shown
			if give = min(give, left); give > 0 {
				e.shown, left = e.shown+give, left-give
			}
		}
	}
}

// wanted is how many lines below the head it takes to say all.
func (e *entry) wanted() int {
	if e.more > 0 {
		return len(e.details) + 1
	}
	return len(e.details)
}

// lines are the details that there is room for, and how many are missing.
func (e *entry) lines() []string {
	if e.shown == 0 || e.shown >= len(e.details) && e.more == 0 {
		return e.details[:min(e.shown, len(e.details))]
	}
	shown := e.details[:e.shown-1]
	hidden := e.named[min(len(shown), len(e.named)):]
	var missing []string
	if properties := len(e.details) - len(shown) - len(hidden) + e.more; properties > 0 {
		missing = append(missing, fmt.Sprintf("%d more %s", properties, plural(properties, "property", "properties")))
	}
	for _, n := range hidden {
		missing = append(missing, fmt.Sprintf("%d %s %s: %s", n.count, n.kind, plural(n.count, "input", "inputs"), n.what))
	}
	return append(slices.Clone(shown), indent+"("+strings.Join(missing, ", ")+")")
}

// closing says what the spec does not list, and where it is.
func closing(spec *v1alpha1.UpdatePlanSpec) []string {
	var lines []string
	if why := Impossible(spec); why != "" {
		lines = append(lines, "nothing of this can be done: "+why)
	}
	unbound, unstable := int(spec.Summary.Unbound), int(spec.Summary.Unstable)
	for _, c := range spec.Changes {
		unbound, unstable = unbound-len(c.Unbound), unstable-len(c.Unstable)
	}
	for _, n := range []named{{unbound, "unbound", anyPasses}, {unstable, "unstable", differs}} {
		if n.count > 0 {
			lines = append(lines, fmt.Sprintf("and %d more %s %s: %s", n.count, n.kind, plural(n.count, "input", "inputs"), n.what))
		}
	}
	if spec.ChangesConfigMap == "" {
		return lines
	}
	where := ": see ConfigMap " + spec.ChangesConfigMap
	stated, err := Parse(spec.Statement)
	if err != nil {
		return append(lines, "and more"+where)
	}
	if more := stated.Predicate.Changes.Count - len(spec.Changes); more > 0 {
		return append(lines, fmt.Sprintf("and %d more %s%s", more, plural(more, "change", "changes"), where))
	}
	return append(lines, "all properties"+where)
}
