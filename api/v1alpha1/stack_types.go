// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Stack says what a Pulumi stack should be: a program at a commit, with a configuration. When it and the real world part,
// the operator previews the difference and publishes it as an UpdatePlan; nothing changes before that plan is approved.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=plangate
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.currentPlan.name`
// +kubebuilder:printcolumn:name="Drift",type=string,JSONPath=`.status.drift.class`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.shortRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 42",message="metadata.name may have at most 42 characters: the names of its plans are derived from it"
type Stack struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what should be.
	// +required
	Spec StackSpec `json:"spec"`
	// status is what was observed. Absent until the operator saw the Stack for the first time.
	// +optional
	Status StackStatus `json:"status,omitempty"`
}

// StackSpec is what a Stack should be. Field names are those of pulumi.com/v1.
//
// +kubebuilder:validation:XValidation:rule="has(self.branch) != has(self.commit)",message="set exactly one of spec.branch and spec.commit"
type StackSpec struct {
	// stack is the name of the Pulumi stack: "name", "project/name" or "organization/project/name". The stack is created
	// in the backend, empty, if it does not exist.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,2}$`
	Stack string `json:"stack"`

	// backend is the URL of the backend that keeps the state, as PULUMI_BACKEND_URL takes it, for example
	// "s3://bucket/prefix" or "file:///state". Absent: PULUMI_BACKEND_URL of envRefs, or else Pulumi Cloud.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Backend string `json:"backend,omitempty"`

	// projectRepo is the URL of the git repository that holds the program: https, http, ssh or git. Credentials in the URL
	// are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?|ssh|git)://[^@\s]+$|^ssh://[A-Za-z0-9_.-]+@[^@\s]+$`
	ProjectRepo string `json:"projectRepo"`

	// branch is the branch whose newest commit is wanted: "main" or "refs/heads/main"; a full reference of another kind
	// ("refs/tags/v1") is taken as it is. The operator looks for new commits by itself. Absent: commit is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^\s~^:?*\[\\-][^\s~^:?*\[\\]*$`
	Branch string `json:"branch,omitempty"`

	// commit is the full id of the commit that is wanted: 40 or 64 lower-case hex digits. Absent: branch is set.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40}|[0-9a-f]{64})$`
	Commit string `json:"commit,omitempty"`

	// repoDir is the folder of the repository that holds Pulumi.yaml, relative to its root. Absent: the root.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="repoDir must stay inside the repository: no leading / and no .."
	RepoDir string `json:"repoDir,omitempty"`

	// projectPaths are files and folders outside of repoDir that the program reads, relative to the repository's root: a commit
	// that changes something in one of them counts like one that changes something in repoDir. "." is the whole repository.
	// Absent or empty: only repoDir counts, and a commit that touches nothing below it makes no new plan.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.all(path, !path.startsWith('/') && !path.split('/').exists(p, p == '..'))",message="projectPaths must stay inside the repository: no leading / and no .."
	ProjectPaths []string `json:"projectPaths,omitempty"`

	// config is configuration that is set over the committed Pulumi.<stack>.yaml: each key, with or without its project as
	// "project:key", to a string or to any JSON value. A key removed here is back at its committed value. Absent or empty:
	// the committed configuration alone.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Config map[string]apiextensionsv1.JSON `json:"config,omitempty"`

	// secretsRef is configuration whose values are secret, each key taken from a Secret of this namespace or, for tests,
	// from a literal. It goes encrypted into the configuration of each operation. A key may not stand in config too.
	// Absent or empty: none.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	SecretsRef map[string]ResourceRef `json:"secretsRef,omitempty"`

	// envRefs is the environment of Pulumi and the program, by variable name, each value taken from a Secret of this
	// namespace or from a literal. Absent or empty: none beyond the workspace's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	EnvRefs map[string]ResourceRef `json:"envRefs,omitempty"`

	// refresh reads the real resources before each preview and apply, so that drift is seen and put back by the plan.
	// Absent: false, Pulumi trusts its state.
	// +optional
	Refresh bool `json:"refresh,omitempty"`

	// targets limits preview and apply to these resources, by URN, in which Pulumi takes * and **; all others stay as they
	// are, whatever the program says. Each plan says that it is limited. Absent or empty: the whole program.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Targets []string `json:"targets,omitempty"`

	// targetDependents takes in what depends on the targets, too. Without it Pulumi refuses to preview a change of a target
	// that others must follow. Absent: false. It means nothing without targets.
	// +optional
	TargetDependents bool `json:"targetDependents,omitempty"`

	// timeout is how long one preview or apply may run, for example "1h"; it is then stopped in order: Pulumi ends the steps
	// that it is in, and what was done is told. Absent: as long as it takes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="timeout must be at least a second"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// suspend stops all work on the Stack: no preview, no apply. A preview that runs is stopped, an apply is let end. It is an
	// edit of the spec and ends a waiting plan. Absent: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// drift says how often the real resources are compared with what Pulumi left, and what is done about a difference. Absent:
	// once an hour, and Report.
	// +optional
	Drift *DriftSettings `json:"drift,omitempty"`
	// destroyOnFinalize makes the deletion of the Stack destroy all of its resources first: a plan with the operation Destroy
	// is published and waits for its approval, and the Stack goes when all is destroyed, and not before. Absent: false, the
	// Stack goes and what it made stays.
	// +optional
	DestroyOnFinalize bool `json:"destroyOnFinalize,omitempty"`

	// plan says how long plans of the Stack may wait, and how many ended ones are kept. Absent: the defaults of its members.
	// +optional
	Plan *PlanSettings `json:"plan,omitempty"`

	// serviceAccountName is the ServiceAccount of the workspace pod, whose rights the program has. Absent: "default".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// workspaceTemplate is laid over the Workspace that the operator makes for the Stack: metadata.labels,
	// metadata.annotations and any field of a Workspace's spec. Other fields are refused. Absent: the operator's defaults.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	WorkspaceTemplate *runtime.RawExtension `json:"workspaceTemplate,omitempty"`
}

