// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plangate/plangate/api/v1alpha1"
)

// UpdatePlanBuilder builds an UpdatePlan.
type UpdatePlanBuilder struct {
	object v1alpha1.UpdatePlan
}

// UpdatePlan starts with the first plan of the Stack "web", which creates one resource. Its statement is no real one: a
// test that verifies statements brings its own.
func UpdatePlan(namespace, name string) *UpdatePlanBuilder {
	b := &UpdatePlanBuilder{object: v1alpha1.UpdatePlan{
		TypeMeta:   typeMeta("UpdatePlan"),
		ObjectMeta: objectMeta(namespace, name),
		Spec: v1alpha1.UpdatePlanSpec{
			StackRef:  v1alpha1.StackReference{Name: "web", UID: string(UID(1)), Generation: 1, ResourceVersion: "1"},
			Sequence:  1,
			Operation: v1alpha1.PlanOperationUpdate,
			Trigger:   v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSpecChanged, Message: "the Stack is new"},
			Binding: v1alpha1.Binding{
				Revision:       Commit,
				Repository:     "https://git.example.com/project.git",
				Tree:           OtherCommit,
				ConfigDigest:   Digest("config"),
				StateDigest:    Digest("state"),
				PulumiVersion:  "3.276.0",
				WorkspaceImage: Image,
			},
			Artifact: v1alpha1.Artifact{Digest: Digest("plan file"), Size: 9, Chunks: []string{name + "-0"}},
			NotAfter: metav1.NewTime(Epoch.Add(24 * time.Hour)),
			Summary:  v1alpha1.PlanSummary{Brief: "+1", Create: 1},
			Changes: []v1alpha1.ResourceChange{{
				Operation: v1alpha1.ChangeCreate,
				Type:      "kubernetes:core/v1:ConfigMap",
				Name:      "greeting",
				URN:       "urn:pulumi:dev::project::kubernetes:core/v1:ConfigMap::greeting",
			}},
		},
	}}
	return b.Statement(fmt.Sprintf("statement of %s/%s", namespace, name))
}

// Image is the id of the image that the workspace pod runs.
const Image = "registry.example.com/pulumi@sha256:44d0e1f344d0e1f344d0e1f344d0e1f344d0e1f344d0e1f344d0e1f344d0e1f3"

// Digest is "sha256:" and the SHA-256 of a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Obj ends the building; the builder can go on from here and does not change what was returned.
func (b *UpdatePlanBuilder) Obj() *v1alpha1.UpdatePlan { return b.object.DeepCopy() }

// UID sets the UID, for tests without an API server.
func (b *UpdatePlanBuilder) UID(uid types.UID) *UpdatePlanBuilder {
	b.object.UID = uid
	return b
}

// Created sets the time of creation, for tests without an API server.
func (b *UpdatePlanBuilder) Created(at time.Time) *UpdatePlanBuilder {
	b.object.CreationTimestamp = metav1.NewTime(at)
	return b
}

// Annotation sets an annotation.
func (b *UpdatePlanBuilder) Annotation(key, value string) *UpdatePlanBuilder {
	annotate(&b.object.ObjectMeta, key, value)
	return b
}

// Label sets a label.
func (b *UpdatePlanBuilder) Label(key, value string) *UpdatePlanBuilder {
	label(&b.object.ObjectMeta, key, value)
	return b
}

// Finalizer adds the operator's finalizer.
func (b *UpdatePlanBuilder) Finalizer() *UpdatePlanBuilder {
	b.object.Finalizers = append(b.object.Finalizers, v1alpha1.Finalizer)
	return b
}

// Approve annotates the plan with a record of alice's approval of its own digest.
func (b *UpdatePlanBuilder) Approve() *UpdatePlanBuilder {
	return b.Annotation(v1alpha1.DomainApprove+"/alice", b.object.Spec.Digest+" by alice")
}

// Reject annotates the plan with a record of bob's rejection of its own digest.
func (b *UpdatePlanBuilder) Reject(reason string) *UpdatePlanBuilder {
	return b.Annotation(v1alpha1.DomainReject+"/bob", b.object.Spec.Digest+" by bob -- "+reason)
}

// For ties the plan to a Stack as it is now, and labels it as the operator does.
func (b *UpdatePlanBuilder) For(stack *v1alpha1.Stack) *UpdatePlanBuilder {
	b.object.Spec.StackRef = v1alpha1.StackReference{
		Name:            stack.Name,
		UID:             string(stack.UID),
		Generation:      stack.Generation,
		ResourceVersion: stack.ResourceVersion,
	}
	b.object.Spec.Binding.Repository = stack.Spec.ProjectRepo
	b.object.Spec.Binding.Directory = stack.Spec.RepoDir
	b.object.Spec.Binding.Refresh = stack.Spec.Refresh
	b.Label(v1alpha1.LabelStack, stack.Name)
	return b.Label(v1alpha1.LabelStackResourceVersion, stack.ResourceVersion)
}

// StackRef sets the name and resourceVersion of the Stack that was read.
func (b *UpdatePlanBuilder) StackRef(name, resourceVersion string) *UpdatePlanBuilder {
	b.object.Spec.StackRef.Name, b.object.Spec.StackRef.ResourceVersion = name, resourceVersion
	return b
}

// Sequence sets the plan's number.
func (b *UpdatePlanBuilder) Sequence(number int64) *UpdatePlanBuilder {
	b.object.Spec.Sequence = number
	return b
}

// Trigger tells why the plan was made.
func (b *UpdatePlanBuilder) Trigger(trigger v1alpha1.TriggerType, message string) *UpdatePlanBuilder {
	b.object.Spec.Trigger = v1alpha1.PlanTrigger{Type: trigger, Message: message}
	return b
}

// Revision sets the commit.
func (b *UpdatePlanBuilder) Revision(commit string) *UpdatePlanBuilder {
	b.object.Spec.Binding.Revision = commit
	return b
}

// Statement sets the statement, and the digest to that of it.
func (b *UpdatePlanBuilder) Statement(statement string) *UpdatePlanBuilder {
	b.object.Spec.Statement, b.object.Spec.Digest = statement, Digest(statement)
	return b
}

// Artifact sets the plan file.
func (b *UpdatePlanBuilder) Artifact(digest string, size int64, chunks ...string) *UpdatePlanBuilder {
	b.object.Spec.Artifact = v1alpha1.Artifact{Digest: digest, Size: size, Chunks: chunks}
	return b
}

// NotAfter sets when the plan expires.
func (b *UpdatePlanBuilder) NotAfter(at time.Time) *UpdatePlanBuilder {
	b.object.Spec.NotAfter = metav1.NewTime(at)
	return b
}

// Spec changes the spec in a way for which there is no method.
func (b *UpdatePlanBuilder) Spec(change func(*v1alpha1.UpdatePlanSpec)) *UpdatePlanBuilder {
	change(&b.object.Spec)
	return b
}

// Condition sets a condition, observed at the object's generation.
func (b *UpdatePlanBuilder) Condition(kind string, status metav1.ConditionStatus, reason, message string) *UpdatePlanBuilder {
	setCondition(&b.object.Status.Conditions, b.object.Generation, kind, status, reason, message)
	return b
}

// Status changes the status in a way for which there is no method.
func (b *UpdatePlanBuilder) Status(change func(*v1alpha1.UpdatePlanStatus)) *UpdatePlanBuilder {
	change(&b.object.Status)
	return b
}
