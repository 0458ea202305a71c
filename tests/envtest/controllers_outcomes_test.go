// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

func TestHowAnApplyCanEnd(t *testing.T) {
	long := strings.Repeat("é", 5000)
	tests := map[string]struct {
		reason string
		result workspace.Result
		// ready is the plan's condition, says a part of its message.
		ready, says string
		// next is the reason of the plan after it; "" when there is none.
		next string
	}{
		"violated": {
			reason: "nothing was changed: the next plan is for all of it",
			result: workspace.Result{Outcome: workspace.Violated, Message: "the program wants another thing", Violations: []string{"one", long}},
			ready:  "False Violated", says: "nothing was changed: the program wants another thing", next: v1alpha1.ReasonWaitingForApproval,
		},
		"partial": {
			reason: "what was done stays, the next plan is for the rest",
			result: workspace.Result{Outcome: workspace.Partial, Message: "one step failed", Steps: workspace.Steps{Done: 1, Total: 2}},
			ready:  "False PartiallyApplied", says: "one step failed", next: v1alpha1.ReasonWaitingForApproval,
		},
		"failed": {
			reason: "before anything was changed",
			result: workspace.Result{Outcome: workspace.Failed, Message: "no backend"},
			ready:  "False ApplyFailed", says: "no backend", next: v1alpha1.ReasonWaitingForApproval,
		},
		"interrupted": {
			reason: "the agent's process died",
			result: workspace.Result{Outcome: workspace.Interrupted, Message: "the agent died"},
			ready:  "False Interrupted", says: "the agent died", next: v1alpha1.ReasonWaitingForApproval,
		},
		"stopped before anything": {
			reason: "asked to stop",
			result: workspace.Result{Outcome: workspace.Cancelled, Message: "bye"},
			ready:  "False ApplyFailed", says: "before anything was changed", next: v1alpha1.ReasonWaitingForApproval,
		},
		"stopped in between": {
			reason: "asked to stop, but steps were done",
			result: workspace.Result{Outcome: workspace.Cancelled, Message: "bye", Steps: workspace.Steps{Done: 1, Total: 2}},
			ready:  "False PartiallyApplied", says: "stopped in order", next: v1alpha1.ReasonWaitingForApproval,
		},
		"an outcome that nobody knows": {
			reason: "an unknown word is never taken for success",
			result: workspace.Result{Outcome: "Wonderful"},
			ready:  "False Interrupted", next: v1alpha1.ReasonWaitingForApproval,
		},
		"texts of any length": {
			reason: "a status that the API server refuses would keep the plan open for ever",
			result: workspace.Result{Outcome: workspace.Violated, Message: long, LogTail: long, Permalink: long, Violations: []string{long}},
			ready:  "False Violated", says: "nothing was changed: é", next: v1alpha1.ReasonWaitingForApproval,
		},
		"outputs that are lost": {
			reason: "an agent that was restarted does not know them any more; what was kept before stays",
			result: workspace.Result{Outcome: workspace.Succeeded, OutputsLost: true},
			ready:  "True Applied", says: "outputs are not known",
		},
		"outputs that do not fit into a status": {
			reason: "they are whole in the Secret",
			result: workspace.Result{Outcome: workspace.Succeeded, Outputs: map[string]json.RawMessage{"big": json.RawMessage(`"` + strings.Repeat("x", 600<<10) + `"`)}},
			ready:  "True Applied",
		},
		"outputs that do not fit into a Secret": {
			reason: "that an apply ended is told whatever its outputs are",
			result: workspace.Result{Outcome: workspace.Succeeded, Outputs: map[string]json.RawMessage{"big": json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)}},
			ready:  "True Applied", says: "outputs could not be kept",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			applied := r.agents.apply
			r.agents.apply = func(op workspace.Operation) *workspace.Result {
				applied(op)
				result := tc.result
				if result.Outcome != workspace.Succeeded {
					r.agents.preview = func(workspace.Operation) *workspace.Result {
						update := readGolden(t, "update")
						return &workspace.Result{Outcome: workspace.Succeeded, Plan: update.plan, Events: update.events}
					}
				}
				return &result
			}
			r.create(builder.Stack(r.namespace, "web").Obj())
			r.approve(r.waiting(1))
			plan := r.ends(1)
			r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal(tc.ready), tc.reason)
			r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring(tc.says))
			r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
			if tc.next == "" {
				r.g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
				r.g.Expect(r.plan(2)).To(BeNil())
				return
			}
			next := r.waiting(2)
			r.g.Expect(r.reasonOf(2)).To(Equal(tc.next))
			r.g.Expect(next.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerRetry))
			r.g.Expect(next.Spec.Trigger.Message).To(ContainSubstring(plan.Name))
			r.g.Expect(r.stack().Status.CurrentPlan.Name).To(Equal(next.Name))
		})
	}
}

