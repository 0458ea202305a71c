// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approvalpolicy tells on each ApprovalPolicy and ClusterApprovalPolicy whether it can be evaluated, and how many
// Stacks it selects.
//
// It decides nothing: whoever verifies a plan compiles policies for itself, whatever their status says.
package approvalpolicy

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/policies"
)

const fieldOwner = "plangate-approvalpolicy"

// Names of the steps, in order.
const (
	stepCompile = "compile"
	stepCount   = "count"
)

// Reconciler reconciles policies of one kind.
type Reconciler struct {
	kind     Kind
	client   client.Client
	uncached client.Reader
	cache    *policies.Cache
	recorder events.EventRecorder
	now      func() time.Time
}

// New returns a Reconciler for one kind of policies.
func New(kind Kind, c client.Client, uncached client.Reader, cache *policies.Cache, recorder events.EventRecorder) *Reconciler {
	return &Reconciler{kind: kind, client: c, uncached: uncached, cache: cache, recorder: recorder, now: time.Now}
}

// Setup registers a reconciler for each kind of policies.
func Setup(mgr ctrl.Manager, concurrency int) error {
	cache, recorder := policies.NewCache(), mgr.GetEventRecorder(fieldOwner)
	for _, kind := range []Kind{Namespaced(), Cluster()} {
		if err := New(kind, mgr.GetClient(), mgr.GetAPIReader(), cache, recorder).setup(mgr, concurrency); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind.name).
		For(r.kind.empty(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Stack{}, handler.EnqueueRequestsFromMapFunc(r.policiesFor), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// policiesFor finds the policies that may select a Stack.
func (r *Reconciler) policiesFor(ctx context.Context, stack client.Object) []reconcile.Request {
	all, err := r.kind.list(ctx, r.client, stack.GetNamespace())
	if err != nil {
		return nil
	}
	requests := make([]reconcile.Request, len(all))
	for i, p := range all {
		requests[i].NamespacedName = client.ObjectKeyFromObject(p)
	}
	return requests
}

// +kubebuilder:rbac:groups=plangate.dev,resources=approvalpolicies;clusterapprovalpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=plangate.dev,resources=approvalpolicies/status;clusterapprovalpolicies/status,verbs=get;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list

// Reconcile looks at one policy.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := r.kind.empty()
	if err := r.client.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, nil
	}
	s := newScope(object)
	stopped := outcome.Run(ctx, s, []outcome.Step[*scope]{
		{Name: stepCompile, Run: r.compile},
		{Name: stepCount, Run: r.count},
	})
	return outcome.Result(stopped.Outcome, 0, r.writeStatus(ctx, s))
}
