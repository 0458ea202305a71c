// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

var (
	now      = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	notAfter = now.Add(time.Hour)
	other    = "sha256:" + strings.Repeat("0", 64)
)

func hexes(c string, n int) string { return strings.Repeat(c, n) }

// plan is one that waits.
func plan(t testing.TB) *v1alpha1.UpdatePlan {
	t.Helper()
	return planBy(t)
}

// planBy is one that waits, and whose authors are known.
func planBy(_ testing.TB, authors ...string) *v1alpha1.UpdatePlan {
	spec, err := plans.NewSpec(plans.SpecInput{
		Namespace: "team-a", Cluster: "cluster-1", Nonce: hexes("a", 32),
		Stack:    v1alpha1.StackReference{Name: "web", UID: "uid", Generation: 1, ResourceVersion: "1"},
		Sequence: 3, Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRequested}, Authors: authors,
		Binding: v1alpha1.Binding{
			Revision: hexes("1", 40), Repository: "https://git.example/repo", Tree: hexes("2", 40),
			ConfigDigest: "sha256:" + hexes("3", 64), StateDigest: "sha256:" + hexes("4", 64), PulumiVersion: "v3.276.0",
			WorkspaceImage: "sha256:" + hexes("6", 64),
		},
		Artifact: v1alpha1.Artifact{Digest: "sha256:" + hexes("5", 64), Size: 1, Chunks: []string{"web-plan-0"}},
		NotAfter: notAfter,
		Plan:     plans.New([]v1alpha1.ResourceChange{{Operation: v1alpha1.ChangeDelete, Type: "t", Name: "n", URN: "u"}}, 0),
	})
	if err != nil {
		panic(err)
	}
	return &v1alpha1.UpdatePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: plans.PlanName("web", 3, spec.Digest), Annotations: map[string]string{}},
		Spec:       spec,
	}
}

type change func(*v1alpha1.UpdatePlan)

// enforced is what a Guard says while the admission policies are in force.
var enforced = Admission{Enforced: true}

const alicesKey, bobsKey = v1alpha1.DomainApprove + "/alice", v1alpha1.DomainReject + "/bob"

// say writes a record as the admission policies let a user write it.
func say(key, user, reason string) change {
	return func(p *v1alpha1.UpdatePlan) {
		p.Annotations[key] = Stamp{Digest: p.Spec.Digest, User: user, Reason: reason}.String()
	}
}

func approve(reason string) change { return say(alicesKey, "alice", reason) }

func reject(reason string) change { return say(bobsKey, "bob", reason) }

func authored(names ...string) change {
	return func(p *v1alpha1.UpdatePlan) { *p = *planBy(nil, names...); p.Annotations = map[string]string{} }
}

// remember writes down what was decided, as the operator does.
func remember(admission Admission) change {
	return func(p *v1alpha1.UpdatePlan) {
		v := Verify(Input{Plan: p, Now: now, Admission: admission})
		p.Status.Decisions = Record(p.Status.Decisions, v.Decisions)
		if v.Unguarded && p.Status.UnguardedSince == nil {
			p.Status.UnguardedSince = &metav1.Time{Time: now}
		}
	}
}

func condition(typ string, status metav1.ConditionStatus, reason string) change {
	return func(p *v1alpha1.UpdatePlan) {
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: typ, Status: status, Reason: reason, Message: "message"})
	}
}

func recorded(verdict v1alpha1.DecisionVerdict, digest string) change {
	return func(p *v1alpha1.UpdatePlan) {
		if digest == "" {
			digest = p.Spec.Digest
		}
		p.Status.Decisions = append(p.Status.Decisions, v1alpha1.Decision{Verdict: verdict, Digest: digest, By: "alice", Verified: true, Method: v1alpha1.MethodAnnotation, Key: alicesKey, ObservedAt: metav1.NewTime(now)})
	}
}

