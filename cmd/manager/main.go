// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// The manager is the operator: it watches Stacks, UpdatePlans and Workspaces. This file turns flags into options, options
// into controllers, and starts them; it decides nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/admission"
	"github.com/plangate/plangate/pkg/audit"
	"github.com/plangate/plangate/pkg/controller/approvalpolicy"
	"github.com/plangate/plangate/pkg/controller/stack"
	"github.com/plangate/plangate/pkg/controller/updateplan"
	"github.com/plangate/plangate/pkg/controller/workspace"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/options"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/source"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run() error {
	o := options.Options{}
	// A set of our own: libraries put flags of theirs into the common one.
	flags := flag.NewFlagSet("manager", flag.ExitOnError)
	o.Bind(flags)
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	level := zap.NewProductionConfig()
	level.Level = zap.NewAtomicLevelAt(zapcore.Level(-o.LogLevel)) //nolint:gosec // a small number
	level.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	logger, err := level.Build()
	if err != nil {
		return fmt.Errorf("building the logger: %w", err)
	}
	ctrl.SetLogger(zapr.NewLogger(logger))
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := addControllers(ctx, mgr, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o options.Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:  o.ProbeAddress,
		LeaderElection:          o.LeaderElection,
		LeaderElectionID:        "plangate-manager",
		LeaderElectionNamespace: o.Namespace,
		// The lease goes back at once, so that a restart costs no time. Nothing here outlives the manager's context.
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: operations.PodSelector()},
		}},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.ConfigMap{}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

func addControllers(ctx context.Context, mgr ctrl.Manager, o options.Options) error {
	// The cache is not running yet: what is needed now is read directly.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	system := &corev1.Namespace{}
	if err := direct.Get(ctx, client.ObjectKey{Name: "kube-system"}, system); err != nil {
		return fmt.Errorf("reading the id of the cluster: %w", err)
	}
	authority, err := operations.LoadAuthority(ctx, direct, direct, o.Namespace, o.CertificateLifetime)
	if err != nil {
		return err
	}
	agents := operations.New(authority, ctrl.Log.WithName("operations"))
	sources := source.NewResolver(o.SourcePollInterval / 2)
	c, uncached := mgr.GetClient(), mgr.GetAPIReader()
	in, store := inputs.New(c, uncached), planstore.New(c, uncached)
	cluster := string(system.UID)
	workspaces := workspace.New(c, uncached, agents, authority, mgr.GetEventRecorder("plangate-workspace"), workspace.Settings{
		ManagerImage: o.ManagerImage, WorkspaceImage: o.WorkspaceImage, IdleTimeout: o.WorkspaceIdleTimeout,
	})
	stacks := stack.New(c, uncached, agents, sources, in, store, mgr.GetEventRecorder("plangate-stack"), stack.Settings{
		Cluster: cluster, PollInterval: o.SourcePollInterval, PlanTimeToLive: o.PlanTimeToLive,
		SettleTime: o.SettleTime, RetryInterval: o.RetryInterval, RetryMaxInterval: o.RetryMaxInterval,
	})
	log, err := audit.Open(o.AuditLog, cluster)
	if err != nil {
		return err
	}
	settings := updateplan.Settings{Cluster: cluster, Audit: log, StateCheckInterval: o.StateCheckInterval, Admission: admission.New(c, uncached, nil)}
	plans := updateplan.New(c, uncached, agents, sources, in, store, mgr.GetEventRecorder("plangate-updateplan"), settings)
	return errors.Join(workspaces.Setup(mgr, o.Concurrency), approvalpolicy.Setup(mgr, o.Concurrency),
		stacks.Setup(ctx, mgr, o.Concurrency), plans.Setup(ctx, mgr, o.Concurrency))
}
