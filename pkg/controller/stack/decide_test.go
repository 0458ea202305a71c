// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/tests/builder"
)

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

// facts is a scope of the Stack web at generation 2, whose source and configuration were resolved.
func facts(change ...func(*scope)) *scope {
	s := newScope(builder.Stack("ns", "web").UID(builder.UID(1)).Generation(2).Obj(), builder.Epoch)
	s.revision = source.Revision{Commit: builder.Commit, Ref: "refs/heads/main"}
	s.configDigest, s.inputsDigest = builder.Digest("config"), builder.Digest("inputs")
	for _, c := range change {
		c(s)
	}
	return s
}

// last is that the same inputs were previewed before.
func last(result v1alpha1.PreviewResult, change ...func(*v1alpha1.PreviewStatus)) func(*scope) {
	return func(s *scope) {
		p := &v1alpha1.PreviewStatus{
			Result: result, InputsDigest: s.inputsDigest, ConfigDigest: s.configDigest, Generation: 2, Revision: builder.Commit,
			Message: "words of the last preview", EndedAt: metav1.NewTime(builder.Epoch.Add(-time.Second)),
		}
		if result == v1alpha1.PreviewChanges {
			p.Plan = "web-1"
		}
		for _, c := range change {
			c(p)
		}
		s.stack.Status.LastPreview = p
	}
}

func moved(change func(*v1alpha1.PreviewStatus)) func(*v1alpha1.PreviewStatus) {
	return func(p *v1alpha1.PreviewStatus) {
		p.InputsDigest = builder.Digest("other inputs")
		change(p)
	}
}

func plan(change func(*builder.UpdatePlanBuilder)) func(*scope) {
	return func(s *scope) {
		b := builder.UpdatePlan("ns", "web-1")
		change(b)
		s.plan = b.Obj()
	}
}

func operation(result string) func(*builder.UpdatePlanBuilder) {
	return func(b *builder.UpdatePlanBuilder) {
		b.Condition("Approved", yes, "Approved", "").Status(func(s *v1alpha1.UpdatePlanStatus) {
			s.Operation = &v1alpha1.ApplyOperation{ID: "id", Result: result, Message: "words of the apply"}
		})
	}
}

func waits(*builder.UpdatePlanBuilder) {}

