// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/workspace"
)

// broken is a promise that was not kept.
type broken struct{ what string }

// oracle knows, from what was written and done alone and not from what the operator says, what may happen.
type oracle struct {
	// approved are the digests that somebody approved, by the UID of the plan.
	approved map[types.UID]map[string]bool
	// intents are what may be applied, by operation.
	intents map[string]*v1alpha1.UpdatePlan
	// spent are the digests that were applied, or tried, with the operation.
	spent map[string]string
	// lockedOut are the operations that met a lock and changed nothing.
	lockedOut map[string]bool
	// kept are plans that people keep a copy of.
	kept []*v1alpha1.UpdatePlan
	// gone says that all was seen destroyed, or nothing to destroy, since the operator last applied anything.
	gone bool
	// blind says that an agent could not tell what a commit touches.
	blind   bool
	applies int
	plansN  int
	// destroys counts the destroys among the applies.
	destroys int
	// copies are plans that people made.
	copies map[types.UID]bool
	ends   map[string]int
}

func newOracle() oracle {
	return oracle{
		approved: map[types.UID]map[string]bool{}, intents: map[string]*v1alpha1.UpdatePlan{}, spent: map[string]string{}, lockedOut: map[string]bool{},
		ends: map[string]int{}, copies: map[types.UID]bool{},
	}
}

func (w *world) fail(format string, args ...any) { panic(broken{fmt.Sprintf(format, args...)}) }

// finished is what the operator means by it.
func finished(plan *v1alpha1.UpdatePlan) bool {
	return planstate.Ended(plan) && meta.IsStatusConditionTrue(plan.Status.Conditions, v1alpha1.ConditionRecorded)
}

// watchWrite looks at every write to the API server.
func (w *world) watchWrite(c change) {
	if before, ok := c.before.(*v1alpha1.Stack); ok && c.now == nil {
		w.letGo(before)
	}
	if c.now == nil || c.key.kind == "Pod" {
		return
	}
	now, ok := c.now.(*v1alpha1.UpdatePlan)
	if !ok {
		return
	}
	before, _ := c.before.(*v1alpha1.UpdatePlan)
	if before == nil {
		w.plansN++
		before = &v1alpha1.UpdatePlan{}
	}
	w.noteApproval(now)
	if before.Status.Operation == nil && now.Status.Operation != nil {
		w.intended(before, now)
	}
	if was := before.Status.Operation; was != nil {
		takenBack := now.Status.Operation == nil && w.lockedOut[was.ID]
		if !takenBack && (now.Status.Operation == nil || now.Status.Operation.ID != was.ID) {
			w.fail("the operation of %s was replaced: %+v, is %+v", now.Name, was, now.Status.Operation)
		}
	}
	if !finished(before) && finished(now) {
		reason, _ := planstate.Reason(now)
		w.ends[reason]++
	}
	w.checkSuperseded(before, now)
	if planstate.Ended(before) && (!planstate.Ended(now) || planstate.Of(before) != planstate.Of(now)) {
		w.fail("%s had ended as %d, and is %d", now.Name, planstate.Of(before), planstate.Of(now))
	}
}

// letGo looks at a Stack in the moment in which it goes. What it was to destroy must be destroyed, unless somebody said otherwise
// of this very Stack, or nothing of it was ever planned.
func (w *world) letGo(o *v1alpha1.Stack) {
	orphaned := o.Annotations[v1alpha1.AnnotationOrphan] == string(o.UID)
	if o.Spec.DestroyOnFinalize && !orphaned && !w.gone && o.Status.PlanSequence > 0 {
		w.fail("the Stack goes and what it made is not destroyed: %s", w.real)
	}
	for k, other := range w.api.objects {
		if other.GetLabels()[v1alpha1.LabelStackUID] == string(o.UID) && len(other.GetOwnerReferences()) == 0 && other.GetDeletionTimestamp().IsZero() && !w.copies[other.GetUID()] {
			w.fail("the Stack goes and leaves %s %s for ever", k.kind, k.name)
		}
	}
}

