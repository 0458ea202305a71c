// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
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
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			planFile, events := grown(b, n)
			b.SetBytes(int64(len(planFile) + len(events)))
			b.ReportAllocs()
			run(b, n, planFile, events)
		})
	}
}

// grown is a golden plan, of the real CLI, with one of its resources n times.
func grown(b *testing.B, n int) (planFile, events []byte) {
	b.Helper()
	const one = "urn:pulumi:s1::demo::files:index:File::one"
	dir := filepath.Join(golden, "update")
	var plan map[string]json.RawMessage
	var resources map[string]json.RawMessage
	if err := json.Unmarshal(read(b, dir, "plan.json"), &plan); err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(plan["resourcePlans"], &resources); err != nil {
		b.Fatal(err)
	}
	copyOf := func(text []byte, i int) []byte {
		text = bytes.ReplaceAll(text, []byte(one+`"`), fmt.Appendf(nil, `%s%d"`, one, i))
		return bytes.ReplaceAll(text, []byte(`"name": "one"`), fmt.Appendf(nil, `"name": "one%d"`, i))
	}
	text := resources[one]
	for i := 1; i < n; i++ {
		resources[fmt.Sprintf("%s%d", one, i)] = copyOf(text, i)
	}
	for line := range bytes.Lines(read(b, dir, "events.ndjson")) {
		events = append(events, line...)
		for i := 1; i < n && bytes.Contains(line, []byte(`"metadata":{"op":"update","urn":"`+one+`"`)); i++ {
			events = append(events, copyOf(line, i)...)
		}
	}
	var err error
	if plan["resourcePlans"], err = json.Marshal(resources); err != nil {
		b.Fatal(err)
	}
	if planFile, err = json.Marshal(plan); err != nil {
		b.Fatal(err)
	}
	return planFile, events
}
