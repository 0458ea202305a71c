// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the Pulumi CLI: its own module has replace directives,
// so `go install …@version` refuses it.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
