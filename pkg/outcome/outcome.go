// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outcome holds the only results that a step of a reconcile loop may return, and runs the steps.
//
// It must never be extended by a fifth outcome: a step has finished, waits for something else, failed in a way that may
// pass, or needs a person.
package outcome

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Kind tells outcomes apart. The zero value is invalid.
type Kind int

// The four kinds.
const (
	KindDone Kind = iota + 1
	KindWait
	KindRetry
	KindStall
)

// Outcome is what a step came to.
type Outcome struct {
	// Kind tells which of the four it is.
	Kind Kind
	// Reason is a condition's reason. Empty with Done.
	Reason string
	// Message says it in words, for the condition. Empty with Done.
	Message string
	// After is when to look again, without jitter. 0: only when something happens.
	After time.Duration
	// Err is the cause, with Retry and Stall.
	Err error
}

// Done says that the step is finished: go on with the next.
func Done() Outcome { return Outcome{Kind: KindDone} }

// Wait says that all is well but something else must happen first. After 0 means: only a watch wakes it.
func Wait(reason, message string, after time.Duration) Outcome {
	return Outcome{Kind: KindWait, Reason: reason, Message: message, After: after}
}

// Retry says that something failed that may pass by itself; it is tried again with backoff.
func Retry(reason string, err error) Outcome {
	return Outcome{Kind: KindRetry, Reason: reason, Message: err.Error(), Err: err}
}

// RetryAfter is Retry with a time of its own instead of the queue's backoff.
func RetryAfter(reason string, err error, after time.Duration) Outcome {
	return Outcome{Kind: KindRetry, Reason: reason, Message: err.Error(), Err: err, After: after}
}

// Stall says that nothing goes on until somebody changes something.
func Stall(reason string, err error) Outcome {
	return Outcome{Kind: KindStall, Reason: reason, Message: err.Error(), Err: err}
}

// Step is a named step of a loop; S is the loop's scope.
type Step[S any] struct {
	Name string
	Run  func(context.Context, S) Outcome
}

// Stopped tells where a run ended.
type Stopped struct {
	// Step is the name of the step that did not finish. Empty: all did.
	Step string
	// Outcome is what that step came to; Done when all did.
	Outcome Outcome
}

// Run runs steps in order and stops at the first that is not Done.
func Run[S any](ctx context.Context, scope S, steps []Step[S]) Stopped {
	for _, step := range steps {
		o := step.Run(ctx, scope)
		switch o.Kind {
		case KindDone:
			continue
		case KindWait, KindRetry, KindStall:
			return Stopped{Step: step.Name, Outcome: o}
		default:
			err := fmt.Errorf("step %q returned no outcome: this is a bug", step.Name)
			return Stopped{Step: step.Name, Outcome: Stall("Bug", err)}
		}
	}
	return Stopped{Outcome: Done()}
}

// Result turns where a run ended, and the error of the status write, into what controller-runtime wants. poll is when to
// look again after all steps are done; 0: only when something happens. A conflict is no error: the newer object is on its way.
func Result(o Outcome, poll time.Duration, writeErr error) (ctrl.Result, error) {
	if apierrors.IsConflict(writeErr) || apierrors.IsConflict(o.Err) {
		return ctrl.Result{RequeueAfter: Jitter(250 * time.Millisecond)}, nil
	}
	if writeErr != nil {
		return ctrl.Result{}, writeErr
	}
	switch {
	case o.Kind == KindDone && poll > 0:
		return ctrl.Result{RequeueAfter: Jitter(poll)}, nil
	case o.Kind == KindDone:
		return ctrl.Result{}, nil
	case o.Kind == KindWait && o.After > 0, o.Kind == KindRetry && o.After > 0:
		return ctrl.Result{RequeueAfter: Jitter(o.After)}, nil
	case o.Kind == KindWait:
		return ctrl.Result{}, nil
	case o.Kind == KindRetry:
		return ctrl.Result{}, o.Err
	default:
		return ctrl.Result{}, reconcile.TerminalError(o.Err)
	}
}

// Random is where Jitter's chance comes from, from 0 to 1. A test that must be repeatable replaces it before anything runs.
var Random = rand.Float64

// Jitter moves d by up to a tenth in either direction, so that many objects do not act at the same instant.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return d + time.Duration((Random()-0.5)*0.2*float64(d))
}
