// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plangate/plangate/plans/drift"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// TestFiveHundredStacksSpreadEvenlyOverOneInterval plays an hour of a simulated clock, for Stacks that all were made at once and
// for one whose operator was started anew at every minute.
func TestFiveHundredStacksSpreadEvenlyOverOneInterval(t *testing.T) {
	t.Parallel()
	const stacks = 500
	schedule := drift.Schedule{Interval: time.Hour}
	for _, restarts := range []bool{false, true} {
		perMinute, checks := map[int]int{}, map[string]int{}
		due := map[string]time.Time{}
		for minute := range 60 {
			now := noon.Add(time.Duration(minute) * time.Minute)
			for i := range stacks {
				key := fmt.Sprintf("uid-%d", i)
				if next, known := due[key]; !known || restarts && now.Before(next) {
					due[key] = schedule.Next(key, now.Add(-time.Nanosecond))
				}
				if at := due[key]; !at.Before(now) && at.Before(now.Add(time.Minute)) {
					perMinute[minute]++
					checks[key]++
					due[key] = schedule.After(key, at)
				}
			}
		}
		if len(checks) != stacks {
			t.Errorf("restarts %t: %d of %d Stacks were checked in one interval", restarts, len(checks), stacks)
		}
		for key, n := range checks {
			if n != 1 {
				t.Errorf("restarts %t: %s was checked %d times in one interval", restarts, key, n)
			}
		}
		most, quarters := 0, [4]int{}
		for minute, n := range perMinute {
			most = max(most, n)
			quarters[minute/15] += n
		}
		// 8.3 a minute on average: a fair throw of 500 has hardly ever 20 in one, nor 100 or 150 in a quarter of 125.
		if most > 20 {
			t.Errorf("restarts %t: %d checks in one minute", restarts, most)
		}
		for i, n := range quarters {
			if n < 100 || n > 150 {
				t.Errorf("restarts %t: %d checks in quarter %d", restarts, n, i)
			}
		}
		t.Logf("restarts %t: at most %d a minute; quarters %v", restarts, most, quarters)
	}
}

func TestTheNextCheckIsNeverMoreThanAnIntervalAwayNorSoonerThanHalfOfOne(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour, 25 * time.Hour} {
		schedule := drift.Schedule{Interval: interval}
		for i := range 300 {
			key, at := fmt.Sprint("key", i), noon.Add(time.Duration(i)*97*time.Second)
			if wait := schedule.Next(key, at).Sub(at); wait <= 0 || wait > interval {
				t.Fatalf("%s: the next is %s away", interval, wait)
			}
			if wait := schedule.After(key, at).Sub(at); wait <= interval/2 || wait > interval+interval/2 {
				t.Fatalf("%s: the one after is %s away", interval, wait)
			}
		}
	}
}

func TestCronIsReadAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		schedule string
		after    time.Time
		want     time.Time
	}{
		"each quarter of an hour":   {"*/15 * * * *", noon, noon.Add(15 * time.Minute)},
		"working days":              {"30 6 * * mon-fri", time.Date(2026, 3, 6, 7, 0, 0, 0, time.UTC), time.Date(2026, 3, 9, 6, 30, 0, 0, time.UTC)},
		"Sunday by either number":   {"0 0 * * 7", noon, time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC)},
		"the day or the weekday":    {"0 0 5 * sun", noon, time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)},
		"a leap day":                {"0 0 29 2 *", noon, time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC)},
		"a list with a range":       {"0 1,20-22 * * *", noon, time.Date(2026, 3, 2, 20, 0, 0, 0, time.UTC)},
		"in another time zone":      {"30 6 * * *", time.Date(2026, 7, 1, 0, 0, 0, 0, berlin), time.Date(2026, 7, 1, 4, 30, 0, 0, time.UTC)},
		"an hour that is left out":  {"30 2 * * *", time.Date(2026, 3, 28, 3, 0, 0, 0, berlin), time.Date(2026, 3, 30, 0, 30, 0, 0, time.UTC)},
		"an hour that comes twice":  {"30 2 * * *", time.Date(2026, 10, 24, 3, 0, 0, 0, berlin), time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC)},
		"a day that there never is": {"0 0 31 2 *", noon, time.Time{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cron, err := drift.ParseCron(tc.schedule)
			if err != nil {
				t.Fatal(err)
			}
			if got := cron.Next(tc.after); !got.Equal(tc.want) {
				t.Errorf("%s after %s: %s, want %s", tc.schedule, tc.after, got, tc.want)
			}
		})
	}
	for _, bad := range []string{"", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "x * * * *", "1- * * * *"} {
		if _, err := drift.ParseCron(bad); err == nil {
			t.Errorf("%q is taken for a schedule", bad)
		}
	}
}

