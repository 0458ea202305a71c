// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"cmp"
	"slices"
	"time"
)

const (
	// loopWindow and loopTimes say when putting the same field back is a fight: the third time in a day.
	loopWindow = 24 * time.Hour
	loopTimes  = 3
)

// Repair is one time at which drift was put back.
type Repair struct {
	At time.Time
	// Fields are what was put back, as Report.Fields names them.
	Fields []string
}

// Loop is a fight over fields.
type Loop struct {
	// Fields are those that would now be put back for the third time or more.
	Fields []string
	// Times is how often that is, counting this one: of the field with the most.
	Times int
	// Writer is the other side, where it can be told.
	Writer string
}

// FindLoop tells whether putting the report's drift back now would put one of its fields back for the third time within a day.
// Nil: it would not.
func FindLoop(repairs []Repair, report Report, now time.Time) *Loop {
	var loop Loop
	for _, field := range report.Fields() {
		times := 1
		for _, r := range Recent(repairs, now) {
			if slices.Contains(r.Fields, field) {
				times++
			}
		}
		if times >= loopTimes {
			loop.Fields = append(loop.Fields, field)
			loop.Times = max(loop.Times, times)
		}
	}
	if loop.Times == 0 {
		return nil
	}
	for _, f := range report.Resources {
		loop.Writer = cmp.Or(loop.Writer, f.Writer)
	}
	return &loop
}

// Recent are the repairs of the last day.
func Recent(repairs []Repair, now time.Time) []Repair {
	return slices.DeleteFunc(slices.Clone(repairs), func(r Repair) bool { return now.Sub(r.At) >= loopWindow })
}

// gapIntervals is how many intervals without a check that came to an end are a long gap, failedSeries how many failures in a
// row are a failed series.
const (
	gapIntervals = 3
	failedSeries = 3
)

// Confirmed tells whether what a check found may be planned to be put back at once. After a long gap in checks, or a failed
// series, the world may have moved on by intention: it is looked at a second time first, so that nothing that approves by
// itself acts on the first look. last is when the check before came to its end, zero when none ever has.
func Confirmed(last, now time.Time, interval time.Duration, failures int) bool {
	if last.IsZero() || failures >= failedSeries {
		return false
	}
	return now.Sub(last) <= gapIntervals*interval
}
