// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent is the process in the workspace pod.
//
//	agent install DIR   copies itself to DIR/agent and writes DIR/passwd and DIR/group (for an init container)
//	agent serve         runs the agent
//	agent check         says whether the agent on this machine is ready (for a probe)
package main

import (
	"errors"
	"fmt"
	"os"
)

// version is set at build time.
var version = "dev"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("one of install, serve, check is required")
	}
	switch args[0] {
	case "install":
		return install(args[1:])
	case "serve":
		return serve(args[1:])
	case "check":
		return check(args[1:])
	}
	return fmt.Errorf("%q is unknown: one of install, serve, check is required", args[0])
}
