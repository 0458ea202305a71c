// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpdatePlan is one change of one Stack, previewed and waiting, or how it ended. The operator alone makes it; people and
// CI approve or reject it by its digest; exactly this plan is applied, or none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=plangate,shortName=up;uplan
// +kubebuilder:selectablefield:JSONPath=`.spec.stackRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.stackRef.resourceVersion`
// +kubebuilder:selectablefield:JSONPath=`.spec.digest`
// +kubebuilder:printcolumn:name="Stack",type=string,JSONPath=`.spec.stackRef.name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Changes",type=string,JSONPath=`.spec.summary.brief`
// +kubebuilder:printcolumn:name="Trigger",type=string,JSONPath=`.spec.trigger.type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Approved",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Approved")].status`
// +kubebuilder:printcolumn:name="Applied",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Digest",type=string,priority=1,JSONPath=`.spec.digest`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type UpdatePlan struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the change. It never changes after creation.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an UpdatePlan's spec never changes: a new change is a new UpdatePlan"
	Spec UpdatePlanSpec `json:"spec"`
	// status is what became of it. Absent until the operator saw the plan for the first time.
	// +optional
	Status UpdatePlanStatus `json:"status,omitempty"`
}

// UpdatePlanSpec is one change of one Stack.
type UpdatePlanSpec struct {
	// stackRef is the Stack object that was read for this plan.
	// +required
	StackRef StackReference `json:"stackRef"`
	// sequence numbers the plans of a Stack, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Sequence int64 `json:"sequence"`
	// operation is what is done: Update or Refresh.
	// +required
	Operation PlanOperation `json:"operation"`
	// trigger tells why the plan was made.
	// +required
	Trigger PlanTrigger `json:"trigger"`
	// binding is everything, beside the plan file, that an approval is tied to.
	// +required
	Binding Binding `json:"binding"`
	// artifact is Pulumi's plan file.
	// +required
	Artifact Artifact `json:"artifact"`
	// statement is an in-toto Statement v1 over all of the above, as the exact bytes that are approved and signed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Statement string `json:"statement"`
	// digest is "sha256:" and the SHA-256 of statement in lower-case hex. It is what an approval names.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
	// notAfter is when the plan expires, unless it was applied before.
	// +required
	NotAfter metav1.Time `json:"notAfter"`
	// summary counts the changes.
	// +required
	Summary PlanSummary `json:"summary"`
	// changes are the first 100 changes, the destructive ones first. Absent: there are none but outputs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Changes []ResourceChange `json:"changes,omitempty"`
	// changesConfigMap is the name of the ConfigMap, in this namespace, that holds all changes, secrets masked, under the
	// key "changes.json". Absent: changes is the whole list.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ChangesConfigMap string `json:"changesConfigMap,omitempty"`
}

// StackReference names one state of one Stack object.
type StackReference struct {
	// name is the Stack's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the Stack's UID.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// generation is the generation of the spec that was previewed.
	// +required
	Generation int64 `json:"generation"`
	// resourceVersion is the resourceVersion at which the Stack was read. It is for people and tools; the plan does not
	// become stale when it moves, since status and annotations move it too.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion"`
}

// PlanOperation is what a plan does.
// +kubebuilder:validation:Enum=Update;Refresh
type PlanOperation string

// What a plan can do.
const (
	// PlanOperationUpdate brings the world to what the program asks for.
	PlanOperationUpdate PlanOperation = "Update"
	// PlanOperationRefresh brings Pulumi's state to what the world is: drift is accepted. It changes nothing real. The plan's
	// artifact is the list of what is accepted.
	PlanOperationRefresh PlanOperation = "Refresh"
)

// TriggerType tells what made the operator preview.
// +kubebuilder:validation:Enum=SpecChanged;SourceChanged;ConfigChanged;Requested;Retry;Drifted
type TriggerType string

// What can make the operator preview.
const (
	TriggerSpecChanged   TriggerType = "SpecChanged"
	TriggerSourceChanged TriggerType = "SourceChanged"
	TriggerConfigChanged TriggerType = "ConfigChanged"
	TriggerRequested     TriggerType = "Requested"
	TriggerRetry         TriggerType = "Retry"
	// TriggerDrifted: the real resources are not as Pulumi left them.
	TriggerDrifted TriggerType = "Drifted"
)

