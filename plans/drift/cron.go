// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cron is a schedule in the five fields of cron. The zero value never comes.
type Cron struct {
	minute, hour, day, month, weekday uint64
	// anyDay and anyWeekday tell whether the field was "*": when neither was, either will do.
	anyDay, anyWeekday bool
}

// fields are the five fields, in order.
var fields = []struct {
	name     string
	low, top int
	names    []string
}{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// ParseCron reads five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). Each is "*", a value,
// a range "1-5", either with a step "/15", or a list of these. Months and days have English names of three letters too.
func ParseCron(text string) (*Cron, error) {
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return nil, fmt.Errorf("the schedule %q has %d fields, not five: minute, hour, day, month, weekday", text, len(parts))
	}
	var sets [5]uint64
	for i, part := range parts {
		for _, item := range strings.Split(part, ",") {
			set, err := parseItem(i, strings.ToLower(item))
			if err != nil {
				return nil, fmt.Errorf("the schedule %q: %w", text, err)
			}
			sets[i] |= set
		}
	}
	if sets[4]&(1<<7) != 0 {
		sets[4] |= 1
	}
	c := &Cron{
		minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4],
		anyDay: strings.HasPrefix(parts[2], "*"), anyWeekday: strings.HasPrefix(parts[4], "*"),
	}
	return c, nil
}

func parseItem(field int, item string) (uint64, error) {
	f := fields[field]
	span, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, err := strconv.Atoi(stepText)
		if err != nil || n < 1 || n > f.top {
			return 0, fmt.Errorf("%s: %q is no step", f.name, stepText)
		}
		step = n
	}
	low, top := f.low, f.top
	if span != "*" {
		first, last, ranged := strings.Cut(span, "-")
		var err error
		if low, err = parseValue(field, first); err != nil {
			return 0, err
		}
		top = low
		if ranged {
			if top, err = parseValue(field, last); err != nil {
				return 0, err
			}
		} else if stepped {
			top = f.top
		}
	}
	if low > top {
		return 0, fmt.Errorf("%s: the range %q runs backwards", f.name, span)
	}
	var set uint64
	for v := low; v <= top; v += step {
		set |= 1 << v
	}
	return set, nil
}

func parseValue(field int, text string) (int, error) {
	f := fields[field]
	for v, name := range f.names {
		if name != "" && name == text {
			return v, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.low || v > f.top {
		return 0, fmt.Errorf("%s: %q is not from %d to %d", f.name, text, f.low, f.top)
	}
	return v, nil
}

// horizon is how far ahead is looked: long enough for the 29th of February.
const horizon = 8 * 366

// Next is the first minute after a time, in its location, that the schedule names; zero when there is none. An hour that a change
// of the clocks leaves out is passed over, one that comes twice counts once.
func (c *Cron) Next(after time.Time) time.Time {
	year, month, day := after.Date()
	for i := range horizon {
		date := time.Date(year, month, day+i, 0, 0, 0, 0, after.Location())
		if !c.onDay(date) {
			continue
		}
		if t := c.within(date, after); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func (c *Cron) onDay(date time.Time) bool {
	if c.month&(1<<date.Month()) == 0 {
		return false
	}
	day, weekday := c.day&(1<<date.Day()) != 0, c.weekday&(1<<date.Weekday()) != 0
	switch {
	case c.anyDay || c.anyWeekday:
		return day && weekday
	default:
		return day || weekday
	}
}

// within is the first minute of a day that the schedule names and that is after a time.
func (c *Cron) within(date, after time.Time) time.Time {
	year, month, day := date.Date()
	for hour := range 24 {
		if c.hour&(1<<hour) == 0 {
			continue
		}
		for minute := range 60 {
			if c.minute&(1<<minute) == 0 {
				continue
			}
			t := time.Date(year, month, day, hour, minute, 0, 0, date.Location())
			if t.After(after) && t.Hour() == hour && t.Day() == day {
				return t
			}
		}
	}
	return time.Time{}
}
