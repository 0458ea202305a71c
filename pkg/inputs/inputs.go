// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inputs gathers what a Stack's operations are fed with: configuration, environment and secrets, and their digest.
//
// It must never put a secret value into an error, a log line or a digest other than through the Stack's key.
package inputs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/workspace"
)

const (
	keyHMAC = "hmac"
	keySalt = "encryptionsalt"
)

// UnavailableError says that a value that the Stack refers to is not there.
type UnavailableError struct{ Field, Secret, Key, Why string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s needs key %q of Secret %q: %s", e.Field, e.Key, e.Secret, e.Why)
}

// IsUnavailable reports whether err says that a value that the Stack refers to is not there.
func IsUnavailable(err error) bool {
	var e *UnavailableError
	return errors.As(err, &e)
}

// InvalidError says that the Stack's spec cannot be used.
type InvalidError struct{ Field, Why string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Why }

// IsInvalid reports whether err says that the Stack's spec cannot be used.
func IsInvalid(err error) bool {
	var e *InvalidError
	return errors.As(err, &e)
}

// Inputs are a Stack's resolved configuration and environment.
type Inputs struct {
	// ConfigDigest is the digest of all below.
	ConfigDigest string
	// ConfigEntries name what moved in ConfigDigest, when it does.
	ConfigEntries []v1alpha1.ConfigEntry
	// Key is the Stack's own key.
	Key []byte
	// Salt is the encryption salt that earlier operations used; "" when none is known.
	Salt string

	config  map[string]json.RawMessage
	secrets map[string]string
	env     map[string]string
	// secretEnv are the values of env that came from Secrets.
	secretEnv []string
}

// Gatherer gathers Inputs.
type Gatherer struct {
	// reader reads Secrets, uncached.
	reader client.Reader
	// cache reads the metadata of Secrets from the watch.
	cache  client.Reader
	writer client.Client

	mu      sync.Mutex
	digests map[types.UID]memo
}

// memo is a digest and the versions of everything that it was computed from.
type memo struct {
	generation int64
	versions   string
	digest     string
	entries    []v1alpha1.ConfigEntry
}

// New returns a Gatherer. cached answers for the metadata of Secrets, uncached reads them whole.
func New(cached client.Client, uncached client.Reader) *Gatherer {
	return &Gatherer{reader: uncached, cache: cached, writer: cached, digests: map[types.UID]memo{}}
}

// Digest returns the digest of the Stack's configuration, environment and options, and its entries to name what moves. It
// reads Secrets only if one of them, or the Stack, has changed since the last time.
func (g *Gatherer) Digest(ctx context.Context, stack *v1alpha1.Stack) (string, []v1alpha1.ConfigEntry, error) {
	versions, err := g.versions(ctx, stack)
	if err != nil {
		return "", nil, err
	}
	g.mu.Lock()
	m, ok := g.digests[stack.UID]
	g.mu.Unlock()
	if ok && m.generation == stack.Generation && m.versions == versions {
		return m.digest, m.entries, nil
	}
	in, err := g.Gather(ctx, stack)
	if err != nil {
		return "", nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.digests[stack.UID] = memo{generation: stack.Generation, versions: versions, digest: in.ConfigDigest, entries: in.ConfigEntries}
	return in.ConfigDigest, in.ConfigEntries, nil
}

// Forget drops what is remembered of a Stack that is gone.
func (g *Gatherer) Forget(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.digests, uid)
}

// versions are the names and versions of all Secrets that the Stack refers to, and its key.
func (g *Gatherer) versions(ctx context.Context, stack *v1alpha1.Stack) (string, error) {
	var all []string
	for _, name := range WatchedSecrets(stack) {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := g.cache.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: name}, meta)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading the metadata of Secret %q: %w", name, err)
		}
		all = append(all, name, string(meta.UID), meta.ResourceVersion)
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// WatchedSecrets are the names of all Secrets whose change means something to a Stack: those that it refers to, and its key.
func WatchedSecrets(stack *v1alpha1.Stack) []string {
	return append(SecretNames(stack), keyName(stack))
}

