// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests holds the admission policies as they are installed, for the operator to compare with what is in force.
package manifests

import _ "embed" // the manifests are part of the binary

// UpdatePlans are the ValidatingAdmissionPolicy of UpdatePlans and its binding, as YAML.
//
//go:embed updateplans.yaml
var UpdatePlans []byte
