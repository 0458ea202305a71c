// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// enforced is what was found last.
var enforced = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "plangate_admission_enforced",
	Help: "1 while the admission policies that vouch for approvals by annotation were last proven to be in force, 0 while they were not or it is not known. It is looked at while a plan waits.",
})

func init() { metrics.Registry.MustRegister(enforced) }