func TestAStateThatMovedMakesThePlanStaleAndANewOneIsMade(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.agents.state = builder.Digest("somebody else's update")
	r.approve(plan)
	plan = r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Stale"))
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionObsolete)).To(Equal("True Stale"))
	r.g.Expect(plan.Status.Operation.Mismatches).To(HaveLen(1))
	r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("stateDigest: was sha256:"))
	next := r.waiting(2)
	r.g.Expect(next.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerRetry))
	r.g.Expect(next.Spec.Binding.StateDigest).To(Equal(r.agents.state))
	r.approve(next)
	r.g.Expect(line(r.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
}

func TestABranchThatMovesRightBeforeTheApplyMakesThePlanStale(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.approve(plan)
	r.sources.push("main", builder.OtherCommit)
	// The plan's controller alone: the Stack's has not seen the commit yet.
	_, err := r.plans.Reconcile(r.ctx, request(plan))
	r.g.Expect(err).NotTo(HaveOccurred())
	plan = r.plan(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Stale"))
	r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("revision: was " + builder.Commit))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
}

func TestNothingToChangeIsInSync(t *testing.T) {
	r := newRig(t)
	nothing := readGolden(t, "no-changes")
	r.create(builder.Stack(r.namespace, "web").Commit(builder.Commit).Obj())
	r.waiting(1)
	r.agents.preview = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Succeeded, Plan: nothing.plan, Events: nothing.events}
	}
	r.edit(func(s *v1alpha1.Stack) { s.Spec.Commit = builder.OtherCommit })
	// A Stack that is at rest is not looked at again: the loop that finds nothing to change must say so itself.
	r.until("the preview ended", func() bool {
		last := r.stack().Status.LastPreview
		return last != nil && last.Result == v1alpha1.PreviewNoChanges
	})
	st := r.stack()
	r.g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
	r.g.Expect(st.Status.CurrentPlan).To(BeNil())
}

func TestARequestEndsThePlanThatWaits(t *testing.T) {
	r := newRig(t)
	nothing := readGolden(t, "no-changes")
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.waiting(1)
	r.agents.preview = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Succeeded, Plan: nothing.plan, Events: nothing.events}
	}
	// Longer than what the status keeps of it.
	r.annotate(r.stack(), v1alpha1.AnnotationRequestPlan, strings.Repeat("now ", 1000))
	plan := r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Superseded"), "the Stack is in sync: a plan that still waits would be a lie")
	r.g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
	previews := len(r.agents.ran(workspace.Preview))
	for range 3 {
		r.round()
	}
	r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(previews), "one request is one preview")
}

