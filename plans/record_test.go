// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

var recordTime = time.Date(2026, time.January, 2, 4, 4, 5, 999, time.FixedZone("east", 3600))

func endedPlan() *v1alpha1.UpdatePlan {
	return builder.UpdatePlan("ns", "web-1").UID("uid").Created(recordTime).Status(func(s *v1alpha1.UpdatePlanStatus) {
		s.Decisions = []v1alpha1.Decision{{
			Verdict: v1alpha1.DecisionApproved, Method: "annotation", By: "dana <dana@example.com>", Digest: builder.Digest("x"),
			Reason: "because & so\u2028", ObservedAt: metav1.NewTime(recordTime), Evidence: builder.Digest("y"),
		}}
		s.Operation = &v1alpha1.ApplyOperation{
			ID: "op", Pod: v1alpha1.PodReference{Name: "pod", UID: "pod-uid"}, StartedAt: metav1.NewTime(recordTime), Done: 2, Total: 2,
			LogTail: "long", Permalink: "https://app.pulumi.com/x",
		}
	}).Obj()
}

func recordOf(plan *v1alpha1.UpdatePlan) Record {
	return NewRecord(RecordInput{Plan: plan, Outcome: v1alpha1.ReasonApplied, Message: "all of it", EndedAt: recordTime, Index: 2, Previous: builder.Digest("1")})
}

// The bytes of a record are an interface: records that were made before must keep their digests.
func TestARecordsBytesStayAsTheyAre(t *testing.T) {
	want := `{"version":"plangate.dev/record/v1alpha1","index":2,"previous":"` + builder.Digest("1") + `","namespace":"ns",` +
		`"stack":{"name":"web","uid":"00000000-0000-4000-8000-000000000001"},` +
		`"plan":{"name":"web-1","uid":"uid","sequence":1,"digest":"` + builder.Digest("statement of ns/web-1") + `","operation":"Update",` +
		`"trigger":"SpecChanged","why":"the Stack is new","repository":"https://git.example.com/project.git","revision":"` + builder.Commit + `","changes":"+1"},` +
		`"outcome":"Applied","message":"all of it","createdAt":"2026-01-02T03:04:05Z","endedAt":"2026-01-02T03:04:05Z",` +
		`"decisions":[{"verdict":"Approved","by":"dana <dana@example.com>","verified":false,"method":"annotation","digest":"` + builder.Digest("x") + `",` +
		`"reason":"because & so\u2028","at":"2026-01-02T03:04:05Z","evidence":"` + builder.Digest("y") + `"}],` +
		`"apply":{"id":"op","pod":{"name":"pod","uid":"pod-uid"},"startedAt":"2026-01-02T03:04:05Z","done":2,"total":2,"permalink":"https://app.pulumi.com/x"}}`
	r := recordOf(endedPlan())
	if diff := cmp.Diff(want, string(r.Bytes())); diff != "" {
		t.Errorf("Bytes(): -want +got\n%s", diff)
	}
	if got := r.Digest(); got != builder.Digest(want) {
		t.Errorf("Digest() = %s", got)
	}
	var again Record
	if err := json.Unmarshal(r.Bytes(), &again); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("read again: %v\n%s", err, cmp.Diff(r, again))
	}
	bare := builder.UpdatePlan("ns", "web-1").Obj()
	if text := string(recordOf(bare).Bytes()); !strings.Contains(text, `"decisions":[],"apply":null}`) {
		t.Errorf("a plan that nobody decided on: %s", text)
	}
}

// Whatever of a record is another, its digest is.
func TestEveryFieldOfARecordIsInItsDigest(t *testing.T) {
	full := func() Record {
		plan := endedPlan()
		plan.Spec.Authors = []string{"carol"}
		plan.Spec.Trigger.Completes = &v1alpha1.CompletedPlan{Name: "web-0"}
		since := metav1.NewTime(recordTime)
		plan.Status.ReleasedLocks = []v1alpha1.ReleasedLock{{
			StackLock: v1alpha1.StackLock{ID: "lock", Holder: "alice@laptop (pid 4711)", Since: &since, Ours: "op-0"}, Cause: v1alpha1.LockOwnDead, By: "proof", ReleasedAt: since,
		}}
		return recordOf(plan)
	}
	original := full()
	var walk func(v reflect.Value, path string)
	base := full().Digest()
	walk = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
			return
		case reflect.Pointer:
			walk(v.Elem(), path)
			return
		case reflect.Slice:
			walk(v.Index(0), path)
			return
		case reflect.String:
			old := v.String()
			v.SetString(old + "x")
			defer v.SetString(old)
		case reflect.Bool:
			v.SetBool(!v.Bool())
			defer v.SetBool(!v.Bool())
		default:
			v.SetInt(v.Int() + 1)
			defer v.SetInt(v.Int() - 1)
		}
		if original.Digest() == base {
			t.Errorf("a change of %s does not show", path)
		}
	}
	walk(reflect.ValueOf(&original), "record")
	if original.Digest() != base {
		t.Error("the test does not put everything back")
	}
}

// chainOf is a chain of records, all superseded but those named.
func chainOf(length int, applied ...int) ([]Link, *v1alpha1.RecordHead) {
	var links []Link
	previous := ""
	for i := 1; i <= length; i++ {
		plan := builder.UpdatePlan("ns", fmt.Sprintf("web-%d", i)).Obj()
		in := RecordInput{Plan: plan, Outcome: v1alpha1.ReasonSuperseded, EndedAt: recordTime, Index: int64(i), Previous: previous}
		for _, a := range applied {
			if a == i {
				in.Outcome = v1alpha1.ReasonApplied
			}
		}
		r := NewRecord(in)
		previous = r.Digest()
		links = append(links, Link{Record: r, Digest: previous})
	}
	return links, &v1alpha1.RecordHead{Plan: fmt.Sprintf("web-%d", length), Digest: previous, Index: int64(length)}
}

