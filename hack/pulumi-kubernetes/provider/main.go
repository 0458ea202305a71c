// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command provider is Pulumi's Kubernetes provider. Upstream's own main package
// cannot be built from its module, which lacks the two files that it embeds;
// here the recipe makes them, with ../schema, and overlays them.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, terraformMapping)
}
