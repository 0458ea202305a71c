// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // the image has no time zones of its own

	"github.com/plangate/plangate/api/v1alpha1"
)

const (
	// shortHorizon and longHorizon, in days, are how far ahead an opening is looked for: most windows come back each week.
	shortHorizon = 15
	longHorizon  = 400
	day          = 24 * time.Hour
	dateForm     = "2006-01-02"
)

// window is a window with its times understood.
type window struct {
	name        string
	action      v1alpha1.WindowAction
	zone        *time.Location
	days        map[time.Weekday]bool
	from, to    int // minutes since midnight; to may be on the next day
	first, last string
}

func compileWindow(w v1alpha1.Window) (window, error) { //nolint:gocyclo // a list of checks, read from top to bottom
	c := window{name: w.Name, action: w.Action, zone: time.UTC, to: 24 * 60, first: w.FirstDate, last: w.LastDate}
	switch w.Action {
	case v1alpha1.WindowAllow, v1alpha1.WindowDeny, v1alpha1.WindowMark:
	default:
		return c, fmt.Errorf("action: %q is not known", w.Action)
	}
	var err error
	if w.TimeZone == "Local" {
		return c, fmt.Errorf("timeZone: the operator's own time zone means nothing here; name one")
	}
	if w.TimeZone != "" {
		if c.zone, err = time.LoadLocation(w.TimeZone); err != nil {
			return c, fmt.Errorf("timeZone: %q is not in the time zone database: write it like Europe/Vienna", w.TimeZone)
		}
	}
	if c.days, err = weekdays(w.Days); err != nil {
		return c, err
	}
	if w.From != "" {
		if c.from, err = minutes(w.From); err != nil {
			return c, fmt.Errorf("from: %w", err)
		}
	}
	if w.To != "" {
		if c.to, err = minutes(w.To); err != nil {
			return c, fmt.Errorf("to: %w", err)
		}
	}
	if c.to <= c.from {
		c.to += 24 * 60
	}
	for _, date := range []string{w.FirstDate, w.LastDate} {
		if _, err := time.Parse(dateForm, date); date != "" && err != nil {
			return c, fmt.Errorf("%q is no date", date)
		}
	}
	return c, nil
}

func weekdays(names []v1alpha1.Weekday) (map[time.Weekday]bool, error) {
	days := map[time.Weekday]bool{}
	for d := time.Sunday; d <= time.Saturday; d++ {
		days[d] = len(names) == 0 || slices.Contains(names, v1alpha1.Weekday(d.String()))
	}
	for _, name := range names {
		known := false
		for d := range days {
			known = known || d.String() == string(name)
		}
		if !known {
			return nil, fmt.Errorf("days: %q is no day", name)
		}
	}
	return days, nil
}

// minutes reads "HH:MM".
func minutes(clock string) (int, error) {
	if len(clock) != 5 || clock[2] != ':' {
		return 0, fmt.Errorf("%q is not HH:MM", clock)
	}
	hour, err := strconv.ParseUint(clock[:2], 10, 8)
	minute, err2 := strconv.ParseUint(clock[3:], 10, 8)
	if err != nil || err2 != nil || minute > 59 || hour*60+minute > 24*60 {
		return 0, fmt.Errorf("%q is not HH:MM", clock)
	}
	return int(hour*60 + minute), nil
}

// instants returns the first and the last moment at which the clock on the wall shows a time, minutes after the midnight
// that date began with. When clocks are put forward over it, it is the moment of that.
func instants(date time.Time, minutes int, zone *time.Location) (first, last time.Time) {
	wall := time.Date(date.Year(), date.Month(), date.Day(), minutes/60, minutes%60, 0, 0, time.UTC)
	shows := func(t time.Time) bool {
		_, offset := t.In(zone).Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(wall)
	}
	offsetAt := func(t time.Time) time.Duration {
		_, offset := t.In(zone).Zone()
		return time.Duration(offset) * time.Second
	}
	// The offsets that were in force the day before and will be the day after are the only ones that it can be.
	later, earlier := wall.Add(-offsetAt(wall.Add(-day))), wall.Add(-offsetAt(wall.Add(day)))
	if later.Before(earlier) {
		later, earlier = earlier, later
	}
	switch {
	case shows(later) && shows(earlier):
		return earlier, later
	case shows(later):
		return later, later
	case shows(earlier):
		return earlier, earlier
	}
	change, _ := later.In(zone).ZoneBounds()
	return change.UTC(), change.UTC()
}

