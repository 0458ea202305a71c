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
//
// +kubebuilder:validation:XValidation:rule="self.operation == 'Destroy' || has(self.binding.revision)",message="binding.revision is required: but for a Destroy an approval is tied to a commit"
type UpdatePlanSpec struct {
	// stackRef is the Stack object that was read for this plan.
	// +required
	StackRef StackReference `json:"stackRef"`
	// sequence numbers the plans of a Stack, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Sequence int64 `json:"sequence"`
	// operation is what is done: Update brings the world to what the program asks for, Destroy deletes all that the state holds,
	// Refresh takes the values of real resources into the state.
	// +required
	Operation PlanOperation `json:"operation"`
	// trigger tells why the plan was made.
	// +required
	Trigger PlanTrigger `json:"trigger"`
	// authors are the users who wrote the change, as the API server knows them: who edited the Stack's spec last. None of them
	// can approve the plan. Absent: not known; before Kubernetes 1.36, and for a Stack that is deleted, it never is.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Authors []string `json:"authors,omitempty"`
	// binding is everything, beside the plan file, that an approval is tied to.
	// +required
	Binding Binding `json:"binding"`
	// artifact is Pulumi's plan file; of a Destroy, for which Pulumi has none, the list of all that goes.
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
	// enforcement is what the Stack asked for: Strict, or Probe, with which a summary that counts nothing unstable means that two
	// previews were the same. Absent: Strict.
	// +optional
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// summary counts the changes.
	// +required
	Summary PlanSummary `json:"summary"`
	// changes are the first 100 changes, the destructive ones first. Absent: there are none but outputs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Changes []ResourceChange `json:"changes,omitempty"`
	// changesConfigMap is the name of the ConfigMap, in this namespace, that holds all changes, secrets masked, under the
	// key "changes.json"; when they are too many, gzip-compressed under "changes.json.gz", which goes on in as many ConfigMaps
	// of this name and "-1", "-2", … as "parts" tells. Absent: changes is the whole list.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ChangesConfigMap string `json:"changesConfigMap,omitempty"`
	// pending are the operations that an earlier update began and that were cut off, as the state notes them, and what this plan
	// does about each: the first 50, those that may have made something first. Absent: the state notes none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Pending []PendingOperation `json:"pending,omitempty"`
	// pendingCount counts all of them. Absent: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PendingCount int32 `json:"pendingCount,omitempty"`
}

// PendingType is what was being done to a resource when it was cut off.
// +kubebuilder:validation:Enum=Creating;Updating;Deleting;Reading;Importing;Other
type PendingType string

// What can be cut off.
const (
	// PendingCreating may have made the resource, of which the state then knows no id.
	PendingCreating  PendingType = "Creating"
	PendingUpdating  PendingType = "Updating"
	PendingDeleting  PendingType = "Deleting"
	PendingReading   PendingType = "Reading"
	PendingImporting PendingType = "Importing"
	// PendingOther is one that this version does not know by name.
	PendingOther PendingType = "Other"
)

// PendingEffect is what a plan does about an operation that was cut off.
// +kubebuilder:validation:Enum=CreatesAgain;DoesAgain;Refreshes;Forgets;Keeps
type PendingEffect string

// What a plan can do about an operation that was cut off.
const (
	// PendingCreatesAgain: the plan creates the resource. If it exists already there are then two, or the provider refuses.
	PendingCreatesAgain PendingEffect = "CreatesAgain"
	// PendingDoesAgain: the plan changes or deletes the resource, starting from what the state says of it.
	PendingDoesAgain PendingEffect = "DoesAgain"
	// PendingRefreshes: the real resource was read for the plan, and is read again before it is applied.
	PendingRefreshes PendingEffect = "Refreshes"
	// PendingForgets: the plan does nothing to the resource, and Pulumi drops the note when it is applied.
	PendingForgets PendingEffect = "Forgets"
	// PendingKeeps: the plan does nothing to the resource, and the note stays in the state.
	PendingKeeps PendingEffect = "Keeps"
)