// checkSuperseded looks at a plan that ends because of a newer commit: one must have touched its project since.
func (w *world) checkSuperseded(before, now *v1alpha1.UpdatePlan) {
	c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionObsolete)
	if planstate.Ended(before) || c == nil || c.Status != "True" {
		return
	}
	byCommit := strings.Contains(c.Message, "newer commit") || c.Reason == v1alpha1.ReasonStale && strings.Contains(c.Message, "revision: was")
	at := slices.Index(w.heads, now.Spec.Binding.Revision)
	touches := func(head string) bool { return treeOf(head) != now.Spec.Binding.Tree }
	// An agent that cannot reach the remote cannot tell, and what cannot be told counts as touched.
	if byCommit && !w.blind && !slices.ContainsFunc(w.heads[at+1:], touches) {
		w.fail("%s ended because of a commit that touches nothing of its project: %s", now.Name, c.Message)
	}
}

// checkOwn looks at what the operator writes.
func (w *world) checkOwn(o any) {
	if _, secret := o.(*corev1.Secret); !secret {
		w.checkSecrets(fmt.Sprintf("%T", o), encode(o))
	}
}

func (w *world) checkSecrets(where string, what []byte) {
	if bytes.Contains(what, []byte(canary)) {
		w.fail("a secret is in %s: %s", where, what)
	}
}

// noteApproval reads an approval as a person would: the whole digest, by somebody who did not write the change.
func (w *world) noteApproval(plan *v1alpha1.UpdatePlan) {
	for annotation, value := range plan.Annotations {
		said, _, _ := strings.Cut(value, " -- ")
		digest, user, _ := strings.Cut(said, " by ")
		if !strings.HasPrefix(annotation, v1alpha1.DomainApprove+"/") || digest != plan.Spec.Digest || user == "" || strings.Contains(user, " ") || slices.Contains(plan.Spec.Authors, user) {
			continue
		}
		if w.approved[plan.UID] == nil {
			w.approved[plan.UID] = map[string]bool{}
		}
		w.approved[plan.UID][digest] = true
	}
}

// rejected reads a rejection.
func rejected(plan *v1alpha1.UpdatePlan) bool {
	for annotation, value := range plan.Annotations {
		if strings.HasPrefix(annotation, v1alpha1.DomainReject+"/") && strings.HasPrefix(value, plan.Spec.Digest+" by ") {
			return true
		}
	}
	return false
}

// intended looks at the moment in which a plan is taken for applying.
func (w *world) intended(before, now *v1alpha1.UpdatePlan) {
	digest := now.Spec.Digest
	switch {
	case !w.approved[now.UID][digest]:
		w.fail("%s is applied and nobody approved %s", now.Name, digest)
	case w.provenIn != w.loop:
		w.fail("%s is applied and nobody asked, in this loop, whether the admission policies are in force", now.Name)
	case now.Status.UnguardedSince != nil && !memory(now):
		w.fail("%s is applied and was only approved while the admission policies were not in force", now.Name)
	case rejected(now):
		w.fail("%s is applied and was rejected", now.Name)
	case !w.clock.Add(-time.Second).Before(now.Spec.NotAfter.Time):
		w.fail("%s is applied at %s and expired at %s", now.Name, w.clock, now.Spec.NotAfter)
	case w.spent[digest] != "":
		w.fail("%s is applied again: %s was spent by %s", now.Name, digest, w.spent[digest])
	case planstate.Ended(before), !now.DeletionTimestamp.IsZero():
		w.fail("%s is applied and has ended", now.Name)
	}
	w.intents[now.Status.Operation.ID] = clone(now)
}

// memory tells whether an approval was accepted, which a plan that was unguarded later remembers.
func memory(plan *v1alpha1.UpdatePlan) bool {
	return slices.ContainsFunc(plan.Status.Decisions, func(d v1alpha1.Decision) bool {
		return d.Verdict == v1alpha1.DecisionApproved && d.Verified && !d.ObservedAt.After(plan.Status.UnguardedSince.Time)
	})
}

