// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plangate/plangate/api/v1alpha1"
)

// WorkspaceBuilder builds a Workspace.
type WorkspaceBuilder struct {
	object v1alpha1.Workspace
}

// Workspace starts with the operator's defaults: an empty spec.
func Workspace(namespace, name string) *WorkspaceBuilder {
	return &WorkspaceBuilder{object: v1alpha1.Workspace{
		TypeMeta:   typeMeta("Workspace"),
		ObjectMeta: objectMeta(namespace, name),
	}}
}

// Obj ends the building; the builder can go on from here and does not change what was returned.
func (b *WorkspaceBuilder) Obj() *v1alpha1.Workspace { return b.object.DeepCopy() }

// UID sets the UID, for tests without an API server.
func (b *WorkspaceBuilder) UID(uid types.UID) *WorkspaceBuilder {
	b.object.UID = uid
	return b
}

// Generation sets the generation, for tests without an API server.
func (b *WorkspaceBuilder) Generation(generation int64) *WorkspaceBuilder {
	b.object.Generation = generation
	return b
}

// Annotation sets an annotation.
func (b *WorkspaceBuilder) Annotation(key, value string) *WorkspaceBuilder {
	annotate(&b.object.ObjectMeta, key, value)
	return b
}

// Label sets a label.
func (b *WorkspaceBuilder) Label(key, value string) *WorkspaceBuilder {
	label(&b.object.ObjectMeta, key, value)
	return b
}

// NeededAt sets when the operator last needed the pod.
func (b *WorkspaceBuilder) NeededAt(at time.Time) *WorkspaceBuilder {
	return b.Annotation(v1alpha1.AnnotationNeededAt, at.UTC().Format(time.RFC3339))
}

// Image sets the image.
func (b *WorkspaceBuilder) Image(image string) *WorkspaceBuilder {
	b.object.Spec.Image = image
	return b
}

// ServiceAccount sets the pod's ServiceAccount.
func (b *WorkspaceBuilder) ServiceAccount(name string) *WorkspaceBuilder {
	b.object.Spec.ServiceAccountName = name
	return b
}

// IdleTimeout sets how long the pod is kept after it was last needed.
func (b *WorkspaceBuilder) IdleTimeout(timeout time.Duration) *WorkspaceBuilder {
	b.object.Spec.IdleTimeout = &metav1.Duration{Duration: timeout}
	return b
}

// Cache mounts a claim.
func (b *WorkspaceBuilder) Cache(claim string) *WorkspaceBuilder {
	b.object.Spec.Cache = &v1alpha1.WorkspaceCache{PersistentVolumeClaim: claim}
	return b
}

// PodTemplate sets what is laid over the pod: any value that becomes a JSON object.
func (b *WorkspaceBuilder) PodTemplate(value any) *WorkspaceBuilder {
	b.object.Spec.PodTemplate = raw(value)
	return b
}

// Spec changes the spec in a way for which there is no method.
func (b *WorkspaceBuilder) Spec(change func(*v1alpha1.WorkspaceSpec)) *WorkspaceBuilder {
	change(&b.object.Spec)
	return b
}

// Pod says which pod runs, and where its agent answers.
func (b *WorkspaceBuilder) Pod(name string, uid types.UID, address string) *WorkspaceBuilder {
	b.object.Status.Pod = &v1alpha1.PodReference{Name: name, UID: string(uid)}
	b.object.Status.Address = address
	return b
}

// Condition sets a condition, observed at the object's generation.
func (b *WorkspaceBuilder) Condition(kind string, status metav1.ConditionStatus, reason, message string) *WorkspaceBuilder {
	setCondition(&b.object.Status.Conditions, b.object.Generation, kind, status, reason, message)
	return b
}

// Status changes the status in a way for which there is no method.
func (b *WorkspaceBuilder) Status(change func(*v1alpha1.WorkspaceStatus)) *WorkspaceBuilder {
	change(&b.object.Status)
	return b
}