// PlanSettings are what a Stack asks of its plans.
type PlanSettings struct {
	// timeToLive is how long a plan may wait for its approval and apply, from when its preview was asked for, for example
	// "8h"; it then ends as Expired and a new one is made. A change of it counts for the plans that are made after it.
	// Absent: the operator's --plan-ttl, 24 h unless it was told another.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="timeToLive must be more than nothing"
	TimeToLive *metav1.Duration `json:"timeToLive,omitempty"`
	// historyLimit is how many ended plans are kept; of more the oldest are deleted. The plan that waits or is being applied,
	// the one that was last applied whole, and the last in the chain of records always stay. At most 100. Absent: 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// enforcement is how an apply is held to its plan, and what is done beforehand to know that it can be. Strict: to every
	// input that is known at preview. Probe: to the same, and each preview is run twice in the same world, which takes twice as
	// long, to name in the plan the inputs that differ from one preview to the next: an apply would most likely be refused
	// because of them. Absent: Strict.
	// +optional
	Enforcement Enforcement `json:"enforcement,omitempty"`
}

// Enforcement is how an apply is held to its plan.
// +kubebuilder:validation:Enum=Strict;Probe
type Enforcement string

// How an apply can be held to its plan.
const (
	// EnforcementStrict holds it to every input that is known at preview.
	EnforcementStrict Enforcement = "Strict"
	// EnforcementProbe previews twice beforehand, and names what differs.
	EnforcementProbe Enforcement = "Probe"
)

// ResourceRefType tells where a value comes from.
// +kubebuilder:validation:Enum=Secret;Literal
type ResourceRefType string

// Where a value can come from.
const (
	ResourceRefSecret  ResourceRefType = "Secret"
	ResourceRefLiteral ResourceRefType = "Literal"
)

// ResourceRef names where a value comes from.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Secret' ? has(self.secret) && !has(self.literal) : has(self.literal) && !has(self.secret)",message="set the member that type names, and no other"
type ResourceRef struct {
	// type tells which member is set: Secret or Literal.
	// +required
	Type ResourceRefType `json:"type"`
	// secret names a key of a Secret in the Stack's namespace. Absent unless type is Secret.
	// +optional
	SecretRef *SecretSelector `json:"secret,omitempty"`
	// literal is the value itself. Absent unless type is Literal.
	// +optional
	LiteralRef *LiteralRef `json:"literal,omitempty"`
}

