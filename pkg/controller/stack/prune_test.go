// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/tests/builder"
)

// record puts a plan's end into the chain.
func record(b *builder.UpdatePlanBuilder, index int64) *builder.UpdatePlanBuilder {
	if index > 0 {
		b.Status(func(s *v1alpha1.UpdatePlanStatus) {
			s.Record = &v1alpha1.PlanRecord{Index: index, Digest: builder.Digest(fmt.Sprint(index))}
		})
	}
	return b.Condition(v1alpha1.ConditionRecorded, yes, v1alpha1.ReasonRecorded, "")
}

func numbered(n int) *builder.UpdatePlanBuilder {
	return builder.UpdatePlan("ns", fmt.Sprintf("web-%d", n)).Sequence(int64(n)).UID(builder.UID(n))
}

func superseded(n int) *builder.UpdatePlanBuilder {
	return numbered(n).Condition(v1alpha1.ConditionObsolete, yes, v1alpha1.ReasonSuperseded, "")
}

func applied(n int) *builder.UpdatePlanBuilder {
	b := numbered(n)
	operation("Applied")(b)
	return b
}

func TestWhatIsPruned(t *testing.T) {
	tests := map[string]struct {
		reason string
		limit  int32
		plans  []*builder.UpdatePlanBuilder
		head   int64
		last   string
		want   []string
	}{
		"within the limit": {
			reason: "the limit counts ended plans", limit: 2, head: 2,
			plans: []*builder.UpdatePlanBuilder{record(superseded(1), 1), record(superseded(2), 2), numbered(3)},
		},
		"beyond it": {
			reason: "the oldest goes first", limit: 2, head: 4, want: []string{"web-1", "web-2"},
			plans: []*builder.UpdatePlanBuilder{record(superseded(4), 4), record(superseded(2), 2), record(superseded(3), 3), record(superseded(1), 1)},
		},
		"by records, not by numbers": {
			reason: "the chain must not get a hole", limit: 1, head: 3, want: []string{"web-9", "web-1"},
			plans: []*builder.UpdatePlanBuilder{record(superseded(9), 1), record(superseded(1), 2), record(superseded(5), 3)},
		},
		"the last applied": {
			reason: "it tells what the world is", limit: 1, head: 4, want: []string{"web-1", "web-3"},
			plans: []*builder.UpdatePlanBuilder{record(applied(1), 1), record(applied(2), 2), record(superseded(3), 3), record(superseded(4), 4)},
		},
		"a plan that waits": {
			reason: "it has not ended", limit: 1, head: 2, want: []string{"web-2"},
			plans: []*builder.UpdatePlanBuilder{numbered(1), record(superseded(2), 1), record(superseded(3), 2)},
		},
		"a plan that is being applied": {
			reason: "it has not ended", limit: 1, head: 2, want: []string{"web-2"},
			plans: []*builder.UpdatePlanBuilder{func() *builder.UpdatePlanBuilder { b := numbered(1); operation("")(b); return b }(), record(superseded(2), 1), record(superseded(3), 2)},
		},
		"an end that is not recorded": {
			reason: "it would be lost", limit: 1, head: 2, want: []string{"web-2"},
			plans: []*builder.UpdatePlanBuilder{superseded(1), record(superseded(2), 1), record(superseded(3), 2)},
		},
		"a record that the status does not name yet": {
			reason: "the next one follows it", limit: 1, head: 1,
			plans: []*builder.UpdatePlanBuilder{record(superseded(1), 1), record(superseded(2), 2)},
		},
		"no head is known": {
			reason: "the next one follows one of them", limit: 1,
			plans: []*builder.UpdatePlanBuilder{record(superseded(1), 1), record(superseded(2), 2)},
		},
		"the plan of the last preview": {
			reason: "the Stack would be previewed again", limit: 1, head: 3, last: "web-1", want: []string{"web-2"},
			plans: []*builder.UpdatePlanBuilder{record(superseded(1), 1), record(superseded(2), 2), record(superseded(3), 3)},
		},
		"from before there were records": {
			reason: "they are the oldest", limit: 1, head: 1, want: []string{"web-2", "web-3"},
			plans: []*builder.UpdatePlanBuilder{record(superseded(1), 1), record(superseded(3), 0), record(superseded(2), 0)},
		},
		"the default": {
			reason: "20 are kept", head: 25, want: []string{"web-1", "web-2", "web-3", "web-4", "web-5"},
			plans: func() (list []*builder.UpdatePlanBuilder) {
				for i := 1; i <= 25; i++ {
					list = append(list, record(superseded(i), int64(i)))
				}
				return list
			}(),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScope(builder.Stack("ns", "web").Obj(), builder.Epoch)
			if tc.limit > 0 {
				s.stack.Spec.Plan = &v1alpha1.PlanSettings{HistoryLimit: &tc.limit}
			}
			if tc.head > 0 {
				s.stack.Status.RecordHead = &v1alpha1.RecordHead{Index: tc.head}
			}
			s.stack.Status.LastPreview = &v1alpha1.PreviewStatus{Plan: tc.last}
			for _, b := range tc.plans {
				s.plans = append(s.plans, *b.Obj())
			}
			var got []string
			for _, plan := range surplusPlans(s) {
				got = append(got, plan.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("surplusPlans(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&v1alpha1.UpdatePlan{}, "spec.stackRef.name", func(o client.Object) []string {
		return []string{o.(*v1alpha1.UpdatePlan).Spec.StackRef.Name}
	}).Build()
	return &Reconciler{client: c, uncached: c}
}

func TestWhatWasStoredForNoPlanIsSwept(t *testing.T) {
	const old, young = 2 * time.Hour, 30 * time.Minute
	owner := func(kind string, n int) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: "x", UID: builder.UID(n)}
	}
	meta := func(name, component string, age time.Duration, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "ns", Name: name, OwnerReferences: owners, CreationTimestamp: metav1.NewTime(builder.Epoch.Add(-age)),
			Labels: map[string]string{v1alpha1.LabelStack: "web", v1alpha1.LabelComponent: component},
		}
	}
	secret := func(name string, age time.Duration, owners ...metav1.OwnerReference) client.Object {
		return &corev1.Secret{ObjectMeta: meta(name, v1alpha1.ComponentPlanFile, age, owners...)}
	}
	live := numbered(1).Artifact(builder.Digest("x"), 1, "of-a-plan", "of-a-plan-too").Spec(func(s *v1alpha1.UpdatePlanSpec) { s.ChangesConfigMap = "changes-of-a-plan" }).Obj()
	other := secret("labelled-by-somebody", old, owner("Stack", 1))
	other.GetLabels()[v1alpha1.LabelComponent] = v1alpha1.ComponentOutputs
	objects := []client.Object{
		live, other,
		secret("orphan", old, owner("Stack", 1)),
		secret("young", young, owner("Stack", 1)),
		secret("of-a-plan", old, owner("UpdatePlan", 1)),
		secret("of-a-plan-too", old, owner("Stack", 1)), // the operator died before it gave it to the plan
		secret("of-another-stack", old, owner("Stack", 2)),
		secret("of-nobody", old),
		&corev1.ConfigMap{ObjectMeta: meta("orphaned-changes", v1alpha1.ComponentPlanChanges, old, owner("Stack", 1))},
		&corev1.ConfigMap{ObjectMeta: meta("changes-of-a-plan", v1alpha1.ComponentPlanChanges, old, owner("Stack", 1))},
	}
	gone := map[string]bool{"orphan": true, "orphaned-changes": true}
	for name, tc := range map[string]struct {
		running bool
		want    map[string]bool
	}{
		"at rest":             {want: gone},
		"while it is preview": {running: true},
	} {
		t.Run(name, func(t *testing.T) {
			var fresh []client.Object
			for _, o := range objects {
				fresh = append(fresh, o.DeepCopyObject().(client.Object))
			}
			r := newReconciler(t, fresh...)
			s := newScope(builder.Stack("ns", "web").UID(builder.UID(1)).Obj(), builder.Epoch)
			if tc.running {
				s.stack.Status.Operation = &v1alpha1.PreviewOperation{}
			}
			if o := r.prune(t.Context(), s); o.Kind != outcome.KindDone {
				t.Fatalf("prune() = %+v", o)
			}
			for _, o := range fresh {
				err := r.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
				if apierrors.IsNotFound(err) != tc.want[o.GetName()] {
					t.Errorf("%s: %v", o.GetName(), err)
				}
			}
		})
	}
}

