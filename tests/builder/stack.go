// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plangate/plangate/api/v1alpha1"
)

// StackBuilder builds a Stack.
type StackBuilder struct {
	object v1alpha1.Stack
}

// Stack starts with the Stack "dev" on the branch main of a repository that does not exist.
func Stack(namespace, name string) *StackBuilder {
	return &StackBuilder{object: v1alpha1.Stack{
		TypeMeta:   typeMeta("Stack"),
		ObjectMeta: objectMeta(namespace, name),
		Spec: v1alpha1.StackSpec{
			Stack:       "dev",
			ProjectRepo: "https://git.example.com/project.git",
			Branch:      "main",
		},
	}}
}

// Obj ends the building; the builder can go on from here and does not change what was returned.
func (b *StackBuilder) Obj() *v1alpha1.Stack { return b.object.DeepCopy() }

// UID sets the UID, for tests without an API server.
func (b *StackBuilder) UID(uid types.UID) *StackBuilder {
	b.object.UID = uid
	return b
}

// Generation sets the generation, for tests without an API server.
func (b *StackBuilder) Generation(generation int64) *StackBuilder {
	b.object.Generation = generation
	return b
}

// ResourceVersion sets the resourceVersion, for tests without an API server.
func (b *StackBuilder) ResourceVersion(version string) *StackBuilder {
	b.object.ResourceVersion = version
	return b
}

// Annotation sets an annotation.
func (b *StackBuilder) Annotation(key, value string) *StackBuilder {
	annotate(&b.object.ObjectMeta, key, value)
	return b
}

// Label sets a label.
func (b *StackBuilder) Label(key, value string) *StackBuilder {
	label(&b.object.ObjectMeta, key, value)
	return b
}

// Finalizer adds the operator's finalizer.
func (b *StackBuilder) Finalizer() *StackBuilder {
	b.object.Finalizers = append(b.object.Finalizers, v1alpha1.Finalizer)
	return b
}

// StackName sets the name of the Pulumi stack.
func (b *StackBuilder) StackName(name string) *StackBuilder {
	b.object.Spec.Stack = name
	return b
}

// Backend sets the URL of the backend.
func (b *StackBuilder) Backend(url string) *StackBuilder {
	b.object.Spec.Backend = url
	return b
}

// Repo sets the repository.
func (b *StackBuilder) Repo(url string) *StackBuilder {
	b.object.Spec.ProjectRepo = url
	return b
}

// Dir sets the folder in the repository.
func (b *StackBuilder) Dir(directory string) *StackBuilder {
	b.object.Spec.RepoDir = directory
	return b
}

// Branch asks for the newest commit of a branch instead of a commit.
func (b *StackBuilder) Branch(branch string) *StackBuilder {
	b.object.Spec.Branch, b.object.Spec.Commit = branch, ""
	return b
}

// Commit asks for a commit instead of a branch.
func (b *StackBuilder) Commit(commit string) *StackBuilder {
	b.object.Spec.Branch, b.object.Spec.Commit = "", commit
	return b
}

// Config sets a key of the configuration to any JSON value.
func (b *StackBuilder) Config(key string, value any) *StackBuilder {
	if b.object.Spec.Config == nil {
		b.object.Spec.Config = map[string]apiextensionsv1.JSON{}
	}
	b.object.Spec.Config[key] = JSON(value)
	return b
}

// SecretConfig takes a secret key of the configuration from a Secret.
func (b *StackBuilder) SecretConfig(key, secretName, secretKey string) *StackBuilder {
	return b.secretRef(key, FromSecret(secretName, secretKey))
}

// SecretConfigLiteral sets a secret key of the configuration to a literal.
func (b *StackBuilder) SecretConfigLiteral(key, value string) *StackBuilder {
	return b.secretRef(key, Literal(value))
}

func (b *StackBuilder) secretRef(key string, ref v1alpha1.ResourceRef) *StackBuilder {
	if b.object.Spec.SecretsRef == nil {
		b.object.Spec.SecretsRef = map[string]v1alpha1.ResourceRef{}
	}
	b.object.Spec.SecretsRef[key] = ref
	return b
}

// Env sets a variable of the environment to a literal.
func (b *StackBuilder) Env(name, value string) *StackBuilder {
	return b.envRef(name, Literal(value))
}

// EnvSecret takes a variable of the environment from a Secret.
func (b *StackBuilder) EnvSecret(name, secretName, secretKey string) *StackBuilder {
	return b.envRef(name, FromSecret(secretName, secretKey))
}

func (b *StackBuilder) envRef(name string, ref v1alpha1.ResourceRef) *StackBuilder {
	if b.object.Spec.EnvRefs == nil {
		b.object.Spec.EnvRefs = map[string]v1alpha1.ResourceRef{}
	}
	b.object.Spec.EnvRefs[name] = ref
	return b
}

// Refresh reads the real resources before each preview.
func (b *StackBuilder) Refresh() *StackBuilder {
	b.object.Spec.Refresh = true
	return b
}

// Suspend stops the work on the Stack.
func (b *StackBuilder) Suspend() *StackBuilder {
	b.object.Spec.Suspend = true
	return b
}

// ServiceAccount sets the ServiceAccount of the workspace pod.
func (b *StackBuilder) ServiceAccount(name string) *StackBuilder {
	b.object.Spec.ServiceAccountName = name
	return b
}

// WorkspaceTemplate sets what is laid over the Workspace: any value that becomes a JSON object.
func (b *StackBuilder) WorkspaceTemplate(value any) *StackBuilder {
	b.object.Spec.WorkspaceTemplate = raw(value)
	return b
}

// Condition sets a condition, observed at the object's generation.
func (b *StackBuilder) Condition(kind string, status metav1.ConditionStatus, reason, message string) *StackBuilder {
	setCondition(&b.object.Status.Conditions, b.object.Generation, kind, status, reason, message)
	return b
}

// Status changes the status in a way for which there is no method.
func (b *StackBuilder) Status(change func(*v1alpha1.StackStatus)) *StackBuilder {
	change(&b.object.Status)
	return b
}

// FromSecret is a value that is taken from a Secret.
func FromSecret(name, key string) v1alpha1.ResourceRef {
	return v1alpha1.ResourceRef{Type: v1alpha1.ResourceRefSecret, SecretRef: &v1alpha1.SecretSelector{Name: name, Key: key}}
}

// Literal is a value that is written down.
func Literal(value string) v1alpha1.ResourceRef {
	return v1alpha1.ResourceRef{Type: v1alpha1.ResourceRefLiteral, LiteralRef: &v1alpha1.LiteralRef{Value: value}}
}
