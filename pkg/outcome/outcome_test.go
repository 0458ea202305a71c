// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var errAny = errors.New("any")

func TestRunStopsAtTheFirstStepThatIsNotDone(t *testing.T) {
	tests := map[string]struct {
		reason   string
		outcomes []Outcome
		ran      int
		step     string
		kind     Kind
	}{
		"all are done":   {reason: "the loop is at rest", outcomes: []Outcome{Done(), Done()}, ran: 2, kind: KindDone},
		"no step at all": {reason: "nothing is left to do", kind: KindDone},
		"one waits":      {reason: "what comes after needs it", outcomes: []Outcome{Done(), Wait("R", "m", 0), Done()}, ran: 2, step: "step 1", kind: KindWait},
		"one fails":      {reason: "what comes after needs it", outcomes: []Outcome{Retry("R", errAny), Done()}, ran: 1, step: "step 0", kind: KindRetry},
		"one stalls":     {reason: "what comes after needs it", outcomes: []Outcome{Stall("R", errAny), Done()}, ran: 1, step: "step 0", kind: KindStall},
		"one forgets to say how it ended": {
			reason: "no outcome is never taken for done", outcomes: []Outcome{{}, Done()}, ran: 1, step: "step 0", kind: KindStall,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ran := 0
			var steps []Step[int]
			for i, o := range tc.outcomes {
				steps = append(steps, Step[int]{Name: fmt.Sprintf("step %d", i), Run: func(context.Context, int) Outcome { ran++; return o }})
			}
			got := Run(t.Context(), 0, steps)
			if ran != tc.ran || got.Step != tc.step || got.Outcome.Kind != tc.kind {
				t.Errorf("Run(): %s: ran %d, stopped at %q with %v; want %d, %q, %v", tc.reason, ran, got.Step, got.Outcome.Kind, tc.ran, tc.step, tc.kind)
			}
		})
	}
}

func TestResultSaysWhenToLookAgain(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "stacks"}, "web", errAny)
	type want struct {
		after    time.Duration
		err      error
		terminal bool
	}
	tests := map[string]struct {
		reason string
		o      Outcome
		poll   time.Duration
		write  error
		want   want
	}{
		"done":                           {reason: "only a watch wakes it", o: Done()},
		"done, with a poll":              {reason: "a branch moves without telling", o: Done(), poll: time.Minute, want: want{after: time.Minute}},
		"waiting for a watch":            {reason: "no timer", o: Wait("R", "m", 0), poll: time.Minute},
		"waiting for a time":             {reason: "its own timer", o: Wait("R", "m", time.Hour), poll: time.Minute, want: want{after: time.Hour}},
		"failed":                         {reason: "the queue's backoff", o: Retry("R", errAny), want: want{err: errAny}},
		"failed, with a time of its own": {reason: "the time instead of the backoff", o: RetryAfter("R", errAny, time.Minute), want: want{after: time.Minute}},
		"stalled":                        {reason: "nothing goes on by itself", o: Stall("R", errAny), want: want{err: errAny, terminal: true}},
		"done, but not written":          {reason: "what is not written is not done", o: Done(), write: errAny, want: want{err: errAny}},
		"a conflict of the write":        {reason: "the newer object is on its way", o: Done(), write: fmt.Errorf("w: %w", conflict), want: want{after: 250 * time.Millisecond}},
		"a conflict of a step":           {reason: "the newer object is on its way", o: Retry("R", fmt.Errorf("w: %w", conflict)), want: want{after: 250 * time.Millisecond}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Result(tc.o, tc.poll, tc.write)
			if !errors.Is(err, tc.want.err) || errors.Is(err, reconcile.TerminalError(nil)) != tc.want.terminal {
				t.Errorf("Result(): %s: error %v, want %v", tc.reason, err, tc.want.err)
			}
			if low, high := tc.want.after*89/100, tc.want.after*111/100; got.RequeueAfter < low || got.RequeueAfter > high {
				t.Errorf("Result(): %s: after %v, want about %v", tc.reason, got.RequeueAfter, tc.want.after)
			}
		})
	}
}

func TestJitterStaysWithinATenth(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := Jitter(time.Second)
		if d < 900*time.Millisecond || d > 1100*time.Millisecond {
			t.Fatalf("Jitter(1s) = %v", d)
		}
		seen[d] = true
	}
	if len(seen) < 100 {
		t.Errorf("Jitter(1s) gave %d values in 1000 calls", len(seen))
	}
	if diff := cmp.Diff([]time.Duration{0, -1}, []time.Duration{Jitter(0), Jitter(-1)}); diff != "" {
		t.Errorf("Jitter(): -want +got\n%s", diff)
	}
}
