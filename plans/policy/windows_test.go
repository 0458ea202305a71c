// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestWindows(t *testing.T) {
	weekdays := []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"}
	office := v1alpha1.Window{Name: "office", Action: v1alpha1.WindowAllow, TimeZone: "Europe/Vienna", Days: weekdays, From: "09:00", To: "17:00"}
	freeze := v1alpha1.Window{Name: "freeze", Action: v1alpha1.WindowDeny, TimeZone: "Europe/Vienna", FirstDate: "2026-12-18", LastDate: "2027-01-06"}
	night := v1alpha1.Window{Name: "night", Action: v1alpha1.WindowAllow, TimeZone: "Europe/Vienna", From: "22:00", To: "04:00"}
	lateNight := v1alpha1.Window{Name: "late", Action: v1alpha1.WindowAllow, TimeZone: "Europe/Vienna", From: "02:15", To: "02:45"}
	denyNight := v1alpha1.Window{Name: "backup", Action: v1alpha1.WindowDeny, TimeZone: "Europe/Vienna", From: "02:15", To: "02:45"}
	mark := v1alpha1.Window{Name: "marked", Action: v1alpha1.WindowMark}
	for name, tc := range map[string]struct {
		windows []v1alpha1.Window
		now     string
		open    bool
		opens   string
	}{
		"no windows":                                        {now: "2026-12-01T03:00:00Z", open: true},
		"a mark holds nothing":                              {windows: []v1alpha1.Window{mark}, now: "2026-12-01T03:00:00Z", open: true},
		"within office hours":                               {windows: []v1alpha1.Window{office}, now: "2026-12-01T10:00:00Z", open: true},
		"the first moment of it":                            {windows: []v1alpha1.Window{office}, now: "2026-12-01T08:00:00Z", open: true},
		"the moment of its end is outside":                  {windows: []v1alpha1.Window{office}, now: "2026-12-01T16:00:00Z", opens: "2026-12-02T08:00:00Z"},
		"Friday evening waits until Monday":                 {windows: []v1alpha1.Window{office}, now: "2026-12-04T18:00:00Z", opens: "2026-12-07T08:00:00Z"},
		"a freeze beats office hours":                       {windows: []v1alpha1.Window{office, freeze}, now: "2026-12-21T10:00:00Z", opens: "2027-01-07T08:00:00Z"},
		"the last day before it":                            {windows: []v1alpha1.Window{office, freeze}, now: "2026-12-17T15:59:59Z", open: true},
		"a freeze alone ends at midnight":                   {windows: []v1alpha1.Window{freeze}, now: "2027-01-06T12:00:00Z", opens: "2027-01-06T23:00:00Z"},
		"over midnight, before":                             {windows: []v1alpha1.Window{night}, now: "2026-12-01T20:59:59Z", opens: "2026-12-01T21:00:00Z"},
		"over midnight, after":                              {windows: []v1alpha1.Window{night}, now: "2026-12-02T02:59:59Z", open: true},
		"over midnight, over":                               {windows: []v1alpha1.Window{night}, now: "2026-12-02T03:00:00Z", opens: "2026-12-02T21:00:00Z"},
		"clocks go forward: office hours an hour earlier":   {windows: []v1alpha1.Window{office}, now: "2026-03-27T18:00:00Z", opens: "2026-03-30T07:00:00Z"},
		"clocks go back: office hours an hour later":        {windows: []v1alpha1.Window{office}, now: "2026-10-23T18:00:00Z", opens: "2026-10-26T08:00:00Z"},
		"a time that does not exist that day is left out":   {windows: []v1alpha1.Window{lateNight}, now: "2026-03-29T00:00:00Z", opens: "2026-03-30T00:15:00Z"},
		"a window that begins when clocks go forward":       {windows: []v1alpha1.Window{{Name: "w", Action: "Allow", TimeZone: "Europe/Vienna", From: "02:30", To: "04:00"}}, now: "2026-03-29T00:30:00Z", opens: "2026-03-29T01:00:00Z"},
		"clocks go back: an Allow is only the second time":  {windows: []v1alpha1.Window{{Name: "w", Action: "Allow", TimeZone: "Europe/Vienna", From: "02:15", To: "04:00"}}, now: "2026-10-25T00:20:00Z", opens: "2026-10-25T01:15:00Z"},
		"an Allow within the hour that comes twice is not":  {windows: []v1alpha1.Window{lateNight}, now: "2026-10-25T00:20:00Z", opens: "2026-10-26T01:15:00Z"},
		"a Deny within it lasts from the first to the last": {windows: []v1alpha1.Window{denyNight}, now: "2026-10-25T00:50:00Z", opens: "2026-10-25T01:45:00Z"},
		"never":                             {windows: []v1alpha1.Window{{Name: "w", Action: "Deny"}}, now: "2026-12-01T00:00:00Z"},
		"an Allow that is over never opens": {windows: []v1alpha1.Window{{Name: "w", Action: "Allow", LastDate: "2026-11-30"}}, now: "2026-12-01T00:00:00Z"},
		"an Allow in a year":                {windows: []v1alpha1.Window{{Name: "w", Action: "Allow", FirstDate: "2027-12-01"}}, now: "2026-12-01T12:00:00Z", opens: "2027-12-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Compile(windowed(rules("p"), tc.windows...))
			if len(c.Problems()) > 0 {
				t.Fatal(c.Problems())
			}
			s := newSchedule([]*Compiled{c}, at(t, tc.now))
			opens := ""
			if !s.opens.IsZero() {
				opens = s.opens.UTC().Format(time.RFC3339)
			}
			if s.open != tc.open || opens != tc.opens {
				t.Errorf("open = %t, opens %q; want %t, %q", s.open, opens, tc.open, tc.opens)
			}
		})
	}
}