// PendingOperation is an operation that was begun and cut off, so that nobody knows whether it was done.
type PendingOperation struct {
	// operation is what was being done.
	// +required
	Operation PendingType `json:"operation"`
	// urn is the resource's URN.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URN string `json:"urn"`
	// effect is what the plan does about it. Absent where no plan is spoken of.
	// +optional
	Effect PendingEffect `json:"effect,omitempty"`
	// message says in words what that means. Absent where no plan is spoken of.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
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
// +kubebuilder:validation:Enum=Update;Destroy;Refresh
type PlanOperation string

// What a plan can do.
const (
	// PlanOperationUpdate brings the world to what the program asks for.
	PlanOperationUpdate PlanOperation = "Update"
	// PlanOperationRefresh brings Pulumi's state to what the world is: drift is accepted. It changes nothing real. The plan's
	// artifact is the list of what is accepted.
	PlanOperationRefresh PlanOperation = "Refresh"
	// PlanOperationDestroy deletes all that the state holds. It needs the state alone, and no source.
	PlanOperationDestroy PlanOperation = "Destroy"
)

// TriggerType tells what made the operator preview.
// +kubebuilder:validation:Enum=SpecChanged;SourceChanged;ConfigChanged;Requested;Retry;Drifted;Deleted
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
	// TriggerDeleted is the deletion of a Stack with destroyOnFinalize.
	TriggerDeleted TriggerType = "Deleted"
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
	// completes is the plan that was applied in part, or cut off, and whose rest this one is. Absent: it completes none.
	// +optional
	Completes *CompletedPlan `json:"completes,omitempty"`
}

// CompletedPlan is a plan that was applied in part, or cut off.
type CompletedPlan struct {
	// name is the UpdatePlan's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// digest is the UpdatePlan's digest.
	// +required
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest"`
	// result is how it ended: PartiallyApplied or Interrupted.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Result string `json:"result"`
}

// Binding is everything, beside the plan file, that an approval is tied to. Each field is compared again right before
// applying; a difference makes the plan stale.
type Binding struct {
	// revision is the commit. Absent with Destroy, which needs no source.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// repository is the URL of the git repository. Absent with Destroy.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Repository string `json:"repository,omitempty"`
	// directory is the project's folder in the repository. Absent: its root.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Directory string `json:"directory,omitempty"`
	// tree is the git tree id of the project's folder at that commit; where the Stack has spec.projectPaths, a SHA-256 over it
	// and what is at those paths. Absent with Destroy.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Tree string `json:"tree,omitempty"`
	// configDigest is the digest of the Stack's configuration, environment and options; secret values enter it as an HMAC
	// under a key of the Stack's own.
	// +required
	// +kubebuilder:validation:MaxLength=71
	ConfigDigest string `json:"configDigest"`
	// stateDigest is the digest of Pulumi's state, without time stamps and encryption noise, before the preview.
	// +required
	// +kubebuilder:validation:MaxLength=71
	StateDigest string `json:"stateDigest"`
	// driftDigest is the digest of how the real resources differed from Pulumi's state when the preview read them. Absent: it
	// did not read them.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	DriftDigest string `json:"driftDigest,omitempty"`
	// refresh tells whether the real resources are read before preview and apply.
	// +optional
	Refresh bool `json:"refresh,omitempty"`
	// targets are the URNs that preview and apply are limited to. Absent: they are not limited.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=512
	Targets []string `json:"targets,omitempty"`
	// targetDependents tells whether what depends on the targets is taken in. Absent: it is not.
	// +optional
	TargetDependents bool `json:"targetDependents,omitempty"`
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
	// protected counts resources that a Destroy meets and that Pulumi refuses to delete: as long as there is one, nothing of
	// the plan can be done. Absent: 0, and with Update.
	// +optional
	Protected int32 `json:"protected,omitempty"`
	// retained counts resources that a Destroy leaves in the real world: Pulumi forgets them. Absent: 0, and with Update.
	// +optional
	Retained int32 `json:"retained,omitempty"`
	// unstable counts inputs and outputs that differed between two previews of the same world: an apply would most likely be
	// refused because of them. Only with enforcement Probe; 0 otherwise.
	// +optional
	Unstable int32 `json:"unstable"`
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
	// ChangeSame leaves the resource as it is; it is listed when it has unbound or unstable inputs.
	ChangeSame ChangeOperation = "Same"
	// ChangeOther is a step that this version does not know by name.
	ChangeOther ChangeOperation = "Other"
)