func TestAPreviewThatFailsIsTriedAgainAndHealsAtOnce(t *testing.T) {
	cures := map[string]func(r *rig){
		"by a new commit":        func(r *rig) { r.sources.push("main", builder.OtherCommit) },
		"by an edit":             func(r *rig) { r.edit(func(s *v1alpha1.Stack) { s.Spec.RepoDir = "dir" }) },
		"by a secret value":      func(r *rig) { r.secret("token", "value", "right") },
		"by a request":           func(r *rig) { r.annotate(r.stack(), v1alpha1.AnnotationRequestPlan, "1") },
		"by the passing of time": func(*rig) { time.Sleep(3200 * time.Millisecond) },
	}
	for name, cure := range cures {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.settings.RetryInterval = 3 * time.Second
			r.restart(r.client)
			works := r.agents.preview
			r.agents.preview = func(workspace.Operation) *workspace.Result {
				return &workspace.Result{Outcome: workspace.Failed, Message: "syntax error in line 7 " + strings.Repeat("x", 5000)}
			}
			r.secret("token", "value", "wrong")
			r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "token", "value").Obj())
			r.until("the preview failed", func() bool {
				return line(r.stack().Status.Conditions, v1alpha1.ConditionPreviewed) == "False PreviewFailed"
			})
			r.settle()
			st := r.stack()
			r.g.Expect(message(st.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("syntax error in line 7"))
			r.g.Expect(st.Status.LastPreview.Failures).To(BeEquivalentTo(1), "it is not tried again at once")
			r.agents.preview = works
			cure(r)
			r.waiting(1)
		})
	}
}

func TestAPreviewThatFailsForEverIsTriedLessAndLess(t *testing.T) {
	r := newRig(t)
	r.settings.RetryInterval = time.Hour
	r.settings.RetryMaxInterval = 2 * time.Hour
	r.restart(r.client)
	r.agents.preview = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Failed, Message: "no"}
	}
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.until("the preview failed", func() bool { return r.stack().Status.LastPreview != nil })
	r.settle()
	result, err := r.stacks.Reconcile(r.ctx, request(r.stack()))
	r.g.Expect(err).NotTo(HaveOccurred())
	r.g.Expect(result.RequeueAfter).To(BeNumerically("~", time.Minute, 7*time.Second), "the branch is looked at as often as always, since a commit may be the cure")
	r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(1))
}

