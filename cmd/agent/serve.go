// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/plangate/plangate/workspace/agent"
	"github.com/plangate/plangate/workspace/agent/agentpb"
)

type options struct {
	listen, health, tlsDir, workDir, podUID string
	requireSigners                          string
	grace                                   time.Duration
	allowFileSources                        bool
}

// env is a flag's default: PLANGATE_POD_UID for --pod-uid.
func env(name, otherwise string) string {
	if v := os.Getenv("PLANGATE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); v != "" {
		return v
	}
	return otherwise
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", env("listen", ":50051"), "address of the API")
	flags.StringVar(&o.health, "health-listen", env("health-listen", healthAddress), "address of /healthz, plain HTTP; keep it on loopback")
	flags.StringVar(&o.tlsDir, "tls-dir", env("tls-dir", "/var/run/plangate/tls"), "folder with tls.crt, tls.key and ca.crt")
	flags.StringVar(&o.workDir, "work-dir", env("work-dir", "/work"), "folder for all that is written")
	flags.StringVar(&o.podUID, "pod-uid", env("pod-uid", ""), "UID of the pod; required")
	flags.StringVar(&o.requireSigners, "require-signers", env("require-signers", ""), "file with trusted signers, one of whom must have signed what is applied; empty: none is required")
	flags.DurationVar(&o.grace, "grace", graceDefault(), "how long a stopped Pulumi may take to end in order; less than the pod's grace period")
	flags.BoolVar(&o.allowFileSources, "allow-file-sources", env("allow-file-sources", "") == "true", "allow file:// repositories (tests only)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.podUID == "" {
		return o, errors.New("serve: --pod-uid is required")
	}
	return o, nil
}

func graceDefault() time.Duration {
	if d, err := time.ParseDuration(env("grace", "")); err == nil {
		return d
	}
	return time.Minute
}

// pluginDirs are where images keep the plugins that they come with.
func pluginDirs() []string {
	homes := []string{"/home/pulumi/.pulumi", "/root/.pulumi", filepath.Join(os.Getenv("HOME"), ".pulumi"), os.Getenv("PULUMI_HOME")}
	var dirs []string
	for _, home := range homes {
		if filepath.IsAbs(home) {
			dirs = append(dirs, filepath.Join(home, "plugins"))
		}
	}
	return dirs
}

func serve(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if os.Getpid() == 1 {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("starting agent: %w", err)
		}
		return beInit(self, os.Args)
	}
	zapLog, err := zap.NewProduction()
	if err != nil {
		return fmt.Errorf("making logger: %w", err)
	}
	defer func() { _ = zapLog.Sync() }()
	log := zapr.NewLogger(zapLog)
	server, err := agent.New(agent.Config{
		PodUID: o.podUID, Version: version, WorkDir: o.workDir, Grace: o.grace, PluginDirs: pluginDirs(),
		RequireSigners: o.requireSigners, AllowFileSources: o.allowFileSources, Log: log,
	})
	if err != nil {
		return err
	}
	tlsConfig, err := agent.TLSConfig(o.tlsDir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return listenAndServe(ctx, o, server, log, grpc.NewServer(
		grpc.Creds(credentials.NewTLS(tlsConfig)),
		grpc.MaxRecvMsgSize(16<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true})))
}

func listenAndServe(ctx context.Context, o options, server *agent.Server, log logr.Logger, g *grpc.Server) error {
	agentpb.RegisterAgentServer(g, server)
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listening on %q: %w", o.listen, err)
	}
	health, err := net.Listen("tcp", o.health)
	if err != nil {
		return fmt.Errorf("listening on %q: %w", o.health, err)
	}
	go func() { _ = (&http.Server{Handler: healthz(), ReadHeaderTimeout: 5 * time.Second}).Serve(health) }()
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(l) }()
	log.Info("Serving", "address", l.Addr().String(), "version", version)
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	// Results can still be read while the operation stops.
	stopping, cancel := context.WithTimeout(context.Background(), o.grace+10*time.Second)
	defer cancel()
	err = server.Shutdown(stopping)
	g.Stop()
	return err
}

func healthz() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	return mux
}
