// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	// changesPartsKey holds, in the first ConfigMap of several, how many there are.
	changesPartsKey = "parts"

	maxChanges = 64 << 20
	// maxParts is how many ConfigMaps a list may have.
	maxParts = 16
)

// PutChanges stores a plan's full list of changes and returns the ConfigMap's name. A list that is too long as text is
// stored compressed; when it is too long even so, the first ConfigMap tells how many parts there are, and the others have its
// name and "-1", "-2", …. One that needs more than maxParts is refused, because an approver could not read what is approved.
func (s *Store) PutChanges(ctx context.Context, o Object, changes []v1alpha1.ResourceChange) (string, error) {
	text, err := json.Marshal(changes)
	if err != nil {
		return "", fmt.Errorf("storing the changes: %w", err)
	}
	if len(text) > maxChanges {
		return "", fmt.Errorf("storing the changes: a list of %d bytes is more than %d", len(text), maxChanges)
	}
	name := objectName(o.Stack, "changes", plans.ChangesDigest(changes), "")
	if len(text) <= maxChunk {
		return name, s.putConfigMap(ctx, &corev1.ConfigMap{ObjectMeta: o.meta(name, v1alpha1.ComponentPlanChanges), Data: map[string]string{changesKey: string(text)}})
	}
	packed, err := pack(text)
	if err != nil {
		return "", fmt.Errorf("storing the changes: %w", err)
	}
	chunks := split(packed)
	if len(chunks) > maxParts {
		return "", fmt.Errorf("storing the changes: %d changes do not fit into %d ConfigMaps, even compressed", len(changes), maxParts)
	}
	for i := len(chunks) - 1; i >= 0; i-- { // the first one last: it names the others
		cm := &corev1.ConfigMap{ObjectMeta: o.meta(partName(name, i), v1alpha1.ComponentPlanChanges), BinaryData: map[string][]byte{changesPackedKey: chunks[i]}}
		if i == 0 && len(chunks) > 1 {
			cm.Data = map[string]string{changesPartsKey: strconv.Itoa(len(chunks))}
		}
		if err := s.putConfigMap(ctx, cm); err != nil {
			return "", err
		}
	}
	return name, nil
}

// partName is the name of a part of a list of changes; the first one has the list's.
func partName(name string, part int) string {
	if part == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(part)
}

// HoldsChanges tells whether a ConfigMap is the one, or a part of the one, that a plan names for its changes.
func HoldsChanges(configMap, changesConfigMap string) bool {
	rest, ok := strings.CutPrefix(configMap, changesConfigMap)
	if !ok || changesConfigMap == "" || rest == "" {
		return ok && changesConfigMap != ""
	}
	part, err := strconv.Atoi(strings.TrimPrefix(rest, "-"))
	return err == nil && part > 0 && part < maxParts && configMap == partName(changesConfigMap, part)
}

// parts is how many ConfigMaps a list has of which this is the first one.
func parts(first *corev1.ConfigMap) (int, error) {
	text, several := first.Data[changesPartsKey]
	if !several {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 || n > maxParts {
		return 0, invalid("the ConfigMap %q tells of %q parts", first.Name, text)
	}
	return n, nil
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
	immutable := true
	cm.Immutable = &immutable
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
	cm, err := s.readPart(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	n, err := parts(cm)
	if err != nil {
		return nil, err
	}
	text := []byte(cm.Data[changesKey])
	if packed, ok := cm.BinaryData[changesPackedKey]; ok {
		for i := 1; i < n; i++ {
			part, err := s.readPart(ctx, namespace, partName(name, i))
			if err != nil {
				return nil, err
			}
			packed = append(packed, part.BinaryData[changesPackedKey]...)
		}
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

func (s *Store) readPart(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil, invalid("the ConfigMap %q is missing", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the changes: reading ConfigMap %q: %w", name, err)
	}
	return cm, nil
}

// ownChanges gives all parts of a list to an owner.
func (s *Store) ownChanges(ctx context.Context, namespace, name string, owner metav1.OwnerReference) error {
	first := &corev1.ConfigMap{}
	if err := s.setOwner(ctx, first, namespace, name, owner); err != nil {
		return err
	}
	n, err := parts(first)
	if err != nil {
		return fmt.Errorf("owning %q: %w", name, err)
	}
	for i := 1; i < n; i++ {
		if err := s.setOwner(ctx, &corev1.ConfigMap{}, namespace, partName(name, i), owner); err != nil {
			return err
		}
	}
	return nil
}
