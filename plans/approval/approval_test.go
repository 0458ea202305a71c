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
	spec, err := plans.NewSpec(plans.SpecInput{
		Namespace: "team-a", Cluster: "cluster-1", Nonce: hexes("a", 32),
		Stack:    v1alpha1.StackReference{Name: "web", UID: "uid", Generation: 1, ResourceVersion: "1"},
		Sequence: 3, Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRequested},
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
		t.Fatal(err)
	}
	return &v1alpha1.UpdatePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: plans.PlanName("web", 3, spec.Digest), Annotations: map[string]string{}},
		Spec:       spec,
	}
}

type change func(*v1alpha1.UpdatePlan)

func approve(reason string) change {
	return func(p *v1alpha1.UpdatePlan) { p.Annotations[v1alpha1.AnnotationApprove] = p.Spec.Digest + reason }
}

func reject(reason string) change {
	return func(p *v1alpha1.UpdatePlan) { p.Annotations[v1alpha1.AnnotationReject] = p.Spec.Digest + reason }
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
		p.Status.Decisions = append(p.Status.Decisions, v1alpha1.Decision{Verdict: verdict, Digest: digest, By: "unverified", Method: "annotation plangate.dev/approve", ObservedAt: metav1.NewTime(now)})
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
			changes: []change{approve(" looks good, José")}, state: Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"a rejection wins over an approval": {
			changes: []change{approve(""), reject(" no")}, state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Approved", "Rejected"},
		},
		"a rejection wins over an approval that was recorded": {
			why: "it is not too late before the apply was started", changes: []change{recorded("Approved", ""), reject("")},
			state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Rejected"},
		},
		"a recorded rejection is final": {
			changes: []change{recorded("Rejected", ""), approve("")}, state: Rejected, reason: v1alpha1.ReasonRejected, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"a recorded approval outlives its annotation": {
			why: "it was accepted; taking it back is what rejecting is for", changes: []change{recorded("Approved", "")}, state: Approved, reason: v1alpha1.ReasonApproved,
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
			changes: []change{recorded("Approved", ""), reject(""), func(p *v1alpha1.UpdatePlan) { p.Status.Operation = &v1alpha1.ApplyOperation{ID: "op"} }},
			state:   Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Refused"},
		},
		"expired at the very second": {
			changes: []change{approve("")}, at: notAfter, state: Ended, reason: v1alpha1.ReasonExpired,
		},
		"in time a second before": {
			changes: []change{approve("")}, at: notAfter.Add(-time.Second), state: Approved, reason: v1alpha1.ReasonApproved, verdict: []v1alpha1.DecisionVerdict{"Approved"},
		},
		"an approval that was not used in time": {
			changes: []change{recorded("Approved", "")}, at: notAfter.Add(time.Second), state: Ended, reason: v1alpha1.ReasonExpired,
		},
		"an approval that was used in time": {
			changes: []change{recorded("Approved", ""), func(p *v1alpha1.UpdatePlan) { p.Status.Operation = &v1alpha1.ApplyOperation{ID: "op"} }},
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
			v := Verify(Input{Plan: p, Cluster: "cluster-1", Now: at})
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
			if again := Verify(Input{Plan: withRecorded(p, v.Decisions), Cluster: "cluster-1", Now: at}); again.State != v.State || len(again.Decisions) != 0 {
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
		"no plan":          Verify(Input{Now: now}),
		"no time":          Verify(Input{Plan: p}),
		"another cluster":  Verify(Input{Plan: p, Now: now, Cluster: "cluster-2"}),
		"an empty plan":    Verify(Input{Plan: &v1alpha1.UpdatePlan{}, Now: now}),
	} {
		if v.Allows() {
			t.Errorf("%s allows", name)
		}
	}
}

// TestVerifyRandomHistories is rule 1: over random histories, nothing is allowed without an annotation, at some time, that
// is exactly this plan's digest; and taking approvals away never allows.
func TestVerifyRandomHistories(t *testing.T) {
	values := func(p *v1alpha1.UpdatePlan) []string {
		d := p.Spec.Digest
		return []string{"", d, d + " why", d + " ", " " + d, d[:40], strings.ToUpper(d), d[7:], other, d + "\n", d + "\u00a0x", d + d, "sha256:", "*", "sha256:<digest>", d + "\tx"}
	}
	random := rand.New(rand.NewPCG(1, 2))
	first := plan(t)
	for range 1000 {
		p := first.DeepCopy()
		approved, rejected := false, false
		at := now
		for step := range 1 + random.IntN(8) {
			all := values(p)
			value := all[random.IntN(len(all))]
			word, err := parse(value)
			exact := err == nil && word.digest == p.Spec.Digest
			switch random.IntN(5) {
			case 0, 1:
				p.Annotations[v1alpha1.AnnotationApprove] = value
				approved = approved || exact && at.Before(notAfter)
			case 2:
				p.Annotations[v1alpha1.AnnotationReject] = value
			case 3:
				delete(p.Annotations, v1alpha1.AnnotationApprove)
			case 4:
				at = at.Add(time.Duration(random.IntN(30)) * time.Minute)
			}
			// A rejection that was overwritten before anybody looked was never made.
			current, err := parse(p.Annotations[v1alpha1.AnnotationReject])
			saysNo := rejected || err == nil && current.digest == p.Spec.Digest
			v := Verify(Input{Plan: p, Now: at})
			if v.Allows() && (!approved || saysNo || !at.Before(notAfter)) {
				t.Fatalf("step %d: allowed with annotations %q at %s", step, p.Annotations, at)
			}
			without := p.DeepCopy()
			delete(without.Annotations, v1alpha1.AnnotationApprove)
			if Verify(Input{Plan: without, Now: at}).Allows() && !v.Allows() {
				t.Fatalf("step %d: taking the approval away allows: %q", step, p.Annotations)
			}
			if random.IntN(4) > 0 {
				p = withRecorded(p, v.Decisions)
				rejected = saysNo
			}
		}
	}
}

func TestRecordKeepsWhatCounts(t *testing.T) {
	all := []v1alpha1.Decision{{Verdict: "Approved", Method: "m", Evidence: "e"}}
	for i := range 50 {
		all = Record(all, []v1alpha1.Decision{{Verdict: "Refused", Method: "m", Evidence: fmt.Sprint(i)}})
	}
	if len(all) != MaxDecisions || all[0].Verdict != "Approved" || all[MaxDecisions-1].Evidence != "49" {
		t.Errorf("Record() keeps %d, first %+v, last %+v", len(all), all[0], all[len(all)-1])
	}
	if again := Record(all, all); len(again) != len(all) {
		t.Error("Record() records twice")
	}
}