// span is a time at which a window is in force: from start, without end.
type span struct{ start, end time.Time }

// spans returns when the window is in force between two moments, including what began before.
func (w window) spans(from, until time.Time) []span {
	var all []span
	local := from.In(w.zone)
	for date := time.Date(local.Year(), local.Month(), local.Day()-2, 0, 0, 0, 0, time.UTC); !date.After(until.Add(day)); date = date.AddDate(0, 0, 1) {
		name := date.Format(dateForm)
		if !w.days[date.Weekday()] || w.first != "" && name < w.first || w.last != "" && name > w.last {
			continue
		}
		firstStart, lastStart := instants(date, w.from, w.zone)
		firstEnd, lastEnd := instants(date, w.to, w.zone)
		s := span{firstStart, lastEnd}
		if w.action == v1alpha1.WindowAllow {
			s = span{lastStart, firstEnd}
		}
		if s.start.Before(s.end) && s.end.After(from) && s.start.Before(until) {
			all = append(all, s)
		}
	}
	return all
}

// schedule is how it stands with the windows of all policies at one moment.
type schedule struct {
	// open tells whether an apply may start.
	open bool
	// closed are the policies that do not let it.
	closed []*Compiled
	// active are the names of the windows that are in force, for each policy.
	active map[string][]string
	// opens is when an apply may next start. Zero: it may now, or never.
	opens time.Time
	// changes is when a window next begins or ends. Zero: none does.
	changes time.Time
}

// edge is a moment at which a window begins or ends.
type edge struct {
	at     time.Time
	policy int
	action v1alpha1.WindowAction
	by     int
}

// gate is how it stands with one policy: how many of its windows of either kind are in force.
type gate struct {
	needsAllow    bool
	allows, holds int
}

func (g gate) open() bool { return g.holds == 0 && (!g.needsAllow || g.allows > 0) }

// newSchedule computes how it stands with the windows of all policies at a moment, and when that changes.
func newSchedule(policies []*Compiled, now time.Time) schedule {
	s := schedule{active: map[string][]string{}}
	gates, edges := collect(policies, now, shortHorizon, s.active)
	for i, g := range gates {
		if !g.open() {
			s.closed = append(s.closed, policies[i]) //nolint:gosec // G602: a gate for each policy
		}
	}
	s.open = len(s.closed) == 0
	if len(edges) > 0 {
		s.changes = edges[0].at
	}
	if s.open {
		return s
	}
	for _, days := range []int{shortHorizon, longHorizon} {
		gates, edges = collect(policies, now, days, nil)
		if s.opens = nextOpening(gates, edges, now.Add(time.Duration(days)*day)); !s.opens.IsZero() {
			break
		}
	}
	return s
}

// collect returns how the gates stand at a moment, and all edges from then on, in order.
func collect(policies []*Compiled, now time.Time, days int, active map[string][]string) ([]gate, []edge) {
	gates := make([]gate, len(policies))
	var edges []edge
	for i, p := range policies {
		for _, w := range p.windows {
			gates[i].needsAllow = gates[i].needsAllow || w.action == v1alpha1.WindowAllow
			inForce := false
			for _, sp := range w.spans(now, now.Add(time.Duration(days)*day)) {
				edges = append(edges, edge{sp.end, i, w.action, -1})
				if sp.start.After(now) {
					edges = append(edges, edge{sp.start, i, w.action, 1})
					continue
				}
				gates[i].move(w.action, 1)
				inForce = true
			}
			if inForce && active != nil {
				active[p.ref.key()] = append(active[p.ref.key()], w.name)
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(b.by, a.by)) })
	return gates, edges
}

func (g *gate) move(action v1alpha1.WindowAction, by int) {
	switch action {
	case v1alpha1.WindowAllow:
		g.allows += by
	case v1alpha1.WindowMark:
	default:
		g.holds += by
	}
}

// nextOpening walks along the edges until all gates are open. From until on not all edges are known.
func nextOpening(gates []gate, edges []edge, until time.Time) time.Time {
	for i, e := range edges {
		if !e.at.Before(until) {
			break
		}
		gates[e.policy].move(e.action, e.by)
		if i+1 < len(edges) && edges[i+1].at.Equal(e.at) {
			continue
		}
		if !slices.ContainsFunc(gates, func(g gate) bool { return !g.open() }) {
			return e.at
		}
	}
	return time.Time{}
}