func TestWhyAPreviewIsDue(t *testing.T) {
	trigger := func(kind v1alpha1.TriggerType, message string) *v1alpha1.PlanTrigger {
		return &v1alpha1.PlanTrigger{Type: kind, Message: message}
	}
	tests := map[string]struct {
		reason string
		scope  *scope
		want   *v1alpha1.PlanTrigger
	}{
		"a new Stack":                  {reason: "nothing was previewed yet", scope: facts(), want: trigger(v1alpha1.TriggerSpecChanged, "the Stack is new")},
		"nothing to change":            {reason: "the same inputs again give the same", scope: facts(last(v1alpha1.PreviewNoChanges))},
		"a failed preview":             {reason: "it may pass", scope: facts(last(v1alpha1.PreviewFailed)), want: trigger(v1alpha1.TriggerRetry, "the last preview did not succeed")},
		"an interrupted preview":       {reason: "it changed nothing", scope: facts(last(v1alpha1.PreviewInterrupted)), want: trigger(v1alpha1.TriggerRetry, "the last preview did not succeed")},
		"a waiting plan":               {reason: "a person is waited for", scope: facts(last(v1alpha1.PreviewChanges), plan(waits))},
		"a plan that is being applied": {reason: "its end is waited for", scope: facts(last(v1alpha1.PreviewChanges), plan(operation("")))},
		"an applied plan":              {reason: "all is as it should be", scope: facts(last(v1alpha1.PreviewChanges), plan(operation("Applied")))},
		"a rejected plan": {
			reason: "asking again for what was rejected is no use",
			scope:  facts(last(v1alpha1.PreviewChanges), plan(func(b *builder.UpdatePlanBuilder) { b.Condition("Approved", no, "Rejected", "") })),
		},
		"a stale plan": {
			reason: "the world is another", scope: facts(last(v1alpha1.PreviewChanges), plan(operation("Stale"))),
			want: trigger(v1alpha1.TriggerRetry, `UpdatePlan "web-1" ended as Stale`),
		},
		"an expired plan": {
			reason: "the change is still wanted",
			scope:  facts(last(v1alpha1.PreviewChanges), plan(func(b *builder.UpdatePlanBuilder) { b.Condition("Obsolete", yes, "Expired", "") })),
			want:   trigger(v1alpha1.TriggerRetry, `UpdatePlan "web-1" ended as Expired`),
		},
		"a deleted plan": {
			reason: "the change is still wanted", scope: facts(last(v1alpha1.PreviewChanges)),
			want: trigger(v1alpha1.TriggerRetry, `UpdatePlan "web-1" was deleted`),
		},
		"a new commit": {
			reason: "the commit says more than that something moved",
			scope:  facts(last(v1alpha1.PreviewChanges, moved(func(p *v1alpha1.PreviewStatus) { p.Revision = builder.OtherCommit })), plan(waits)),
			want:   trigger(v1alpha1.TriggerSourceChanged, "the source went from commit 89abcdef0123 to 0123456789ab"),
		},
		"another secret value": {
			reason: "no generation tells of it",
			scope:  facts(last(v1alpha1.PreviewNoChanges, moved(func(p *v1alpha1.PreviewStatus) { p.ConfigDigest = builder.Digest("was") }))),
			want:   trigger(v1alpha1.TriggerConfigChanged, "configuration, environment or options changed"),
		},
		"another spec": {
			reason: "neither commit nor configuration",
			scope:  facts(last(v1alpha1.PreviewNoChanges, moved(func(p *v1alpha1.PreviewStatus) { p.Generation = 1 }))),
			want:   trigger(v1alpha1.TriggerSpecChanged, "the Stack's spec went from generation 1 to 2"),
		},
		"everything": {
			reason: "all of it is told",
			scope: facts(last(v1alpha1.PreviewFailed, moved(func(p *v1alpha1.PreviewStatus) {
				p.Generation, p.ConfigDigest, p.Revision = 1, "", builder.OtherCommit
			}))),
			want: trigger(v1alpha1.TriggerSourceChanged, "the Stack's spec went from generation 1 to 2; configuration, environment or options changed; the source went from commit 89abcdef0123 to 0123456789ab"),
		},
		"a request": {
			reason: "nothing else moved", scope: facts(last(v1alpha1.PreviewNoChanges, moved(func(*v1alpha1.PreviewStatus) {}))),
			want: trigger(v1alpha1.TriggerRequested, "the annotation plangate.dev/request-plan asked for it"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, why(tc.scope)); diff != "" {
				t.Errorf("why(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestARetrySaysWhichPlanItCompletes(t *testing.T) {
	completed := func(result string) *v1alpha1.CompletedPlan {
		return &v1alpha1.CompletedPlan{Name: "web-1", Digest: builder.UpdatePlan("ns", "web-1").Obj().Spec.Digest, Result: result}
	}
	before := &v1alpha1.CompletedPlan{Name: "web-0", Digest: builder.Digest("web-0"), Result: "Interrupted"}
	of := func(how func(*builder.UpdatePlanBuilder)) func(*builder.UpdatePlanBuilder) {
		return func(b *builder.UpdatePlanBuilder) {
			b.Spec(func(spec *v1alpha1.UpdatePlanSpec) { spec.Trigger.Completes = before })
			how(b)
		}
	}
	tests := map[string]struct {
		reason  string
		plan    func(*builder.UpdatePlanBuilder)
		want    *v1alpha1.CompletedPlan
		message string
	}{
		"applied in part":                    {reason: "this is the rest", plan: operation("PartiallyApplied"), want: completed("PartiallyApplied"), message: "completes it"},
		"cut off":                            {reason: "this is what may be left", plan: operation("Interrupted"), want: completed("Interrupted"), message: "completes it"},
		"violated":                           {reason: "nothing was done", plan: operation("Violated")},
		"stale, and was to complete another": {reason: "the rest is still the rest", plan: of(operation("Stale")), want: before, message: `completes UpdatePlan "web-0" in its place`},
		"by half again, and was to complete more": {reason: "the newest half is what counts", plan: of(operation("PartiallyApplied")), want: completed("PartiallyApplied"), message: "completes it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := why(facts(last(v1alpha1.PreviewChanges), plan(tc.plan)))
			if got == nil || got.Type != v1alpha1.TriggerRetry || !strings.Contains(got.Message, tc.message) {
				t.Fatalf("why() = %+v", got)
			}
			if diff := cmp.Diff(tc.want, got.Completes); diff != "" {
				t.Errorf("why(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestThePauseDoublesAndIsNeverLongerThanTheLookAtTheBranch(t *testing.T) {
	r := &Reconciler{settings: Settings{PollInterval: time.Minute, RetryInterval: 10 * time.Second, RetryMaxInterval: 10 * time.Minute}}
	for failures, want := range map[int32]time.Duration{
		0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 7: 10 * time.Minute, 1 << 30: 10 * time.Minute,
	} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			s := facts(last(v1alpha1.PreviewFailed, func(p *v1alpha1.PreviewStatus) { p.Failures, p.EndedAt = failures, metav1.NewTime(builder.Epoch) }))
			if got := r.pause(s); got != want {
				t.Errorf("pause() after %d failures = %v, want %v", failures, got, want)
			}
			if got := r.atMostPoll(s, r.pause(s)); got > time.Minute {
				t.Errorf("a new commit is seen after %v", got)
			}
			s.stack.Spec.Branch, s.stack.Spec.Commit = "", builder.Commit
			if got := r.atMostPoll(s, r.pause(s)); got != want {
				t.Errorf("a commit does not move: %v, want %v", got, want)
			}
			s.inputsDigest = builder.Digest("cure")
			if got := r.pause(s); got != 0 {
				t.Errorf("other inputs wait for %v", got)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	r := &Reconciler{settings: Settings{PollInterval: time.Minute, RetryInterval: 10 * time.Second, RetryMaxInterval: 10 * time.Minute}}
	tests := map[string]struct {
		reason string
		scope  *scope
		kind   outcome.Kind
		word   string
		due    bool
	}{
		"a new Stack": {reason: "a preview is due", scope: facts(), kind: outcome.KindDone, due: true},
		"all is well": {reason: "none is", scope: facts(last(v1alpha1.PreviewNoChanges)), kind: outcome.KindDone},
		"a preview runs": {
			reason: "it is not decided again", kind: outcome.KindDone,
			scope: facts(func(s *scope) { s.stack.Status.Operation = &v1alpha1.PreviewOperation{ID: "id"} }),
		},
		"a plan is being applied, and the Stack was edited": {
			reason: "one operation at a time", kind: outcome.KindWait, word: v1alpha1.ReasonApplying,
			scope: facts(last(v1alpha1.PreviewChanges, moved(func(p *v1alpha1.PreviewStatus) { p.Generation = 1 })), plan(operation(""))),
		},
		"a preview has just failed": {
			reason: "not again at once", kind: outcome.KindRetry, word: v1alpha1.ReasonPreviewFailed,
			scope: facts(last(v1alpha1.PreviewFailed, func(p *v1alpha1.PreviewStatus) { p.Failures = 1 })),
		},
		"a preview has failed a while ago": {
			reason: "again", kind: outcome.KindDone, due: true,
			scope: facts(last(v1alpha1.PreviewFailed, func(p *v1alpha1.PreviewStatus) {
				p.Failures, p.EndedAt = 1, metav1.NewTime(builder.Epoch.Add(-time.Hour))
			})),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := r.decide(t.Context(), tc.scope)
			if o.Kind != tc.kind || o.Reason != tc.word || (tc.scope.trigger != nil) != tc.due {
				t.Errorf("decide(): %s: %v %q, trigger %v", tc.reason, o.Kind, o.Reason, tc.scope.trigger)
			}
		})
	}
}

func TestWhatMovedInTheConfigurationIsNamed(t *testing.T) {
	entry := func(digest string) []v1alpha1.ConfigEntry {
		return []v1alpha1.ConfigEntry{{Name: "spec.secretsRef[pw] (Secret db/password)", Digest: digest}, {Name: "spec.config[size]", Digest: "1"}}
	}
	s := facts(last(v1alpha1.PreviewChanges, moved(func(p *v1alpha1.PreviewStatus) { p.ConfigDigest = builder.Digest("before") })),
		plan(func(b *builder.UpdatePlanBuilder) {
			b.Spec(func(spec *v1alpha1.UpdatePlanSpec) {
				spec.Binding.ConfigDigest, spec.Binding.ConfigEntries = builder.Digest("before"), entry("1")
			})
		}))
	s.configEntries = entry("2")
	want := "configuration, environment or options changed: changed spec.secretsRef[pw] (Secret db/password)"
	if got := why(s); got == nil || got.Message != want {
		t.Errorf("why() = %+v, want %q", got, want)
	}
	s.plan.Spec.Binding.ConfigDigest = builder.Digest("another preview's")
	if got := why(s); got == nil || got.Message != "configuration, environment or options changed" {
		t.Errorf("why() of another plan = %+v", got)
	}
}
