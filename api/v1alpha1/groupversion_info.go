// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of plangate.dev: what a person writes (Stack), what the operator asks to be approved
// (UpdatePlan), who must approve (ApprovalPolicy, ClusterApprovalPolicy) and where Pulumi runs (Workspace).
//
// It holds data only: no behavior beyond trivial accessors, no clients, nothing of controller-runtime, so that anybody
// can import it.
//
// +kubebuilder:object:generate=true
// +groupName=plangate.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "plangate.dev", Version: "v1alpha1"}

// SchemeBuilder collects the functions that add this package's kinds to a scheme.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds this package's kinds to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Stack{}, &StackList{},
		&UpdatePlan{}, &UpdatePlanList{},
		&Workspace{}, &WorkspaceList{},
		&ApprovalPolicy{}, &ApprovalPolicyList{},
		&ClusterApprovalPolicy{}, &ClusterApprovalPolicyList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
