// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentpb is the wire form of the agent's API, generated from agent.proto by generate.sh.
package agentpb

//go:generate bash generate.sh
