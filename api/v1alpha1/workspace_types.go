// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Workspace is where Pulumi runs for one Stack: a pod that is reset from git before every operation instead of being
// replaced. It holds no configuration, no source and no secret, so that none of those ever replaces the pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=plangate,shortName=ws
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.pod.name`
// +kubebuilder:printcolumn:name="Pulumi",type=string,JSONPath=`.status.pulumiVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Workspace struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the pod that is wanted. Absent: the operator's defaults.
	// +optional
	Spec WorkspaceSpec `json:"spec,omitempty"`
	// status is what was observed. Absent until the operator saw the Workspace for the first time.
	// +optional
	Status WorkspaceStatus `json:"status,omitempty"`
}

// WorkspaceSpec is a runtime for a Stack.
type WorkspaceSpec struct {
	// image is the image that Pulumi, its language hosts and git come from. Absent: the operator's --workspace-image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// imagePullPolicy is when the kubelet pulls image. Absent: Kubernetes' default for the image's tag.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// serviceAccountName is the pod's ServiceAccount, whose rights the program has. Absent: "default".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// resources are the requests and limits of the container that runs Pulumi. Absent: none.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// podTemplate is laid over the generated pod as a strategic merge patch: metadata.labels, metadata.annotations and spec.
	// The container that runs Pulumi is named "pulumi". Absent: the generated pod as it is.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`
	// cache is where plugins, checkouts and installed dependencies are kept. Absent: they live as long as the pod.
	// +optional
	Cache *WorkspaceCache `json:"cache,omitempty"`
	// idleTimeout is how long the pod is kept after it was last needed; it comes back on demand. "0s" keeps it for ever.
	// Absent: the operator's --workspace-idle-timeout.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="idleTimeout may not be negative"
	IdleTimeout *metav1.Duration `json:"idleTimeout,omitempty"`
	// requiredSigners are signers without whose signature the agent in the pod applies nothing, whatever the operator and the
	// plan's status say. Absent: the agent verifies the signatures that were counted, and requires none.
	// +optional
	RequiredSigners *RequiredSigners `json:"requiredSigners,omitempty"`
}

// RequiredSigners names the object that holds trusted signers for the agent, under the key "signers.yaml": "signers" is a list
// as in a policy's spec.signers; "count", 1 if it is absent, is how many of them must have signed a plan, and a rejection by
// any of them holds it back; "cluster", if it is there, is the id of the cluster that the plans must be of. Whoever may
// write the object decides; a change counts as soon as the kubelet has brought it into the pod. While the object is missing the
// pod does not start, and while it cannot be read nothing is applied.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="set exactly one of configMap and secret"
type RequiredSigners struct {
	// configMap is the name of a ConfigMap in this namespace. Absent: secret is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap,omitempty"`
	// secret is the name of a Secret in this namespace. Absent: configMap is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
}

// WorkspaceCache is where plugins, checkouts and installed dependencies are kept.
type WorkspaceCache struct {
	// persistentVolumeClaim is the name of a claim in this namespace that the pod mounts. Only one Workspace may use it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PersistentVolumeClaim string `json:"persistentVolumeClaim"`
}

// WorkspaceStatus is what was observed of a Workspace.
type WorkspaceStatus struct {
	// conditions are Ready; Reconciling and Stalled only while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status was computed for. Absent: none yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// pod is the pod that runs for the Workspace. Absent: none does.
	// +optional
	Pod *PodReference `json:"pod,omitempty"`
	// address is the address and port at which the agent in the pod answers. Absent: the pod does not run.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address,omitempty"`
	// pulumiVersion is the version of the Pulumi CLI in the pod. Absent: the agent has not answered yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PulumiVersion string `json:"pulumiVersion,omitempty"`
	// agentVersion is the version of the agent in the pod. Absent: the agent has not answered yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`
	// templateDigest is the digest of the generated pod; when it moves, the pod is replaced as soon as nothing runs in it.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	TemplateDigest string `json:"templateDigest,omitempty"`
}

// WorkspaceList is a list of Workspaces.
//
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workspace `json:"items"`
}
