// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pulumi-resource-files is a small provider for tests that needs no network: a File is a real file, a Token is a
// random word with a secret value. Files can be slow (delay), can fail (content FAIL), can wait (waitFor), drift when somebody
// edits them, cannot be read when they are made folders, and wait to be read while <file>.hold exists.
package main

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/provider"
	rpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

//go:embed schema.json
var schema string

// version is another one in builds for tests of upgrades.
var version = "0.1.0"

func main() {
	err := provider.Main("files", func(*provider.HostClient) (rpc.ResourceProviderServer, error) { return newFiles(), nil })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
