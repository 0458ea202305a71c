//go:build tools

// Package tools pins Pulumi's Kubernetes provider. Upstream tags only its SDK,
// so the provider's module is taken at the pseudo-version of release v4.24.1.
package tools

import _ "github.com/pulumi/pulumi-kubernetes/provider/v4/cmd/pulumi-resource-kubernetes"
