// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds what the operator can be told at its start, with defaults and checks.
package options

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// Options are the operator's settings.
type Options struct {
	// Namespace is where the operator runs and keeps its certificate authority.
	Namespace string
	// ManagerImage is the operator's own image, whose agent is put into workspace pods.
	ManagerImage string
	// WorkspaceImage is the image of workspace pods that name none.
	WorkspaceImage string
	// WorkspaceIdleTimeout is how long a workspace pod is kept after it was last needed. 0: for ever.
	WorkspaceIdleTimeout time.Duration
	// SourcePollInterval is how often a repository is asked for new commits.
	SourcePollInterval time.Duration
	// SettleTime is for how long nothing that a plan is made from may have moved when it is published.
	SettleTime time.Duration
	// StateCheckInterval is how often Pulumi's state is looked at while a plan waits. 0: never.
	StateCheckInterval time.Duration
	// PlanTimeToLive is how long a plan may wait for approval and apply.
	PlanTimeToLive time.Duration
	// RetryInterval is the first pause after a failed preview; it doubles up to RetryMaxInterval.
	RetryInterval    time.Duration
	RetryMaxInterval time.Duration
	// CertificateLifetime is how long the certificates of agents and operator are valid.
	CertificateLifetime time.Duration
	// Concurrency is how many objects of a kind are worked on at the same time.
	Concurrency int
	// MetricsAddress is where metrics are served. "0": nowhere.
	MetricsAddress string
	// ProbeAddress is where health is served.
	ProbeAddress string
	// LeaderElection lets several replicas run, one of which works.
	LeaderElection bool
	// AuditLog is where the ends of plans are written to: "-" for standard output, or the path of a file.
	AuditLog string
	// LogLevel is the verbosity: 0 state changes, 1 decisions, 4 detail.
	LogLevel int
}

// Bind binds the options to flags.
func (o *Options) Bind(f *flag.FlagSet) {
	f.StringVar(&o.Namespace, "namespace", "plangate-system", "namespace of the operator and of its certificate authority")
	f.StringVar(&o.ManagerImage, "manager-image", "", "image of the operator, whose agent is put into workspace pods (required)")
	f.StringVar(&o.WorkspaceImage, "workspace-image", "docker.io/pulumi/pulumi:3.276.0-nonroot", "image of workspace pods that name none")
	f.DurationVar(&o.WorkspaceIdleTimeout, "workspace-idle-timeout", 15*time.Minute, "how long a workspace pod is kept after it was last needed; 0 keeps it for ever")
	f.DurationVar(&o.SourcePollInterval, "source-poll-interval", time.Minute, "how often a repository is asked for new commits")
	f.DurationVar(&o.PlanTimeToLive, "plan-ttl", 24*time.Hour, "how long a plan may wait for its approval and apply, unless its Stack says")
	f.DurationVar(&o.SettleTime, "settle-time", time.Second, "for how long nothing that a plan is made from may have moved when it is published; a preview that takes longer waits for nothing; 0 publishes at once")
	f.DurationVar(&o.StateCheckInterval, "state-check-interval", 10*time.Minute, "how often Pulumi's state is looked at while a plan waits and its workspace is up; 0 for never")
	f.DurationVar(&o.RetryInterval, "retry-interval", 10*time.Second, "first pause after a failed preview; it doubles each time")
	f.DurationVar(&o.RetryMaxInterval, "retry-max-interval", 10*time.Minute, "longest pause after a failed preview")
	f.DurationVar(&o.CertificateLifetime, "certificate-lifetime", 30*24*time.Hour, "how long the certificates between operator and workspaces are valid; renewed after two thirds")
	f.IntVar(&o.Concurrency, "concurrency", 10, "objects of a kind that are worked on at the same time")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8080", "where metrics are served; 0 for nowhere")
	f.StringVar(&o.ProbeAddress, "probe-address", ":8081", "where health is served")
	f.BoolVar(&o.LeaderElection, "leader-elect", true, "let several replicas run, one of which works")
	f.StringVar(&o.AuditLog, "audit-log", "-", "where a line of JSON goes for each plan that ends: - for standard output (the log itself goes to standard error), or a file to append to")
	f.IntVar(&o.LogLevel, "v", 0, "log verbosity: 0 state changes, 1 decisions, 4 detail")
}

// Validate names the first option that cannot be used.
func (o *Options) Validate() error {
	if o.ManagerImage == "" {
		return errors.New("--manager-image is required: it is the image that workspace pods take the agent from")
	}
	if o.WorkspaceImage == "" {
		return errors.New("--workspace-image may not be empty")
	}
	for name, d := range map[string]time.Duration{
		"--source-poll-interval": o.SourcePollInterval, "--plan-ttl": o.PlanTimeToLive, "--retry-interval": o.RetryInterval,
		"--retry-max-interval": o.RetryMaxInterval,
	} {
		if d < time.Second {
			return fmt.Errorf("%s is %s: it must be at least 1s", name, d)
		}
	}
	if o.AuditLog == "" {
		return errors.New("--audit-log may not be empty: - is standard output")
	}
	return o.validateTimes()
}

func (o *Options) validateTimes() error {
	if o.CertificateLifetime < time.Minute {
		return fmt.Errorf("--certificate-lifetime is %s: it must be at least 1m", o.CertificateLifetime)
	}
	if o.SettleTime < 0 || o.SettleTime > time.Minute {
		return fmt.Errorf("--settle-time is %s: it must be from 0 to 1m", o.SettleTime)
	}
	if o.StateCheckInterval < 0 || o.StateCheckInterval > 0 && o.StateCheckInterval < 10*time.Second {
		return fmt.Errorf("--state-check-interval is %s: it must be 0 or at least 10s", o.StateCheckInterval)
	}
	if o.WorkspaceIdleTimeout < 0 {
		return fmt.Errorf("--workspace-idle-timeout is %s: it may not be negative", o.WorkspaceIdleTimeout)
	}
	if o.Concurrency < 1 {
		return fmt.Errorf("--concurrency is %d: it must be at least 1", o.Concurrency)
	}
	return nil
}
