// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/ownership"
)

// keyName is the name of the Secret that holds the Stack's own key and its encryption salt.
func keyName(stack *v1alpha1.Stack) string { return stack.Name + "-plangate-key" }

// readKey reads the Stack's key and salt, and makes the key when there is none yet. Losing the Secret costs no safety: the
// digests differ then, and a new plan is made.
func (g *Gatherer) readKey(ctx context.Context, stack *v1alpha1.Stack, in *Inputs) error {
	secret := &corev1.Secret{}
	name := keyName(stack)
	err := g.reader.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		secret, err = g.makeKey(ctx, stack)
	}
	if err != nil {
		return fmt.Errorf("reading Secret %q with the key of the Stack: %w", name, err)
	}
	if !ownership.Of(secret, stack) {
		return &InvalidError{Field: "metadata.name", Why: fmt.Sprintf("collides: Secret %q exists and is not of this Stack; delete that Secret or rename the Stack", name)}
	}
	if len(secret.Data[keyHMAC]) < 32 {
		return fmt.Errorf("reading Secret %q with the key of the Stack: key %q is missing or shorter than 32 bytes; delete the Secret to get a new one", name, keyHMAC)
	}
	in.Key, in.Salt = secret.Data[keyHMAC], string(secret.Data[keySalt])
	return nil
}

func (g *Gatherer) makeKey(ctx context.Context, stack *v1alpha1.Stack) (*corev1.Secret, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: keyName(stack), Namespace: stack.Namespace,
			Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentStackKey},
		},
		Data: map[string][]byte{keyHMAC: key},
	}
	ownership.Mark(secret, stack)
	if err := g.writer.Create(ctx, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// KeepSalt remembers the encryption salt that an operation used, so that the next one can read what this one encrypted.
func (g *Gatherer) KeepSalt(ctx context.Context, stack *v1alpha1.Stack, salt string) error {
	secret := &corev1.Secret{}
	if err := g.reader.Get(ctx, client.ObjectKey{Namespace: stack.Namespace, Name: keyName(stack)}, secret); err != nil {
		return fmt.Errorf("reading Secret %q to keep the encryption salt: %w", keyName(stack), err)
	}
	if salt == "" || string(secret.Data[keySalt]) == salt {
		return nil
	}
	before := secret.DeepCopy()
	secret.Data[keySalt] = []byte(salt)
	if err := g.writer.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("keeping the encryption salt in Secret %q: %w", secret.Name, err)
	}
	return nil
}