func TestStacksWithOneScheduleSpreadOverFiveMinutes(t *testing.T) {
	t.Parallel()
	cron, err := drift.ParseCron("0 6 * * *")
	if err != nil {
		t.Fatal(err)
	}
	schedule, seen := drift.Schedule{Cron: cron}, map[time.Duration]int{}
	six := time.Date(2026, 3, 3, 6, 0, 0, 0, time.UTC)
	for i := range 500 {
		at := schedule.Next(fmt.Sprint(i), noon)
		if at.Before(six) || !at.Before(six.Add(5*time.Minute)) {
			t.Fatalf("%s is not within five minutes after %s", at, six)
		}
		seen[at.Sub(six).Truncate(time.Minute)]++
		if again := schedule.Next(fmt.Sprint(i), at); again.Sub(at) != 24*time.Hour {
			t.Fatalf("%s comes after %s", again, at)
		}
	}
	for minute, n := range seen {
		if n < 60 || n > 140 {
			t.Errorf("%d of 500 in minute %s", n, minute)
		}
	}
}

func TestPuttingTheSameFieldBackForTheThirdTimeInADayIsALoop(t *testing.T) {
	t.Parallel()
	report := build(with(file(tree{"x": "1"}, tree{"x": "2"}, "x"), func(r *drift.Resource) {
		r.Live.Outputs = tree{"x": "2", "metadata": tree{"managedFields": []any{tree{"manager": "autoscaler", "fieldsV1": tree{"f:x": tree{}}}}}}
	}))
	mine := report.Fields()
	at := func(hours int, fields ...string) drift.Repair {
		return drift.Repair{At: noon.Add(-time.Duration(hours) * time.Hour), Fields: fields}
	}
	cases := map[string]struct {
		repairs []drift.Repair
		times   int
	}{
		"the first time":                 {nil, 0},
		"the second time":                {[]drift.Repair{at(1, mine...)}, 0},
		"the third time":                 {[]drift.Repair{at(2, mine...), at(1, mine...)}, 3},
		"the fifth time":                 {[]drift.Repair{at(4, mine...), at(3, mine...), at(2, mine...), at(1, mine...)}, 5},
		"the third, but not in one day":  {[]drift.Repair{at(25, mine...), at(1, mine...)}, 0},
		"other fields of the same thing": {[]drift.Repair{at(2, "files:index:File a y"), at(1, "files:index:File a y")}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loop := drift.FindLoop(tc.repairs, report, noon)
			if (loop != nil) != (tc.times > 0) || loop != nil && (loop.Times != tc.times || loop.Writer != "autoscaler" || loop.Fields[0] != mine[0]) {
				t.Errorf("%+v, want %d times", loop, tc.times)
			}
		})
	}
}

func TestAfterALongGapOrAFailedSeriesOneLookIsNotEnough(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		last     time.Time
		failures int
		want     bool
	}{
		"the first look ever": {time.Time{}, 0, false},
		"as usual":            {noon.Add(-time.Hour), 0, true},
		"one was left out":    {noon.Add(-2 * time.Hour), 0, true},
		"a long gap":          {noon.Add(-4 * time.Hour), 0, false},
		"after one failure":   {noon.Add(-time.Hour), 1, true},
		"a failed series":     {noon.Add(-time.Hour), 3, false},
	}
	for name, tc := range cases {
		if got := drift.Confirmed(tc.last, noon, time.Hour, tc.failures); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
