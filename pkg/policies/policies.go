// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies gathers the policies that select a Stack, and has plans/policy decide by them.
//
// It must never leave a policy out because it could not be read: then there is no decision.
//
// Who verifies a plan asks twice: by the cache whenever the plan is looked at, and, right before the apply, past it:
//
//	verdict, err := gatherer.Decide(ctx, policies.Request{Plan: …, Stack: …, Changes: …, Origin: …, Votes: …, Now: …, Fresh: true})
//
// An error is no verdict, and allows nothing. The plan is to be looked at again when one of its votes, its Stack's labels or
// a policy changes (OpenPlans maps policies to plans), and at verdict.LookAgain.
package policies

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/plans/policy"
)

// maxCompiled is how many compiled policies are kept, at most: then all are compiled anew.
const maxCompiled = 2000

// Cache keeps compiled policies for as long as their generation stays. Many may use it at once.
type Cache struct {
	mu       sync.Mutex
	compiled map[policy.Ref]*policy.Compiled
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{compiled: map[policy.Ref]*policy.Compiled{}} }

// Compile returns a policy compiled, by this call or one before.
func (c *Cache) Compile(s policy.Source) *policy.Compiled {
	if s.Ref.UID == "" || s.Ref.Generation == 0 { // no object of the API server: it has no generation to go by
		return policy.Compile(s)
	}
	c.mu.Lock()
	found, ok := c.compiled[s.Ref]
	c.mu.Unlock()
	if ok {
		return found
	}
	found = policy.Compile(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.compiled) >= maxCompiled {
		clear(c.compiled)
	}
	for ref := range c.compiled {
		if ref.Kind == s.Ref.Kind && ref.Namespace == s.Ref.Namespace && ref.Name == s.Ref.Name {
			delete(c.compiled, ref)
		}
	}
	c.compiled[s.Ref] = found
	return found
}

// Gatherer reads policies.
type Gatherer struct {
	cached, uncached client.Reader
	cache            *Cache
}

// New returns a Gatherer. cached may be old; uncached reads what is there.
func New(cached, uncached client.Reader) *Gatherer {
	return &Gatherer{cached: cached, uncached: uncached, cache: NewCache()}
}

// Request is what is to be decided.
type Request struct {
	// Plan is the plan as it was read. That its spec is what was published is for the caller to check.
	Plan *v1alpha1.UpdatePlan
	// Stack is the plan's Stack as it is now; its labels select policies. It must be the one that the plan is of.
	Stack *v1alpha1.Stack
	// Changes are all changes of the plan, as planstore.GetChanges returns them.
	Changes []v1alpha1.ResourceChange
	// Origin tells who had a hand in the change, as far as it is known.
	Origin policy.Origin
	// Votes are the approvals and rejections of exactly this plan's digest.
	Votes []policy.Vote
	// Now is the time of the decision.
	Now time.Time
	// Fresh reads the policies past the cache, as right before an apply.
	Fresh bool
}

// Decide gathers the policies that select the Stack and decides by them.
func (g *Gatherer) Decide(ctx context.Context, r Request) (policy.Verdict, error) {
	if r.Plan == nil || r.Stack == nil || r.Stack.Namespace != r.Plan.Namespace || string(r.Stack.UID) != r.Plan.Spec.StackRef.UID {
		return policy.Verdict{}, fmt.Errorf("deciding by policy: the Stack is not the one that the plan is of")
	}
	stack := policy.Stack{Namespace: r.Stack.Namespace, Name: r.Stack.Name, Labels: r.Stack.Labels}
	selected, err := g.Select(ctx, stack, r.Fresh)
	if err != nil {
		return policy.Verdict{}, err
	}
	return policy.Decide(policy.Input{
		Plan: r.Plan, Stack: stack, Changes: r.Changes, Origin: r.Origin, Votes: r.Votes, Now: r.Now, Policies: selected,
	}), nil
}

// Select returns all policies that select a Stack, those that cannot be evaluated included. fresh reads them past the cache.
func (g *Gatherer) Select(ctx context.Context, stack policy.Stack, fresh bool) ([]*policy.Compiled, error) {
	reader := g.cached
	if fresh {
		reader = g.uncached
	}
	own, everywhere := &v1alpha1.ApprovalPolicyList{}, &v1alpha1.ClusterApprovalPolicyList{}
	if err := reader.List(ctx, own, client.InNamespace(stack.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the ApprovalPolicies of namespace %q: %w", stack.Namespace, err)
	}
	if err := reader.List(ctx, everywhere); err != nil {
		return nil, fmt.Errorf("listing the ClusterApprovalPolicies: %w", err)
	}
	all := make([]*policy.Compiled, 0, len(own.Items)+len(everywhere.Items))
	for i := range own.Items {
		all = append(all, g.cache.Compile(policy.FromPolicy(&own.Items[i])))
	}
	byNamespace := false
	for i := range everywhere.Items {
		c := g.cache.Compile(policy.FromClusterPolicy(&everywhere.Items[i]))
		byNamespace = byNamespace || !c.SelectsAnyNamespace()
		all = append(all, c)
	}
	var labels map[string]string
	if byNamespace {
		namespace := &corev1.Namespace{}
		if err := g.uncached.Get(ctx, client.ObjectKey{Name: stack.Namespace}, namespace); err != nil {
			return nil, fmt.Errorf("reading the labels of namespace %q, by which ClusterApprovalPolicies select: %w", stack.Namespace, err)
		}
		labels = namespace.Labels
	}
	var selected []*policy.Compiled
	for _, c := range all {
		if c.Selects(stack, labels) {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

// OpenPlans maps a policy to the plans that it may be about and that are not done with: those of its namespace, or all. It
// is for a watch of policies by whoever reconciles UpdatePlans.
func OpenPlans(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		list := &v1alpha1.UpdatePlanList{}
		if err := reader.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
			return nil
		}
		var requests []reconcile.Request
		for i := range list.Items {
			if !planstate.Recorded(&list.Items[i]) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
		return requests
	}
}
