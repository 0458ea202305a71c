// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalPolicy says what the plans of Stacks in its namespace need before they are applied. All policies that select a
// Stack count together, and the strictest combination holds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=plangate
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Rules",type=integer,JSONPath=`.status.rules`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selectedStacks`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ApprovalPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked.
	// +required
	Spec ApprovalPolicySpec `json:"spec"`
	// status tells whether the policy can be evaluated. Absent until the operator saw it for the first time.
	// +optional
	Status ApprovalPolicyStatus `json:"status,omitempty"`
}

// ApprovalPolicySpec is what an ApprovalPolicy asks.
type ApprovalPolicySpec struct {
	// stackSelector selects Stacks by their labels. Absent or empty: every Stack of the namespace.
	// +optional
	StackSelector *metav1.LabelSelector `json:"stackSelector,omitempty"`

	PolicyTerms `json:",inline"`
}

// ClusterApprovalPolicy says what plans of Stacks in any namespace need before they are applied. It selects namespaces by
// labels that those who edit Stacks cannot change, so that nobody leaves it by editing a Stack.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=plangate
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Rules",type=integer,JSONPath=`.status.rules`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selectedStacks`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ClusterApprovalPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked.
	// +required
	Spec ClusterApprovalPolicySpec `json:"spec"`
	// status tells whether the policy can be evaluated. Absent until the operator saw it for the first time.
	// +optional
	Status ApprovalPolicyStatus `json:"status,omitempty"`
}

// ClusterApprovalPolicySpec is what a ClusterApprovalPolicy asks.
type ClusterApprovalPolicySpec struct {
	// namespaceSelector selects namespaces by their labels; a namespace's own name is its label
	// "kubernetes.io/metadata.name". Absent or empty: every namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// stackSelector selects Stacks by their labels, within those namespaces. Absent or empty: every Stack. Whoever edits a
	// Stack can change its labels: what nobody may leave is better selected by namespace alone.
	// +optional
	StackSelector *metav1.LabelSelector `json:"stackSelector,omitempty"`

	PolicyTerms `json:",inline"`
}

// PolicyTerms is what a policy asks, whatever it selects.
type PolicyTerms struct {
	// rules say what a plan needs. Every rule of every policy that selects the Stack is evaluated: a Deny that matches beats
	// everything; all that matching Require rules ask must be met; AutoApprove counts when neither matches. If none of the
	// three matches, one person must approve. Absent: there are none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Rules []PolicyRule `json:"rules,omitempty"`
	// separation bars those who had a hand in a change from approving it. Absent: the author of the Stack's spec and whoever
	// asked for the plan are barred where they are known; nothing loosens that.
	// +optional
	Separation *Separation `json:"separation,omitempty"`
	// bots are names of users that do not count as people. Service accounts and other "system:" users never do. Absent: there
	// are no others.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Bots []string `json:"bots,omitempty"`
	// vetoers are those whose rejection ends a plan. A rejection by somebody else is shown, and takes back an approval of their
	// own. Where several policies select a Stack, a rejection that ends the plan by one of them ends it. Absent: everybody who
	// may reject.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Vetoers []Voters `json:"vetoers,omitempty"`
	// maxAge is how old an approval may be when the plan is applied: "4h". The shortest of all policies that select a Stack
	// holds. Absent: as old as the plan.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="maxAge must be at least 1m"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
	// windows hold the start of an apply, and never lose an approval. If any of them says Allow, an apply starts only within
	// one of those; it never starts within one that says Deny. Each policy's windows must let it. Absent: at any time.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`
	// signers are the keys and workloads that "of: Signers" names. Absent: there are none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Signers []TrustedSigner `json:"signers,omitempty"`
}

// PolicyEffect is what a rule does when it matches. A value that the operator does not know denies.
// +kubebuilder:validation:Enum=Deny;Require;AutoApprove;Warn
type PolicyEffect string

