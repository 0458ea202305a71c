// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// death is how an operator dies in a test.
type death struct{ at string }

// mortal counts what an operator does to the world, and lets it die at the fatal deed: before it is done, or after it is done
// and before anybody has heard of it.
type mortal struct {
	fatal, done int
	after       bool
	at          string
}

func (m *mortal) before(deed string) {
	m.done++
	if m.done == m.fatal {
		m.at = deed
		if !m.after {
			panic(death{deed})
		}
	}
}

func (m *mortal) afterwards(deed string) {
	if m.done == m.fatal && m.after {
		m.done++
		panic(death{deed})
	}
}

func (m *mortal) client(t testing.TB) client.Client {
	inner, err := client.NewWithWatch(world.config, client.Options{Scheme: world.scheme})
	if err != nil {
		t.Fatal(err)
	}
	around := func(verb string, o client.Object, do func() error) error {
		deed := fmt.Sprintf("%s %T", verb, o)
		m.before(deed)
		err := do()
		m.afterwards(deed)
		return err
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, question := o.(*authenticationv1.SelfSubjectReview); question {
				return c.Create(ctx, o, opts...)
			}
			return around("Create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return around("Delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if slices.Contains(opts, client.PatchOption(client.DryRunAll)) {
				return c.Patch(ctx, o, p, opts...)
			}
			return around("Patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return around("Patch "+sub+" of", o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// live runs rounds until the first plan was applied and the Stack is in sync, or the operator dies.
func (r *rig) live() (died bool) {
	defer func() {
		if d := recover(); d != nil {
			if _, ok := d.(death); !ok {
				panic(d)
			}
			died = true
		}
	}()
	for range 60 {
		r.round()
		for _, p := range r.listPlans() {
			if reason(p.Status.Conditions, v1alpha1.ConditionReady) == v1alpha1.ReasonWaitingForApproval && !approval.HasUnseenApproval(&p) {
				r.approve(&p)
			}
		}
		if st := r.stack(); meta.IsStatusConditionTrue(st.Status.Conditions, v1alpha1.ConditionReady) {
			return false
		}
	}
	r.t.Fatalf("the Stack is not in sync after 60 rounds; problems: %v\n%s", r.problems, r.describe())
	return false
}

// An operator dies at its N-th deed, for every N, and another one, which remembers nothing, takes over. Whatever N is: one
// plan, approved once, is applied once, and everything is said in the end.
func TestAnOperatorMayDieAtAnyMoment(t *testing.T) {
	deeds := lifeAndDeath(t, &mortal{})
	t.Logf("an operator does %d deeds", deeds)
	for _, after := range []bool{false, true} {
		for fatal := 1; fatal <= deeds; fatal++ {
			t.Run(fmt.Sprintf("at deed %d, done %t", fatal, after), func(t *testing.T) {
				t.Parallel()
				lifeAndDeath(t, &mortal{fatal: fatal, after: after})
			})
		}
	}
}

// lifeAndDeath lets a mortal operator live, and an immortal one take over, and returns how many deeds there were.
func lifeAndDeath(t *testing.T, m *mortal) int {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	c := m.client(t)
	dying := true
	r.agents.before = func(call string) {
		if dying && call != "Result" {
			m.before(call)
		}
	}
	r.agents.after = func(call string) {
		if dying && call != "Result" {
			m.afterwards(call)
		}
	}
	r.restart(c)
	died := r.live()
	dying = false
	deeds := m.done
	if died != (m.fatal > 0) {
		t.Fatalf("died: %t, at deed %d of %d", died, m.fatal, deeds)
	}
	if died {
		r.restart(r.client)
		r.live()
	}
	r.settle()
	checkOneApply(r, m.at)
	return deeds
}

func checkOneApply(r *rig, at string) {
	r.t.Helper()
	applies := r.agents.ran(workspace.Apply)
	r.g.Expect(applies).To(HaveLen(1), "died at %s", at)
	plans := r.listPlans()
	applied := 0
	for _, p := range plans {
		r.g.Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionRecorded)).To(BeTrue(), "died at %s: every plan has an end", at)
		if p.Status.Operation == nil {
			continue
		}
		r.g.Expect(p.Status.Operation.ID).To(Equal(applies[0].ID), "died at %s: what is written down is what ran", at)
		if p.Status.Operation.Result == v1alpha1.ReasonApplied {
			applied++
		}
	}
	r.g.Expect(applied).To(Equal(1), "died at %s", at)
	r.g.Expect(plans).To(HaveLen(1), "died at %s: what one preview found is one plan", at)
	st := r.stack()
	r.g.Expect(st.Status.LastAppliedPlan).NotTo(BeNil(), "died at %s", at)
	r.g.Expect(st.Status.Operation).To(BeNil(), "died at %s", at)
	secret := &corev1.Secret{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: st.Status.OutputsSecret}, secret)).To(Succeed(), "died at %s", at)
	chunk := &corev1.Secret{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: plans[0].Spec.Artifact.Chunks[0]}, chunk)).To(Succeed(), "died at %s", at)
	r.g.Expect(chunk.OwnerReferences).To(HaveLen(1), "died at %s", at)
	r.g.Expect(chunk.OwnerReferences[0].UID).To(Equal(plans[0].UID), "died at %s: the plan file goes with its plan", at)
	r.whole(1, "died at "+at)
}

