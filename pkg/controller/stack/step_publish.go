// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
)

// publish turns a preview's result into an UpdatePlan, or into the knowledge that there is nothing to change.
func (r *Reconciler) publish(ctx context.Context, s *scope) outcome.Outcome {
	if s.result == nil {
		return outcome.Done()
	}
	if !s.succeeded() {
		return r.previewFailed(s)
	}
	if s.result.Facts == nil {
		return r.unusable(s, errors.New("the agent did not say what it found: this is a bug"))
	}
	if wait := s.stack.Status.Operation.SettlesAt; wait != nil && s.now.Before(wait.Time) {
		return outcome.Wait(v1alpha1.ReasonPreviewing, "previewed; it is published when nothing moves any more"+s.restless(), wait.Sub(s.now))
	}
	s.stack.Status.PulumiVersion = conditions.Shorten(s.result.Facts.PulumiVersion, 64)
	if name := s.result.Project; name != "" && len(name) <= 256 {
		s.stack.Status.Project = name
	}
	in, err := r.inputs.Gather(ctx, s.stack)
	if err != nil {
		return outcome.RetryAfter(v1alpha1.ReasonSecretUnavailable, err, r.settings.RetryInterval)
	}
	if in.ConfigDigest != s.stack.Status.Operation.ConfigDigest {
		// A secret was changed since: the old value, which the preview may show, is no longer known and cannot be masked.
		return r.abandon(s)
	}
	for _, still := range []func(context.Context, *scope) outcome.Outcome{r.stillOurs, r.sameImage} {
		if o := still(ctx, s); o.Kind != outcome.KindDone {
			return o
		}
	}
	s.inputs = in
	return r.publishPlan(ctx, s)
}

// publishPlan publishes the plan of a preview whose inputs are still what they were.
func (r *Reconciler) publishPlan(ctx context.Context, s *scope) outcome.Outcome {
	if err := r.inputs.KeepSalt(ctx, s.stack, s.result.Salt); err != nil {
		return outcome.Retry(v1alpha1.ReasonPublishFailed, err)
	}
	plan, stored, err := decode(s.stack.Status.Operation.Operation, s.result)
	if err != nil {
		return r.unusable(s, err)
	}
	plan = plan.WithPending(pending(s.result), s.stack.Status.Operation.Refresh).Masked(s.inputs.SecretValues())
	s.stack.Status.Pending = unplanned(plan.Pending)
	if plan.Empty() && s.stack.Status.Operation.Operation != v1alpha1.PlanOperationRefresh {
		return r.noChanges(ctx, s, plan)
	}
	published, err := r.create(ctx, s, plan, stored)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonPublishFailed, fmt.Errorf("publishing the plan: %w", err))
	}
	s.plan = published
	s.stack.Status.PlanSequence = published.Spec.Sequence
	r.record(s, v1alpha1.PreviewChanges, published.Name, fmt.Sprintf("UpdatePlan %q: %s", published.Name, published.Spec.Summary.Brief))
	s.stack.Status.LastPreview.PlanUID = string(published.UID)
	log.FromContext(ctx).Info("Published a plan", "UpdatePlan", published.Name, "planDigest", published.Spec.Digest, "changes", published.Spec.Summary.Brief)
	return outcome.Done()
}

// decode reads what is shown from the very bytes that are kept and applied.
func decode(operation v1alpha1.PlanOperation, result *workspace.Result) (plan plans.Plan, stored []byte, err error) {
	if operation == v1alpha1.PlanOperationDestroy {
		plan, err = pulumiplan.DecodeDestroy(result.Plan, result.Events, result.Facts.StateDigest)
		return plan, result.Plan, err
	}
	if operation == v1alpha1.PlanOperationRefresh {
		return acceptance(result)
	}
	if stored, err = pulumiplan.Strip(result.Plan); err != nil {
		return plan, nil, fmt.Errorf("preparing the plan that Pulumi saved: %w", err)
	}
	if plan, err = pulumiplan.Decode(stored, result.Events); err != nil {
		return plan, nil, fmt.Errorf("reading the plan that Pulumi saved: %w", err)
	}
	if len(result.SecondPlan) > 0 {
		if plan, err = pulumiplan.Probe(plan, stored, result.SecondPlan); err != nil {
			return plan, nil, fmt.Errorf("comparing the two plans that Pulumi saved: %w", err)
		}
	}
	return plan, stored, nil
}

// sameImage makes sure that the pod still runs the image that the preview was meant for: a container that is restarted may
// come back with another one, in the same pod.
func (r *Reconciler) sameImage(ctx context.Context, s *scope) outcome.Outcome {
	op := s.stack.Status.Operation
	image, err := workspaces.Image(ctx, r.uncached, s.stack.Namespace, op.Pod)
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonPublishFailed, err)
	case image == "" || image != op.WorkspaceImage:
		return r.interrupted(s, fmt.Errorf("pod %q ran image %q when the preview began, and runs %q now", op.Pod.Name, op.WorkspaceImage, image))
	default:
		return outcome.Done()
	}
}