// PlanTrigger tells why a plan was made.
type PlanTrigger struct {
	// type tells what made the operator preview.
	// +required
	Type TriggerType `json:"type"`
	// message says it in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// Binding is everything, beside the plan file, that an approval is tied to. Each field is compared again right before
// applying; a difference makes the plan stale.
type Binding struct {
	// revision is the commit.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision"`
	// repository is the URL of the git repository.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Repository string `json:"repository"`
	// directory is the project's folder in the repository. Absent: its root.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Directory string `json:"directory,omitempty"`
	// tree is the git tree id of the project's folder at that commit.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Tree string `json:"tree"`
	// configDigest is the digest of the Stack's configuration, environment and options; secret values enter it as an HMAC
	// under a key of the Stack's own.
	// +required
	// +kubebuilder:validation:MaxLength=71
	ConfigDigest string `json:"configDigest"`
	// stateDigest is the digest of Pulumi's state, without time stamps and encryption noise, before the preview.
	// +required
	// +kubebuilder:validation:MaxLength=71
	StateDigest string `json:"stateDigest"`
	// refresh tells whether the real resources are read before preview and apply.
	// +optional
	Refresh bool `json:"refresh,omitempty"`
	// refreshedDigest is the digest of what was found to differ from the state when the real resources were read: more, other
	// or less drift than the plan shows makes it stale. Absent: they were not read.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	RefreshedDigest string `json:"refreshedDigest,omitempty"`
	// configEntries are one short keyed digest for each entry of the configuration and the environment, so that what moved in
	// configDigest can be named. Absent: there are none, or too many to list.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=200
	ConfigEntries []ConfigEntry `json:"configEntries,omitempty"`
	// pulumiVersion is the version of the Pulumi CLI.
	// +required
	// +kubebuilder:validation:MaxLength=64
	PulumiVersion string `json:"pulumiVersion"`
	// plugins are the provider plugins that state and plan need, as Pulumi found them. Absent: there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Plugins []Plugin `json:"plugins,omitempty"`
	// workspaceImage is the id of the image that Pulumi ran from, as the kubelet reports it.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	WorkspaceImage string `json:"workspaceImage"`
}

// ConfigEntry stands for one entry of a Stack's configuration or environment, and does not tell its value.
type ConfigEntry struct {
	// name is the field of the Stack's spec, with the Secret and key that it refers to: "spec.envRefs[TOKEN] (Secret db/token)".
	// +required
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
	// digest is an HMAC of the value under the Stack's own key, shortened to 64 bits. It names what moved; configDigest proves
	// that nothing did.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Digest string `json:"digest"`
}

// Plugin is a provider plugin as Pulumi found it.
type Plugin struct {
	// name is the plugin's name: "kubernetes".
	// +required
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// version is the version that was found. Absent: it was not found by version, but on the PATH or by the project's own path.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// digest is "sha256:" and the SHA-256 of the plugin's binary, or of all files of a plugin without one. Absent: the agent
	// could not find it.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`
}

// Artifact is Pulumi's plan file, stored compressed in immutable Secrets.
type Artifact struct {
	// digest is "sha256:" and the SHA-256 of the stored plan file, uncompressed, in lower-case hex.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
	// size is the size of the plan file in bytes, uncompressed.
	// +required
	// +kubebuilder:validation:Minimum=0
	Size int64 `json:"size"`
	// chunks are the names of the Secrets, in order, that hold the gzip-compressed file.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Chunks []string `json:"chunks"`
}

// PlanSummary counts a plan's changes by kind.
type PlanSummary struct {
	// brief says the counts in a line: "+1 ~2 -/+3 -4", "outputs only".
	// +required
	// +kubebuilder:validation:MaxLength=128
	Brief string `json:"brief"`
	// create counts resources that will be made.
	// +optional
	Create int32 `json:"create"`
	// update counts resources that will be changed in place.
	// +optional
	Update int32 `json:"update"`
	// replace counts resources that will be deleted and made anew.
	// +optional
	Replace int32 `json:"replace"`
	// delete counts resources that will be deleted.
	// +optional
	Delete int32 `json:"delete"`
	// other counts changes of other kinds: imports, reads, refreshes, removals from the state.
	// +optional
	Other int32 `json:"other"`
	// same counts resources that stay as they are.
	// +optional
	Same int32 `json:"same"`
	// outputs counts stack outputs that will change.
	// +optional
	Outputs int32 `json:"outputs"`
	// unbound counts inputs that were not known at preview: any value passes for them.
	// +optional
	Unbound int32 `json:"unbound"`
}

// ChangeOperation is what happens to a resource.
// +kubebuilder:validation:Enum=Create;Update;Replace;Delete;Import;Read;Refresh;Remove;Outputs;Same;Other
type ChangeOperation string

// What can happen to a resource.
const (
	ChangeCreate  ChangeOperation = "Create"
	ChangeUpdate  ChangeOperation = "Update"
	ChangeReplace ChangeOperation = "Replace"
	ChangeDelete  ChangeOperation = "Delete"
	ChangeImport  ChangeOperation = "Import"
	ChangeRead    ChangeOperation = "Read"
	// ChangeRefresh is a difference between the state and the real resource that a refresh found.
	ChangeRefresh ChangeOperation = "Refresh"
	// ChangeRemove takes the resource out of the state without deleting it.
	ChangeRemove ChangeOperation = "Remove"
	// ChangeOutputs is a change of the stack's outputs.
	ChangeOutputs ChangeOperation = "Outputs"
	// ChangeSame leaves the resource as it is; it is listed when it has unbound inputs.
	ChangeSame ChangeOperation = "Same"
	// ChangeOther is a step that this version does not know by name.
	ChangeOther ChangeOperation = "Other"
)

// ResourceChange is what happens to one resource.
type ResourceChange struct {
	// operation is what happens.
	// +required
	Operation ChangeOperation `json:"operation"`
	// type is the resource's Pulumi type, for example "kubernetes:core/v1:ConfigMap".
	// +required
	// +kubebuilder:validation:MaxLength=512
	Type string `json:"type"`
	// name is the resource's name in the program.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
	// urn is the resource's URN.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URN string `json:"urn"`
	// properties are the changed properties, at most 50. Absent: none are known.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Properties []PropertyChange `json:"properties,omitempty"`
	// moreProperties counts changed properties beyond those listed. Absent: 0.
	// +optional
	MoreProperties int32 `json:"moreProperties,omitempty"`
	// unbound names the inputs that were not known at preview: any value passes for them. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Unbound []string `json:"unbound,omitempty"`
}

// PropertyChange is one property's change. Values are shortened; secret ones are shown as "[secret]".
type PropertyChange struct {
	// path is the property's path: "data.greeting", "spec.containers[0].image". In parentheses it is something else of the
	// resource: "(id)"; "(replacedWith)", with the URN of another resource in old, for whose sake this one is replaced.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`
	// old is the value before, as JSON text. Absent: there was none.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Old *string `json:"old,omitempty"`
	// new is the value after, as JSON text; "[unknown]" when it is computed while applying. Absent: there will be none.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	New *string `json:"new,omitempty"`
	// replaces is true when the change of this property forces the resource to be replaced. Absent: false.
	// +optional
	Replaces bool `json:"replaces,omitempty"`
}

// UpdatePlanStatus is what became of a plan.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.record) || (has(self.record) && self.record == oldSelf.record)",message="a record never changes"
type UpdatePlanStatus struct {
	// conditions are Approved, Applied, Obsolete, Recorded and Ready; Reconciling only while it is True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this status was computed for. Absent: none yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// requirements says in words who must still approve, or how that was met.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Requirements string `json:"requirements,omitempty"`
	// howToApprove is the ready command. Absent: the plan does not wait for an approval.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HowToApprove string `json:"howToApprove,omitempty"`
	// howToReject is the ready command. Absent: the plan does not wait for an approval.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HowToReject string `json:"howToReject,omitempty"`
	// decisions are the approvals and rejections that were seen, accepted or refused, the last 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Decisions []Decision `json:"decisions,omitempty"`
	// diff is the change in words, for people, a line each: what happens to which resource, and below it its properties, as
	// many as there is room for. It is computed from spec.changes, which is what counts. Absent: not looked at yet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=300
	// +kubebuilder:validation:items:MaxLength=512
	Diff []string `json:"diff,omitempty"`
	// operation is the attempt to apply the plan. There is at most one. Absent: it was not started.
	// +optional
	Operation *ApplyOperation `json:"operation,omitempty"`
	// record is the plan's place in its Stack's chain of records. It never changes. Absent: the plan has not ended, or its
	// end is not recorded yet.
	// +optional
	Record *PlanRecord `json:"record,omitempty"`
}

// PlanRecord ties the end of a plan to the end of the plan of the same Stack that was recorded before it.
type PlanRecord struct {
	// index is the record's number in the Stack's chain, from 1, in the order in which ends were recorded.
	// +required
	// +kubebuilder:validation:Minimum=1
	Index int64 `json:"index"`
	// previous is the digest of the record before it. Absent: this is the first.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Previous string `json:"previous,omitempty"`
	// digest is "sha256:" and the SHA-256 of all that the record says, in lower-case hex: what the plan was, how it ended,
	// when and why, who decided, what was done, index and previous. It is in the audit log too.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
}

// DecisionVerdict is what somebody said of a plan, and whether it counts.
// +kubebuilder:validation:Enum=Approved;Rejected;Refused
type DecisionVerdict string

// What a decision can come to.
const (
	// DecisionApproved is an approval that counts.
	DecisionApproved DecisionVerdict = "Approved"
	// DecisionRejected is a rejection that counts.
	DecisionRejected DecisionVerdict = "Rejected"
	// DecisionRefused is an approval or rejection that does not count.
	DecisionRefused DecisionVerdict = "Refused"
)

// Decision is what somebody said of a plan.
type Decision struct {
	// verdict tells whether it was an approval or a rejection that counts, or was refused.
	// +required
	Verdict DecisionVerdict `json:"verdict"`
	// method is how it came: "annotation plangate.dev/approve".
	// +required
	// +kubebuilder:validation:MaxLength=256
	Method string `json:"method"`
	// by names who decided. Identity is not verified in this version: it is then "unverified", with the field manager of the
	// write where the API server recorded one.
	// +required
	// +kubebuilder:validation:MaxLength=512
	By string `json:"by"`
	// verified is true when the identity in by was authenticated.
	// +optional
	Verified bool `json:"verified"`
	// digest is the digest that was named, if it is one. Absent: what was written is no digest.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`
	// reason is the reason that was given, or why the decision was refused.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// observedAt is when the operator saw it.
	// +required
	ObservedAt metav1.Time `json:"observedAt"`
	// evidence is "sha256:" and the SHA-256 of the annotation's value as it was written.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Evidence string `json:"evidence,omitempty"`
}

// ApplyOperation is the attempt to apply a plan.
type ApplyOperation struct {
	// id names the operation; starting it twice under one id runs it once.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// pod is the workspace pod that it runs or ran in.
	// +required
	Pod PodReference `json:"pod"`
	// startedAt is when the intent to apply was written down, before anything was started.
	// +required
	StartedAt metav1.Time `json:"startedAt"`
	// endedAt is when it ended. Absent: it has not, or that is not known.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// done counts the steps that were done. Absent: 0.
	// +optional
	Done int32 `json:"done,omitempty"`
	// total counts the steps that were planned.
	// +optional
	Total int32 `json:"total,omitempty"`
	// result is how it ended: Applied, or a reason of the condition Applied. Absent: it has not ended.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Result string `json:"result,omitempty"`
	// message says it in words.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// violations are Pulumi's words for what differed from the plan, secrets masked. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	Violations []string `json:"violations,omitempty"`
	// mismatches are the bound facts that had moved. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// permalink is the address of the update in Pulumi Cloud. Absent: the backend has none.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Permalink string `json:"permalink,omitempty"`
	// logTail is the end of Pulumi's output, secrets masked. Absent: there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	LogTail string `json:"logTail,omitempty"`
	// outputs are the stack's outputs after the apply; a secret one is shown as "[secret]". Absent: none.
	// +optional
	Outputs map[string]apiextensionsv1.JSON `json:"outputs,omitempty"`
}

// Mismatch is a bound fact that has moved.
type Mismatch struct {
	// field is the fact's name: "stateDigest".
	// +required
	// +kubebuilder:validation:MaxLength=128
	Field string `json:"field"`
	// was is the value that was approved.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Was string `json:"was,omitempty"`
	// is is the value that was found.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Is string `json:"is,omitempty"`
	// detail says more in words. Absent: nothing more is known.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Detail string `json:"detail,omitempty"`
}

// UpdatePlanList is a list of UpdatePlans.
//
// +kubebuilder:object:root=true
type UpdatePlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UpdatePlan `json:"items"`
}