func TestCausesOutsideAreSaidAndHealByThemselves(t *testing.T) {
	tests := map[string]struct {
		stack      *builder.StackBuilder
		breakIt    func(r *rig)
		kind, want string
		says       string
		heal       func(r *rig)
	}{
		"a repository that cannot be reached": {
			breakIt: func(r *rig) { r.sources.err = errors.New("connection refused") },
			kind:    v1alpha1.ConditionSourceReady, want: "False SourceUnavailable", says: "connection refused",
			heal: func(r *rig) { r.sources.err = nil },
		},
		"a branch that is missing": {
			breakIt: func(r *rig) { delete(r.sources.branches, "main") },
			kind:    v1alpha1.ConditionSourceReady, want: "False SourceUnavailable", says: `no branch or reference "main"`,
			heal: func(r *rig) { r.sources.push("main", builder.Commit) },
		},
		"a Secret that is missing": {
			stack: builder.Stack("", "web").EnvSecret("TOKEN", "missing", "value"),
			kind:  v1alpha1.ConditionPreviewed, want: "False SecretUnavailable", says: `Secret "missing": there is no such Secret`,
			heal: func(r *rig) { r.secret("missing", "value", canarySecret) },
		},
		"a Workspace that is somebody else's": {
			breakIt: func(r *rig) { r.create(builder.Workspace(r.namespace, "web").Obj()) },
			kind:    v1alpha1.ConditionWorkspaceReady, want: "False WorkspaceFailed", says: "is not of this Stack",
			heal: func(r *rig) {
				ws := r.workspace()
				ws.Finalizers = nil
				r.g.Expect(r.client.Update(r.ctx, ws)).To(Succeed())
				r.g.Expect(r.client.Delete(r.ctx, ws)).To(Succeed())
				r.g.Expect(client.IgnoreNotFound(r.client.Delete(r.ctx, &corev1.Pod{ObjectMeta: meta1(r.namespace, "web-workspace")}))).To(Succeed())
				r.g.Expect(client.IgnoreNotFound(r.client.Delete(r.ctx, &corev1.Secret{ObjectMeta: meta1(r.namespace, "web-workspace-tls")}))).To(Succeed())
			},
		},
		"a pod that is somebody else's": {
			breakIt: func(r *rig) {
				r.create(&corev1.Pod{ObjectMeta: meta1(r.namespace, "web-workspace"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}})
			},
			kind: v1alpha1.ConditionWorkspaceReady, want: "False WorkspaceFailed", says: "is not of this Workspace",
			heal: func(r *rig) {
				r.g.Expect(r.client.Delete(r.ctx, r.pod(), client.GracePeriodSeconds(0))).To(Succeed())
			},
		},
		"an agent that does not answer": {
			breakIt: func(r *rig) { r.agents.unreachable = errors.New("connection refused") },
			kind:    v1alpha1.ConditionWorkspaceReady, want: "False WorkspaceFailed", says: "does not answer: connection refused",
			heal: func(r *rig) { r.agents.unreachable = nil },
		},
		"a template that makes no Workspace": {
			stack: builder.Stack("", "web").WorkspaceTemplate(map[string]any{"spec": map[string]any{"imagePullPolicy": "Sometimes"}}),
			kind:  v1alpha1.ConditionStalled, want: "True SpecInvalid", says: "imagePullPolicy",
			heal: func(r *rig) { r.edit(func(s *v1alpha1.Stack) { s.Spec.WorkspaceTemplate = nil }) },
		},
		"a key in config and in secretsRef": {
			stack: builder.Stack("", "web").Config("a", "b").SecretConfigLiteral("a", canarySecret),
			kind:  v1alpha1.ConditionStalled, want: "True SpecInvalid", says: `spec.config["a"]`,
			heal: func(r *rig) { r.edit(func(s *v1alpha1.Stack) { s.Spec.Config = nil }) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if tc.breakIt != nil {
				tc.breakIt(r)
			}
			st := builder.Stack(r.namespace, "web").Obj()
			if tc.stack != nil {
				st = tc.stack.Obj()
				st.Namespace = r.namespace
			}
			r.create(st)
			r.until(fmt.Sprint(tc.kind, " ", tc.want), func() bool { return line(r.stack().Status.Conditions, tc.kind) == tc.want })
			r.settle()
			st = r.stack()
			r.g.Expect(line(st.Status.Conditions, tc.kind)).To(Equal(tc.want))
			r.g.Expect(message(st.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring(tc.says))
			r.g.Expect(st.Status.ObservedGeneration).To(Equal(st.Generation))
			tc.heal(r)
			r.waiting(1)
			r.g.Expect(line(r.stack().Status.Conditions, v1alpha1.ConditionStalled)).To(Equal("absent"))
		})
	}
}

func TestAPlanFileThatIsMissingEndsThePlanBeforeAnythingIsStarted(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.g.Expect(r.client.Delete(r.ctx, &corev1.Secret{ObjectMeta: meta1(r.namespace, plan.Spec.Artifact.Chunks[0])})).To(Succeed())
	r.approve(plan)
	plan = r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False ArtifactInvalid"))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	r.approve(r.waiting(2))
	r.g.Expect(line(r.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
}

func TestAPlanFileThatWasTamperedWithEndsThePlan(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	key := client.ObjectKey{Namespace: r.namespace, Name: plan.Spec.Artifact.Chunks[0]}
	secret := &corev1.Secret{}
	r.g.Expect(r.client.Get(r.ctx, key, secret)).To(Succeed())
	forged := secret.DeepCopy()
	secret.Data["plan.json.gz"] = []byte("forged")
	r.g.Expect(apierrors.IsInvalid(r.client.Update(r.ctx, secret))).To(BeTrue(), "it is immutable")
	r.g.Expect(r.client.Delete(r.ctx, secret)).To(Succeed())
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: r.namespace, Name: key.Name}
	forged.Data["plan.json.gz"] = []byte("forged")
	r.create(forged)
	r.approve(plan)
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False ArtifactInvalid"))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
}

func TestAPlanExpires(t *testing.T) {
	r := newRig(t)
	r.settings.PlanTimeToLive = 3 * time.Second
	r.restart(r.client)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.until("plan 1", func() bool { return r.plan(1) != nil })
	time.Sleep(time.Until(r.plan(1).Spec.NotAfter.Time) + 10*time.Millisecond)
	r.approve(r.plan(1))
	r.round()
	plan := r.plan(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Expired"))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	r.until("another plan", func() bool { return r.plan(2) != nil })
}
