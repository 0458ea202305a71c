// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package planstore keeps plan files in immutable Secrets, and long lists of changes in immutable ConfigMaps, beside the
// UpdatePlan that names them.
//
//	plan file ── gzip ── cut at 900 KiB ──▶ Secret web-plan-0123456789ab-0, -1, … (type plangate.dev/plan-file)
//
// What is read back is checked: size and SHA-256 of the plan file are part of the statement that people approve, so
// whoever can write Secrets can make a plan fail, but not change it. A plan file holds secret values only as Pulumi's
// ciphertext, and yet it is kept in Secrets: it names every property of every resource.
package planstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

const (
	// SecretType is the type of the Secrets that hold plan files.
	SecretType corev1.SecretType = "plangate.dev/plan-file" //nolint:gosec // G101: the name of a type

	// maxChunk is how much one object holds; the API server takes 1 MiB of data.
	maxChunk = 900 << 10
	// maxChunks is how many Secrets an artifact may name.
	maxChunks = 64
	// maxPlanFile bounds what is held in memory.
	maxPlanFile = 256 << 20

	planKey = "plan.json.gz"
)

// Store keeps plan files.
type Store struct {
	// client writes.
	client client.Client
	// reader reads past every cache: what authorises an apply must not be old.
	reader client.Reader
}

// New returns a Store that writes with c and reads, uncached, with r.
func New(c client.Client, r client.Reader) *Store { return &Store{client: c, reader: r} }

// Object says where something is kept.
type Object struct {
	// Namespace and Stack are those of the Stack.
	Namespace, Stack string
	// Owners own the objects until SetOwner gives them to an UpdatePlan: the Stack, so that nothing is left when the
	// operator dies in between.
	Owners []metav1.OwnerReference
	// Labels come on top of the store's own.
	Labels map[string]string
}

// Put stores a plan file and returns how to find and check it. Putting the same file twice is the same as once; an object
// that is there with other content is an error.
func (s *Store) Put(ctx context.Context, o Object, planFile []byte) (v1alpha1.Artifact, error) {
	artifact := v1alpha1.Artifact{Digest: plans.BytesDigest(planFile), Size: int64(len(planFile))}
	if len(planFile) > maxPlanFile {
		return artifact, fmt.Errorf("storing the plan file: its %d bytes are more than %d", len(planFile), maxPlanFile)
	}
	packed, err := pack(planFile)
	if err != nil {
		return artifact, fmt.Errorf("storing the plan file: %w", err)
	}
	chunks := split(packed)
	if len(chunks) > maxChunks {
		return artifact, fmt.Errorf("storing the plan file: %d compressed bytes do not fit into %d Secrets", len(packed), maxChunks)
	}
	for i, chunk := range chunks {
		name := objectName(o.Stack, "plan", artifact.Digest, strconv.Itoa(i))
		if err := s.putChunk(ctx, o, name, chunk); err != nil {
			return artifact, fmt.Errorf("storing the plan file: %w", err)
		}
		artifact.Chunks = append(artifact.Chunks, name)
	}
	return artifact, nil
}

func (s *Store) putChunk(ctx context.Context, o Object, name string, chunk []byte) error {
	immutable := true
	secret := &corev1.Secret{
		ObjectMeta: o.meta(name, v1alpha1.ComponentPlanFile),
		Type:       SecretType,
		Immutable:  &immutable,
		Data:       map[string][]byte{planKey: chunk},
	}
	err := s.client.Create(ctx, secret)
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Secret %q: %w", name, err)
	}
	var there corev1.Secret
	if err := s.reader.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, &there); err != nil {
		return fmt.Errorf("reading Secret %q, which exists: %w", name, err)
	}
	if there.Type != SecretType || !isImmutable(there.Immutable) || !bytes.Equal(there.Data[planKey], chunk) || len(there.Data) != 1 {
		return fmt.Errorf("the Secret %q is there with other content, or is not immutable; delete it if nothing else needs it", name)
	}
	return nil
}