// What a rule can do.
const (
	// EffectDeny holds the plan for as long as the rule matches.
	EffectDeny PolicyEffect = "Deny"
	// EffectRequire asks for approvals.
	EffectRequire PolicyEffect = "Require"
	// EffectAutoApprove lets the plan be applied without anybody's approval, unless another rule denies or requires.
	EffectAutoApprove PolicyEffect = "AutoApprove"
	// EffectWarn shows the rule's message to the approver and asks for nothing.
	EffectWarn PolicyEffect = "Warn"
)

// PolicyRule is one rule.
//
// +kubebuilder:validation:XValidation:rule="(self.effect == 'Require') == has(self.require)",message="require belongs to the effect Require, which needs it"
type PolicyRule struct {
	// name is what the rule is called in messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Name string `json:"name"`
	// when is a CEL expression that is true for the plans that the rule is about. It sees plan, stack, author, now and window:
	// docs/policies.md has them all. One that cannot be evaluated for a plan holds that plan if the rule denies or requires,
	// and approves nothing if it would. Absent: every plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	When string `json:"when,omitempty"`
	// effect is what the rule does to those plans.
	// +required
	Effect PolicyEffect `json:"effect"`
	// require is whose approvals are needed, all of them. Absent: the effect is another.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Require []ApprovalRequirement `json:"require,omitempty"`
	// message tells the approver why, in a sentence or two. Absent: the rule's name must do.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// VoterKind is a kind of those whose word counts.
// +kubebuilder:validation:Enum=People;Class;Signers
type VoterKind string

// Whose word can count.
const (
	// VotersPeople are people with the verb "approve".
	VotersPeople VoterKind = "People"
	// VotersClass are people with the verb "approve-<class>", who approved with it.
	VotersClass VoterKind = "Class"
	// VotersSigners are signers of this policy.
	VotersSigners VoterKind = "Signers"
)

// ApprovalRequirement is how many of whom must approve. They are all distinct: nobody counts twice, and a person who may
// approve both as people and in a class counts for one of them.
//
// +kubebuilder:validation:XValidation:rule="(self.of == 'Class') == has(self.class)",message="class belongs to of: Class, which needs it"
// +kubebuilder:validation:XValidation:rule="(self.of == 'Signers') == has(self.signers)",message="signers belongs to of: Signers, which needs it"
// +kubebuilder:validation:XValidation:rule="!has(self.signers) || !has(self.count) || self.count <= self.signers.size()",message="count is more than there are signers"
type ApprovalRequirement struct {
	// count is how many. Two rules that ask for 1 and for 2 of the same ask for 2, not for 3. Absent: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Count int32 `json:"count,omitempty"`
	// of tells whose.
	// +required
	Of VoterKind `json:"of"`
	// class names the class: "security" is for those who have the verb "approve-security" and approved with it. Absent: of is
	// not Class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Class string `json:"class,omitempty"`
	// signers names signers of this policy. Absent: of is not Signers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Signers []string `json:"signers,omitempty"`
}

// Voters are those whose word counts.
//
// +kubebuilder:validation:XValidation:rule="(self.of == 'Class') == has(self.class)",message="class belongs to of: Class, which needs it"
// +kubebuilder:validation:XValidation:rule="(self.of == 'Signers') == has(self.signers)",message="signers belongs to of: Signers, which needs it"
type Voters struct {
	// of tells who.
	// +required
	Of VoterKind `json:"of"`
	// class names the class. Absent: of is not Class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Class string `json:"class,omitempty"`
	// signers names signers of this policy. Absent: of is not Signers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Signers []string `json:"signers,omitempty"`
}

// ChangeRole is a hand that somebody can have in a change.
// +kubebuilder:validation:Enum=SpecAuthor;Requester;CommitAuthor
type ChangeRole string

// Who can have a hand in a change.
const (
	// RoleSpecAuthor last edited the Stack's spec.
	RoleSpecAuthor ChangeRole = "SpecAuthor"
	// RoleRequester asked for the plan.
	RoleRequester ChangeRole = "Requester"
	// RoleCommitAuthor wrote the commit.
	RoleCommitAuthor ChangeRole = "CommitAuthor"
)

// UnknownAuthor is what happens when it is not known who had a hand in a change.
// +kubebuilder:validation:Enum=Hold;Count
type UnknownAuthor string

// What can happen then.
const (
	// UnknownHold counts no person's approval.
	UnknownHold UnknownAuthor = "Hold"
	// UnknownCount counts them.
	UnknownCount UnknownAuthor = "Count"
)

// Separation bars those who had a hand in a change from approving it.
type Separation struct {
	// bar names who is barred. Absent: all three.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Bar []ChangeRole `json:"bar,omitempty"`
	// whenUnknown tells what happens when one of them is not known, such as a commit's author whom people does not name: Hold
	// counts no person's approval until it is, Count counts them. Absent: Hold.
	// +optional
	WhenUnknown UnknownAuthor `json:"whenUnknown,omitempty"`
	// people tells which users the authors of commits are. Absent: none is known.
	// +optional
	// +listType=map
	// +listMapKey=user
	// +kubebuilder:validation:MaxItems=500
	People []KnownPerson `json:"people,omitempty"`
}

// KnownPerson is a user and the e-mail addresses of their commits.
type KnownPerson struct {
	// user is the name that the API server knows them by.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// emails are the addresses, in any case of letters, that they commit under.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=254
	Emails []string `json:"emails"`
}

// WindowAction is what a window does to the start of an apply.
// +kubebuilder:validation:Enum=Allow;Deny;Mark
type WindowAction string

// What a window can do.
const (
	// WindowAllow lets an apply start within it.
	WindowAllow WindowAction = "Allow"
	// WindowDeny lets no apply start within it.
	WindowDeny WindowAction = "Deny"
	// WindowMark holds nothing: rules see in window.active that it is that time.
	WindowMark WindowAction = "Mark"
)

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string

// Window is a time that comes back, as a clock on the wall of its time zone shows it. When clocks are put back an Allow is
// as short, and the others as long, as they can be.
//
// +kubebuilder:validation:XValidation:rule="!has(self.from) || !has(self.to) || self.from != self.to",message="from and to are the same: leave both out for a whole day"
// +kubebuilder:validation:XValidation:rule="!has(self.firstDate) || !has(self.lastDate) || self.firstDate <= self.lastDate",message="lastDate is before firstDate"
type Window struct {
	// name is what the window is called in messages and in window.active.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Name string `json:"name"`
	// action is what it does.
	// +required
	Action WindowAction `json:"action"`
	// timeZone is a name of the IANA time zone database: "Europe/Vienna". Absent: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// days are the days on which it begins. Absent: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`
	// from is when it begins, "HH:MM". Absent: "00:00".
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	From string `json:"from,omitempty"`
	// to is when it ends, "HH:MM"; when it is before from, on the day after. Absent: "24:00".
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	To string `json:"to,omitempty"`
	// firstDate is the first day on which it begins, "YYYY-MM-DD". Absent: it always did.
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	FirstDate string `json:"firstDate,omitempty"`
	// lastDate is the last day on which it begins, "YYYY-MM-DD". Absent: it always will.
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
	LastDate string `json:"lastDate,omitempty"`
}

// ApprovalPolicyStatus tells whether a policy can be evaluated.
type ApprovalPolicyStatus struct {
	// conditions has Ready: True when the policy can be evaluated. While it is False every plan that the policy selects is held.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed for. Absent: none yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// rules counts the rules.
	// +optional
	Rules int32 `json:"rules"`
	// selectedStacks counts the Stacks that the policy selects. It is renewed when Stacks come, go, or change their labels.
	// +optional
	SelectedStacks int32 `json:"selectedStacks"`
	// problems are what keeps the policy from being evaluated, each with the field that has it. Absent: nothing does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	Problems []string `json:"problems,omitempty"`
}

// ApprovalPolicyList is a list of ApprovalPolicies.
//
// +kubebuilder:object:root=true
type ApprovalPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApprovalPolicy `json:"items"`
}

// ClusterApprovalPolicyList is a list of ClusterApprovalPolicies.
//
// +kubebuilder:object:root=true
type ClusterApprovalPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterApprovalPolicy `json:"items"`
}
