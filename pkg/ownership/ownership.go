// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership ties what the operator makes for a Stack to that Stack, without owner references as long as the Stack's
// finalizer has work to do.
//
// A foreground deletion lets the garbage collector delete everything that has an owner reference to the Stack, at once and
// before the Stack's finalizer is asked: the plans that wait for an approval, the pod that is to destroy, the key that their
// digests are made with. So all of that carries a label with the Stack's UID instead, and gets its owner reference right before
// the finalizer goes (Release): from then on the garbage collector takes it, whatever the kind of the deletion.
package ownership

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Mark ties an object to the Stack.
func Mark(o metav1.Object, stack *v1alpha1.Stack) {
	MarkUID(o, stack.Name, stack.UID)
}

// MarkUID is Mark for whoever knows the Stack by name and UID only.
func MarkUID(o metav1.Object, stack string, uid types.UID) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelStack], labels[v1alpha1.LabelStackUID] = stack, string(uid)
	o.SetLabels(labels)
}

// Of reports whether an object is this very Stack's: by its label, or by an owner reference, which earlier versions set from the
// start.
func Of(o metav1.Object, stack *v1alpha1.Stack) bool {
	return stack.UID != "" && (o.GetLabels()[v1alpha1.LabelStackUID] == string(stack.UID) || metav1.IsControlledBy(o, stack))
}

// released are the kinds that carry the label.
var released = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind("UpdatePlan"),
	v1alpha1.GroupVersion.WithKind("Workspace"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
}

// Release gives everything that is tied to a Stack of this name an owner reference to it, so that the garbage collector takes it
// when, or since, that Stack is gone. It is for a Stack that is about to be let go, and for what was left by one that is gone:
// what is tied to the Stack keep stays as it is. Done twice, it does nothing the second time. It reads past the cache.
func Release(ctx context.Context, c client.Client, uncached client.Reader, namespace, stack string, keep types.UID) error {
	for _, kind := range released {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind + "List"})
		// A name of a Stack is short enough for a label.
		if err := uncached.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelStack: stack}); err != nil {
			return fmt.Errorf("listing what is tied to Stack %q (%s): %w", stack, kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			o.SetGroupVersionKind(kind)
			if err := release(ctx, c, o, stack, keep); err != nil {
				return err
			}
		}
	}
	return nil
}

func release(ctx context.Context, c client.Client, o *metav1.PartialObjectMetadata, stack string, keep types.UID) error {
	uid := types.UID(o.Labels[v1alpha1.LabelStackUID])
	if uid == "" || uid == keep || len(o.OwnerReferences) > 0 {
		return nil // what a plan owns goes with the plan
	}
	before := o.DeepCopy()
	no := false
	o.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Stack", Name: stack, UID: uid, BlockOwnerDeletion: &no,
	}}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(c.Patch(ctx, o, patch)); err != nil {
		return fmt.Errorf("giving %s %q to its Stack %q: %w", o.Kind, o.Name, stack, err)
	}
	return nil
}

// LeftBehind reports whether an object was left by a Stack other than the one with the UID, and nothing takes it: that Stack's
// finalizer was taken away by hand.
func LeftBehind(o metav1.Object, uid types.UID) bool {
	of := o.GetLabels()[v1alpha1.LabelStackUID]
	return of != "" && of != string(uid) && len(o.GetOwnerReferences()) == 0
}