// mutates looks at the moment in which an agent begins to change the real world.
func (w *world) mutates(r *record) {
	plan := w.intents[r.op.ID]
	if plan == nil {
		w.fail("operation %s changes the world and no plan says so", r.op.ID)
	}
	digest, bound := plan.Spec.Digest, plan.Spec.Binding
	if by := w.spent[digest]; by != "" {
		w.fail("%s is applied twice: by %s and %s", plan.Name, by, r.op.ID)
	}
	w.spent[digest] = r.op.ID
	w.applies++
	w.gone = false
	if (plan.Spec.Operation == v1alpha1.PlanOperationDestroy) != (r.op.Type == workspace.Destroy) {
		w.fail("%s is a plan for %s, and the agent does %s", plan.Name, plan.Spec.Operation, r.op.Type)
	}
	if r.op.Type == workspace.Destroy {
		w.destroys++
		if bytes.Contains(r.op.Plan, []byte("protected")) {
			w.fail("%s destroys what is protected", plan.Name)
		}
	}
	if r.op.PlanDigest != plan.Spec.Artifact.Digest {
		w.fail("%s is applied with the plan file of another", plan.Name)
	}
	if w.depth == 0 && w.clock.After(plan.Spec.NotAfter.Add(time.Second)) {
		w.fail("%s is started at %s and expired at %s", plan.Name, w.clock, plan.Spec.NotAfter)
	}
	preview := w.ops[plan.Labels[v1alpha1.LabelOperation]]
	if preview == nil {
		w.fail("%s came of no preview", plan.Name)
	}
	if was, is := inputsOf(&preview.op), inputsOf(&r.op); was != is {
		w.fail("%s was previewed with %s and is applied with %s", plan.Name, was, is)
	}
	if bound.WorkspaceImage != w.pod.image && w.imageMoved != w.loops {
		w.fail("%s is applied by another image", plan.Name)
	}
	if bound.StateDigest != w.stateDigest() || bound.Revision != r.op.Source.Commit {
		w.fail("%s is applied to another world than it was made for", plan.Name)
	}
}

// lockOut notes that an operation found the state locked: it changed nothing, and spent nothing.
func (w *world) lockOut(r *record) {
	w.lockedOut[r.op.ID] = true
	delete(w.spent, w.intents[r.op.ID].Spec.Digest)
}

// inputsOf is all that decides what an operation does.
func inputsOf(op *workspace.Operation) string {
	return text([]any{op.Stack, op.Backend, op.Source.URL, op.Source.Commit, op.Source.Dir, op.Config, op.SecretConfig, op.Env, op.Options})
}

// checkSettled looks at a world in which nobody does anything any more: no plan may wait that could never be applied. What
// can be seen without an operation must be seen at once, and the state soon; plugins and image when the plan's time is over.
func (w *world) checkSettled(whole bool) {
	if o := w.stack(); o != nil && o.Status.Operation != nil {
		w.settle(10 * time.Second) // a preview began just now
	}
	o := w.stack()
	if o == nil {
		return
	}
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != o.Generation {
		w.fail("the Stack's status is of another spec: %s", text(ready))
	}
	if o.Status.Operation != nil || w.pod != nil && w.pod.current != nil {
		w.fail("an operation runs for ever: %s", text(o.Status.Operation))
	}
	open := 0
	for _, p := range w.plans() {
		if !finished(p) {
			open++
			w.checkWaiting(o, p, whole)
		}
	}
	last := o.Status.LastPreview
	asked := demand.Of(o)
	if asked == demand.Destroy {
		w.checkSettledDestroy(o, ready, open)
		return
	}
	switch {
	case open > 1:
		w.fail("%d plans wait at once", open)
	case last == nil || treeOf(last.Revision) != treeOf(w.head) || last.Generation != o.Generation || last.ConfigDigest != o.Status.ConfigDigest:
		w.fail("what is wanted now was never previewed: %s; status %s", text(last), text(ready))
	case ready.Reason == v1alpha1.ReasonInSync && last.Result == v1alpha1.PreviewChanges && !w.isApplied(last.Plan):
		w.fail("the Stack is in sync and what was previewed was not applied")
	case ready.Reason == v1alpha1.ReasonInSync && open > 0:
		w.fail("the Stack is in sync and a plan waits")
	case ready.Reason != v1alpha1.ReasonInSync && ready.Reason != v1alpha1.ReasonRejected && open == 0:
		w.fail("no plan waits and the Stack is %s: %s", ready.Reason, ready.Message)
	}
}

