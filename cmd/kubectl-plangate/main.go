// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// The kubectl plugin: put it on the PATH as kubectl-plangate, and `kubectl plangate` runs it. A thin shell around pkg/cli.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plangate/plangate/pkg/cli"
)

func main() {
	if err := cli.Run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl plangate:", err)
		os.Exit(1)
	}
}
