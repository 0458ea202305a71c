// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins Pulumi's YAML language host. It is a module of its own,
// because the host compiles only with the older pulumi/pkg that it requires.
package tools

import _ "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"
