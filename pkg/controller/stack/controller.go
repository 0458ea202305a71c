// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stack turns what a Stack asks for into an UpdatePlan: it resolves the source, wakes the workspace, previews and
// publishes.
//
// It must never change the real world: the only operation that it starts is a preview. It never decides about approvals.
package stack

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/demand"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstore"
	sourcepkg "github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/workspace"
)

const (
	fieldOwner = "plangate-stack"
	// indexSecrets finds the Stacks that a Secret matters to.
	indexSecrets = "spec.secrets"
)

// Agents is what the controller asks of the agents in the workspace pods.
type Agents interface {
	Start(ctx context.Context, t operations.Target, op *workspace.Operation) error
	Result(ctx context.Context, t operations.Target, id string) (*workspace.Result, error)
	Cancel(ctx context.Context, t operations.Target, id string) error
	Look(ctx context.Context, t operations.Target, look *workspace.Look) (*workspace.Sight, error)
	Watch(t operations.Target, id string, wake func())
}

// Sources resolves what a Stack's source is now.
type Sources interface {
	Resolve(ctx context.Context, repository, branch, commit string) (sourcepkg.Revision, error)
}

// Settings are the operator's settings for Stacks.
type Settings struct {
	// Cluster is the id of the cluster: the UID of the namespace kube-system.
	Cluster string
	// PollInterval is how often a branch is looked at.
	PollInterval time.Duration
	// PlanTimeToLive is how long a plan may wait.
	PlanTimeToLive time.Duration
	// SettleTime is for how long nothing that a plan is made from may have moved when it is published. 0: it is published at once.
	SettleTime time.Duration
	// RetryInterval is the pause after a first failed preview; it doubles up to RetryMaxInterval.
	RetryInterval, RetryMaxInterval time.Duration
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Reconciler reconciles Stacks.
type Reconciler struct {
	client   client.Client
	uncached client.Reader
	agents   Agents
	sources  Sources
	inputs   *inputs.Gatherer
	store    *planstore.Store
	recorder events.EventRecorder
	settings Settings
	now      func() time.Time
	wakeups  chan event.GenericEvent
}

// New returns a Reconciler.
func New(c client.Client, uncached client.Reader, agents Agents, sources Sources, in *inputs.Gatherer, store *planstore.Store, recorder events.EventRecorder, settings Settings) *Reconciler {
	if settings.Now == nil {
		settings.Now = time.Now
	}
	return &Reconciler{
		client: c, uncached: uncached, agents: agents, sources: sources, inputs: in, store: store, recorder: recorder, settings: settings,
		now: settings.Now, wakeups: make(chan event.GenericEvent, 1024),
	}
}

// Setup registers the reconciler.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, concurrency int) error {
	index := func(o client.Object) []string {
		stack, ok := o.(*v1alpha1.Stack)
		if !ok {
			return nil
		}
		return inputs.WatchedSecrets(stack)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Stack{}, indexSecrets, index); err != nil {
		return err
	}
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("stack").
		For(&v1alpha1.Stack{}, builder.WithPredicates(specOrAnnotations)).
		Watches(&v1alpha1.UpdatePlan{}, handler.EnqueueRequestsFromMapFunc(stackOfPlan)).
		Watches(&v1alpha1.Workspace{}, handler.EnqueueRequestsFromMapFunc(stackOfWorkspace)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.stacksOfSecret)).
		WatchesRawSource(source.Channel(r.wakeups, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// stackOfPlan goes by the name that the plan gives, and not by its owner: also a plan that the operator did not make ends, and
// has a place in the chain of records.
func stackOfPlan(_ context.Context, o client.Object) []reconcile.Request {
	plan, ok := o.(*v1alpha1.UpdatePlan)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: plan.Namespace, Name: plan.Spec.StackRef.Name}}}
}

