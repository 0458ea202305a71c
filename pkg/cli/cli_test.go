// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/tests/builder"
)

// history is a Stack with ended plans: the first rejected, the others superseded.
func history(length int) (*v1alpha1.Stack, []*v1alpha1.UpdatePlan) {
	stack := builder.Stack("ns", "web").UID(builder.UID(1)).Obj()
	var list []*v1alpha1.UpdatePlan
	previous := ""
	for i := 1; i <= length; i++ {
		b := builder.UpdatePlan("ns", fmt.Sprintf("web-%d", i)).UID(builder.UID(10 + i)).Sequence(int64(i)).Created(builder.Epoch.Add(time.Duration(i) * time.Hour))
		if i == 1 {
			b.Condition(v1alpha1.ConditionApproved, metav1.ConditionFalse, v1alpha1.ReasonRejected, "no")
			b.Status(func(s *v1alpha1.UpdatePlanStatus) {
				s.Decisions = []v1alpha1.Decision{
					{Verdict: v1alpha1.DecisionRefused, By: "nobody", Method: "m"},
					{Verdict: v1alpha1.DecisionRejected, By: "dana\x1b[31m", Method: "m", Digest: b.Obj().Spec.Digest},
				}
			})
		} else {
			b.Condition(v1alpha1.ConditionObsolete, metav1.ConditionTrue, v1alpha1.ReasonSuperseded, "moved")
		}
		plan := b.Obj()
		plan.Status.Record = planstate.Record(plan, int64(i), previous).Stored()
		previous = plan.Status.Record.Digest
		stack.Status.RecordHead = &v1alpha1.RecordHead{Plan: plan.Name, Digest: previous, Index: int64(i)}
		list = append(list, plan)
	}
	return stack, list
}

func audit(t *testing.T, stack *v1alpha1.Stack, list []*v1alpha1.UpdatePlan) (string, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stack).WithStatusSubresource(stack)
	b.WithIndex(&v1alpha1.UpdatePlan{}, "spec.stackRef.name", func(o client.Object) []string {
		return []string{o.(*v1alpha1.UpdatePlan).Spec.StackRef.Name}
	})
	for _, plan := range list {
		b.WithObjects(plan)
	}
	var out strings.Builder
	err := Audit(t.Context(), b.Build(), client.ObjectKeyFromObject(stack), &out)
	return out.String(), err
}

func TestAuditPrintsALineForEachRecord(t *testing.T) {
	stack, list := history(3)
	out, err := audit(t, stack, append(list, builder.UpdatePlan("ns", "web-4").UID("4").Sequence(4).Obj()))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 {
		t.Fatalf("it printed\n%s", out)
	}
	for i, want := range [][]string{{"RECORD"}, {"1", "web-1", "Rejected", "dana", list[0].Status.Record.Digest}, {"2", "web-2", "Superseded", "-"}, {"3", "web-3"}, {"3 records"}} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d does not say %q: %s", i, part, lines[i])
			}
		}
	}
	if strings.Contains(out, "\x1b") || strings.Contains(out, "nobody") {
		t.Errorf("it prints what it should not: %q", out)
	}
}

func TestAuditSaysWhatIsPrunedAndWhatIsBroken(t *testing.T) {
	stack, list := history(4)
	out, err := audit(t, stack, list[2:])
	if err != nil || !strings.Contains(out, "note: the chain begins with record 3") {
		t.Errorf("a pruned beginning: %v\n%s", err, out)
	}
	list[1].Status.Conditions[0].Message = "another reason"
	out, err = audit(t, stack, list)
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), `record 2 (UpdatePlan "web-2")`) || !strings.Contains(out, "BROKEN: record 2") {
		t.Errorf("an edited status: %v\n%s", err, out)
	}
	if _, err = audit(t, stack, list[:3]); !errors.Is(err, ErrBroken) {
		t.Errorf("a missing head: %v", err)
	}
}

func TestWrongCommandLinesAreExplained(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"audit"}, {"audit", "a", "b"}, {"audit", "web", "--what"}} {
		if err := Run(t.Context(), args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "Usage: kubectl plangate audit STACK") {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out strings.Builder
	if err := Run(t.Context(), []string{"audit", "-h"}, &out); err != nil || !strings.Contains(out.String(), "Usage") {
		t.Errorf("-h: %v, %q", err, out.String())
	}
	if err := Run(t.Context(), []string{"audit", "web", "-n", "ns", "--kubeconfig", "/no/such/file"}, &out); err == nil || strings.Contains(err.Error(), "Usage") {
		t.Errorf("flags behind the name: %v", err)
	}
}