// SecretSelector names a key of a Secret.
type SecretSelector struct {
	// name is the Secret's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key is the key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// LiteralRef is a value written down where it is used.
type LiteralRef struct {
	// value is the value; it may be empty.
	// +required
	// +kubebuilder:validation:MaxLength=65536
	Value string `json:"value"`
}

// StackStatus is what was observed of a Stack.
type StackStatus struct {
	// conditions are SourceReady, WorkspaceReady, Previewed, Drifted and Ready; Reconciling and Stalled only while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status was computed for. Absent: none yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedRevision is the commit that branch or commit was last resolved to. Absent: none yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObservedRevision string `json:"observedRevision,omitempty"`

	// shortRevision is the first 12 digits of observedRevision, for people. Absent: none yet.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	ShortRevision string `json:"shortRevision,omitempty"`

	// configDigest is the digest of the configuration, environment and options that were last resolved. Absent: none yet.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ConfigDigest string `json:"configDigest,omitempty"`

	// planSequence is the number of the last plan that was made. Absent: none yet.
	// +optional
	PlanSequence int64 `json:"planSequence,omitempty"`

	// currentPlan is the UpdatePlan that waits for approval or is being applied. Absent: there is none.
	// +optional
	CurrentPlan *PlanReference `json:"currentPlan,omitempty"`

	// lastAppliedPlan is the UpdatePlan that was last applied whole. Absent: none yet.
	// +optional
	LastAppliedPlan *PlanReference `json:"lastAppliedPlan,omitempty"`

	// recordHead is the last record in the Stack's chain of records, to which every plan that ends adds one. Absent: no plan
	// was recorded yet.
	// +optional
	RecordHead *RecordHead `json:"recordHead,omitempty"`

	// recordNext is the plan whose record comes next: no other may follow recordHead. Absent: no ended plan waits for it.
	// +optional
	RecordNext *RecordTurn `json:"recordNext,omitempty"`

	// observedTree is the git tree id of the project's folder at observedRevision, or a digest of it and of spec.projectPaths.
	// Absent: nobody has looked yet, since that takes the workspace pod.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObservedTree string `json:"observedTree,omitempty"`

	// unsettled tells of previews that were dropped because something that they were made from had moved before they could be
	// published. Absent: there was none since the last one that was.
	// +optional
	Unsettled *Unsettled `json:"unsettled,omitempty"`

	// lastPreview is the last preview that ended. Absent: none yet.
	// +optional
	LastPreview *PreviewStatus `json:"lastPreview,omitempty"`

	// operation is the preview that is running. Absent: none.
	// +optional
	Operation *PreviewOperation `json:"operation,omitempty"`

	// drift is what is known of the difference between the real resources and what Pulumi left. Absent: not looked at yet.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
	// locks are the locks of the stack that were last met, at most 10; nobody but their holders releases them, except as
	// annotation plangate.dev/unlock says. Absent: none was met, or the backend shows none before an apply.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Locks []StackLock `json:"locks,omitempty"`

	// unlock tells what the annotation plangate.dev/unlock comes to. Absent: there is none.
	// +optional
	Unlock *UnlockStatus `json:"unlock,omitempty"`

	// pending are the operations that were cut off, as the state noted them at the last preview, at most 50. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Pending []PendingOperation `json:"pending,omitempty"`

	// outputs are the stack's outputs after the last apply; a secret one is shown as "[secret]". Absent: none known.
	// +optional
	Outputs map[string]apiextensionsv1.JSON `json:"outputs,omitempty"`

	// outputsSecret is the name of the Secret, in this namespace, that holds the outputs whole, secret ones included.
	// Absent: none yet.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	OutputsSecret string `json:"outputsSecret,omitempty"`

	// pulumiVersion is the version of the Pulumi CLI in the workspace. Absent: not known yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PulumiVersion string `json:"pulumiVersion,omitempty"`

	// project is the name of the Pulumi project that was last previewed. A destroy finds the state by it when the source is
	// gone. Absent: none was previewed yet.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Project string `json:"project,omitempty"`

	// observedRequest is the value of the annotation plangate.dev/request-plan that was last acted on. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ObservedRequest string `json:"observedRequest,omitempty"`
}

// UnlockStatus tells what the annotation plangate.dev/unlock comes to.
type UnlockStatus struct {
	// lock is the annotation's value.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Lock string `json:"lock"`
	// state tells whether that lock is held, as far as is known.
	// +required
	State UnlockState `json:"state"`
	// message says it in words, with the locks that are held.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// UnlockState tells what an annotation plangate.dev/unlock comes to.
// +kubebuilder:validation:Enum=Pending;Released;NotHeld
type UnlockState string

// What an annotation plangate.dev/unlock can come to.
const (
	// UnlockPending: the lock is held, and is released when a plan is applied.
	UnlockPending UnlockState = "Pending"
	// UnlockReleased: it was released.
	UnlockReleased UnlockState = "Released"
	// UnlockNotHeld: no such lock is held; nothing is released.
	UnlockNotHeld UnlockState = "NotHeld"
)

// Unsettled tells of previews that were dropped.
type Unsettled struct {
	// since is when the first of them was dropped.
	// +required
	Since metav1.Time `json:"since"`
	// dropped counts them.
	// +required
	// +kubebuilder:validation:Minimum=1
	Dropped int32 `json:"dropped"`
}

// PlanReference names an UpdatePlan of the same namespace.
type PlanReference struct {
	// name is the UpdatePlan's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the UpdatePlan's UID: one that was deleted and made anew under the same name is another.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// digest is the UpdatePlan's digest.
	// +required
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest"`
	// revision is the commit that the plan was made from.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
}

// RecordHead is the last record of a Stack's chain.
type RecordHead struct {
	// plan is the name of the UpdatePlan that carries it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Plan string `json:"plan"`
	// digest is the record's digest.
	// +required
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest"`
	// index is the record's number in the chain, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Index int64 `json:"index"`
}

// RecordTurn names the one plan that may add a record to the chain.
type RecordTurn struct {
	// plan is the UpdatePlan's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Plan string `json:"plan"`
	// uid is the UpdatePlan's UID.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// PreviewResult tells how a preview ended.
// +kubebuilder:validation:Enum=Changes;NoChanges;Failed;Interrupted
type PreviewResult string

// How a preview can end.
const (
	PreviewChanges     PreviewResult = "Changes"
	PreviewNoChanges   PreviewResult = "NoChanges"
	PreviewFailed      PreviewResult = "Failed"
	PreviewInterrupted PreviewResult = "Interrupted"
)

// PreviewStatus is a preview that ended.
type PreviewStatus struct {
	// result tells how the preview ended.
	// +required
	Result PreviewResult `json:"result"`
	// inputsDigest tells what the preview was made from: generation, commit, configuration, environment, options and
	// request. The same inputs are not previewed again until something asks for it.
	// +required
	// +kubebuilder:validation:MaxLength=71
	InputsDigest string `json:"inputsDigest"`
	// configDigest is the digest of configuration, environment and options alone.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ConfigDigest string `json:"configDigest,omitempty"`
	// operation is what was previewed. Absent: Update.
	// +optional
	Operation PlanOperation `json:"operation,omitempty"`
	// generation is the Stack's generation that was previewed.
	// +required
	Generation int64 `json:"generation"`
	// revision is the commit that was previewed. Absent with Destroy, which needs no source.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// tree is the project's tree at that commit, as in observedTree. Absent: the preview did not come so far.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Tree string `json:"tree,omitempty"`
	// plan is the name of the UpdatePlan that came of it. Absent: nothing to change, or the preview failed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plan string `json:"plan,omitempty"`
	// trigger tells why it was run. Absent: it was run by an earlier version.
	// +optional
	Trigger *PlanTrigger `json:"trigger,omitempty"`
	// planUID is the UID of that UpdatePlan.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PlanUID string `json:"planUID,omitempty"`
	// message says in words what came of it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// failures counts how often in a row the preview of these inputs has failed. Absent: 0.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// endedAt is when it ended.
	// +required
	EndedAt metav1.Time `json:"endedAt"`
}

// PreviewOperation is a preview that was started in the workspace.
type PreviewOperation struct {
	// id names the operation; starting it twice under one id runs it once.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// inputsDigest is what the preview is made from, as in lastPreview.
	// +required
	// +kubebuilder:validation:MaxLength=71
	InputsDigest string `json:"inputsDigest"`
	// configDigest is the digest of configuration, environment and options alone.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ConfigDigest string `json:"configDigest,omitempty"`
	// generation is the Stack's generation that is previewed.
	// +required
	Generation int64 `json:"generation"`
	// resourceVersion is the Stack's resourceVersion when its spec was read for this preview.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion"`
	// author is who wrote the spec of that generation. Absent: not known.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Author string `json:"author,omitempty"`
	// revision is the commit that is previewed. Absent with Destroy, which needs no source.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`
	// tree is the project's tree at that commit, as in observedTree. Absent: nobody has looked yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Tree string `json:"tree,omitempty"`
	// operation is what is previewed. Absent: Update.
	// +optional
	Operation PlanOperation `json:"operation,omitempty"`
	// trigger tells why.
	// +required
	Trigger PlanTrigger `json:"trigger"`
	// refresh tells that the real resources are read first: because spec.refresh asks for it, or because drift is known, so that
	// the plan tells it and the change apart. Absent: false.
	// +optional
	Refresh bool `json:"refresh,omitempty"`
	// workspaceImage is the id of the image that the pod runs, as the kubelet reported it when the preview was asked for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	WorkspaceImage string `json:"workspaceImage,omitempty"`
	// pod is the workspace pod that it runs in.
	// +required
	Pod PodReference `json:"pod"`
	// startedAt is when it was asked for.
	// +required
	StartedAt metav1.Time `json:"startedAt"`
	// settlesAt is from when on it may be published, if nothing that it is made from moves before. Absent: at once.
	// +optional
	SettlesAt *metav1.MicroTime `json:"settlesAt,omitempty"`
}

// PodReference names one life of a pod.
type PodReference struct {
	// name is the pod's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the pod's UID.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// StackList is a list of Stacks.
//
// +kubebuilder:object:root=true
type StackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Stack `json:"items"`
}
