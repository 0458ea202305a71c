// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approvalpolicy

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/policy"
)

// Kind is one of the two kinds of policies, in which they differ.
type Kind struct {
	name  string
	empty func() client.Object
	// list returns the policies that may be about Stacks of a namespace.
	list   func(ctx context.Context, reader client.Reader, namespace string) ([]client.Object, error)
	source func(client.Object) (policy.Source, error)
	status func(client.Object) *v1alpha1.ApprovalPolicyStatus
}

// Namespaced are ApprovalPolicies.
func Namespaced() Kind {
	return Kind{
		name:  "approvalpolicy",
		empty: func() client.Object { return &v1alpha1.ApprovalPolicy{} },
		list: func(ctx context.Context, reader client.Reader, namespace string) ([]client.Object, error) {
			list := &v1alpha1.ApprovalPolicyList{}
			err := reader.List(ctx, list, client.InNamespace(namespace))
			return pointers(list.Items, func(p *v1alpha1.ApprovalPolicy) client.Object { return p }), err
		},
		source: func(o client.Object) (policy.Source, error) {
			p, ok := o.(*v1alpha1.ApprovalPolicy)
			if !ok {
				return policy.Source{}, fmt.Errorf("%T is no ApprovalPolicy: this is a bug", o)
			}
			return policy.FromPolicy(p), nil
		},
		status: func(o client.Object) *v1alpha1.ApprovalPolicyStatus {
			if p, ok := o.(*v1alpha1.ApprovalPolicy); ok {
				return &p.Status
			}
			return &v1alpha1.ApprovalPolicyStatus{}
		},
	}
}

// Cluster are ClusterApprovalPolicies.
func Cluster() Kind {
	return Kind{
		name:  "clusterapprovalpolicy",
		empty: func() client.Object { return &v1alpha1.ClusterApprovalPolicy{} },
		list: func(ctx context.Context, reader client.Reader, _ string) ([]client.Object, error) {
			list := &v1alpha1.ClusterApprovalPolicyList{}
			err := reader.List(ctx, list)
			return pointers(list.Items, func(p *v1alpha1.ClusterApprovalPolicy) client.Object { return p }), err
		},
		source: func(o client.Object) (policy.Source, error) {
			p, ok := o.(*v1alpha1.ClusterApprovalPolicy)
			if !ok {
				return policy.Source{}, fmt.Errorf("%T is no ClusterApprovalPolicy: this is a bug", o)
			}
			return policy.FromClusterPolicy(p), nil
		},
		status: func(o client.Object) *v1alpha1.ApprovalPolicyStatus {
			if p, ok := o.(*v1alpha1.ClusterApprovalPolicy); ok {
				return &p.Status
			}
			return &v1alpha1.ApprovalPolicyStatus{}
		},
	}
}

func pointers[T any](items []T, object func(*T) client.Object) []client.Object {
	all := make([]client.Object, len(items))
	for i := range items {
		all[i] = object(&items[i])
	}
	return all
}
