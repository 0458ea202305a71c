// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package updateplan takes an UpdatePlan through the rest of its life: superseded, or verified, applied and recorded.
//
//	supersede ─▶ verify ─▶ apply ─▶ record
//
// It must never apply what was not approved, nor anything twice: before an operation is started, the intent with its id is
// written down under the resourceVersion that was read, and what authorises it is read past every cache.
package updateplan

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/policies"
	sourcepkg "github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/workspace"
)

const (
	fieldOwner = "plangate-updateplan"
	// indexStack finds the plans of a Stack.
	indexStack = "spec.stackRef.name"
)

// Agents is what the controller asks of the agents in the workspace pods.
type Agents interface {
	Start(ctx context.Context, t operations.Target, op *workspace.Operation) error
	Result(ctx context.Context, t operations.Target, id string) (*workspace.Result, error)
	Watch(t operations.Target, id string, wake func())
	Look(ctx context.Context, t operations.Target, look *workspace.Look) (*workspace.Sight, error)
}

// Sources resolves what a Stack's source is at this moment.
type Sources interface {
	ResolveNow(ctx context.Context, repository, branch, commit string) (sourcepkg.Revision, error)
}

// Admission proves that the policies are in force that vouch for approvals by annotation. fresh asks now; otherwise an answer of
// a short while ago will do. An error: it is not known.
type Admission interface {
	Prove(ctx context.Context, plan *v1alpha1.UpdatePlan, fresh bool) (approval.Admission, error)
}

// Settings are the operator's settings for UpdatePlans.
type Settings struct {
	// Cluster is the id of the cluster: the UID of the namespace kube-system.
	Cluster string
	// StateCheckInterval is how often Pulumi's state is looked at while a plan waits. 0: never.
	StateCheckInterval time.Duration
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Audit takes the record of each plan that ends. Nil: nobody does.
	Audit Auditor
	// Admission vouches for approvals by annotation. Nil: nothing does, and none of them counts.
	Admission Admission
}

// unproven vouches for nothing.
type unproven struct{}

func (unproven) Prove(context.Context, *v1alpha1.UpdatePlan, bool) (approval.Admission, error) {
	return approval.Admission{}, nil
}

// Auditor takes records. It may be given one twice, and must not lose one that it took without an error.
type Auditor interface {
	Write(record plans.Record) error
}

// Reconciler reconciles UpdatePlans.
type Reconciler struct {
	client   client.Client
	uncached client.Reader
	agents   Agents
	sources  Sources
	inputs   *inputs.Gatherer
	store    *planstore.Store
	recorder events.EventRecorder
	settings Settings
	// admission is settings.Admission, or what vouches for nothing.
	admission Admission
	policies  *policies.Gatherer
	now       func() time.Time
	wakeups   chan event.GenericEvent
}

// New returns a Reconciler.
func New(c client.Client, uncached client.Reader, agents Agents, sources Sources, in *inputs.Gatherer, store *planstore.Store, recorder events.EventRecorder, settings Settings) *Reconciler {
	if settings.Now == nil {
		settings.Now = time.Now
	}
	if settings.Admission == nil {
		settings.Admission = unproven{}
	}
	return &Reconciler{
		client: c, uncached: uncached, agents: agents, sources: sources, inputs: in, store: store, recorder: recorder, settings: settings, admission: settings.Admission,
		policies: policies.New(c, uncached),
		now:      settings.Now, wakeups: make(chan event.GenericEvent, 1024),
	}
}

// Setup registers the reconciler.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, concurrency int) error {
	index := func(o client.Object) []string {
		plan, ok := o.(*v1alpha1.UpdatePlan)
		if !ok {
			return nil
		}
		return []string{plan.Spec.StackRef.Name}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.UpdatePlan{}, indexStack, index); err != nil {
		return err
	}
	ownChanges := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	specChanged := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("updateplan").
		For(&v1alpha1.UpdatePlan{}, builder.WithPredicates(ownChanges)).
		Watches(&v1alpha1.Stack{}, handler.EnqueueRequestsFromMapFunc(r.openPlans)).
		Watches(&v1alpha1.Workspace{}, handler.EnqueueRequestsFromMapFunc(r.openPlans)).
		Watches(&v1alpha1.UpdatePlan{}, handler.EnqueueRequestsFromMapFunc(r.olderPlans), builder.WithPredicates(createdOnly())).
		Watches(&v1alpha1.ApprovalPolicy{}, handler.EnqueueRequestsFromMapFunc(policies.OpenPlans(r.client)), specChanged).
		Watches(&v1alpha1.ClusterApprovalPolicy{}, handler.EnqueueRequestsFromMapFunc(policies.OpenPlans(r.client)), specChanged).
		WatchesRawSource(source.Channel(r.wakeups, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

func createdOnly() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// openPlans finds the plans that are not done with of a Stack, or of the Stack of a Workspace: both have one name.
func (r *Reconciler) openPlans(ctx context.Context, o client.Object) []reconcile.Request {
	return r.open(ctx, o.GetNamespace(), o.GetName())
}

// olderPlans finds the other plans of a new plan's Stack.
func (r *Reconciler) olderPlans(ctx context.Context, o client.Object) []reconcile.Request {
	plan, ok := o.(*v1alpha1.UpdatePlan)
	if !ok {
		return nil
	}
	return r.open(ctx, plan.Namespace, plan.Spec.StackRef.Name)
}

func (r *Reconciler) open(ctx context.Context, namespace, stack string) []reconcile.Request {
	list := &v1alpha1.UpdatePlanList{}
	if err := r.client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexStack: stack}); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if !planstate.Recorded(&list.Items[i]) || !list.Items[i].DeletionTimestamp.IsZero() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// wake returns a func that makes the plan be looked at again.
func (r *Reconciler) wake(key types.NamespacedName) func() {
	return func() {
		plan := &v1alpha1.UpdatePlan{}
		plan.Namespace, plan.Name = key.Namespace, key.Name
		r.wakeups <- event.GenericEvent{Object: plan}
	}
}

// +kubebuilder:rbac:groups=plangate.dev,resources=updateplans,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=plangate.dev,resources=updateplans/status,verbs=get;patch
// +kubebuilder:rbac:groups=plangate.dev,resources=updateplans/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=updateplans.plangate.dev,verbs=get

// Reconcile takes one UpdatePlan a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	plan := &v1alpha1.UpdatePlan{}
	if err := r.client.Get(ctx, req.NamespacedName, plan); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deleting := !plan.DeletionTimestamp.IsZero()
	if planstate.Recorded(plan) && !deleting {
		return ctrl.Result{}, nil
	}
	s := newScope(plan, r.now())
	steps := r.steps()
	if deleting {
		steps = r.deleteSteps()
	}
	stopped := outcome.Run(ctx, s, steps)
	if s.gone {
		return outcome.Result(stopped.Outcome, 0, nil)
	}
	writeErr := r.writeStatus(ctx, s, stopped)
	return outcome.Result(stopped.Outcome, 0, writeErr)
}

func (r *Reconciler) steps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepSupersede, Run: r.supersede},
		{Name: stepVerify, Run: r.verify},
		{Name: stepApply, Run: r.apply},
		{Name: stepRecord, Run: r.record},
	}
}

func (r *Reconciler) deleteSteps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{{Name: stepRelease, Run: r.release}}
}
