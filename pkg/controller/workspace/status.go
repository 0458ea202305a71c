// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/events"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/workspaces"
)

// writeStatus computes the status from the scope and writes it, once.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, stopped outcome.Stopped) error {
	computeStatus(s, stopped)
	if err := apply.Status(ctx, r.client, s.before, s.ws, fieldOwner); err != nil {
		return err
	}
	events.Transition(r.recorder, s.ws, v1alpha1.ConditionReady, "Reconcile", s.before.Status.Conditions, s.ws.Status.Conditions, isWarning)
	return nil
}

func isWarning(reason string) bool {
	return reason == v1alpha1.ReasonPodFailed || reason == v1alpha1.ReasonSpecInvalid
}

// computeStatus writes into the Workspace what the loop found.
func computeStatus(s *scope, stopped outcome.Stopped) {
	status := &s.ws.Status
	status.ObservedGeneration = s.ws.Generation
	if s.digest != "" {
		status.TemplateDigest = s.digest
	}
	setPod(s, stopped)
	set := conditions.Setter{Conditions: &status.Conditions, Generation: s.ws.Generation, Now: metav1.NewTime(s.now)}
	o := stopped.Outcome
	defer set.Renew(v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled)()
	switch {
	case o.Kind == outcome.KindDone && s.busy != "":
		set.True(v1alpha1.ConditionReady, v1alpha1.ReasonAgentReady, fmt.Sprintf("the agent answers; the pod is to go once operation %q has ended", s.busy))
	case o.Kind == outcome.KindDone:
		set.True(v1alpha1.ConditionReady, v1alpha1.ReasonAgentReady, fmt.Sprintf("the agent in pod %q answers", podName(s.ws)))
	case o.Kind == outcome.KindWait && o.Reason == v1alpha1.ReasonIdle:
		set.False(v1alpha1.ConditionReady, o.Reason, o.Message)
	case o.Kind == outcome.KindWait:
		set.Unknown(v1alpha1.ConditionReady, o.Reason, o.Message)
		set.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonProgressing, o.Message)
	case o.Kind == outcome.KindRetry:
		set.False(v1alpha1.ConditionReady, o.Reason, o.Message)
		set.True(v1alpha1.ConditionReconciling, v1alpha1.ReasonProgressing, "trying again: "+o.Message)
	default:
		set.False(v1alpha1.ConditionReady, o.Reason, o.Message)
		set.True(v1alpha1.ConditionStalled, o.Reason, o.Message)
	}
}

// setPod tells which pod may be used. One that is to be removed is not told any more, before it is removed.
func setPod(s *scope, stopped outcome.Stopped) {
	if s.pod == nil && stopped.Step == stepObserve {
		// Nobody could look. An operation that runs is still followed where it was.
		return
	}
	status := &s.ws.Status
	usable := s.pod != nil && s.pod.DeletionTimestamp.IsZero() && !ended(s.pod)
	removed := stopped.Step == stepPod && stopped.Outcome.Kind == outcome.KindWait
	if !usable || removed {
		status.Pod, status.Address, status.AgentVersion, status.PulumiVersion = nil, "", "", ""
		return
	}
	status.Pod = &v1alpha1.PodReference{Name: s.pod.Name, UID: string(s.pod.UID)}
	status.Address = workspaces.PodAddress(s.pod)
	if s.info != nil {
		status.AgentVersion, status.PulumiVersion = s.info.Version, s.info.PulumiVersion
	}
}
