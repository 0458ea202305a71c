// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package histories lets the real controllers of Stacks and UpdatePlans live through random histories of a whole world, in
// virtual time, and looks at each write and each change of the real world for a promise that is not kept:
//
//   - nothing is changed without a valid, unexpired, unspent approval of exactly that plan's digest, by somebody who did not
//     write the change, and while it is proven that the API server vouches for who that was;
//   - no plan is applied twice, and none with other inputs, or to another state, than it was previewed with;
//   - nothing is destroyed but by a plan that says so, and a Stack that is to destroy when it is deleted goes only afterwards;
//   - one operation runs at a time;
//   - an ending stays;
//   - no plan waits for ever though its world has moved, and one that is approved in a quiet world is applied;
//   - no secret is in any object or event.
//
// A history that fails prints its seed; HISTORIES_SEED=seed plays it again with all that happened. HISTORIES is how many
// are played, or for how long: "500", "10m".
package histories

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans"
)

// defaultHistories is how many are played when nothing else is asked for: what two quiet cores do in about a minute. `make
// soak` plays 10,000, or as many as one likes.
const defaultHistories = 3_000

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	outcome.Random = func() float64 { return 0.5 }
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// live plays a history from its seed.
func live(seed uint64) (w *world, failure string) {
	w = newWorld(seed)
	defer func() {
		switch d := recover().(type) {
		case nil:
		case broken:
			failure = d.what
		default:
			failure = fmt.Sprintf("panic: %v\n%s", d, debug.Stack())
		}
	}()
	for range 6 + w.rand.IntN(20) {
		// People are quick, or slow enough for everything else to come to rest.
		for range []int{w.rand.IntN(4), 10 + w.rand.IntN(20), 60 + w.rand.IntN(60)}[w.rand.IntN(3)] {
			w.attempt(w.tick)
		}
		w.attempt(func() { w.event(between) })
	}
	w.calm()
	w.settle(25 * time.Minute)
	w.checkSettled(false)
	w.settle(timeToLive + 5*time.Minute)
	w.checkSettled(true)
	w.quietCommit()
	w.quietState()
	w.approveAll()
	return w, ""
}

// tick is one thing that happens by itself.
func (w *world) tick() {
	if w.rand.IntN(2) == 0 {
		w.progress()
		return
	}
	if !w.work() && w.rand.IntN(6) == 0 {
		w.repair()
		w.forward(w.clock.Add(10 * time.Minute))
	}
}

// repair is somebody who cares for what was broken.
func (w *world) repair() {
	w.noRemote, w.unguarded = false, false
	if _, there := w.api.objects[key{"Secret", "db"}]; !there {
		w.changeSecret()
	}
	if o := w.stack(); o == nil {
		w.createStack()
	} else if o.Spec.Suspend {
		w.toggleSuspend()
	}
}

// forward lets time pass to the next timer, but not beyond a moment.
func (w *world) forward(until time.Time) bool {
	next := until
	for _, at := range w.timers {
		if at.Before(next) {
			next = at
		}
	}
	if next.After(w.clock) {
		w.clock = next
	}
	return next.Before(until)
}

// calm ends everything that can go wrong, and gives the operator what it needs to go on.
func (w *world) calm() {
	w.say("calm")
	w.faults, w.fatal = false, 0
	w.repair()
}

// settle lets everything that is due happen, for a while of virtual time.
func (w *world) settle(during time.Duration) {
	until := w.clock.Add(during)
	for steps := 0; ; steps++ {
		if steps > 20_000 {
			w.fail("it does not come to rest")
		}
		w.kubelet()
		late := false
		for _, kind := range kinds {
			for w.caches.late(kind) {
				w.caches.take(kind)
				late = true
			}
		}
		w.finish()
		if w.stack() == nil {
			w.createStack()
		}
		if !w.work() && !late && len(w.queue) == 0 && !w.forward(until) && !w.clock.Before(until) {
			return
		}
	}
}

