// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
)

// BenchmarkLargePlan takes a change of n resources through the agent with the real Pulumi: preview, what the operator reads
// from it, and the apply of exactly that. The state of n resources is grown from a real one. Its sizes are 1, 100 and 1000, or
// those of PLANGATE_BENCH_SIZES ("10000").
//
// Pulumi writes its whole state after every step, so that an apply of n steps takes time in proportion to n². From
// 10,000 on the apply is measured with PULUMI_SKIP_CHECKPOINTS in the Stack's environment: the state is written once, at the end.
func BenchmarkLargePlan(b *testing.B) {
	for _, n := range largeSizes(b) {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			for range b.N {
				largePlan(b, n)
			}
		})
	}
}

func largeSizes(b *testing.B) []int {
	b.Helper()
	text := os.Getenv("PLANGATE_BENCH_SIZES")
	if text == "" {
		return []int{1, 100, 1000}
	}
	var sizes []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			b.Fatal(err)
		}
		sizes = append(sizes, n)
	}
	return sizes
}

func largePlan(b *testing.B, n int) {
	b.Helper()
	r := newRig(b, nil)
	var yaml strings.Builder
	for i := range n {
		fmt.Fprintf(&yaml, "  f%d:\n    type: files:File\n    properties: {path: DIR/out/f%d, content: \"${content}\"}\n", i, i)
	}
	first := r.commit(map[string]string{"Pulumi.yaml": program("\n  f0:\n    type: files:File\n    properties: {path: DIR/out/f0, content: \"${content}\"}\n")})
	r.mustApply(first, r.preview(first, config("content", "old")), config("content", "old"))
	r.growState(n)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(yaml.String())})
	change := func(op *workspace.Operation) {
		config("content", "new")(op)
		if n >= 10000 {
			op.Env["PULUMI_SKIP_CHECKPOINTS"] = "true"
		}
	}
	peak := heapPeak()
	start := time.Now()
	preview := r.patiently(r.operation(workspace.Preview, commit), change)
	previewed := time.Since(start)
	start = time.Now()
	stored, err := pulumiplan.Strip(preview.Plan)
	if err != nil {
		b.Fatal(err)
	}
	plan, err := pulumiplan.Decode(stored, preview.Events)
	if err != nil || int(plan.Summary.Update) != n {
		b.Fatalf("%+v, %v", plan.Summary, err)
	}
	decoded := time.Since(start)
	sizes := []int{len(preview.Plan), len(stored), len(preview.Events)}
	preview.Plan, preview.Events = stored, nil
	start = time.Now()
	applied := r.patiently(r.apply(commit, preview), change)
	if applied.Steps != (workspace.Steps{Done: n, Total: n}) || r.content(fmt.Sprintf("f%d", n-1)) != "new" {
		b.Fatalf("%+v", applied.Steps)
	}
	for name, v := range map[string]float64{
		"preview-ms": float64(previewed.Milliseconds()), "decode-ms": float64(decoded.Milliseconds()), "apply-ms": float64(time.Since(start).Milliseconds()),
		"preview-ms/resource": float64(previewed.Milliseconds()) / float64(n), "apply-ms/resource": float64(time.Since(start).Milliseconds()) / float64(n),
		"plan-KiB": float64(sizes[0]) / 1024, "stored-KiB": float64(sizes[1]) / 1024, "events-KiB": float64(sizes[2]) / 1024, "peak-heap-MiB": float64(peak()) / (1 << 20),
	} {
		b.ReportMetric(v, name)
	}
}

// patiently runs an operation that may take long, and that must succeed.
func (r *rig) patiently(op *workspace.Operation, change func(*workspace.Operation)) *workspace.Result {
	r.t.Helper()
	change(op)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := r.client.Start(ctx, op); err != nil {
		r.t.Fatal(err)
	}
	result := r.wait(ctx, op.ID)
	if result.Outcome != workspace.Succeeded {
		r.t.Fatalf("%s: %s %s: %s\n%s", op.Type, result.Outcome, result.Reason, result.Message, result.LogTail)
	}
	return result
}

// growState makes n resources, and their files, of the one file f0.
func (r *rig) growState(n int) {
	r.t.Helper()
	path := r.file("state", ".pulumi", "stacks", "demo", "dev.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(raw, &state); err != nil {
		r.t.Fatal(err)
	}
	latest := state["checkpoint"].(map[string]any)["latest"].(map[string]any)
	resources := latest["resources"].([]any)
	for _, one := range resources {
		text, err := json.Marshal(one)
		if err != nil {
			r.t.Fatal(err)
		}
		if !strings.Contains(string(text), "File::f0") {
			continue
		}
		for i := 1; i < n; i++ {
			var more any
			name := fmt.Sprintf("f%d", i)
			if err := json.Unmarshal([]byte(strings.NewReplacer("File::f0", "File::"+name, "/out/f0", "/out/"+name).Replace(string(text))), &more); err != nil {
				r.t.Fatal(err)
			}
			resources = append(resources, more)
			r.write("out/"+name, "old")
		}
	}
	latest["resources"] = resources
	if raw, err = json.Marshal(state); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// heapPeak watches the heap of the agent and its client, which share this process, and returns what it was at most.
func heapPeak() func() uint64 {
	runtime.GC()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}