func TestVerifyChain(t *testing.T) {
	without := func(links []Link, indexes ...int64) []Link {
		var left []Link
	next:
		for _, l := range links {
			for _, i := range indexes {
				if l.Record.Index == i {
					continue next
				}
			}
			left = append(left, l)
		}
		return left
	}
	tests := map[string]struct {
		reason string
		spoil  func(links []Link, head *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead)
		faults []string
		notes  []string
	}{
		"a whole chain": {reason: "the plain case", spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return l, h }},
		"none at all":   {reason: "a new Stack", spoil: func([]Link, *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return nil, nil }},
		"a pruned beginning": {
			reason: "history is limited", notes: []string{"begins with record 4"},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return without(l, 1, 2, 3), h },
		},
		"the last applied plan outlives others": {
			reason: "it is never pruned", notes: []string{"begins with record 2", "records 3 to 4 are pruned"},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return without(l, 1, 3, 4), h },
		},
		"a hole": {
			reason: "only one applied plan may stand apart", notes: []string{"begins with record 3"}, faults: []string{"record 4: missing, up to 4"},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return without(l, 1, 2, 4), h },
		},
		"a hole after the beginning": {
			reason: "what is pruned is the oldest", faults: []string{"record 4: missing, up to 5"},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return without(l, 4, 5), h },
		},
		"the last one is gone": {
			reason: "the head is never pruned", faults: []string{"record 6: missing, up to 6, which"},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return without(l, 6), h },
		},
		"all are gone": {
			reason: "the head is never pruned", faults: []string{"record 1: missing, up to 6"},
			spoil: func(_ []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return nil, h },
		},
		"a status that was edited": {
			reason: "the record is made from it", faults: []string{`record 3 (UpdatePlan "web-3"): what the plan says is not what was recorded`},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) {
				l[2].Record.Outcome = v1alpha1.ReasonApplied
				return l, h
			},
		},
		"a status and its record that were edited": {
			reason: "the next one names another", faults: []string{`record 4 (UpdatePlan "web-4"): it follows`},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) {
				l[2].Record.Outcome = v1alpha1.ReasonApplied
				l[2].Digest = l[2].Record.Digest()
				return l, h
			},
		},
		"the last status and its record were edited": {
			reason: "the Stack's status names another", faults: []string{"the Stack's status names another last record"},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) {
				l[5].Record.Outcome = v1alpha1.ReasonApplied
				l[5].Digest = l[5].Record.Digest()
				return l, h
			},
		},
		"a fork": {
			reason: "two plans with one number", faults: []string{`the chain forks: UpdatePlan "web-5" has the same number`, `record 6 (UpdatePlan "web-6"): it follows`},
			spoil: func(l []Link, h *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) {
				r := l[4].Record
				r.Plan.Name = "web-5-other"
				return append(l, Link{Record: r, Digest: r.Digest()}), h
			},
		},
		"a head that lags by one": {
			reason: "it is written after the record", notes: []string{"record 6 was only just written"},
			spoil: func(l []Link, _ *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) {
				return l, &v1alpha1.RecordHead{Plan: "web-5", Digest: l[4].Digest, Index: 5}
			},
		},
		"a head that lags by more": {
			reason: "nothing follows what it does not name", faults: []string{"names record 3 as the last"},
			spoil: func(l []Link, _ *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) {
				return l, &v1alpha1.RecordHead{Plan: "web-3", Digest: l[2].Digest, Index: 3}
			},
		},
		"no head": {
			reason: "nothing follows what it does not name", faults: []string{"names no head"},
			spoil: func(l []Link, _ *v1alpha1.RecordHead) ([]Link, *v1alpha1.RecordHead) { return l, nil },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			links, head := tc.spoil(chainOf(6, 2))
			c := VerifyChain(links, head)
			var faults []string
			for _, f := range c.Faults {
				faults = append(faults, f.String())
			}
			for _, list := range [][2][]string{{tc.faults, faults}, {tc.notes, c.Notes}} {
				match := len(list[0]) == len(list[1])
				for i := range list[0] {
					match = match && strings.Contains(list[1][i], list[0][i])
				}
				if !match {
					t.Errorf("VerifyChain(): %s: want %q, got %q", tc.reason, list[0], list[1])
				}
			}
		})
	}
}

// However the records come, and whatever single thing is done to one that is not the first, it is found.
func TestNoChangeOfAChainPasses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		links, head := chainOf(2 + random.IntN(8))
		random.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
		if c := VerifyChain(links, head); len(c.Faults)+len(c.Notes) != 0 {
			t.Fatalf("a whole chain: %v %v", c.Faults, c.Notes)
		}
		victim := &links[random.IntN(len(links))]
		switch random.IntN(4) {
		case 0:
			victim.Record.Message = "another"
		case 1:
			victim.Record.EndedAt, victim.Digest = "another", Record{}.Digest()
		case 2:
			victim.Record.Previous = Digest("another")
			victim.Digest = victim.Record.Digest()
		default:
			if victim.Record.Index == 1 {
				continue
			}
			*victim = links[0]
			links = links[1:]
		}
		if c := VerifyChain(links, head); len(c.Faults) == 0 {
			t.Fatalf("a change passes: %+v", links)
		}
	}
}