// checkSettledDestroy is checkSettled for a Stack whose resources shall go.
func (w *world) checkSettledDestroy(o *v1alpha1.Stack, ready *metav1.Condition, open int) {
	last := o.Status.LastPreview
	switch {
	case open > 1:
		w.fail("%d plans wait at once", open)
	case o.Status.Project == "" && ready.Reason == v1alpha1.ReasonProjectUnknown && open == 0:
	case last == nil || last.Operation != v1alpha1.PlanOperationDestroy || last.Generation != o.Generation || last.ConfigDigest != o.Status.ConfigDigest:
		w.fail("a destroy is wanted and was never previewed: %s; status %s", text(last), text(ready))
	case ready.Reason == v1alpha1.ReasonDestroyed && last.Result == v1alpha1.PreviewChanges && !w.isApplied(last.Plan):
		w.fail("the Stack is Destroyed and what was listed was not destroyed")
	case ready.Reason == v1alpha1.ReasonDestroyed && open > 0:
		w.fail("the Stack is Destroyed and a plan waits")
	case ready.Reason == v1alpha1.ReasonDestroyed && !o.DeletionTimestamp.IsZero():
		w.fail("all is destroyed and the Stack does not go")
	case ready.Reason != v1alpha1.ReasonDestroyed && ready.Reason != v1alpha1.ReasonRejected && open == 0:
		w.fail("no plan waits and the Stack is %s: %s", ready.Reason, ready.Message)
	}
}

func (w *world) isApplied(plan string) bool {
	p, ok := w.api.objects[key{"UpdatePlan", plan}].(*v1alpha1.UpdatePlan)
	return ok && planstate.Of(p) == planstate.Applied
}

// checkWaiting compares the plan that waits with the world.
func (w *world) checkWaiting(o *v1alpha1.Stack, p *v1alpha1.UpdatePlan, whole bool) {
	b := p.Spec.Binding
	ref := p.Spec.StackRef
	wanted := w.head
	if p.Spec.Operation == v1alpha1.PlanOperationDestroy {
		wanted = ""
	}
	if planstate.Of(p) != planstate.Waiting || p.Spec.Operation != demand.Operation(o) || b.Tree != treeOf(wanted) || ref.Generation != o.Generation || ref.UID != string(o.UID) || b.ConfigDigest != o.Status.ConfigDigest {
		w.fail("%s waits and its world has moved: %s; status %s", p.Name, text(b), text(p.Status))
	}
	if o.Status.CurrentPlan == nil || o.Status.CurrentPlan.Name != p.Name {
		w.fail("%s waits and the Stack does not know it: %s", p.Name, text(o.Status.CurrentPlan))
	}
	facts := w.facts(wanted)
	if b.StateDigest != facts.StateDigest || b.Tree != facts.Tree {
		w.fail("%s waits and its state or tree has moved: %s", p.Name, text(b))
	}
	same := len(b.Plugins) == 1 && b.Plugins[0] == v1alpha1.Plugin(facts.Plugins[0])
	if whole && (!same || b.WorkspaceImage != w.imageID()) {
		w.fail("%s waits for ever and its world has moved: %s", p.Name, text(b))
	}
}