// turns is a Stack with plans that end and are recorded, in a world that a cache lags behind.
type turns struct {
	t        *testing.T
	s        *scope
	world    []*v1alpha1.UpdatePlan
	views    [][]v1alpha1.UpdatePlan
	recorded int64
}

// record is what the controller of the plan does whose turn it is: it writes the record from what the Stack's status says.
func (w *turns) record() {
	turn, head := w.s.stack.Status.RecordNext, w.s.stack.Status.RecordHead
	if turn == nil {
		return
	}
	i := slices.IndexFunc(w.world, func(p *v1alpha1.UpdatePlan) bool { return string(p.UID) == turn.UID })
	if w.world[i].Status.Record != nil {
		return
	}
	index := int64(1)
	if head != nil {
		index = head.Index + 1
	}
	w.recorded++
	if index != w.recorded {
		w.t.Fatalf("the record of %s has number %d, and is the %d. that was written", w.world[i].Name, index, w.recorded)
	}
	w.world[i] = record(superseded(int(w.world[i].Spec.Sequence)), index).Obj()
}

// look is a loop of the Stack's controller, with a cache that is up to lag steps old and never goes back.
func (w *turns) look(lag int) {
	view := make([]v1alpha1.UpdatePlan, 0, len(w.world))
	for _, p := range w.world {
		view = append(view, *p.DeepCopy())
	}
	w.views = append(w.views, view)
	w.views = w.views[max(0, len(w.views)-1-lag):]
	w.s.plans = w.views[0]
	setRecords(w.s, outcome.Stopped{Outcome: outcome.Done()})
}