// noChanges records that there is nothing to change.
func (r *Reconciler) noChanges(ctx context.Context, s *scope, plan plans.Plan) outcome.Outcome {
	next, _, err := r.sequence(ctx, s)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonPublishFailed, err)
	}
	// Whatever was published before, also by a loop that died before it could say so, is older than this.
	s.stack.Status.PlanSequence = next - 1
	message := "nothing is left to destroy"
	if s.stack.Status.Operation.Operation != v1alpha1.PlanOperationDestroy {
		message = fmt.Sprintf("nothing to change at commit %.12s", s.result.Facts.Commit)
	}
	if line := plans.PendingLine(s.stack.Status.Pending, len(s.result.Pending)); line != "" {
		message += "; but " + line + " (status.pending)"
	}
	if n := plan.Summary.Unstable; n > 0 {
		message += fmt.Sprintf("; but a second preview of the same world differed in %d inputs", n)
	}
	r.record(s, v1alpha1.PreviewNoChanges, "", message)
	return outcome.Done()
}

// pending are the operations that the preview found cut off.
func pending(result *workspace.Result) []plans.Pending {
	found := make([]plans.Pending, 0, len(result.Pending))
	for _, p := range result.Pending {
		found = append(found, plans.Pending(p))
	}
	return found
}

// unplanned are the first pending operations without what a plan does about them, which only the plan knows.
func unplanned(list []v1alpha1.PendingOperation) []v1alpha1.PendingOperation {
	first := plans.FirstPending(slices.Clone(list))
	for i := range first {
		first[i].Effect, first[i].Message = "", ""
	}
	return first
}

// stillOurs makes sure that the Stack still waits for this preview: an old cache may hold one that was published long ago, and
// whose plan is gone.
func (r *Reconciler) stillOurs(ctx context.Context, s *scope) outcome.Outcome {
	stack := &v1alpha1.Stack{}
	if err := r.uncached.Get(ctx, s.key(), stack); err != nil {
		return outcome.Retry(v1alpha1.ReasonPublishFailed, fmt.Errorf("reading Stack %q again: %w", s.stack.Name, err))
	}
	if op := stack.Status.Operation; stack.UID != s.stack.UID || op == nil || op.ID != s.stack.Status.Operation.ID {
		return outcome.Wait(v1alpha1.ReasonPreviewing, "the preview was published already: looking again", 200*time.Millisecond)
	}
	if stack.Generation != s.stack.Generation {
		return outcome.Wait(v1alpha1.ReasonPreviewing, "previewed; the Stack was edited in the meantime: looking again", 200*time.Millisecond)
	}
	return outcome.Done()
}

// previewFailed records a preview that did not succeed; it is tried again after a while.
func (r *Reconciler) previewFailed(s *scope) outcome.Outcome {
	if s.result.Outcome == workspace.Interrupted || s.result.Outcome == workspace.Cancelled {
		return r.interrupted(s, errors.New(s.result.Message))
	}
	return r.unusable(s, errors.New(s.result.Message))
}

// unusable records a preview that nothing can be made of.
func (r *Reconciler) unusable(s *scope, err error) outcome.Outcome {
	if s.aboutDrift() {
		return r.notPlanned(s, err)
	}
	r.record(s, v1alpha1.PreviewFailed, "", err.Error())
	return outcome.RetryAfter(v1alpha1.ReasonPreviewFailed, err, r.atMostPoll(s, r.pause(s)))
}

// create stores the plan file and creates the UpdatePlan. All of it is derived from the operation, so that doing it again
// after a crash makes the same objects.
func (r *Reconciler) create(ctx context.Context, s *scope, plan plans.Plan, stored []byte) (*v1alpha1.UpdatePlan, error) {
	op := s.stack.Status.Operation
	artifact, err := r.store.Put(ctx, s.object(), stored)
	if err != nil {
		return nil, err
	}
	changesConfigMap := ""
	if !plan.Fits() {
		if changesConfigMap, err = r.store.PutChanges(ctx, s.object(), plan.Changes); err != nil {
			return nil, err
		}
	}
	sequence, made, err := r.sequence(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range made {
		// Only what this very loop would make is taken for its work: a label is written by anybody.
		spec, err := r.spec(s, plan, artifact, changesConfigMap, made[i].Spec.Sequence)
		if err == nil && spec.Digest == made[i].Spec.Digest && made[i].DeletionTimestamp.IsZero() {
			return &made[i], r.own(ctx, &made[i])
		}
	}
	spec, err := r.spec(s, plan, artifact, changesConfigMap, sequence)
	if err != nil {
		return nil, err
	}
	up := s.updatePlan(spec, op.ID)
	if err := r.client.Create(ctx, up); err != nil {
		return nil, fmt.Errorf("creating UpdatePlan %q: %w", up.Name, err)
	}
	return up, r.own(ctx, up)
}

// own gives the stored plan file to its plan, so that it goes with it.
func (r *Reconciler) own(ctx context.Context, up *v1alpha1.UpdatePlan) error {
	owner := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "UpdatePlan", Name: up.Name, UID: up.UID}
	return r.store.SetOwner(ctx, up.Namespace, up.Spec.Artifact, up.Spec.ChangesConfigMap, owner)
}

