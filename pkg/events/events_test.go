// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/plangate/plangate/api/v1alpha1"
)

func ready(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message}}
}

func TestTransitionTellsStatusAndReasonAlone(t *testing.T) {
	long := strings.Repeat("x", 5000)
	tests := map[string]struct {
		reason        string
		before, after []metav1.Condition
		want          []string
	}{
		"the first": {reason: "it was not there before", after: ready("True", "Good", "fine"), want: []string{"Normal Good fine"}},
		"the same":  {reason: "no transition", before: ready("True", "Good", "fine"), after: ready("True", "Good", "fine")},
		"another message": {
			reason: "progress is not told as events", before: ready("True", "Good", "1 of 2"), after: ready("True", "Good", "2 of 2"),
		},
		"another reason": {reason: "a transition", before: ready("False", "Good", ""), after: ready("False", "Bad", "oh"), want: []string{"Warning Bad oh"}},
		"another status": {reason: "a transition", before: ready("False", "Good", ""), after: ready("True", "Good", "ok"), want: []string{"Normal Good ok"}},
		"none at all":    {reason: "nothing to tell", before: ready("True", "Good", "")},
		"a long message": {
			reason: "the API server refuses longer notes", after: ready("True", "Good", long), want: []string{"Normal Good " + strings.Repeat("x", 997) + "…"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			Transition(recorder, &v1alpha1.Stack{}, "Ready", "Reconcile", tc.before, tc.after, func(reason string) bool { return reason == "Bad" })
			close(recorder.Events)
			var got []string
			for e := range recorder.Events {
				got = append(got, e)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Transition(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestANoteIsNoFormat(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	Emit(recorder, &v1alpha1.Stack{}, "Normal", "Good", "Reconcile", "100%s of %d")
	if got := <-recorder.Events; got != "Normal Good 100%s of %d" {
		t.Errorf("Emit() = %q", got)
	}
}
