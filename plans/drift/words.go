// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"strings"

	"github.com/plangate/plangate/plans/redact"
)

const (
	indent = "      "
	// maxLine bounds a line, in bytes.
	maxLine = 1024
	// maxNoise is how many places with noise are told of one resource.
	maxNoise = 10
)

// summary says the report in a line: "1 deleted, 2 changed; 3 with noise only".
func (r Report) summary() string {
	counts := map[Class]int{}
	for _, f := range r.Resources {
		counts[f.Class]++
	}
	var parts []string
	for _, c := range []struct {
		class Class
		words string
	}{{Conflict, "in conflict with another manager"}, {Unreadable, "not readable"}, {Deleted, "deleted"}, {Changed, "changed"}} {
		if n := counts[c.class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c.words))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing drifted"}
	}
	text := strings.Join(parts, ", ")
	if n := counts[Noise]; n > 0 {
		text += fmt.Sprintf("; %d with noise only", n)
	}
	if n := r.unmanaged(); n > 0 {
		text += fmt.Sprintf(" (%s that nobody manages)", plural(n, "field", "fields"))
	}
	if r.Unseen > 0 {
		text += fmt.Sprintf("; %d not looked at", r.Unseen)
	}
	return text
}

// unmanaged counts fields that somebody wrote and that Pulumi does not manage.
func (r Report) unmanaged() int {
	n := 0
	for _, f := range r.Resources {
		for _, p := range f.Properties {
			if p.Kind == Unmanaged {
				n++
			}
		}
	}
	return n
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Lines says the report for people, a line each: what happened in the world, and what applying would do about it.
func (r Report) Lines() []string {
	lines := []string{fmt.Sprintf("%s: %s", r.Class, r.Summary)}
	for _, f := range r.Resources {
		lines = append(lines, f.lines()...)
	}
	for _, o := range r.Obstacles {
		lines = append(lines, o.lines()...)
	}
	if r.Pending > 0 {
		lines = append(lines, fmt.Sprintf("Besides, the program wants %s otherwise to which nothing happened: that is no drift.",
			plural(r.Pending, "resource", "resources")))
	}
	lines = append(lines, plural(r.Same, "resource is as Pulumi left it.", "resources are as Pulumi left them."))
	for i := range lines {
		lines[i] = oneLine(lines[i])
	}
	return lines
}

func oneLine(s string) string {
	s = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(redact.Printable(s))
	return redact.Shorten(strings.TrimRight(s, " "), maxLine)
}

// signs begin the line of a resource.
var signs = map[Class]string{Noise: ".", Changed: "~", Deleted: "-", Unreadable: "?", Conflict: "!"}

func (f Finding) lines() []string {
	lines := []string{fmt.Sprintf("%s %s  %s: %s", signs[f.Class], f.Name, f.Type, f.words(false))}
	noise := 0
	for _, p := range f.Properties {
		if p.Kind != Moved {
			noise++
			if noise > maxNoise {
				continue
			}
		}
		lines = append(lines, indent+p.Words())
	}
	if more := noise - maxNoise; more > 0 {
		lines = append(lines, fmt.Sprintf("%sand %d more that do not count", indent, more))
	}
	if s := f.remedy(); s != "" {
		lines = append(lines, indent+s)
	}
	return lines
}

// Words says in words what happened to the resource; when that is one property, which.
func (f Finding) Words() string { return f.words(true) }

func (f Finding) words(property bool) string {
	moved := 0
	first := ""
	for _, p := range f.Properties {
		if p.Kind == Moved {
			moved++
			if moved == 1 {
				first = p.Words()
			}
		}
	}
	by := ""
	if f.Writer != "" {
		by = " by " + f.Writer
	}
	switch f.Class {
	case Deleted:
		return "it was deleted"
	case Unreadable:
		return "it could not be read: " + f.Text
	case Conflict:
		return fmt.Sprintf("another manager owns what Pulumi manages%s: %s", by, f.Text)
	case Noise:
		return "only what does not count is different"
	}
	upgrade := ""
	if f.Upgrade != "" {
		upgrade = "; perhaps because the provider was upgraded: " + f.Upgrade
	}
	switch {
	case !property:
		return "somebody changed it" + by + upgrade
	case moved == 1:
		return "somebody changed it" + by + ": " + first + upgrade
	default:
		return fmt.Sprintf("somebody changed it%s in %d places%s", by, moved, upgrade)
	}
}

// remedy says what applying would do about it.
func (f Finding) remedy() string {
	switch {
	case !f.Class.Drifted():
		return ""
	case f.Step == "create":
		return "applying would make it again"
	case f.Step == "update":
		return "applying would put it back, in place"
	case f.Step == "replace":
		return "applying would delete it and make it anew"
	case f.Step == "delete":
		return "applying would delete it: the program does not want it any more"
	case f.Step == "same":
		return "applying would leave it as it is now"
	case f.Class == Deleted && f.Step == "":
		return "the program does not want it any more, or the preview did not come so far"
	}
	return ""
}

// notes say why a property that differs does not count.
var notes = map[PropertyKind]string{
	Ignored: "the program ignores it", ServerSet: "servers set it", Computed: "the provider computes it",
	Upgraded: "the newer provider tells it", Unmanaged: "Pulumi does not manage it: applying would leave it",
}

// Words says in words what happened to the property, and what the program wants when that is neither.
func (p Property) Words() string {
	text := p.Path + " was changed"
	switch {
	case p.Left == nil && p.Live == nil:
		text = p.Path + " is not what Pulumi left"
	case p.Left == nil:
		text = fmt.Sprintf("%s was added: %s", p.Path, *p.Live)
	case p.Live == nil:
		text = fmt.Sprintf("%s was removed; it was %s", p.Path, *p.Left)
	case *p.Left != *p.Live:
		text = fmt.Sprintf("%s was changed from %s to %s", p.Path, *p.Left, *p.Live)
	}
	if note := notes[p.Kind]; note != "" {
		return text + " (" + note + ")"
	}
	switch {
	case p.Wanted == nil || p.Left != nil && *p.Wanted == *p.Left:
		return text
	case p.Live != nil && *p.Wanted == *p.Live:
		return text + ", which is what the program wants by now"
	default:
		return text + "; the program wants " + *p.Wanted + " by now"
	}
}

func (o Obstacle) lines() []string {
	where := "The preview failed"
	if o.Reading {
		where = "Reading failed"
	}
	if o.URN != "" {
		where += " at " + nameOf(o.URN)
	}
	return []string{where + ": " + o.Text, indent + "What to do: " + o.Suggestion()}
}

// nameOf is the resource's name in a URN.
func nameOf(urn string) string {
	if parts := strings.SplitN(urn, "::", 4); len(parts) == 4 {
		return parts[3]
	}
	return urn
}
