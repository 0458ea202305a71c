// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

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
	if isLeftover(secret, stack) {
		secret, err = g.adoptKey(ctx, stack, secret)
		if err != nil {
			return err
		}
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

// isLeftover reports whether a Secret is the key of a Stack of this name that is gone, and that nothing removes: a loop that was
// late made it when the Stack had been let go.
func isLeftover(secret *corev1.Secret, stack *v1alpha1.Stack) bool {
	return ownership.LeftBehind(secret, stack.UID) && secret.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentStackKey && secret.DeletionTimestamp.IsZero()
}

// adoptKey makes a leftover the Stack's own, with a new key.
func (g *Gatherer) adoptKey(ctx context.Context, stack *v1alpha1.Stack, secret *corev1.Secret) (*corev1.Secret, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	before := secret.DeepCopy()
	ownership.Mark(secret, stack)
	secret.Data = map[string][]byte{keyHMAC: key}
	if err := g.writer.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("taking over Secret %q, which a Stack of this name left: %w", secret.Name, err)
	}
	return secret, nil
}

// letGo reports whether the Stack is gone, or its finalizer is: nothing may be made for it any more, since nothing would remove it.
func (g *Gatherer) letGo(ctx context.Context, stack *v1alpha1.Stack) (bool, error) {
	now := &v1alpha1.Stack{}
	err := g.reader.Get(ctx, client.ObjectKeyFromObject(stack), now)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Stack %q: %w", stack.Name, err)
	default:
		return now.UID != stack.UID || !now.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(now, v1alpha1.Finalizer), nil
	}
}

func (g *Gatherer) makeKey(ctx context.Context, stack *v1alpha1.Stack) (*corev1.Secret, error) {
	if gone, err := g.letGo(ctx, stack); err != nil || gone {
		return nil, cmp.Or(err, fmt.Errorf("no key is made for Stack %q, which is gone", stack.Name))
	}
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