// The intent is written down, nothing was started, and the world has moved before the next operator looks.
func TestAnIntentIsNotCarriedOutWhenTheWorldHasMoved(t *testing.T) {
	tests := map[string]struct {
		move func(r *rig)
		want string
	}{
		"nothing moved": {move: func(*rig) {}, want: "True Applied"},
		"a new commit":  {move: func(r *rig) { r.sources.push("main", builder.OtherCommit) }, want: "False Stale"},
		"an edit": {
			move: func(r *rig) { r.edit(func(s *v1alpha1.Stack) { s.Spec.Refresh = true }) }, want: "False Superseded",
		},
		"a secret value": {move: func(r *rig) { r.secret("token", "value", "another") }, want: "False Stale"},
		"the pod": {
			move: func(r *rig) {
				r.g.Expect(r.client.Delete(r.ctx, r.pod(), client.GracePeriodSeconds(0))).To(Succeed())
				_, err := r.workspaces.Reconcile(r.ctx, request(r.workspace()))
				r.g.Expect(err).NotTo(HaveOccurred())
			},
			want: "False Interrupted",
		},
		"the plan file": {
			move: func(r *rig) {
				r.g.Expect(r.client.Delete(r.ctx, &corev1.Secret{ObjectMeta: meta1(r.namespace, r.plan(1).Spec.Artifact.Chunks[0])})).To(Succeed())
			},
			want: "False ArtifactInvalid",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.secret("token", "value", canarySecret)
			r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "token", "value").Obj())
			plan := r.waiting(1)
			r.approve(plan)
			func() {
				defer func() { r.g.Expect(recover()).To(Equal(death{"Start"})) }()
				r.agents.before = func(call string) {
					if call == "Start" {
						panic(death{call})
					}
				}
				_, _ = r.plans.Reconcile(r.ctx, request(plan))
			}()
			r.agents.before = nil
			r.g.Expect(r.plan(1).Status.Operation).NotTo(BeNil(), "the intent comes first")
			r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
			id := r.plan(1).Status.Operation.ID
			tc.move(r)
			r.restart(r.client)
			_, err := r.plans.Reconcile(r.ctx, request(plan))
			r.g.Expect(err).NotTo(HaveOccurred())
			plan = r.ends(1)
			r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal(tc.want))
			r.g.Expect(plan.Status.Operation.ID).To(Equal(id))
			if tc.want != "True Applied" {
				r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
			}
		})
	}
}

func TestAnOperatorFindsARunningApplyAgain(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.agents.hold = true
	r.approve(plan)
	r.until("the apply runs", func() bool { return r.reasonOf(1) == v1alpha1.ReasonApplying })
	r.settle()
	for range 3 {
		r.restart(r.client)
		r.round()
	}
	r.g.Expect(r.reasonOf(1)).To(Equal(v1alpha1.ReasonApplying))
	r.g.Expect(r.plan(1).Status.Operation.Done).To(BeEquivalentTo(1), "progress is told")
	r.g.Expect(reason(r.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal(v1alpha1.ReasonApplying))
	r.agents.hold = false
	r.g.Expect(line(r.ends(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
}