// SecretNames are the names of the Secrets that a Stack refers to, sorted, each once.
func SecretNames(stack *v1alpha1.Stack) []string {
	seen := map[string]bool{}
	for _, refs := range []map[string]v1alpha1.ResourceRef{stack.Spec.SecretsRef, stack.Spec.EnvRefs} {
		for _, ref := range refs {
			if ref.SecretRef != nil {
				seen[ref.SecretRef.Name] = true
			}
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Gather reads everything, uncached.
func (g *Gatherer) Gather(ctx context.Context, stack *v1alpha1.Stack) (*Inputs, error) {
	in := &Inputs{config: map[string]json.RawMessage{}, secrets: map[string]string{}, env: map[string]string{}}
	for key, value := range stack.Spec.Config {
		if _, both := stack.Spec.SecretsRef[key]; both {
			return nil, &InvalidError{Field: fmt.Sprintf("spec.config[%q]", key), Why: "stands in spec.secretsRef too: keep one of them"}
		}
		in.config[key] = value.Raw
	}
	read := g.secretReader(ctx, stack.Namespace)
	digest := plans.ConfigInputs{
		Stack: stack.Spec.Stack, Backend: stack.Spec.Backend, Config: stack.Spec.Config, Refresh: stack.Spec.Refresh,
		Targets: stack.Spec.Targets, TargetDependents: stack.Spec.TargetDependents,
		ServiceAccountName: stack.Spec.ServiceAccountName, Secrets: in.secrets, Env: map[string]plans.EnvValue{},
	}
	for key, ref := range stack.Spec.SecretsRef {
		value, err := resolve(fmt.Sprintf("spec.secretsRef[%q]", key), ref, read)
		if err != nil {
			return nil, err
		}
		in.secrets[key] = value
	}
	for name, ref := range stack.Spec.EnvRefs {
		value, err := resolve(fmt.Sprintf("spec.envRefs[%q]", name), ref, read)
		if err != nil {
			return nil, err
		}
		in.env[name] = value
		if ref.SecretRef != nil {
			in.secretEnv = append(in.secretEnv, value)
		}
		digest.Env[name] = plans.EnvValue{Value: value, Secret: ref.SecretRef != nil}
	}
	if err := g.readKey(ctx, stack, in); err != nil {
		return nil, err
	}
	var err error
	if in.ConfigDigest, err = plans.ConfigDigest(digest, in.Key); err != nil {
		return nil, fmt.Errorf("digesting the configuration: %w", err)
	}
	in.ConfigEntries = plans.ConfigEntries(digest, in.Key, secretOf(stack))
	return in, nil
}

// secretOf names the Secret and key that an entry of a Stack's spec refers to; "" for one that refers to none.
func secretOf(stack *v1alpha1.Stack) func(field, name string) string {
	return func(field, name string) string {
		ref := stack.Spec.EnvRefs[name]
		if field == "spec.secretsRef" {
			ref = stack.Spec.SecretsRef[name]
		}
		if field == "spec.config" || ref.Type != v1alpha1.ResourceRefSecret || ref.SecretRef == nil {
			return ""
		}
		return fmt.Sprintf("Secret %s/%s", ref.SecretRef.Name, ref.SecretRef.Key)
	}
}

type readSecret func(name string) (*corev1.Secret, error)

// secretReader reads each Secret once.
func (g *Gatherer) secretReader(ctx context.Context, namespace string) readSecret {
	seen := map[string]*corev1.Secret{}
	return func(name string) (*corev1.Secret, error) {
		if s, ok := seen[name]; ok {
			return s, nil
		}
		s := &corev1.Secret{}
		if err := g.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
			return nil, err
		}
		seen[name] = s
		return s, nil
	}
}

func resolve(field string, ref v1alpha1.ResourceRef, read readSecret) (string, error) {
	switch {
	case ref.Type == v1alpha1.ResourceRefLiteral && ref.LiteralRef != nil:
		return ref.LiteralRef.Value, nil
	case ref.Type == v1alpha1.ResourceRefSecret && ref.SecretRef != nil:
		secret, err := read(ref.SecretRef.Name)
		if apierrors.IsNotFound(err) {
			return "", &UnavailableError{Field: field, Secret: ref.SecretRef.Name, Key: ref.SecretRef.Key, Why: "there is no such Secret in this namespace"}
		}
		if err != nil {
			return "", fmt.Errorf("reading Secret %q for %s: %w", ref.SecretRef.Name, field, err)
		}
		value, ok := secret.Data[ref.SecretRef.Key]
		if !ok {
			return "", &UnavailableError{Field: field, Secret: ref.SecretRef.Name, Key: ref.SecretRef.Key, Why: "the Secret has no such key"}
		}
		return string(value), nil
	default:
		return "", &InvalidError{Field: field, Why: fmt.Sprintf("has the unknown type %q: use Secret or Literal", ref.Type)}
	}
}

// Operation fills an operation with the inputs.
func (in *Inputs) Operation(stack *v1alpha1.Stack, op *workspace.Operation) {
	op.Stack, op.Backend = stack.Spec.Stack, stack.Spec.Backend
	op.Config, op.SecretConfig, op.Env = in.config, in.secrets, in.env
	for name, ref := range stack.Spec.EnvRefs {
		if ref.Type == v1alpha1.ResourceRefLiteral {
			op.PlainEnv = append(op.PlainEnv, name)
		}
	}
	sort.Strings(op.PlainEnv)
	op.FallbackSalt = in.Salt
	op.Options = workspace.Options{Refresh: stack.Spec.Refresh, Targets: stack.Spec.Targets, TargetDependents: stack.Spec.TargetDependents}
	if stack.Spec.Timeout != nil {
		op.Timeout = stack.Spec.Timeout.Duration
	}
}

// SecretValues are all values that must never be shown.
func (in *Inputs) SecretValues() []string {
	values := make([]string, 0, len(in.secrets)+len(in.secretEnv))
	for _, v := range in.secrets {
		values = append(values, v)
	}
	return append(values, in.secretEnv...)
}

func newKey() ([]byte, error) {
	key := make([]byte, 32)
	_, err := rand.Read(key)
	return key, err
}
