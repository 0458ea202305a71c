// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

const (
	changesKey = "changes.json"
	// changesPackedKey holds the list, gzip-compressed, when it is too long as it is.
	changesPackedKey = "changes.json.gz"
	// stepsKey holds the steps of an operation, with ".gz" behind it when they are compressed.
	stepsKey = "steps.json"

	maxChanges = 64 << 20
)

// PutChanges stores a plan's full list of changes and returns the ConfigMap's name. A list that is too long as text is
// stored compressed; one that is too long even so is refused, because an approver could not read what is approved.
func (s *Store) PutChanges(ctx context.Context, o Object, changes []v1alpha1.ResourceChange) (string, error) {
	text, err := json.Marshal(changes)
	if err != nil {
		return "", fmt.Errorf("storing the changes: %w", err)
	}
	if len(text) > maxChanges {
		return "", fmt.Errorf("storing the changes: a list of %d bytes is more than %d", len(text), maxChanges)
	}
	name := objectName(o.Stack, "changes", plans.ChangesDigest(changes), "")
	immutable := true
	cm := &corev1.ConfigMap{ObjectMeta: o.meta(name, v1alpha1.ComponentPlanChanges), Immutable: &immutable}
	cm.Data = map[string]string{changesKey: string(text)}
	if len(text) > maxChunk {
		packed, err := pack(text)
		if err != nil {
			return "", fmt.Errorf("storing the changes: %w", err)
		}
		if len(packed) > maxChunk {
			return "", fmt.Errorf("storing the changes: %d changes are too many for one ConfigMap, even compressed", len(changes))
		}
		cm.Data, cm.BinaryData = nil, map[string][]byte{changesPackedKey: packed}
	}
	return name, s.putConfigMap(ctx, cm)
}

// PutSteps stores what became of every step of an operation, and returns the ConfigMap's name; "" when they are
// too many even compressed. It belongs to o's owners.
func (s *Store) PutSteps(ctx context.Context, o Object, operation string, steps []v1alpha1.StepState) (string, error) {
	text, err := json.Marshal(steps)
	if err != nil {
		return "", fmt.Errorf("storing the steps: %w", err)
	}
	name := objectName(o.Stack, "steps", plans.BytesDigest([]byte(operation)), "")
	immutable := true
	cm := &corev1.ConfigMap{ObjectMeta: o.meta(name, v1alpha1.ComponentPlanSteps), Immutable: &immutable}
	cm.Data = map[string]string{stepsKey: string(text)}
	if len(text) > maxChunk {
		packed, err := pack(text)
		if err != nil {
			return "", fmt.Errorf("storing the steps: %w", err)
		}
		if len(packed) > maxChunk {
			return "", nil // the first ones are in the status, and all are counted
		}
		cm.Data, cm.BinaryData = nil, map[string][]byte{stepsKey + ".gz": packed}
	}
	return name, s.putConfigMap(ctx, cm)
}

func (s *Store) putConfigMap(ctx context.Context, cm *corev1.ConfigMap) error {
	wanted := cm.DeepCopy()
	err := s.client.Create(ctx, cm)
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("storing the changes: creating ConfigMap %q: %w", wanted.Name, err)
	}
	var there corev1.ConfigMap
	if err := s.reader.Get(ctx, client.ObjectKeyFromObject(wanted), &there); err != nil {
		return fmt.Errorf("storing the changes: reading ConfigMap %q, which exists: %w", wanted.Name, err)
	}
	same := maps.Equal(there.Data, wanted.Data) &&
		maps.EqualFunc(there.BinaryData, wanted.BinaryData, bytes.Equal)
	if !same || !isImmutable(there.Immutable) {
		return fmt.Errorf("storing the changes: the ConfigMap %q is there with other content, or is not immutable; delete it if nothing else needs it", wanted.Name)
	}
	return nil
}

// GetChanges returns all changes of a plan, and checks that they are those that its statement names.
func (s *Store) GetChanges(ctx context.Context, namespace string, spec *v1alpha1.UpdatePlanSpec) ([]v1alpha1.ResourceChange, error) {
	statement, err := plans.Parse(spec.Statement)
	if err != nil {
		return nil, invalid("%v", err)
	}
	changes := spec.Changes
	if name := spec.ChangesConfigMap; name != "" {
		if changes, err = s.readChanges(ctx, namespace, name); err != nil {
			return nil, err
		}
	}
	if d := plans.ChangesDigest(changes); d != statement.Predicate.Changes.Digest {
		return nil, invalid("the digest of the changes is %s, not %s", d, statement.Predicate.Changes.Digest)
	}
	return changes, nil
}

func (s *Store) readChanges(ctx context.Context, namespace, name string) ([]v1alpha1.ResourceChange, error) {
	var cm corev1.ConfigMap
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &cm)
	if apierrors.IsNotFound(err) {
		return nil, invalid("the ConfigMap %q is missing", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the changes: reading ConfigMap %q: %w", name, err)
	}
	text := []byte(cm.Data[changesKey])
	if packed, ok := cm.BinaryData[changesPackedKey]; ok {
		if text, err = unpackAtMost(packed, maxChanges); err != nil {
			return nil, invalid("the ConfigMap %q: %v", name, err)
		}
	}
	var changes []v1alpha1.ResourceChange
	if err := json.Unmarshal(text, &changes); err != nil {
		return nil, invalid("the ConfigMap %q: %v", name, err)
	}
	return changes, nil
}