// ResourceGuard is what keeps a resource from being deleted by a Destroy.
// +kubebuilder:validation:Enum=Protected;Retained
type ResourceGuard string

// What can keep a resource from being deleted.
const (
	// GuardProtected: the resource has the option protect. Pulumi refuses to delete it, and with it the whole destroy.
	GuardProtected ResourceGuard = "Protected"
	// GuardRetained: the resource has the option retainOnDelete, or was only read. It stays in the real world.
	GuardRetained ResourceGuard = "Retained"
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
	// guard is what keeps the resource from being deleted by a Destroy. Absent: nothing does.
	// +optional
	Guard ResourceGuard `json:"guard,omitempty"`
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
	// unstable names what differed between two previews of the same world, by property path, never by value. In parentheses it
	// is no property: "(exists)", only one of them had the resource; "(steps)", they did something else to it; "(secret) path",
	// a secret that could not be compared. Absent: nothing, or only one preview was made.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Unstable []string `json:"unstable,omitempty"`
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
	// policy is what the policies that select the Stack came to, when they were last evaluated. Absent: they were not yet.
	// +optional
	Policy *PolicyVerdict `json:"policy,omitempty"`
	// howToApprove is the ready command. Absent: the plan does not wait for an approval.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HowToApprove string `json:"howToApprove,omitempty"`
	// howToReject is the ready command. Absent: the plan does not wait for an approval.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HowToReject string `json:"howToReject,omitempty"`
	// decisions are the approvals and rejections that were seen: those that count, and the last 5 that were refused. It is a
	// memory; an approval counts only while what it came by is there too. Absent: there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Decisions []Decision `json:"decisions,omitempty"`
	// unguardedSince is when an approval by annotation was first seen on this plan while the admission policies that vouch
	// for it were not in force. From then on no annotation approves this plan; ask for a new one. Absent: never.
	// +optional
	UnguardedSince *metav1.Time `json:"unguardedSince,omitempty"`
	// diff is the change in words, for people, a line each: what happens to which resource, and below it its properties, as
	// many as there is room for. It is computed from spec.changes, which is what counts. Absent: not looked at yet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=300
	// +kubebuilder:validation:items:MaxLength=512
	Diff []string `json:"diff,omitempty"`
	// stateCheck is the last look at Pulumi's state while the plan waits: it ends as Stale when somebody else has changed it.
	// Absent: the state was only read for the preview.
	// +optional
	StateCheck *StateCheck `json:"stateCheck,omitempty"`
	// operation is the attempt to apply the plan. There is at most one. Absent: it was not started.
	// +optional
	Operation *ApplyOperation `json:"operation,omitempty"`
	// record is the plan's place in its Stack's chain of records. It never changes. Absent: the plan has not ended, or its
	// end is not recorded yet.
	// +optional
	Record *PlanRecord `json:"record,omitempty"`
	// lock is why the approved plan is not applied yet: somebody holds the lock of its stack. It is never broken; the plan is
	// tried again until it expires. Absent: no lock was met.
	// +optional
	Lock *LockWait `json:"lock,omitempty"`
	// releasedLocks are the locks that were removed so that this plan could be applied, the last 10: those of our own operations
	// that died, and one that the annotation plangate.dev/unlock on the Stack named. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ReleasedLocks []ReleasedLock `json:"releasedLocks,omitempty"`
}

// StackLock is a lock of a Pulumi stack in its backend.
type StackLock struct {
	// id names the lock. It is what the annotation plangate.dev/unlock takes. Absent: the backend tells none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ID string `json:"id,omitempty"`
	// holder is who holds it: "user@host (pid 4711)", or the backend's own words.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Holder string `json:"holder"`
	// since is when it was taken, by the holder's clock. Absent: not known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// ours is the id of our own operation that took it. Absent: it is somebody else's, or that cannot be told.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Ours string `json:"ours,omitempty"`
}

