// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// ran is a plan whose operation ran on a host and ended in a way.
func ran(name, host, pod, result string, age int) v1alpha1.UpdatePlan {
	return *builder.UpdatePlan("ns", name).Status(func(s *v1alpha1.UpdatePlanStatus) {
		s.Operation = &v1alpha1.ApplyOperation{
			ID: "op-" + name, Host: host, Pod: v1alpha1.PodReference{Name: pod, UID: pod + "-uid"}, Result: result,
			StartedAt: metav1.NewTime(at.Add(-time.Duration(age) * time.Hour)),
		}
	}).Obj()
}

func pod(name, uid string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase}}
}

func TestOnlyWhatIsNamedOrProvenDeadMayBeReleased(t *testing.T) {
	tests := map[string]struct {
		reason string
		list   []v1alpha1.UpdatePlan
		pods   []client.Object
		id     string
		want   []string
	}{
		"nothing":                                {reason: "nobody has asked, nothing died"},
		"an id":                                  {reason: "somebody who may has named it", id: "x", want: []string{"Requested x"}},
		"an operation whose pod is gone":         {reason: "nothing of it can run", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 1)}, want: []string{"OwnDead h1"}},
		"a pod of the same name, made anew":      {reason: "it is another pod", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 1)}, pods: []client.Object{pod("p", "new", corev1.PodRunning)}, want: []string{"OwnDead h1"}},
		"a pod that has ended":                   {reason: "its containers are terminated", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 1)}, pods: []client.Object{pod("p", "p-uid", corev1.PodFailed)}, want: []string{"OwnDead h1"}},
		"a pod that is there":                    {reason: "Pulumi may run", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 1)}, pods: []client.Object{pod("p", "p-uid", corev1.PodRunning)}},
		"the host of the pod itself":             {reason: "it lives", list: []v1alpha1.UpdatePlan{ran("a", "own", "p", "Interrupted", 1)}},
		"an operation without a host of its own": {reason: "its lock looks like anybody's", list: []v1alpha1.UpdatePlan{ran("a", "", "p", "Interrupted", 1)}},
		"an operation that ended well":           {reason: "it has released its lock", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Applied", 1)}},
		"an operation that runs":                 {reason: "it has not ended", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "", 1)}},
		"several, the newest first":              {reason: "each host once", list: []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 3), ran("b", "h2", "q", "PartiallyApplied", 1), ran("c", "h1", "p", "Interrupted", 2)}, want: []string{"OwnDead h2", "OwnDead h1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.pods...).Build()
			got, err := Allowed(t.Context(), c, "ns", "own", tc.id, tc.list)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, r := range got {
				texts = append(texts, string(r.Cause)+" "+r.ID+r.Host)
			}
			if diff := cmp.Diff(tc.want, texts); diff != "" {
				t.Errorf("Allowed(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

func TestWhatTheAPIServerDoesNotSayIsNotProven(t *testing.T) {
	got, err := Allowed(t.Context(), unreadable{}, "ns", "own", "", []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 1)})
	if err == nil || got != nil {
		t.Errorf("Allowed() = %+v, %v", got, err)
	}
}

func TestUnlockSaysWhatTheAnnotationComesTo(t *testing.T) {
	list := []v1alpha1.UpdatePlan{ran("a", "h1", "p", "Interrupted", 1)}
	held := Seen([]workspace.Lock{{ID: "one", User: "alice", Host: "laptop", PID: 4711, At: at}, {ID: "two", Host: "h1"}}, list)
	list[0].Status.ReleasedLocks = Released(nil, []workspace.ReleasedLock{{Lock: workspace.Lock{ID: "past", Host: "x"}, Cause: "Unheard", ReleasedAt: at}})
	if held[1].Ours != "op-a" || held[0].Ours != "" {
		t.Errorf("whose they are: %+v", held)
	}
	tests := map[string]struct {
		state v1alpha1.UnlockState
		words string
	}{
		"":     {},
		"one":  {v1alpha1.UnlockPending, "lock one, held by alice@laptop (pid 4711) since 2026-11-30T12:00:00Z"},
		"past": {v1alpha1.UnlockReleased, `released for UpdatePlan "a"`},
		"on":   {v1alpha1.UnlockNotHeld, "lock two, held by @h1 (pid 0) (our operation op-a)"},
	}
	for id, tc := range tests {
		t.Run(id, func(t *testing.T) {
			got := Unlock(id, held, list)
			if id == "" {
				if got != nil {
					t.Errorf("Unlock() = %+v", got)
				}
				return
			}
			if got.Lock != id || got.State != tc.state || !strings.Contains(got.Message, tc.words) {
				t.Errorf("Unlock(): want %s with %q, got %+v", tc.state, tc.words, got)
			}
		})
	}
	if got := list[0].Status.ReleasedLocks[0].Cause; got != v1alpha1.LockRequested {
		t.Errorf("a cause that is not known counts as %s", got)
	}
}

func TestAReleaseIsToldOnceAndTheLastTenStay(t *testing.T) {
	var all []v1alpha1.ReleasedLock
	for i := range 12 {
		r := []workspace.ReleasedLock{{Lock: workspace.Lock{ID: string(rune('a' + i)), Host: "h", At: at}, Cause: workspace.LockOwnDead, ReleasedAt: at}}
		all = Released(Released(all, r), r)
	}
	if len(all) != 10 || all[0].ID != "c" || all[9].ID != "l" {
		t.Errorf("Released() = %+v", all)
	}
}
