// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"cmp"
	"slices"

	"github.com/plangate/plangate/plans/redact"
)

// Class sums up what was found, of one resource or of all. The values are those of v1alpha1.DriftClass.
type Class string

// The classes.
const (
	None       Class = "None"
	Noise      Class = "Noise"
	Changed    Class = "Changed"
	Deleted    Class = "Deleted"
	Unreadable Class = "Unreadable"
	Conflict   Class = "Conflict"
)

// severity orders classes. One that is not known is the most serious: it must not pass for less than it is.
func (c Class) severity() int {
	order := []Class{None, Noise, Changed, Deleted, Unreadable, Conflict}
	if i := slices.Index(order, c); i >= 0 {
		return i
	}
	return len(order)
}

// Drifted tells whether something that Pulumi manages is certainly not as it was left.
func (c Class) Drifted() bool { return c == Changed || c == Deleted || c == Conflict }

// Report is what a check found, secrets masked. Its JSON form is what the ConfigMap beside the Stack holds.
type Report struct {
	// Class is the most serious class of all.
	Class Class `json:"class"`
	// Summary says it in a line.
	Summary string `json:"summary"`
	// Digest identifies what is drifted and to which values; the states' values are not in it. Empty: nothing is.
	Digest string `json:"digest,omitempty"`
	// Resources are those that differ in anything, the most serious first.
	Resources []Finding `json:"resources,omitempty"`
	// Obstacles are what kept it from being whole, or from being previewed.
	Obstacles []Obstacle `json:"obstacles,omitempty"`
	// Unseen counts resources that were not read because something else failed first.
	Unseen int `json:"unseen,omitempty"`
	// Pending counts resources that the program wants otherwise although nothing happened to them: no drift.
	Pending int `json:"pending,omitempty"`
	// Same counts resources that are as they were left.
	Same int `json:"same"`
}

// Finding is how one resource differs.
type Finding struct {
	Class Class  `json:"class"`
	URN   string `json:"urn"`
	Type  string `json:"type"`
	Name  string `json:"name"`
	// Step is what applying would do with it, in Pulumi's word. Empty: not known.
	Step string `json:"step,omitempty"`
	// Properties are what differs, what counts first.
	Properties []Property `json:"properties,omitempty"`
	// Upgrade says that its provider's version has changed meanwhile. Empty: it has not.
	Upgrade string `json:"upgrade,omitempty"`
	// Text is why it could not be read, or what the conflict is.
	Text string `json:"text,omitempty"`
	// Writer is who wrote last what differs, where that can be told.
	Writer string `json:"writer,omitempty"`

	sum string
}

// PropertyKind tells why a property that differs counts, or does not.
type PropertyKind string

// The kinds. Only Moved counts.
const (
	// Moved: the provider says that it makes a difference.
	Moved PropertyKind = "Moved"
	// Ignored: the program tells Pulumi to ignore it.
	Ignored PropertyKind = "Ignored"
	// ServerSet: servers and controllers set it: status, versions, time stamps.
	ServerSet PropertyKind = "ServerSet"
	// Computed: the provider computes it; no input has it.
	Computed PropertyKind = "Computed"
	// Upgraded: a newer provider tells more.
	Upgraded PropertyKind = "Upgraded"
	// Unmanaged: somebody wrote it, but Pulumi does not manage it: applying would leave it.
	Unmanaged PropertyKind = "Unmanaged"
)

// Property is one property that differs, its values as JSON text, secrets masked.
type Property struct {
	Path string       `json:"path"`
	Kind PropertyKind `json:"kind"`
	// Left is the value that Pulumi left, Live the one that is there, Wanted the one that the program wants by now. Nil: none,
	// or, for Wanted, not known.
	Left   *string `json:"left,omitempty"`
	Live   *string `json:"live,omitempty"`
	Wanted *string `json:"wanted,omitempty"`

	// live is a digest of the whole live value.
	live string
}

// maxProperties bounds what is told of one resource.
const maxProperties = 500

// Build says what was found.
func Build(in Reading) Report {
	r := Report{Class: None}
	obstacles := map[string]Obstacle{}
	for _, o := range in.Obstacles {
		o.Text = redact.Shorten(redact.Printable(o.Text), 2048)
		r.Obstacles = append(r.Obstacles, o)
		if _, twice := obstacles[o.URN]; !twice {
			obstacles[o.URN] = o
		}
	}
	for _, resource := range in.Resources {
		o, stuck := obstacles[resource.URN]
		var obstacle *Obstacle
		if stuck {
			obstacle = &o
		}
		r.add(resource, obstacle)
	}
	slices.SortStableFunc(r.Resources, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Class.severity(), a.Class.severity()), cmp.Compare(a.URN, b.URN))
	})
	for _, f := range r.Resources {
		if f.Class.severity() > r.Class.severity() {
			r.Class = f.Class
		}
	}
	r.Digest = digest(r.Resources)
	r.Summary = r.summary()
	return r
}

