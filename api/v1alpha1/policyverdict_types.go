// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyState is where a plan stands by policy. A value that is not known allows nothing.
// +kubebuilder:validation:Enum=Allowed;Waiting;Held;Denied;Rejected
type PolicyState string

// Where a plan can stand by policy.
const (
	// PolicyAllowed: all that is asked is met, and it may be applied now.
	PolicyAllowed PolicyState = "Allowed"
	// PolicyWaiting: approvals are missing.
	PolicyWaiting PolicyState = "Waiting"
	// PolicyHeld: it may not be applied now, whoever approves: a window is closed, or a policy cannot be evaluated.
	PolicyHeld PolicyState = "Held"
	// PolicyDenied: a rule denies it, for as long as the rule matches.
	PolicyDenied PolicyState = "Denied"
	// PolicyRejected: somebody whose rejection ends the plan rejected it.
	PolicyRejected PolicyState = "Rejected"
)

// PolicyVerdict is what the policies that select a plan's Stack came to, all together.
type PolicyVerdict struct {
	// state is where the plan stands.
	// +required
	State PolicyState `json:"state"`
	// message says it in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// heldUntil is when the windows next let the plan be applied. Absent: no window holds it, or none that opens again.
	// +optional
	HeldUntil *metav1.Time `json:"heldUntil,omitempty"`
	// requirements are what was asked, by which rule, what of it is met and by whom, and what is missing; what holds or denies
	// the plan comes first. Absent: nothing is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Requirements []PolicyRequirement `json:"requirements,omitempty"`
	// warnings are messages to the approver. Absent: there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	Warnings []string `json:"warnings,omitempty"`
	// policies are the policies that were evaluated. Absent: none selects the Stack, and one person must approve.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Policies []EvaluatedPolicy `json:"policies,omitempty"`
	// digest is "sha256:" and the SHA-256 of the names, generations and contents of those policies. When it moves, everything
	// is counted again.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`
}

// EvaluatedPolicy is a policy at one generation.
type EvaluatedPolicy struct {
	// kind is ApprovalPolicy or ClusterApprovalPolicy.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Kind string `json:"kind"`
	// name is the policy's name; an ApprovalPolicy is in the plan's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// generation is the generation that was evaluated.
	// +required
	Generation int64 `json:"generation"`
}

// RequirementState is how it stands with something that policy asks.
// +kubebuilder:validation:Enum=Met;Missing;Blocked
type RequirementState string

// How it can stand.
const (
	// RequirementMet: it is met.
	RequirementMet RequirementState = "Met"
	// RequirementMissing: approvals are missing.
	RequirementMissing RequirementState = "Missing"
	// RequirementBlocked: no approval helps, until the rule, the policy or the time is another.
	RequirementBlocked RequirementState = "Blocked"
)

// PolicyRequirement is something that policy asks of a plan, and how it stands with it.
type PolicyRequirement struct {
	// policy is the kind and name of the policy that asks. Absent: there is none that does, and one person must approve.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Policy string `json:"policy,omitempty"`
	// rule is the name of the rule. Absent: it is not a rule that asks but the policy as a whole.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
	// state is how it stands.
	// +required
	State RequirementState `json:"state"`
	// words say what is asked, what is met and what is missing.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Words string `json:"words"`
	// of tells whose approvals are asked for. Absent: none are.
	// +optional
	Of VoterKind `json:"of,omitempty"`
	// class is the class of people, where of is Class.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Class string `json:"class,omitempty"`
	// needed is how many approvals are asked for.
	// +optional
	Needed int32 `json:"needed,omitempty"`
	// by are those who meet it, users or signers. Absent: nobody.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=320
	By []string `json:"by,omitempty"`
}