// Get returns the plan file that an artifact names. IsInvalid tells of an error that the file is missing or is not that
// one, so that trying again is no use.
func (s *Store) Get(ctx context.Context, namespace string, artifact v1alpha1.Artifact) ([]byte, error) {
	if len(artifact.Chunks) == 0 || len(artifact.Chunks) > maxChunks || artifact.Size < 0 || artifact.Size > maxPlanFile {
		return nil, invalid("the artifact names %d Secrets and %d bytes", len(artifact.Chunks), artifact.Size)
	}
	var packed []byte
	for _, name := range artifact.Chunks {
		var secret corev1.Secret
		err := s.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) {
			return nil, invalid("the Secret %q is missing", name)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the plan file: reading Secret %q: %w", name, err)
		}
		if secret.Type != SecretType {
			return nil, invalid("the Secret %q is of type %q", name, secret.Type)
		}
		packed = append(packed, secret.Data[planKey]...)
	}
	planFile, err := unpack(packed, artifact.Size)
	if err != nil {
		return nil, invalid("%v", err)
	}
	if d := plans.BytesDigest(planFile); d != artifact.Digest {
		return nil, invalid("its digest is %s, not %s", d, artifact.Digest)
	}
	return planFile, nil
}

// SetOwner gives the objects of a plan to its UpdatePlan: those who held them for the time being go, other UpdatePlans
// that share them stay. Objects are removed by the garbage collector when the last owner is gone.
func (s *Store) SetOwner(ctx context.Context, namespace string, artifact v1alpha1.Artifact, changesConfigMap string, owner metav1.OwnerReference) error {
	for _, name := range artifact.Chunks {
		if err := s.setOwner(ctx, &corev1.Secret{}, namespace, name, owner); err != nil {
			return err
		}
	}
	if changesConfigMap == "" {
		return nil
	}
	return s.ownChanges(ctx, namespace, changesConfigMap, owner)
}

func (s *Store) setOwner(ctx context.Context, o client.Object, namespace, name string, owner metav1.OwnerReference) error {
	if err := s.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		return fmt.Errorf("owning %q: %w", name, err)
	}
	var owners []metav1.OwnerReference
	for _, r := range o.GetOwnerReferences() {
		if r.UID == owner.UID && r.Kind == owner.Kind {
			return nil
		}
		if r.APIVersion == owner.APIVersion && r.Kind == owner.Kind {
			owners = append(owners, r)
		}
	}
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("owning %q: not an object: this is a bug", name)
	}
	o.SetOwnerReferences(append(owners, owner))
	if err := s.client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("owning %q: %w", name, err)
	}
	return nil
}

func (o Object) meta(name, component string) metav1.ObjectMeta {
	labels := maps.Clone(o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelStack] = LabelValue(o.Stack)
	labels[v1alpha1.LabelComponent] = component
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: name, Labels: labels, OwnerReferences: o.Owners}
}

func isImmutable(b *bool) bool { return b != nil && *b }

// pack compresses with a header that says nothing of when and where, so that equal files give equal bytes.
func pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unpack decompresses exactly size bytes. More are never made, whatever the compressed bytes claim.
func unpack(packed []byte, size int64) ([]byte, error) {
	out, err := unpackAtMost(packed, size)
	if err == nil && int64(len(out)) != size {
		err = fmt.Errorf("it has %d bytes, not %d", len(out), size)
	}
	return out, err
}

// unpackAtMost decompresses one gzip stream, and fails when it makes more than limit bytes or is not the end.
func unpackAtMost(packed []byte, limit int64) ([]byte, error) {
	in := bytes.NewReader(packed)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("it cannot be decompressed: %w", err)
	}
	z.Multistream(false)
	out, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("it cannot be decompressed: %w", err)
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("it has more than the %d bytes that it should have", limit)
	}
	if in.Len() != 0 {
		return nil, errors.New("there is data after its end")
	}
	return out, nil
}

func split(b []byte) [][]byte {
	var chunks [][]byte
	for len(b) > maxChunk {
		chunks = append(chunks, b[:maxChunk])
		b = b[maxChunk:]
	}
	return append(chunks, b)
}
