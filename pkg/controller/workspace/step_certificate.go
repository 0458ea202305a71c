// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete

// ensureCertificate makes the Secret that the agent serves with, and renews it in time. The agent reads it anew by itself.
func (r *Reconciler) ensureCertificate(ctx context.Context, s *scope) outcome.Outcome {
	key := client.ObjectKey{Namespace: s.ws.Namespace, Name: tlsName(s.ws)}
	// A certificate that a running agent was served with need not be read again before it is due. A pod that is yet to
	// start does not without: somebody may have deleted the Secret.
	if due, ok := r.renewals.due(s.ws.UID); ok && s.now.Before(due) && ready(s.pod) {
		s.lookAgainAt(due)
		return outcome.Done()
	}
	secret := &corev1.Secret{}
	err := r.uncached.Get(ctx, key, secret)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("reading Secret %q: %w", key.Name, err))
	}
	if exists && !metav1.IsControlledBy(secret, s.ws) {
		err := fmt.Errorf("the Secret %q exists and is not of this Workspace: delete that Secret, or rename the Stack", key.Name)
		return outcome.RetryAfter(v1alpha1.ReasonSpecInvalid, err, foreignPause)
	}
	due := r.certs.RenewAt(secret.Data, string(s.ws.UID))
	if !exists || !s.now.Before(due) {
		if due, err = r.writeCertificate(ctx, s, secret, exists); err != nil {
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		}
	}
	r.renewals.set(s.ws.UID, due)
	s.lookAgainAt(due)
	return outcome.Done()
}

func (r *Reconciler) writeCertificate(ctx context.Context, s *scope, secret *corev1.Secret, exists bool) (due time.Time, err error) {
	data, err := r.certs.ServerSecret(string(s.ws.UID))
	if err != nil {
		return due, err
	}
	before := secret.DeepCopy()
	secret.Data = data
	if exists {
		if err := r.client.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return due, fmt.Errorf("renewing the certificate in Secret %q: %w", secret.Name, err)
		}
		return r.certs.RenewAt(data, string(s.ws.UID)), nil
	}
	secret.ObjectMeta = metav1.ObjectMeta{
		Name: tlsName(s.ws), Namespace: s.ws.Namespace,
		Labels:          map[string]string{v1alpha1.LabelStack: s.ws.Name, v1alpha1.LabelComponent: v1alpha1.ComponentTLS},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.ws, v1alpha1.GroupVersion.WithKind("Workspace"))},
	}
	secret.Type = corev1.SecretTypeTLS
	if err := r.client.Create(ctx, secret); err != nil {
		return due, fmt.Errorf("creating Secret %q with the agent's certificate: %w", secret.Name, err)
	}
	return r.certs.RenewAt(data, string(s.ws.UID)), nil
}

// renewals remembers when certificates are due, so that an idle Workspace costs no read. After a restart all are read once.
type renewals struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

func (r *renewals) due(uid types.UID) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.at[uid]
	return t, ok
}

func (r *renewals) set(uid types.UID, t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[types.UID]time.Time{}
	}
	r.at[uid] = t
}

func (r *renewals) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, uid)
}