// approveAll approves what waits in a quiet world, which must then be applied.
func (w *world) approveAll() {
	p := w.latest()
	if p != nil && !p.Spec.NotAfter.After(w.clock.Add(15*time.Minute)) {
		w.settle(30 * time.Minute)
		p = w.latest()
	}
	if p == nil || planstate.Of(p) != planstate.Waiting || plans.Impossible(&p.Spec) != "" {
		return
	}
	if demand.Deleting(w.stack()) {
		w.approveDeletion(p)
		return
	}
	if p.Status.UnguardedSince != nil {
		// No annotation approves this one any more.
		w.requestPlan()
		w.settle(5 * time.Minute)
		if p = w.latest(); p == nil || planstate.Of(p) != planstate.Waiting {
			return
		}
	}
	w.say("approve in a quiet world")
	w.approve(p)
	w.settle(15 * time.Minute)
	if now, ok := w.api.objects[keyOf(p)].(*v1alpha1.UpdatePlan); !ok || planstate.Of(now) != planstate.Applied {
		w.fail("%s was approved in a quiet world and not applied: %s", p.Name, text(now.Status))
	}
	w.checkSettled(true)
	if o := w.stack(); o.Status.LastAppliedPlan == nil || o.Status.LastAppliedPlan.Name != p.Name {
		w.fail("%s was applied and the Stack does not say so", p.Name)
	}
}

// approveDeletion approves the destroy of a Stack that is being deleted: it must be done, and the Stack must go.
func (w *world) approveDeletion(p *v1alpha1.UpdatePlan) {
	uid := w.stack().UID
	w.say("approve the destroy of a Stack that is being deleted, in a quiet world")
	w.approve(p)
	w.settle(15 * time.Minute)
	if w.spent[p.Spec.Digest] == "" || !w.gone {
		w.fail("%s was approved in a quiet world and nothing was destroyed", p.Name)
	}
	if o := w.stack(); o != nil && o.UID == uid {
		w.fail("all was destroyed and the Stack does not go: %s", text(o.Status.Conditions))
	}
}

// amount reads how much is to be played.
func amount(text string) (count uint64, during time.Duration, err error) {
	if text == "" {
		return defaultHistories, 0, nil
	}
	if count, err = strconv.ParseUint(text, 10, 64); err == nil {
		return count, 0, nil
	}
	during, err = time.ParseDuration(text)
	return 1 << 62, during, err
}

func TestHistories(t *testing.T) {
	if text := os.Getenv("HISTORIES_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w, failure := live(seed)
		t.Logf("seed %d\n%s", seed, strings.Join(w.trace, "\n"))
		if failure != "" {
			t.Error(failure)
		}
		return
	}
	count, during, err := amount(os.Getenv("HISTORIES"))
	if err != nil {
		t.Fatal(err)
	}
	first := uint64(time.Now().UnixNano()) //nolint:gosec // G115: any number will do
	start := time.Now()
	var next, applies, destroys, made, played, failures atomic.Uint64
	ends := &tally{counts: map[string]int{}}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failures.Load() < 3 {
				n := next.Add(1)
				if n > count || during > 0 && time.Since(start) > during {
					return
				}
				w, failure := live(first + n)
				played.Add(1)
				applies.Add(uint64(w.applies))   //nolint:gosec // G115: a count
				destroys.Add(uint64(w.destroys)) //nolint:gosec // G115: a count
				made.Add(uint64(w.plansN))       //nolint:gosec // G115: a count
				ends.add(w.ends)
				if failure != "" {
					failures.Add(1)
					t.Errorf("HISTORIES_SEED=%d: %s\n%s", first+n, failure, strings.Join(w.trace[max(0, len(w.trace)-60):], "\n"))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d histories from seed %d: %d plans, %d applies, %d of them destroys, in %s", played.Load(), first+1, made.Load(), applies.Load(), destroys.Load(), time.Since(start).Round(time.Second))
	t.Logf("how the plans ended: %s", ends)
}

// tally counts how plans ended, over all histories.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(more map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for reason, n := range more {
		c.counts[reason] += n
	}
}

func (c *tally) String() string {
	var words []string
	for _, reason := range slices.Sorted(maps.Keys(c.counts)) {
		words = append(words, fmt.Sprintf("%s %d", reason, c.counts[reason]))
	}
	return strings.Join(words, ", ")
}