func TestVerify(t *testing.T) {
	for name, tc := range map[string]struct {
		why     string
		changes []change
		at      time.Time
		state   State
		reason  string
		verdict []v1alpha1.DecisionVerdict
	}{
		"waits when nobody said anything": {
			state: Waiting, reason: v1alpha1.ReasonWaitingForApproval,
		},
		"approved by the whole digest": {
			changes: []change{approve("")}, state: Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"approved with a reason": {
			changes: []change{approve("looks good, José")}, state: Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"a rejection wins over an approval": {
			changes: []change{approve(""), reject("no")}, state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Approved", "Rejected"},
		},
		"a rejection wins over an approval that was recorded": {
			why: "it is not too late before the apply was started", changes: []change{approve(""), remember(enforced), reject("")},
			state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Rejected"},
		},
		"a rejection outlives its annotation": {
			changes: []change{reject("no"), remember(enforced), func(p *v1alpha1.UpdatePlan) { p.Annotations = nil }}, state: Rejected, reason: v1alpha1.ReasonRejected,
		},
		"a recorded rejection is final": {
			changes: []change{recorded("Rejected", ""), approve("")}, state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"an approval that was recorded still counts": {
			changes: []change{approve(""), remember(enforced)}, state: Approved, reason: v1alpha1.ReasonApproved,
		},
		"a recorded approval without its annotation counts for nothing": {
			why: "a forged status alone must not approve; the API server lets nobody take the annotation away", changes: []change{recorded("Approved", "")},
			state: Waiting, reason: v1alpha1.ReasonWaitingForApproval,
		},
		"an approval in an author's name": {
			changes: []change{authored("alice"), approve("")}, state: Waiting, reason: v1alpha1.ReasonWaitingForApproval, verdict: []v1alpha1.DecisionVerdict{"Refused"},
		},
		"an approval by somebody else than the author": {
			changes: []change{authored("carol"), approve("")}, state: Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"a status that says an author's approval counts": {
			why: "what was approved must still deserve it", changes: []change{authored("alice"), approve(""), func(p *v1alpha1.UpdatePlan) {
				p.Status.Decisions = []v1alpha1.Decision{{
					Verdict: "Approved", Method: v1alpha1.MethodAnnotation, Key: alicesKey, By: "alice", Verified: true, Digest: p.Spec.Digest,
					Evidence: plans.Digest(p.Annotations[alicesKey]), ObservedAt: metav1.NewTime(now),
				}}
			}}, state: Waiting, reason: v1alpha1.ReasonWaitingForApproval, verdict: []v1alpha1.DecisionVerdict{"Refused"},
		},
		"an author rejects": {
			changes: []change{authored("bob"), reject("wrong region")}, state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Rejected"},
		},
		"the same person twice": {
			changes: []change{approve(""), say(v1alpha1.DomainApprove+"/again", "alice", "me again")},
			state:   Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved", "Refused"},
		},
		"an approval of a class that nobody asked for": {
			changes: []change{say("approve-security.plangate.dev/alice", "alice", "")},
			state:   Waiting, reason: v1alpha1.ReasonWaitingForApproval, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"a rejection by a class": {
			changes: []change{say("reject-security.plangate.dev/alice", "alice", "")},
			state:   Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Rejected"},
		},
		"the short form, not stamped": {
			changes: []change{func(p *v1alpha1.UpdatePlan) { p.Annotations[v1alpha1.AnnotationApprove] = p.Spec.Digest }},
			state:   Waiting, reason: v1alpha1.ReasonWaitingForApproval, verdict: []v1alpha1.DecisionVerdict{"Refused"},
		},
		"a rejection in the short form, not stamped": {
			why: "it opens nothing", changes: []change{approve(""), func(p *v1alpha1.UpdatePlan) { p.Annotations[v1alpha1.AnnotationReject] = "not on a Friday" }},
			state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Approved", "Rejected"},
		},
		"a recorded approval of another digest counts for nothing": {
			changes: []change{recorded("Approved", other)}, state: Waiting, reason: v1alpha1.ReasonWaitingForApproval,
		},
		"a recorded refusal counts for nothing": {
			changes: []change{recorded("Refused", "")}, state: Waiting, reason: v1alpha1.ReasonWaitingForApproval,
		},
		"the condition alone counts for nothing": {
			changes: []change{condition(v1alpha1.ConditionApproved, metav1.ConditionTrue, "Approved")}, state: Waiting, reason: v1alpha1.ReasonWaitingForApproval,
		},
		"a rejection comes too late": {
			changes: []change{approve(""), remember(enforced), reject(""), func(p *v1alpha1.UpdatePlan) { p.Status.Operation = &v1alpha1.ApplyOperation{ID: "op"} }},
			state:   Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Refused"},
		},
		"expired at the very second": {
			changes: []change{approve("")}, at: notAfter, state: Ended, reason: v1alpha1.ReasonExpired,
		},
		"in time a second before": {
			changes: []change{approve("")}, at: notAfter.Add(-time.Second), state: Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"an approval that was not used in time": {
			changes: []change{approve(""), remember(enforced)}, at: notAfter.Add(time.Second), state: Ended, reason: v1alpha1.ReasonExpired,
		},
		"an approval that was used in time": {
			changes: []change{approve(""), remember(enforced), func(p *v1alpha1.UpdatePlan) { p.Status.Operation = &v1alpha1.ApplyOperation{ID: "op"} }},
			at:      notAfter.Add(time.Second), state: Approved, reason: v1alpha1.ReasonApproved,
		},
		"superseded": {
			changes: []change{approve(""), condition(v1alpha1.ConditionObsolete, metav1.ConditionTrue, v1alpha1.ReasonSuperseded)}, state: Ended, reason: v1alpha1.ReasonSuperseded,
		},
		"not obsolete": {
			changes: []change{approve(""), condition(v1alpha1.ConditionObsolete, metav1.ConditionFalse, v1alpha1.ReasonCurrent)},
			state:   Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"applied": {
			changes: []change{approve(""), condition(v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied)}, state: Ended, reason: v1alpha1.ReasonApplied,
		},
		"applied in part": {
			changes: []change{approve(""), condition(v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonPartiallyApplied)}, state: Ended, reason: v1alpha1.ReasonPartiallyApplied,
		},
		"being deleted": {
			changes: []change{approve(""), func(p *v1alpha1.UpdatePlan) { p.DeletionTimestamp = &metav1.Time{Time: now} }}, state: Ended, reason: v1alpha1.ReasonDeleting,
		},
		"a spec that was edited": {
			changes: []change{approve(""), func(p *v1alpha1.UpdatePlan) { p.Spec.Changes = nil }}, state: Ended, reason: v1alpha1.ReasonSpecInvalid,
		},
		"a digest that was edited": {
			changes: []change{func(p *v1alpha1.UpdatePlan) { p.Spec.Digest = other }, approve("")}, state: Ended, reason: v1alpha1.ReasonSpecInvalid,
		},
		"a copy under another name": {
			why: "one approval is spent once", changes: []change{approve(""), func(p *v1alpha1.UpdatePlan) { p.Name += "-copy" }}, state: Ended, reason: v1alpha1.ReasonSpecInvalid,
		},
		"a copy in another namespace": {
			changes: []change{approve(""), func(p *v1alpha1.UpdatePlan) { p.Namespace = "team-b" }}, state: Ended, reason: v1alpha1.ReasonSpecInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t)
			for _, c := range tc.changes {
				c(p)
			}
			at := tc.at
			if at.IsZero() {
				at = now
			}
			v := Verify(Input{Plan: p, Cluster: "cluster-1", Now: at, Admission: enforced})
			if v.State != tc.state || v.Reason != tc.reason || v.Message == "" || v.Requirements == "" {
				t.Errorf("Verify() = %+v, want %s, %s (%s)", v, tc.state, tc.reason, tc.why)
			}
			var got []v1alpha1.DecisionVerdict
			for _, d := range v.Decisions {
				got = append(got, d.Verdict)
			}
			if diff := cmp.Diff(tc.verdict, got); diff != "" {
				t.Errorf("decisions: -want +got\n%s", diff)
			}
			if again := Verify(Input{Plan: withRecorded(p, v.Decisions), Cluster: "cluster-1", Now: at, Admission: enforced}); again.State != v.State || len(again.Decisions) != 0 {
				t.Errorf("Verify() again = %+v, want the same and nothing new", again)
			}
		})
	}
}

func withRecorded(p *v1alpha1.UpdatePlan, found []v1alpha1.Decision) *v1alpha1.UpdatePlan {
	p = p.DeepCopy()
	p.Status.Decisions = Record(p.Status.Decisions, found)
	return p
}

func TestVerifyFailsClosed(t *testing.T) {
	p := plan(t)
	approve("")(p)
	for name, v := range map[string]Verdict{
		"the zero verdict": {},
		"no plan":          Verify(Input{Now: now, Admission: enforced}),
		"no time":          Verify(Input{Plan: p, Admission: enforced}),
		"another cluster":  Verify(Input{Plan: p, Now: now, Cluster: "cluster-2", Admission: enforced}),
		"an empty plan":    Verify(Input{Plan: &v1alpha1.UpdatePlan{}, Now: now, Admission: enforced}),
		"nothing proven":   Verify(Input{Plan: p, Now: now}),
	} {
		if v.Allows() {
			t.Errorf("%s allows", name)
		}
	}
}

// TestUnprovenPoliciesCloseTheDoor: while nothing vouches for annotations none counts, not even one that was accepted; what
// appeared then never will; and what was accepted before counts again when they are back.
func TestUnprovenPoliciesCloseTheDoor(t *testing.T) {
	gone := Admission{Why: "there is no policy: install it"}
	p := plan(t)
	v := Verify(Input{Plan: p, Now: now, Admission: gone})
	if v.State != Waiting || v.Reason != v1alpha1.ReasonAdmissionNotEnforced || !strings.Contains(v.Message, gone.Why) || v.Unguarded {
		t.Errorf("without an approval: %+v", v)
	}
	approve("")(p)
	v = Verify(Input{Plan: p, Now: now, Admission: gone})
	if v.State != Waiting || !v.Unguarded || len(v.Decisions) != 1 || v.Decisions[0].Refusal != v1alpha1.RefusedNotEnforced || v.Decisions[0].Verified {
		t.Errorf("with an approval: %+v", v)
	}
	if d := v.Decisions[0]; !strings.HasPrefix(d.By, "unverified (it says alice)") || !strings.Contains(d.Reason, "request-plan") {
		t.Errorf("the refusal does not say whose it is or what would help: %+v", d)
	}
	remember(gone)(p)
	say(v1alpha1.DomainApprove+"/carol", "carol", "")(p)
	if v = Verify(Input{Plan: p, Now: now, Admission: enforced}); v.State != Waiting || len(v.Decisions) != 1 || v.Decisions[0].Refusal != v1alpha1.RefusedNotEnforced {
		t.Errorf("when they are back, with another approval: %+v", v)
	}
	p.Status.Decisions = nil
	if v = Verify(Input{Plan: p, Now: now, Admission: enforced}); v.State != Waiting {
		t.Errorf("when the refusal was forgotten: %+v", v)
	}

	p = plan(t)
	approve("")(p)
	remember(enforced)(p)
	if v = Verify(Input{Plan: p, Now: now, Admission: gone}); v.State != Waiting || v.Unguarded || len(v.Decisions) != 0 {
		t.Errorf("an approval that was accepted, while they are gone: %+v", v)
	}
	if v = Verify(Input{Plan: p, Now: now, Admission: enforced}); v.State != Approved {
		t.Errorf("an approval that was accepted, when they are back: %+v", v)
	}
	reject("no")(p)
	if v = Verify(Input{Plan: p, Now: now, Admission: gone}); v.State != Rejected || v.Decisions[0].Verified {
		t.Errorf("a rejection while they are gone: %+v", v)
	}
}

func TestJunkIsNotWrittenDownAnewWithEveryLook(t *testing.T) {
	p := plan(t)
	for i := range 30 {
		p.Annotations[fmt.Sprint(v1alpha1.DomainApprove, "/", i)] = "junk"
		p.Annotations[fmt.Sprint("plangate.dev/aprove", i)] = "junk"
	}
	remember(enforced)(p)
	if n := len(p.Status.Decisions); n != MaxRefused {
		t.Errorf("%d refusals are kept, want %d", n, MaxRefused)
	}
	if v := Verify(Input{Plan: p, Now: now, Admission: enforced}); len(v.Decisions) != 0 {
		t.Errorf("at the second look: %+v", v.Decisions)
	}
	approve("")(p)
	if v := Verify(Input{Plan: p, Now: now, Admission: enforced}); v.State != Approved {
		t.Errorf("junk keeps an approval out: %+v", v)
	}
}

// TestVerifyRandomHistories is rule 1: over random histories, nothing is allowed without an annotation that is exactly a
// record of this plan's digest by somebody who is no author, seen while the policies were proven; nor while they are not; and
// taking approvals away never allows.
func TestVerifyRandomHistories(t *testing.T) {
	values := func(p *v1alpha1.UpdatePlan) []string {
		d := p.Spec.Digest
		return []string{
			"", d, d + " by alice", d + " by alice -- why", d + " by carol", d + " by author", d + " by alice ", " " + d + " by alice", d[:40] + " by alice",
			strings.ToUpper(d) + " by alice", d[7:] + " by alice", other + " by alice", d + " by alice\n", d + "\u00a0by alice", d + " by ", "* by alice", d + " by al\u200bice", d + " by alice -- ",
		}
	}
	keys := []string{alicesKey, v1alpha1.DomainApprove + "/b", v1alpha1.AnnotationApprove, "approve-security.plangate.dev/c"}
	random := rand.New(rand.NewPCG(1, 2))
	first := planBy(t, "author")
	allowed := 0
	for range 1000 {
		p := first.DeepCopy()
		// guarded are the values that somebody may write while the policies are in force.
		guarded, at, in := map[string]bool{}, now, enforced
		for step := range 1 + random.IntN(8) {
			all := values(p)
			switch random.IntN(7) {
			case 0, 1, 2:
				value, key := all[random.IntN(len(all))], keys[random.IntN(2)]
				if random.IntN(4) == 0 {
					key = keys[random.IntN(len(keys))]
				}
				p.Annotations[key] = value
				delete(guarded, key)
				if s, err := ParseStamp(value); err == nil && in.Enforced && s.Digest == p.Spec.Digest && s.User != "author" && strings.HasPrefix(key, v1alpha1.DomainApprove+"/") {
					guarded[key] = true
				}
			case 3:
				p.Annotations[bobsKey] = all[random.IntN(len(all))]
			case 4:
				key := keys[random.IntN(2)]
				delete(p.Annotations, key)
				delete(guarded, key)
			case 5:
				at = at.Add(time.Duration(random.IntN(30)) * time.Minute)
			case 6:
				in = Admission{Enforced: random.IntN(2) == 0}
			}
			v := Verify(Input{Plan: p, Now: at, Admission: in})
			rejection, err := ParseStamp(p.Annotations[bobsKey])
			if v.Allows() && (len(guarded) == 0 || !in.Enforced || err == nil && rejection.Digest == p.Spec.Digest || !at.Before(notAfter)) {
				t.Fatalf("step %d: allowed with annotations %q at %s, %+v", step, p.Annotations, at, in)
			}
			if v.Allows() {
				allowed++
			}
			key := keys[random.IntN(len(keys))]
			without := p.DeepCopy()
			delete(without.Annotations, key)
			if !v.Allows() && Verify(Input{Plan: without, Now: at, Admission: in}).Allows() {
				t.Fatalf("step %d: taking %s away allows: %q", step, key, p.Annotations)
			}
			// The operator sees every write: the policies are proven after it.
			p.Status.Decisions = Record(p.Status.Decisions, v.Decisions)
			if v.Unguarded && p.Status.UnguardedSince == nil {
				p.Status.UnguardedSince = &metav1.Time{Time: at}
			}
		}
	}
	if allowed < 100 {
		t.Errorf("only %d states were allowed: the histories prove little", allowed)
	}
}

func TestRecordKeepsWhatCounts(t *testing.T) {
	all := []v1alpha1.Decision{{Verdict: "Approved", Method: "m", Evidence: "e"}}
	for i := range 50 {
		all = Record(all, []v1alpha1.Decision{{Verdict: "Refused", Method: "m", Evidence: fmt.Sprint(i)}})
	}
	if len(all) != MaxRefused+1 || all[0].Verdict != "Approved" || all[MaxRefused].Evidence != "49" {
		t.Errorf("Record() keeps %d, first %+v, last %+v", len(all), all[0], all[len(all)-1])
	}
	if again := Record(all, all); len(again) != len(all) {
		t.Error("Record() records twice")
	}
}
