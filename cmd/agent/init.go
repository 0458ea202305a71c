// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// beInit is process 1 of the container: it runs the agent as a child, passes signals on, and reaps every process that lost
// its parent. The agent itself must not: it would take the exit codes that its own calls wait for.
func beInit(program string, argv []string) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	child, err := os.StartProcess(program, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}) //nolint:gosec // G702: this binary, with its own arguments
	if err != nil {
		return fmt.Errorf("starting agent: %w", err)
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for agent: %w", err)
		case pid == child.Pid && status.Signaled():
			os.Exit(128 + int(status.Signal()))
		case pid == child.Pid:
			os.Exit(status.ExitStatus())
		}
	}
}
