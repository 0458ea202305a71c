// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// DefaultInterval is how often is checked when nothing else is asked for.
const DefaultInterval = time.Hour

// scatter is how far the checks of many Stacks with one cron schedule spread.
const scatter = 5 * time.Minute

// Schedule says when checks are due. The zero value is once an hour.
type Schedule struct {
	// Interval is the time between two checks. 0: DefaultInterval. Not used with Cron.
	Interval time.Duration
	// Cron is a schedule in Location; nil: Interval counts.
	Cron *Cron
	// Location is the time zone of Cron. Nil: UTC.
	Location *time.Location
}

// Next is the first time after a given one at which a check is due. Each key, which is to be a Stack's UID, has its own place in
// the interval, always the same, so that the checks of many spread evenly, whenever they were made and however often the
// operator is started anew. With Cron it is up to five minutes after what the schedule says. It is zero when the schedule never
// comes.
func (s Schedule) Next(key string, after time.Time) time.Time {
	if s.Cron != nil {
		location := s.Location
		if location == nil {
			location = time.UTC
		}
		shift := place(key, scatter)
		next := s.Cron.Next(after.Add(-shift).In(location))
		if next.IsZero() {
			return next
		}
		return next.Add(shift).UTC()
	}
	interval := s.interval()
	start := time.Unix(0, 0).UTC().Add(place(key, interval))
	if after.Before(start) {
		return start
	}
	return start.Add((after.Sub(start)/interval + 1) * interval)
}

func (s Schedule) interval() time.Duration {
	if s.Interval <= 0 {
		return DefaultInterval
	}
	return s.Interval
}

// Typical is the time between two checks at a given time, to tell a long gap from a usual one.
func (s Schedule) Typical(now time.Time) time.Duration {
	if s.Cron == nil {
		return s.interval()
	}
	first := s.Next("", now)
	second := s.Next("", first)
	if first.IsZero() || second.IsZero() {
		return 24 * time.Hour
	}
	return second.Sub(first)
}

// After is when the check after one at the given time is due: not so soon that the one before was in vain, as after one that was
// asked for shortly before the next was due anyway.
func (s Schedule) After(key string, checked time.Time) time.Time {
	if s.Cron != nil {
		return s.Next(key, checked)
	}
	return s.Next(key, checked.Add(s.interval()/2))
}

// place is a key's own share of a span.
func place(key string, span time.Duration) time.Duration {
	s := sha256.Sum256([]byte("plangate/drift/v1/place\n" + key))
	return time.Duration(binary.BigEndian.Uint64(s[:8]) % uint64(span)) //nolint:gosec // G115: a span is positive, and the rest smaller
}
