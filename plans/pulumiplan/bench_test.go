// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"fmt"
	"testing"

	"github.com/plangate/plangate/tests/golden"
)

// BenchmarkDecode reads plans in which every resource is updated.
func BenchmarkDecode(b *testing.B) {
	eachSize(b, func(b *testing.B, n int, planFile, events []byte) {
		for b.Loop() {
			plan, err := Decode(planFile, events)
			if err != nil || len(plan.Changes) < n {
				b.Fatalf("%d changes, %v", len(plan.Changes), err)
			}
		}
	})
}

// BenchmarkStrip strips the same plans.
func BenchmarkStrip(b *testing.B) {
	eachSize(b, func(b *testing.B, _ int, planFile, _ []byte) {
		for b.Loop() {
			if _, err := Strip(planFile); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func eachSize(b *testing.B, run func(b *testing.B, n int, planFile, events []byte)) {
	for _, n := range []int{1, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			planFile, events := golden.Grow(b, testdata, n)
			b.SetBytes(int64(len(planFile) + len(events)))
			b.ReportAllocs()
			run(b, n, planFile, events)
		})
	}
}