// spec builds the UpdatePlan's spec around its statement.
func (r *Reconciler) spec(s *scope, plan plans.Plan, artifact v1alpha1.Artifact, changesConfigMap string, sequence int64) (v1alpha1.UpdatePlanSpec, error) {
	op := s.stack.Status.Operation
	binding, err := plans.NewBinding(plans.BindingInput{
		Operation: op.Operation, Repository: s.stack.Spec.ProjectRepo, Directory: s.stack.Spec.RepoDir, ConfigDigest: op.ConfigDigest, ConfigEntries: s.inputs.ConfigEntries,
		Targets: s.stack.Spec.Targets, TargetDependents: s.stack.Spec.TargetDependents,
		Refresh: op.Refresh, WorkspaceImage: op.WorkspaceImage, Facts: coreFacts(s.result.Facts),
	})
	if err != nil {
		return v1alpha1.UpdatePlanSpec{}, err
	}
	return plans.NewSpec(plans.SpecInput{
		Namespace: s.stack.Namespace, Cluster: r.settings.Cluster, Nonce: plans.Nonce(s.inputs.Key, op.ID),
		Stack:    v1alpha1.StackReference{Name: s.stack.Name, UID: string(s.stack.UID), Generation: op.Generation, ResourceVersion: op.ResourceVersion},
		Sequence: sequence, Operation: op.Operation, Trigger: op.Trigger, Authors: authors(op), Binding: binding, Artifact: artifact, Enforcement: enforcementOf(s.stack, op.Operation),
		NotAfter: op.StartedAt.Add(r.timeToLive(s.stack)), Plan: plan, ChangesConfigMap: changesConfigMap,
	})
}

// authors are those who wrote what was previewed. Nil: not known.
func authors(op *v1alpha1.PreviewOperation) []string {
	if op.Author == "" {
		return nil
	}
	return []string{op.Author}
}

// coreFacts are what the agent found, as the core takes it.
func coreFacts(found *workspace.Facts) plans.Facts {
	f := plans.Facts{Commit: found.Commit, Tree: found.Tree, StateDigest: found.StateDigest, DriftDigest: found.DriftDigest, PulumiVersion: found.PulumiVersion}
	for _, p := range found.Plugins {
		f.Plugins = append(f.Plugins, v1alpha1.Plugin(p))
	}
	return f
}

// timeToLive is how long a plan of the Stack may wait.
func (r *Reconciler) timeToLive(stack *v1alpha1.Stack) time.Duration {
	if p := stack.Spec.Plan; p != nil && p.TimeToLive != nil {
		return p.TimeToLive.Duration
	}
	return r.settings.PlanTimeToLive
}

// sequence finds the next plan's number, and what says that this very operation has made it already, if a crash came between.
func (r *Reconciler) sequence(ctx context.Context, s *scope) (next int64, made []v1alpha1.UpdatePlan, err error) {
	list := &v1alpha1.UpdatePlanList{}
	if err := r.uncached.List(ctx, list, client.InNamespace(s.stack.Namespace), client.MatchingFields{"spec.stackRef.name": s.stack.Name}); err != nil {
		return 0, nil, fmt.Errorf("listing the UpdatePlans: %w", err)
	}
	last := s.stack.Status.PlanSequence
	for i := range list.Items {
		up := &list.Items[i]
		if up.Spec.StackRef.UID == string(s.stack.UID) && up.Labels[v1alpha1.LabelOperation] == s.stack.Status.Operation.ID {
			made = append(made, *up)
		}
		last = max(last, up.Spec.Sequence)
	}
	return last + 1, made, nil
}

func (s *scope) updatePlan(spec v1alpha1.UpdatePlanSpec, operation string) *v1alpha1.UpdatePlan {
	return &v1alpha1.UpdatePlan{
		ObjectMeta: metav1.ObjectMeta{
			Name: plans.PlanName(s.stack.Name, spec.Sequence, spec.Digest), Namespace: s.stack.Namespace,
			Labels: map[string]string{
				v1alpha1.LabelStack: planstore.LabelValue(s.stack.Name), v1alpha1.LabelStackUID: string(s.stack.UID), v1alpha1.LabelOperation: operation,
				v1alpha1.LabelStackResourceVersion: spec.StackRef.ResourceVersion,
			},
			// The plan must outlive a running operation, also when its Stack is deleted.
			Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: spec,
	}
}

func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) error {
	return apply.RemoveFinalizer(ctx, r.client, s.stack, v1alpha1.Finalizer)
}

// applying finds the plan that is being applied.
func applying(list []v1alpha1.UpdatePlan) *v1alpha1.UpdatePlan {
	for i := range list {
		if planstate.Of(&list[i]) == planstate.Applying {
			return &list[i]
		}
	}
	return nil
}
