// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// controlplane runs etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in one process: half the memory of four, and ready sooner.
//
//	controlplane ARGSFILE
//
// Each line of ARGSFILE is a component and one argument for it:
//
//	etcd DIR | apiserver FLAG | controller-manager FLAG | scheduler FLAG | hostpath DIR
//
// Upstream's cobra commands cannot share a process, for each sets up the signal
// handler, which panics the second time. So this fills their options from the
// flags and calls each one's exported Run.
func controlplane() int {
	if len(os.Args) != 2 {
		log.Print("usage: controlplane ARGSFILE")
		return 2
	}
	args, err := readArgs(os.Args[1])
	if err != nil {
		log.Print(err)
		return 1
	}
	// The components share one logging set-up; only the first may apply it.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	etcd, err := startEtcd(args["etcd"])
	if err != nil {
		log.Printf("Starting etcd: %v", err)
		return 1
	}
	defer etcd.Close()

	ended := make(chan error, 4)
	start := func(name string, run func(context.Context, []string) error) {
		go func() { ended <- fmt.Errorf("%s ended: %w", name, run(ctx, args[name])) }()
	}
	start("apiserver", runAPIServer)
	start("controller-manager", runControllerManager)
	start("scheduler", runScheduler)
	if len(args["hostpath"]) > 0 {
		start("hostpath", openHostPaths)
	}
	select {
	case err := <-ended:
		log.Print(err)
		return 1
	case <-ctx.Done():
		time.Sleep(time.Second) // the components stop by the same context
		return 0
	}
}

func readArgs(path string) (map[string][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	args := map[string][]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if component, arg, ok := strings.Cut(strings.TrimSpace(lines.Text()), " "); ok {
			args[component] = append(args[component], arg)
		}
	}
	return args, lines.Err()
}

func startEtcd(args []string) (*embed.Etcd, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("want one data directory, got %q", args)
	}
	client := url.URL{Scheme: "http", Host: "127.0.0.1:2379"}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg := embed.NewConfig()
	cfg.Dir = args[0]
	cfg.UnsafeNoFsync = true // nothing here outlives the machine
	cfg.LogLevel = "warn"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case <-time.After(time.Minute):
		etcd.Close()
		return nil, fmt.Errorf("not ready after a minute")
	}
}

func runAPIServer(ctx context.Context, args []string) error {
	options := apiserveroptions.NewServerRunOptions()
	if err := parse("apiserver", options.Flags(), args); err != nil {
		return err
	}
	if err := options.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return err
	}
	if err := utilerrors.NewAggregate(completed.Validate()); err != nil {
		return err
	}
	return apiserver.Run(ctx, completed)
}

func runControllerManager(ctx context.Context, args []string) error {
	options, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, off, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	if err := parse("controller-manager", options.Flags(known, off, aliases), args); err != nil {
		return err
	}
	return whenServing(ctx, func() (func() error, error) {
		config, err := options.Config(ctx, known, off, aliases)
		if err != nil {
			return nil, err
		}
		return func() error { return controllermanager.Run(ctx, config.Complete()) }, nil
	})
}

func runScheduler(ctx context.Context, args []string) error {
	options := scheduleroptions.NewOptions()
	if err := parse("scheduler", *options.Flags, args); err != nil {
		return err
	}
	return whenServing(ctx, func() (func() error, error) {
		config, sched, err := scheduler.Setup(ctx, options)
		if err != nil {
			return nil, err
		}
		return func() error { return scheduler.Run(ctx, config, sched) }, nil
	})
}

// whenServing repeats a set-up that needs the API server until it works, for
// two minutes at most, and then runs what it returned.
func whenServing(ctx context.Context, setup func() (func() error, error)) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		run, err := setup()
		if err == nil {
			return run()
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// openHostPaths lets every user write to the volumes that the controller
// manager's host path provisioner makes: it makes them for root alone, and the
// kubelet does not apply a pod's fsGroup to host paths.
func openHostPaths(ctx context.Context, args []string) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	for _, dir := range args {
		if err := watcher.Add(dir); err != nil {
			return fmt.Errorf("watching %q: %w", dir, err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-watcher.Errors:
			return err
		case event := <-watcher.Events:
			if !event.Has(fsnotify.Create) {
				continue
			}
			if err := os.Chmod(event.Name, 0o777); err != nil {
				log.Printf("Opening volume %s: %v", filepath.Base(event.Name), err)
			}
		}
	}
}

func parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}