// LockWait is what a plan waits for.
type LockWait struct {
	// locks are those that were met, at most 10.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Locks []StackLock `json:"locks"`
	// attempts counts the attempts to apply that met a lock. None of them changed anything.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempts int32 `json:"attempts"`
	// metAt is when a lock was last met.
	// +required
	MetAt metav1.Time `json:"metAt"`
	// nextAttemptAt is when the plan is tried again, unless the lock is unlocked before.
	// +required
	NextAttemptAt metav1.Time `json:"nextAttemptAt"`
	// unlock is the value of the annotation plangate.dev/unlock that was last acted on. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Unlock string `json:"unlock,omitempty"`
}

// LockCause is why a lock was released.
// +kubebuilder:validation:Enum=OwnDead;Requested
type LockCause string

// Why a lock can be released.
const (
	// LockOwnDead: an operation of ours took it, and its pod is proven gone.
	LockOwnDead LockCause = "OwnDead"
	// LockRequested: the annotation plangate.dev/unlock named it.
	LockRequested LockCause = "Requested"
)

// ReleasedLock is a lock that the operator removed.
type ReleasedLock struct {
	StackLock `json:",inline"`
	// cause is why.
	// +required
	Cause LockCause `json:"cause"`
	// by tells who asked for it, as far as that is known, or what proved it dead.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	By string `json:"by,omitempty"`
	// releasedAt is when, by the pod's clock.
	// +required
	ReleasedAt metav1.Time `json:"releasedAt"`
}

