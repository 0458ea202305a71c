// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply holds the few writes that every controller makes: the one status write of a loop, and finalizers.
//
// Each write carries the resourceVersion that was read, so that a loop that worked from an old cache changes nothing.
package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Status writes what differs between before's and after's status, in one call, under the field owner. It writes nothing if
// nothing differs, and fails with a conflict if the object has moved since before was read. On success after holds the
// new resourceVersion.
func Status(ctx context.Context, c client.Client, before, after client.Object, owner string) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch, client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("writing the status of %q: %w", after.GetName(), err)
	}
	return nil
}

// EnsureFinalizer adds a finalizer if it is missing; obj then holds the new resourceVersion.
func EnsureFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return nil
	}
	return patchMeta(ctx, c, before, obj)
}

// RemoveFinalizer removes a finalizer; one that is not there is no error, nor is an object that is gone.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(patchMeta(ctx, c, before, obj))
}

func patchMeta(ctx context.Context, c client.Client, before, after client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the finalizers of %q: %w", after.GetName(), err)
	}
	return nil
}