func (r *Report) add(resource Resource, obstacle *Obstacle) {
	f := found(resource)
	if resource.Known && !resource.Read && obstacle == nil {
		r.Unseen++
	}
	f.obstructed(obstacle)
	if f.Class != None {
		f.Properties = f.Properties[:min(len(f.Properties), maxProperties)]
		r.Resources = append(r.Resources, f)
	} else if resource.Read && resource.Known {
		r.Same++
	}
	if f.Class.severity() <= Noise.severity() && resource.Step != "" && resource.Step != "same" {
		r.Pending++
	}
}

// found is what the look at a resource has found.
func found(resource Resource) Finding {
	f := Finding{URN: resource.URN, Type: resource.Type, Name: resource.Name, Step: resource.Step, Upgrade: resource.Upgrade, Class: None}
	if !resource.Read || !resource.Known {
		return f
	}
	counts := true
	if f.Class = Deleted; resource.Live != nil {
		f.Properties, counts = compare(resource)
		f.Class = classOf(resource, f.Properties, counts)
	}
	if counts {
		f.sum = sumOf(f)
		f.Writer = writer(resource, f.Properties)
	}
	return f
}

// obstructed takes in what kept the resource from being read or previewed.
func (f *Finding) obstructed(o *Obstacle) {
	if o == nil {
		return
	}
	f.Text = o.Text
	switch {
	case o.Kind == ObstacleConflict:
		f.Class = Conflict
		if f.Writer == "" {
			f.Writer = o.Writer
		}
		for _, field := range o.Fields {
			if !slices.ContainsFunc(f.Properties, func(p Property) bool { return p.Path == field }) {
				f.Properties = append(f.Properties, Property{Path: field, Kind: Moved})
			}
		}
	case o.Reading:
		f.Class = Unreadable
	}
}

// classOf says what differences come to. A provider that does not say what differs is taken by its word on whether the program
// needs anything done.
func classOf(resource Resource, properties []Property, counts bool) Class {
	switch {
	case len(properties) == 0:
		return None
	case !counts, !resource.Judged && resource.Step == "same":
		return Noise
	default:
		return Changed
	}
}

// Fields names what counts in the report, as "type name path": what a fight would be about.
func (r Report) Fields() []string {
	var fields []string
	for _, f := range r.Resources {
		if !f.Class.Drifted() {
			continue
		}
		if f.Class == Deleted {
			fields = append(fields, Field(f.Type, f.Name, ""))
		}
		for _, p := range f.Properties {
			if p.Kind == Moved {
				fields = append(fields, Field(f.Type, f.Name, p.Path))
			}
		}
	}
	return fields
}

// Field names a property of a resource, or without a path the resource.
func Field(typ, name, path string) string {
	text := redact.Shorten(typ, 120) + " " + redact.Shorten(name, 120)
	if path != "" {
		text += " " + path
	}
	return redact.Shorten(text, 512)
}

// Masked returns the report with literal secret values masked in every text of it: what Pulumi did not mark but the caller knows
// to be secret. Digests stay what they are.
func (r Report) Masked(secrets []string) Report {
	if len(secrets) == 0 {
		return r
	}
	mask := redact.Masker(secrets)
	pointer := func(s *string) *string {
		if s == nil {
			return nil
		}
		text := redact.Shorten(mask(*s), redact.MaxValue)
		return &text
	}
	r.Summary = mask(r.Summary)
	r.Resources, r.Obstacles = slices.Clone(r.Resources), slices.Clone(r.Obstacles)
	for i := range r.Resources {
		f := &r.Resources[i]
		f.URN, f.Type, f.Name, f.Text, f.Writer = mask(f.URN), mask(f.Type), mask(f.Name), mask(f.Text), mask(f.Writer)
		f.Properties = slices.Clone(f.Properties)
		for j := range f.Properties {
			p := &f.Properties[j]
			p.Path, p.Left, p.Live, p.Wanted = mask(p.Path), pointer(p.Left), pointer(p.Live), pointer(p.Wanted)
		}
	}
	for i := range r.Obstacles {
		o := &r.Obstacles[i]
		o.URN, o.Text, o.Writer = mask(o.URN), mask(o.Text), mask(o.Writer)
	}
	return r
}