// StateCheck is a look at Pulumi's state.
type StateCheck struct {
	// checkedAt is when the state was last found to be the one that the plan is bound to. Absent: it could not be read yet.
	// +optional
	CheckedAt *metav1.Time `json:"checkedAt,omitempty"`
	// triedAt is when it was last tried.
	// +required
	TriedAt metav1.Time `json:"triedAt"`
	// problem is why the last try failed. Absent: it did not.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Problem string `json:"problem,omitempty"`
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

// DecisionMethod is how a decision came.
// +kubebuilder:validation:Enum=Annotation;Signature
type DecisionMethod string

// How a decision can come.
const (
	// MethodAnnotation: a person annotated the plan; the API server vouches for who it was.
	MethodAnnotation DecisionMethod = "Annotation"
	// MethodSignature: the annotation holds a signature that proves itself, whoever brought it.
	MethodSignature DecisionMethod = "Signature"
)

// Refusal is why a decision does not count, as a word.
// +kubebuilder:validation:Enum=Malformed;OtherDigest;UnknownAnnotation;NotStamped;AdmissionNotEnforced;Author;Repeated;TooLate;Invalid;TooLong;TooMany;OtherStatement;OtherPurpose;OtherCluster;UnknownSigner;SignerExpired;SignerNotForStack;TokenStale
type Refusal string

// Why a decision can be refused.
const (
	// RefusedMalformed: it is not of the form that is asked for.
	RefusedMalformed Refusal = "Malformed"
	// RefusedOtherDigest: it names another digest than the plan's.
	RefusedOtherDigest Refusal = "OtherDigest"
	// RefusedUnknownAnnotation: the annotation looks like one that decides, and is none.
	RefusedUnknownAnnotation Refusal = "UnknownAnnotation"
	// RefusedNotStamped: it is in the short form, and the API server did not say who wrote it.
	RefusedNotStamped Refusal = "NotStamped"
	// RefusedNotEnforced: the admission policies that vouch for annotations were not in force.
	RefusedNotEnforced Refusal = "AdmissionNotEnforced"
	// RefusedAuthor: it is an approval by an author of the change.
	RefusedAuthor Refusal = "Author"
	// RefusedRepeated: the same person has approved already.
	RefusedRepeated Refusal = "Repeated"
	// RefusedTooLate: it is a rejection of a plan that is being applied.
	RefusedTooLate Refusal = "TooLate"
	// RefusedInvalid: the signature does not verify.
	RefusedInvalid Refusal = "Invalid"
	// RefusedTooLong: the signature is longer than any may be.
	RefusedTooLong Refusal = "TooLong"
	// RefusedTooMany: as many others of the plan as may be were verified already.
	RefusedTooMany Refusal = "TooMany"
	// RefusedOtherStatement: the signature was made for other bytes, such as an older plan of the same Stack.
	RefusedOtherStatement Refusal = "OtherStatement"
	// RefusedOtherPurpose: the signature was made neither to approve nor to reject a plan.
	RefusedOtherPurpose Refusal = "OtherPurpose"
	// RefusedOtherCluster: the signed statement is of another cluster.
	RefusedOtherCluster Refusal = "OtherCluster"
	// RefusedUnknownSigner: no policy that selects the Stack trusts the signer.
	RefusedUnknownSigner Refusal = "UnknownSigner"
	// RefusedSignerExpired: the trusted signer's notAfter is over.
	RefusedSignerExpired Refusal = "SignerExpired"
	// RefusedSignerNotForStack: the trusted signer is good for other Stacks.
	RefusedSignerNotForStack Refusal = "SignerNotForStack"
	// RefusedTokenStale: an ID token was not valid when it was seen, or lives too long.
	RefusedTokenStale Refusal = "TokenStale"
)

// Decision is what somebody said of a plan.
type Decision struct {
	// verdict tells whether it was an approval or a rejection that counts, or was refused.
	// +required
	Verdict DecisionVerdict `json:"verdict"`
	// method is how it came: Annotation or Signature.
	// +required
	Method DecisionMethod `json:"method"`
	// key is the annotation that it came by: "approve.plangate.dev/alice".
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Key string `json:"key,omitempty"`
	// class is the class of people that it was given for: "security" for approve-security. Absent: those with the verb approve.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Class string `json:"class,omitempty"`
	// by names who decided: the user as the API server knows it, or the signer. Where that was not proven it begins with
	// "unverified", and says what the annotation says and which field managers wrote it.
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
	// refusal is why the decision was refused, as a word. Absent: it counts.
	// +optional
	Refusal Refusal `json:"refusal,omitempty"`
	// reason is the reason that was given, or why the decision was refused.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// requirement is what an approval served: "one approval by a person". Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Requirement string `json:"requirement,omitempty"`
	// observedAt is when the operator saw it first.
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
	// host is the pod's host name, which no other pod ever has: by it a lock that the operation leaves behind is known to be
	// ours. Absent: the pod has none of its own, and its locks are taken for somebody else's.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Host string `json:"host,omitempty"`
	// unlock is the lock that the annotation plangate.dev/unlock on the Stack named when the operation was asked for. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Unlock string `json:"unlock,omitempty"`
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
	// steps tells what was done and what was not, when the plan was not applied whole. Absent: all or nothing was done, or
	// nothing is known.
	// +optional
	Steps *StepReport `json:"steps,omitempty"`
}

// StepReport is what became of the steps of a plan that was not applied whole.
type StepReport struct {
	// done are the steps that were done, in order, the first 50.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Done []StepState `json:"done,omitempty"`
	// doneCount counts all of them.
	// +optional
	DoneCount int32 `json:"doneCount"`
	// notDone are the steps that were not done, or of which that is not known, the first 50: those that failed or were cut off
	// first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	NotDone []StepState `json:"notDone,omitempty"`
	// notDoneCount counts all of them.
	// +optional
	NotDoneCount int32 `json:"notDoneCount"`
	// configMap is the name of the ConfigMap, in this namespace, with all steps under the key "steps.json". Absent: the lists
	// above are whole.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap,omitempty"`
	// complete is false when the last steps may be missing, because the process that told of them was cut off.
	// +optional
	Complete bool `json:"complete"`
}

// StepOutcome is what became of a step.
// +kubebuilder:validation:Enum=Done;Failed;CutOff;NotStarted
type StepOutcome string

// What can become of a step.
const (
	StepDone StepOutcome = "Done"
	// StepFailed: the provider said so.
	StepFailed StepOutcome = "Failed"
	// StepCutOff: it was begun, and nobody knows how it ended.
	StepCutOff     StepOutcome = "CutOff"
	StepNotStarted StepOutcome = "NotStarted"
)

// StepState is one step of Pulumi's for one resource.
type StepState struct {
	// step is Pulumi's word for it: "create", "update", "delete", "create-replacement", "delete-replaced".
	// +required
	// +kubebuilder:validation:MaxLength=64
	Step string `json:"step"`
	// outcome is what became of it.
	// +required
	Outcome StepOutcome `json:"outcome"`
	// urn is the resource's URN.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URN string `json:"urn"`
	// detail says more in words: why it failed; that both the old and the new resource exist. Absent: there is no more to say.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Detail string `json:"detail,omitempty"`
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
