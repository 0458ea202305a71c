// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"net/http"
	"time"
)

const healthAddress = "127.0.0.1:50052"

// check asks the agent on this machine whether it serves. The API itself answers only the operator.
func check(args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	address := flags.String("health-listen", env("health-listen", healthAddress), "address of /healthz")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client := &http.Client{Timeout: 3 * time.Second}
	r, err := client.Get("http://" + *address + "/healthz")
	if err != nil {
		return fmt.Errorf("checking agent: %w", err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("checking agent: status %d", r.StatusCode)
	}
	return nil
}
