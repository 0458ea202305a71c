// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	early = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	late  = metav1.NewTime(early.Add(time.Hour))
)

func TestSetMovesTheTransitionTimeWithTheStatusAlone(t *testing.T) {
	tests := map[string]struct {
		reason string
		set    func(Setter)
		want   metav1.Condition
	}{
		"the same": {
			reason: "an object at rest is not written",
			set:    func(s Setter) { s.True("A", "R", "m") },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "m", ObservedGeneration: 1, LastTransitionTime: early},
		},
		"another message": {
			reason: "the status is the same",
			set:    func(s Setter) { s.True("A", "Other", "n") },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "Other", Message: "n", ObservedGeneration: 1, LastTransitionTime: early},
		},
		"another status": {
			reason: "that is a transition",
			set:    func(s Setter) { s.False("A", "R", "m") },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "R", Message: "m", ObservedGeneration: 1, LastTransitionTime: late},
		},
		"kept": {
			reason: "it was observed for this generation",
			set:    func(s Setter) { s.Keep("A", "R", "other") },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "m", ObservedGeneration: 1, LastTransitionTime: early},
		},
		"kept from another generation": {
			reason: "what was observed is of another spec",
			set:    func(s Setter) { s.Generation = 2; s.Keep("A", "Due", "other") },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionUnknown, Reason: "Due", Message: "other", ObservedGeneration: 2, LastTransitionTime: late},
		},
		"renewed": {
			reason: "it was True all the time",
			set:    func(s Setter) { restore := s.Renew("A"); s.True("A", "R", "m"); restore() },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "m", ObservedGeneration: 1, LastTransitionTime: early},
		},
		"renewed to another status": {
			reason: "that is a transition",
			set:    func(s Setter) { restore := s.Renew("A"); s.False("A", "R", "m"); restore() },
			want:   metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "R", Message: "m", ObservedGeneration: 1, LastTransitionTime: late},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var list []metav1.Condition
			Setter{Conditions: &list, Generation: 1, Now: early}.True("A", "R", "m")
			tc.set(Setter{Conditions: &list, Generation: 1, Now: late})
			if diff := cmp.Diff([]metav1.Condition{tc.want}, list); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRenewRemovesWhatIsNotSetAgain(t *testing.T) {
	var list []metav1.Condition
	set := Setter{Conditions: &list, Now: early}
	set.True("A", "R", "m")
	set.Renew("A", "B")()
	if len(list) != 0 {
		t.Errorf("Renew(): left %v", list)
	}
}

func TestReadingAConditionThatIsNotThere(t *testing.T) {
	if IsTrue(nil, "A") || Reason(nil, "A") != "" || Message(nil, "A") != "" {
		t.Error("a condition that is absent says something")
	}
}

func TestShortenCutsBetweenCharacters(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", 100), strings.Repeat("é", 100), strings.Repeat("日本", 50), "bad \xff\xfe" + strings.Repeat("\xff", 100)} {
		for limit := 3; limit < 60; limit++ {
			got := Shorten(s, limit)
			if len(got) > limit || !utf8.ValidString(got) {
				t.Fatalf("Shorten(%q, %d) = %q", s, limit, got)
			}
			if valid := strings.ToValidUTF8(s, "?"); len(valid) <= limit && got != valid {
				t.Fatalf("Shorten(%q, %d) = %q, which it need not", s, limit, got)
			}
		}
	}
}
