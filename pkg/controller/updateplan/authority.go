// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/plans/policy"
	"github.com/plangate/plangate/workspace"
)

// question is how a decision is asked for.
type question struct {
	now time.Time
	// proof asks the API server now whether the admission policies are in force.
	proof bool
	// fresh reads the Stack and the policies past the cache, as right before an apply.
	fresh bool
}

// decision is a verdict, with the policies that it was made by.
type decision struct {
	approval.Verdict
	policies []*policy.Compiled
}

// decide gathers what vouches for the plan's approvals and what is asked for, and weighs them. What could not be read is an
// error, and no verdict.
func (r *Reconciler) decide(ctx context.Context, plan *v1alpha1.UpdatePlan, q question) (decision, error) {
	in := approval.Input{Plan: plan, Cluster: r.settings.Cluster, Now: q.now}
	var err error
	if in.Rules, err = r.rules(ctx, plan, q.fresh); err != nil {
		return decision{}, err
	}
	// Last, so that nothing else takes its time between the proof and what relies on it.
	if in.Admission, err = r.admission.Prove(ctx, plan, q.proof); err != nil {
		return decision{}, err
	}
	return decision{approval.Verify(in), in.Rules.Policies}, nil
}

// rules are the policies that select the plan's Stack, and what they look at.
func (r *Reconciler) rules(ctx context.Context, plan *v1alpha1.UpdatePlan, fresh bool) (approval.Rules, error) {
	reader := client.Reader(r.client)
	if fresh {
		reader = r.uncached
	}
	stack := &v1alpha1.Stack{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: plan.Namespace, Name: plan.Spec.StackRef.Name}, stack); err != nil {
		return approval.Rules{}, fmt.Errorf("reading Stack %q, by whose labels policies select: %w", plan.Spec.StackRef.Name, err)
	}
	rules := approval.Rules{Stack: policy.Stack{Namespace: stack.Namespace, Name: stack.Name, Labels: stack.Labels}}
	var err error
	if rules.Policies, err = r.policies.Select(ctx, rules.Stack, fresh); err != nil || len(rules.Policies) == 0 {
		return rules, err
	}
	// Rules that cannot see all changes hold the plan, in words of their own.
	if rules.Changes, err = r.store.GetChanges(ctx, plan.Namespace, &plan.Spec); err != nil {
		rules.Changes = nil
	}
	return rules, nil
}

// authorised reports, right before an apply is started, whether it is still approved: nothing that was found before counts.
func (r *Reconciler) authorised(ctx context.Context, s *scope, plan *v1alpha1.UpdatePlan) outcome.Outcome {
	verdict, err := r.decide(ctx, plan, question{now: r.now(), proof: true, fresh: true})
	switch {
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonWaitingForApproval, err)
	case !verdict.Allows():
		return outcome.Wait(verdict.Reason, verdict.Message, time.Second)
	}
	if s.approval, err = r.handOver(plan, verdict); err != nil {
		return outcome.Retry(v1alpha1.ReasonApproved, err)
	}
	return outcome.Done()
}

// handOver is what the agent verifies again.
func (r *Reconciler) handOver(plan *v1alpha1.UpdatePlan, verdict decision) (*workspace.Approval, error) {
	a := &workspace.Approval{Statement: plan.Spec.Statement, Cluster: r.settings.Cluster, Signatures: map[string]string{}}
	for key, value := range plan.Annotations {
		if strings.HasPrefix(key, v1alpha1.AnnotationSignaturePrefix) && len(value) <= v1alpha1.MaxSignatureBytes {
			a.Signatures[key] = value
		}
	}
	for _, d := range verdict.Counted {
		handed := workspace.Decision{By: d.By, Digest: d.Digest, At: d.ObservedAt.Time, Evidence: d.Evidence}
		if d.Method == v1alpha1.MethodSignature {
			signer, err := json.Marshal(signerOf(verdict.policies, d.By))
			if err != nil {
				return nil, fmt.Errorf("handing over signer %q: %w", d.By, err)
			}
			handed.Signer = signer
		}
		a.Decisions = append(a.Decisions, handed)
	}
	return a, nil
}

// signerOf is a signer as one of the policies has it; nil: none does, and the agent refuses.
func signerOf(policies []*policy.Compiled, name string) *v1alpha1.TrustedSigner {
	for _, p := range policies {
		if signer := p.Signer(name); signer != nil {
			return signer
		}
	}
	return nil
}
