// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspaces

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

func TestNeededAtIsNeverBeforeTheWorkspaceWasMade(t *testing.T) {
	made := metav1.NewTime(builder.Epoch)
	for value, want := range map[string]time.Time{
		"":                     made.Time,
		"yesterday":            made.Time,
		"2025-01-01T00:00:00Z": made.Time,
		"2026-01-02T04:00:00Z": time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC),
	} {
		ws := builder.Workspace("ns", "web").Annotation(v1alpha1.AnnotationNeededAt, value).Obj()
		ws.CreationTimestamp = made
		if got := NeededAt(ws); !got.Equal(want) {
			t.Errorf("NeededAt(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestIsReadyBelievesNothingOld(t *testing.T) {
	good := func() *builder.WorkspaceBuilder {
		return builder.Workspace("ns", "web").Generation(2).Pod("p", "u", "1.2.3.4:5").Condition("Ready", metav1.ConditionTrue, "AgentReady", "").
			Status(func(s *v1alpha1.WorkspaceStatus) { s.ObservedGeneration = 2 })
	}
	deleting := good().Obj()
	now := metav1.NewTime(builder.Epoch)
	deleting.DeletionTimestamp = &now
	tests := map[string]struct {
		ws   *v1alpha1.Workspace
		want bool
	}{
		"the agent answered":       {ws: good().Obj(), want: true},
		"a status of another spec": {ws: good().Generation(3).Obj()},
		"no pod":                   {ws: good().Status(func(s *v1alpha1.WorkspaceStatus) { s.Pod = nil }).Obj()},
		"no address":               {ws: good().Status(func(s *v1alpha1.WorkspaceStatus) { s.Address = "" }).Obj()},
		"not ready":                {ws: good().Condition("Ready", metav1.ConditionFalse, "Idle", "").Obj()},
		"on its way out":           {ws: deleting},
		"new":                      {ws: builder.Workspace("ns", "web").Obj()},
	}
	for name, tc := range tests {
		if got := IsReady(tc.ws); got != tc.want {
			t.Errorf("%s: IsReady() = %t", name, got)
		}
	}
}