// Whatever the windows, it is open at the moment that is said, and at no moment before.
func TestTheNextOpeningIsTheNext(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a test that must be repeatable
	zones := []string{"", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Havana"}
	days := []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	opened, never := 0, 0
	for range 150 {
		var policies []*Compiled
		for p := range 1 + random.IntN(2) {
			var windows []v1alpha1.Window
			for i := range 1 + random.IntN(3) {
				w := v1alpha1.Window{Name: fmt.Sprint(i), Action: v1alpha1.WindowAllow, TimeZone: zones[random.IntN(len(zones))]}
				w.From, w.To = fmt.Sprintf("%02d:%02d", random.IntN(24), 15*random.IntN(4)), fmt.Sprintf("%02d:59", random.IntN(24))
				if random.IntN(2) == 0 {
					w.Action = v1alpha1.WindowDeny
				}
				if random.IntN(2) == 0 {
					w.Days = days[random.IntN(7):]
				}
				windows = append(windows, w)
			}
			policies = append(policies, Compile(windowed(rules(fmt.Sprint(p)), windows...)))
		}
		from := time.Date(2026, []time.Month{3, 4, 10, 11}[random.IntN(4)], 1+random.IntN(30), random.IntN(24), random.IntN(60), 0, 0, time.UTC)
		s := newSchedule(policies, from)
		if s.open {
			continue
		}
		until := s.opens
		if until.IsZero() {
			never++
			until = from.Add(8 * day)
		} else {
			opened++
			if !newSchedule(policies, until).open {
				t.Fatalf("it is not open at %s", until)
			}
			until = until.Add(-time.Second)
		}
		for i := range 40 {
			moment := from.Add(time.Duration(float64(until.Sub(from)) * float64(i) / 40))
			if newSchedule(policies, moment).open {
				t.Fatalf("from %s it is said to open at %q, and is open at %s", from, s.opens, moment)
			}
		}
	}
	if opened < 30 || never < 3 {
		t.Errorf("%d opened and %d never: too few to prove anything", opened, never)
	}
}

func TestWindowsThatMakeNoSense(t *testing.T) {
	for name, w := range map[string]v1alpha1.Window{
		"no action":          {Name: "w"},
		"an unknown action":  {Name: "w", Action: "Maybe"},
		"an unknown zone":    {Name: "w", Action: "Allow", TimeZone: "Europe/Atlantis"},
		"the operator's own": {Name: "w", Action: "Allow", TimeZone: "Local"},
		"a path":             {Name: "w", Action: "Allow", TimeZone: "../../etc/passwd"},
		"no time":            {Name: "w", Action: "Allow", From: "9:00"},
		"a minute too many":  {Name: "w", Action: "Allow", To: "24:01"},
		"no date":            {Name: "w", Action: "Allow", FirstDate: "2026-02-30"},
		"no day":             {Name: "w", Action: "Allow", Days: []v1alpha1.Weekday{"Funday"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, []Source{windowed(rules("p", auto("true")), w)}, by("alice"))
			if v := Decide(in); v.State != held || len(in.Policies[0].Problems()) != 1 {
				t.Errorf("%s: %v", v.State, in.Policies[0].Problems())
			}
		})
	}
}

func TestAWindowHoldsTheStartAndKeepsTheApproval(t *testing.T) {
	s := windowed(rules("p", require("", people(1))), v1alpha1.Window{Name: "evening", Action: v1alpha1.WindowAllow, From: "18:00", To: "20:00"})
	in := input(t, []Source{s}, by("alice"))
	v := Decide(in)
	if v.State != held || v.HeldUntil == nil || !v.HeldUntil.Time.Equal(now.Add(8*time.Hour)) {
		t.Fatalf("%s until %v: %s", v.State, v.HeldUntil, v.Message)
	}
	if !slices.ContainsFunc(v.Requirements, func(r v1alpha1.PolicyRequirement) bool { return slices.Contains(r.By, "alice") }) {
		t.Errorf("the approval is lost: %+v", v.Requirements)
	}
	if !v.LookAgain.Equal(now.Add(8 * time.Hour)) {
		t.Errorf("look again at %s", v.LookAgain)
	}
	in.Now = v.LookAgain
	if v := Decide(in); !v.Allows() {
		t.Errorf("when it opens: %s", v.Message)
	}
	in.Votes = nil
	in.Now = now
	if v := Decide(in); v.State != waiting || v.HeldUntil == nil {
		t.Errorf("without an approval: %s until %v", v.State, v.HeldUntil)
	}
}

func TestRulesSeeTheWindows(t *testing.T) {
	s := windowed(rules("p", require(`"weekend" in window.active`, people(2)), auto("window.open")),
		v1alpha1.Window{Name: "weekend", Action: v1alpha1.WindowMark, Days: []v1alpha1.Weekday{"Saturday", "Sunday"}})
	in := input(t, []Source{s})
	v := Decide(in)
	if !v.Allows() || !v.LookAgain.Equal(now.Add(pollTimed)) {
		t.Errorf("on a Tuesday: %s, look again at %s", v.Message, v.LookAgain)
	}
	in.Now = now.Add(4 * day)
	if v := Decide(in); v.State != waiting {
		t.Errorf("on a Saturday: %s", v.State)
	}
}