// stackOfWorkspace goes by the name, which is the Stack's.
func stackOfWorkspace(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

func (r *Reconciler) stacksOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	list := &v1alpha1.StackList{}
	if err := r.client.List(ctx, list, client.InNamespace(secret.GetNamespace()), client.MatchingFields{indexSecrets: secret.GetName()}); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// wake returns a func that makes the Stack be looked at again.
func (r *Reconciler) wake(key types.NamespacedName) func() {
	return func() {
		stack := &v1alpha1.Stack{}
		stack.Namespace, stack.Name = key.Namespace, key.Name
		r.wakeups <- event.GenericEvent{Object: stack}
	}
}

// +kubebuilder:rbac:groups=plangate.dev,resources=stacks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=plangate.dev,resources=stacks/status,verbs=get;patch
// +kubebuilder:rbac:groups=plangate.dev,resources=stacks/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update

// Reconcile brings one Stack a step towards what it asks for.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stack := &v1alpha1.Stack{}
	if err := r.client.Get(ctx, req.NamespacedName, stack); err != nil {
		if apierrors.IsNotFound(err) {
			err = r.leftBehind(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	if !demand.Deleting(stack) {
		if err := apply.EnsureFinalizer(ctx, r.client, stack, v1alpha1.Finalizer); err != nil {
			return outcome.Result(outcome.Done(), 0, err)
		}
	}
	s := newScope(stack, r.now())
	stopped := outcome.Run(ctx, s, r.stepsFor(stack))
	if s.gone {
		r.inputs.Forget(stack.UID)
		return outcome.Result(stopped.Outcome, 0, nil)
	}
	writeErr := r.writeStatus(ctx, s, stopped)
	return outcome.Result(stopped.Outcome, r.again(s), writeErr)
}

// again is when a settled Stack is looked at again: for its branch, or for drift.
func (r *Reconciler) again(s *scope) time.Duration {
	poll, drift := r.poll(s.stack), s.lookAgainIn()
	if poll > 0 && drift > 0 {
		return min(poll, drift)
	}
	return max(poll, drift)
}

// poll is when a settled Stack is looked at again: a branch moves without telling, a commit does not.
func (r *Reconciler) poll(stack *v1alpha1.Stack) time.Duration {
	if stack.Spec.Branch == "" || stack.Spec.Suspend || demand.Of(stack) != demand.Update {
		return 0
	}
	return r.settings.PollInterval
}

// stepsFor is what is done for what the Stack asks for.
func (r *Reconciler) stepsFor(stack *v1alpha1.Stack) []outcome.Step[*scope] {
	asked := demand.Of(stack)
	switch {
	case asked == demand.LetGo:
		return r.deleteSteps()
	case stack.Spec.Suspend:
		return r.suspendedSteps()
	case asked == demand.Destroy:
		return r.destroySteps()
	default:
		return r.steps()
	}
}

func (r *Reconciler) steps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepLook, Run: r.look},
		{Name: stepSource, Run: r.resolveSource},
		{Name: stepInputs, Run: r.resolveInputs},
		{Name: stepDecide, Run: r.decide},
		{Name: stepWorkspace, Run: r.ensureWorkspace},
		{Name: stepProject, Run: r.sameProject},
		{Name: stepPreview, Run: r.preview},
		{Name: stepPublish, Run: r.publish},
		{Name: stepPrune, Run: r.prune},
		{Name: stepDrift, Run: r.drift},
	}
}

// destroySteps need no source: a destroy takes all from the state.
func (r *Reconciler) destroySteps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepLook, Run: r.look},
		{Name: stepGround, Run: r.ground},
		{Name: stepInputs, Run: r.resolveInputs},
		{Name: stepDecide, Run: r.decide},
		{Name: stepWorkspace, Run: r.ensureWorkspace},
		{Name: stepPreview, Run: r.preview},
		{Name: stepPublish, Run: r.publish},
		{Name: stepPrune, Run: r.prune},
		{Name: stepFinalize, Run: r.finalize},
	}
}

func (r *Reconciler) suspendedSteps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepLook, Run: r.look},
		{Name: stepSuspend, Run: r.suspend},
		{Name: stepPrune, Run: r.prune},
	}
}

func (r *Reconciler) deleteSteps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepLook, Run: r.look},
		{Name: stepRelease, Run: r.release},
	}
}
