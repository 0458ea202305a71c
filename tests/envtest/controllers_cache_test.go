// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// oldCache is a client that knows some objects as they were.
func oldCache(t *testing.T, stack *v1alpha1.Stack, plan *v1alpha1.UpdatePlan) client.Client {
	t.Helper()
	inner, err := client.NewWithWatch(world.config, client.Options{Scheme: world.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch o := o.(type) {
			case *v1alpha1.Stack:
				if stack != nil && key.Name == stack.Name {
					stack.DeepCopyInto(o)
					return nil
				}
			case *v1alpha1.UpdatePlan:
				if plan != nil && key.Name == plan.Name {
					plan.DeepCopyInto(o)
					return nil
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}

func TestAnOldCacheStartsNothingTwice(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	r.until("the Workspace is ready", func() bool {
		return len(r.listWorkspaces()) == 1 && line(r.workspace().Status.Conditions, v1alpha1.ConditionReady) == "True AgentReady"
	})
	before := r.stack()
	r.g.Expect(before.Status.Operation).To(BeNil())
	r.agents.hold = true
	r.until("the preview runs", func() bool { return len(r.agents.ran(workspace.Preview)) == 1 })
	id := r.stack().Status.Operation.ID
	r.restartWith(oldCache(t, before, nil), r.client)
	for range 3 {
		_, err := r.stacks.Reconcile(r.ctx, request(before))
		r.g.Expect(err).NotTo(HaveOccurred())
	}
	r.g.Expect(r.agents.ran(workspace.Preview)).To(HaveLen(1))
	r.g.Expect(r.stack().Status.Operation.ID).To(Equal(id))

	// The same for a result that was published, and that an old cache takes for new.
	running := r.stack()
	r.agents.hold = false
	r.restart(r.client)
	plan := r.waiting(1)
	r.restartWith(oldCache(t, running, nil), r.client)
	for range 3 {
		_, err := r.stacks.Reconcile(r.ctx, request(running))
		r.g.Expect(err).NotTo(HaveOccurred())
	}
	r.g.Expect(r.listPlans()).To(HaveLen(1))

	// And for an apply.
	r.restart(r.client)
	r.approve(plan)
	approved := r.plan(1)
	r.agents.hold = true
	r.until("the apply runs", func() bool { return len(r.agents.ran(workspace.Apply)) == 1 })
	id = r.plan(1).Status.Operation.ID
	r.restartWith(oldCache(t, nil, approved), r.client)
	for range 3 {
		_, err := r.plans.Reconcile(r.ctx, request(plan))
		r.g.Expect(err).NotTo(HaveOccurred())
	}
	r.g.Expect(r.agents.starts).To(Equal(2), "one preview and one apply")
	r.g.Expect(r.plan(1).Status.Operation.ID).To(Equal(id))
	r.agents.hold = false
	r.restart(r.client)
	r.ends(1)
	for range 3 {
		r.restartWith(oldCache(t, nil, approved), r.client)
		_, err := r.plans.Reconcile(r.ctx, request(plan))
		r.g.Expect(err).NotTo(HaveOccurred())
	}
	r.g.Expect(r.agents.ran(workspace.Apply)).To(HaveLen(1))
	r.g.Expect(line(r.plan(1).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
}

// Each of these came after what the cache knows, and before the apply.
func TestWhatAnOldCacheDoesNotKnowStillCounts(t *testing.T) {
	tests := map[string]func(r *rig, plan *v1alpha1.UpdatePlan){
		"a rejection": func(r *rig, plan *v1alpha1.UpdatePlan) {
			r.annotate(plan, v1alpha1.AnnotationReject, plan.Spec.Digest)
		},
		"an edit of the Stack": func(r *rig, _ *v1alpha1.UpdatePlan) {
			r.edit(func(s *v1alpha1.Stack) { s.Spec.Refresh = true })
		},
		"the Stack's suspension": func(r *rig, _ *v1alpha1.UpdatePlan) {
			r.edit(func(s *v1alpha1.Stack) { s.Spec.Suspend = true })
		},
		"the Stack's deletion": func(r *rig, _ *v1alpha1.UpdatePlan) {
			r.g.Expect(r.client.Delete(r.ctx, r.stack())).To(Succeed())
		},
		"the plan's deletion": func(r *rig, plan *v1alpha1.UpdatePlan) {
			r.g.Expect(r.client.Delete(r.ctx, plan)).To(Succeed())
		},
		"a preview that was asked for": func(r *rig, _ *v1alpha1.UpdatePlan) {
			r.agents.hold = true
			r.annotate(r.stack(), v1alpha1.AnnotationRequestPlan, "1")
			_, err := r.stacks.Reconcile(r.ctx, request(r.stack()))
			r.g.Expect(err).NotTo(HaveOccurred())
			r.g.Expect(r.stack().Status.Operation).NotTo(BeNil())
		},
	}
	for name, happen := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(builder.Stack(r.namespace, "web").Obj())
			plan := r.waiting(1)
			r.approve(plan)
			st, approved := r.stack(), r.plan(1)
			happen(r, r.plan(1))
			r.restartWith(oldCache(t, st, approved), r.client)
			for range 3 {
				_, err := r.plans.Reconcile(r.ctx, request(plan))
				r.g.Expect(err).NotTo(HaveOccurred())
			}
			r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
		})
	}
}