// The turn goes to one plan at a time, and moves on only when that one has its record, in whatever order plans end and however
// old the cache is.
func TestTheTurnNeverMovesUnderAPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		w := &turns{t: t, s: newScope(builder.Stack("ns", "web").Obj(), builder.Epoch)}
		for i := range 6 {
			w.world = append(w.world, numbered(i+1).Obj())
		}
		for range 40 {
			if i := random.IntN(len(w.world)); !planstate.Ended(w.world[i]) {
				w.world[i] = superseded(i + 1).Obj()
			}
			if random.IntN(2) == 0 {
				w.record()
			}
			w.look(random.IntN(4))
		}
		ended := int64(0)
		for _, p := range w.world {
			w.record()
			w.look(0)
			if planstate.Ended(p) {
				ended++
			}
		}
		w.record()
		w.look(0)
		if w.recorded != ended || w.s.stack.Status.RecordNext != nil || w.s.stack.Status.RecordHead.Index != ended {
			t.Fatalf("%d plans ended, %d were recorded; the status says %+v, and then %+v", ended, w.recorded, w.s.stack.Status.RecordHead, w.s.stack.Status.RecordNext)
		}
	}
}

func TestAPlanThatIsGoneLosesItsTurn(t *testing.T) {
	first, second := *superseded(1).Obj(), *superseded(2).Obj()
	for name, tc := range map[string]struct {
		reason   string
		plans    []v1alpha1.UpdatePlan
		gone     bool
		stopped  outcome.Stopped
		wantTurn string
	}{
		"it is there":       {reason: "it is still its turn", plans: []v1alpha1.UpdatePlan{first, second}, wantTurn: "web-1"},
		"it is gone":        {reason: "nobody would record anything any more", plans: []v1alpha1.UpdatePlan{second}, gone: true, wantTurn: "web-2"},
		"it was not found":  {reason: "a cache may be old", plans: []v1alpha1.UpdatePlan{second}, wantTurn: "web-1"},
		"nobody has looked": {reason: "the API server did not answer", gone: true, stopped: outcome.Stopped{Step: stepLook}, wantTurn: "web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(builder.Stack("ns", "web").Obj(), builder.Epoch)
			s.stack.Status.RecordNext = &v1alpha1.RecordTurn{Plan: first.Name, UID: string(first.UID)}
			s.plans, s.turnGone = tc.plans, tc.gone
			setRecords(s, tc.stopped)
			if got := s.stack.Status.RecordNext; got == nil || got.Plan != tc.wantTurn {
				t.Errorf("%s: the turn is %+v, want %s", tc.reason, got, tc.wantTurn)
			}
		})
	}
}
