// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workspace keeps the one pod of each Workspace: when to make it, when it may be replaced, when to let it go.
//
// It must never delete a pod in which an operation runs, and never put configuration, source or secrets of a Stack into it.
package workspace

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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/workspace"
)

const fieldOwner = "plangate-workspace"

// Agents is what the controller asks of the agents in the pods.
type Agents interface {
	Info(ctx context.Context, t operations.Target) (workspace.Info, error)
	Forget(workspaceUID, exceptPodUID string)
}

// Authority issues the certificates that agents serve with.
type Authority interface {
	ServerSecret(workspaceUID string) (map[string][]byte, error)
	RenewAt(data map[string][]byte, workspaceUID string) time.Time
}

// Settings are the operator's defaults for workspaces.
type Settings struct {
	// ManagerImage holds the agent.
	ManagerImage string
	// WorkspaceImage is used by Workspaces that name no image.
	WorkspaceImage string
	// IdleTimeout is used by Workspaces that name none. 0: never.
	IdleTimeout time.Duration
}

// Reconciler reconciles Workspaces.
type Reconciler struct {
	client   client.Client
	uncached client.Reader
	agents   Agents
	certs    Authority
	recorder events.EventRecorder
	settings Settings
	now      func() time.Time
	renewals renewals
}

// New returns a Reconciler.
func New(c client.Client, uncached client.Reader, agents Agents, certs Authority, recorder events.EventRecorder, settings Settings) *Reconciler {
	return &Reconciler{client: c, uncached: uncached, agents: agents, certs: certs, recorder: recorder, settings: settings, now: time.Now}
}

// Setup registers the reconciler.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	specOrAnnotations := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("workspace").
		For(&v1alpha1.Workspace{}, builder.WithPredicates(specOrAnnotations)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(workspaceOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// workspaceOf finds the Workspace of a pod.
func workspaceOf(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[v1alpha1.LabelWorkspace]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// +kubebuilder:rbac:groups=plangate.dev,resources=workspaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=plangate.dev,resources=workspaces/status,verbs=get;patch
// +kubebuilder:rbac:groups=plangate.dev,resources=workspaces/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io;"",resources=events,verbs=create;patch

// Reconcile brings one Workspace's pod to what its spec asks for.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ws := &v1alpha1.Workspace{}
	if err := r.client.Get(ctx, req.NamespacedName, ws); err != nil {
		if apierrors.IsNotFound(err) {
			after, err := r.sweep(ctx, req.NamespacedName)
			return ctrl.Result{RequeueAfter: after}, err
		}
		return ctrl.Result{}, err
	}
	deleting := !ws.DeletionTimestamp.IsZero()
	if !deleting {
		if err := apply.EnsureFinalizer(ctx, r.client, ws, v1alpha1.Finalizer); err != nil {
			return outcome.Result(outcome.Done(), 0, err)
		}
	}
	s := newScope(ws, r.now())
	steps := r.steps()
	if deleting {
		steps = r.deleteSteps()
	}
	stopped := outcome.Run(ctx, s, steps)
	if s.gone {
		r.agents.Forget(string(ws.UID), "")
		r.renewals.forget(ws.UID)
		return outcome.Result(stopped.Outcome, 0, nil)
	}
	writeErr := r.writeStatus(ctx, s, stopped)
	if stopped.Outcome.Kind == outcome.KindWait && stopped.Outcome.After == 0 {
		// A pod that never gets ready must not outlive its idle time.
		stopped.Outcome.After = s.lookAgain
	}
	return outcome.Result(stopped.Outcome, s.lookAgain, writeErr)
}

func (r *Reconciler) steps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepObserve, Run: r.observePod},
		{Name: stepCertificate, Run: r.ensureCertificate},
		{Name: stepPod, Run: r.ensurePod},
		{Name: stepAgent, Run: r.askAgent},
	}
}

func (r *Reconciler) deleteSteps() []outcome.Step[*scope] {
	return []outcome.Step[*scope]{
		{Name: stepObserve, Run: r.observePod},
		{Name: stepRelease, Run: r.release},
	}
}
