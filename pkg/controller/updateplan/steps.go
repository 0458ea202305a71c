// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
)

// reportSteps tells what was done and what was not, of an operation that did not apply the plan whole, from what Pulumi told
// while it ran. Without that, nothing is told: the next preview looks at the state.
func (r *Reconciler) reportSteps(ctx context.Context, s *scope) error {
	res := s.result
	if res.Outcome == workspace.Succeeded || res.Outcome == workspace.Stale || len(res.Events) == 0 {
		return nil
	}
	planFile, err := r.store.Get(ctx, s.plan.Namespace, s.plan.Spec.Artifact)
	if err != nil && !planstore.IsInvalid(err) {
		return err
	}
	if err == nil {
		var done, rest []v1alpha1.StepState
		progress := pulumiplan.Progress
		if s.plan.Spec.Operation == v1alpha1.PlanOperationDestroy {
			progress = pulumiplan.DestroyProgress
		}
		if done, rest, err = progress(planFile, res.Events); err == nil {
			return r.keepSteps(ctx, s, plans.ReportSteps(done, rest, res.Outcome != workspace.Interrupted), done, rest)
		}
	}
	// A report is not worth the end of the plan.
	log.FromContext(ctx).Error(err, "Could not tell which steps were done")
	return nil
}

// keepSteps stores the whole list beside the plan when the status has no room for it.
func (r *Reconciler) keepSteps(ctx context.Context, s *scope, report *v1alpha1.StepReport, done, rest []v1alpha1.StepState) error {
	if report == nil {
		return nil
	}
	if len(report.Done) < len(done) || len(report.NotDone) < len(rest) {
		yes, no := true, false
		name, err := r.store.PutSteps(ctx, planstore.Object{
			Namespace: s.plan.Namespace, Stack: s.plan.Spec.StackRef.Name,
			Owners: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "UpdatePlan", Name: s.plan.Name, UID: s.plan.UID, Controller: &yes, BlockOwnerDeletion: &no,
			}},
		}, s.plan.Status.Operation.ID, append(append([]v1alpha1.StepState{}, done...), rest...))
		if err != nil {
			return err
		}
		report.ConfigMap = name
	}
	s.plan.Status.Operation.Steps = report
	return nil
}

// stepWords says a report in a line or two, for the conditions.
func stepWords(report *v1alpha1.StepReport) string {
	if report == nil {
		return ""
	}
	text := fmt.Sprintf("done (%d): %s; not done (%d): %s", report.DoneCount, listed(report.Done, report.DoneCount), report.NotDoneCount, listed(report.NotDone, report.NotDoneCount))
	if !report.Complete {
		text += "; the last steps may be missing"
	}
	return text
}

func listed(steps []v1alpha1.StepState, count int32) string {
	const most = 5
	texts := make([]string, 0, most)
	for _, s := range steps[:min(len(steps), most)] {
		text := s.Step + " " + nameOf(s.URN)
		if s.Outcome == v1alpha1.StepFailed || s.Outcome == v1alpha1.StepCutOff {
			text += " (" + string(s.Outcome) + ")"
		}
		if i := strings.Index(s.Detail, " exist"); i > 0 {
			text += " (" + strings.SplitN(s.Detail, ";", 2)[0] + ")"
		}
		texts = append(texts, text)
	}
	if more := int(count) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

// nameOf is the resource's name in a URN.
func nameOf(urn string) string {
	if i := strings.LastIndex(urn, "::"); i >= 0 {
		return urn[i+2:]
	}
	return urn
}
