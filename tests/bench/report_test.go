// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// watchHeap samples the live and dead objects on the heap, in bytes, and returns a function that stops it and tells the most.
func watchHeap() func() uint64 {
	runtime.GC()
	stop, done := make(chan struct{}), make(chan struct{})
	var most uint64
	go func() {
		defer close(done)
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	stopped := false
	return func() uint64 {
		if !stopped {
			stopped = true
			close(stop)
			<-done
		}
		return most
	}
}

// table are the lines of the report.
var table []string

// report adds a line for docs/benchmarks.md, and what it is for each resource.
func report(b *testing.B, n int, w *way, peak uint64, planFile, events, rounds int) {
	b.Helper()
	if table == nil {
		table = []string{
			"| resources | plan file | events | stored | gzip | Secrets | changes | UpdatePlan | mask | decode | state | store | read | all, for each resource | peak heap |",
			"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
		}
	}
	line := fmt.Sprintf("| %d | %s | %s | %s | %s | %d | %s | %s |", n, size(planFile), size(events), size(w.sizes.stored), size(w.sizes.packed),
		w.sizes.chunks, size(w.sizes.changes), size(w.sizes.object))
	var all time.Duration
	for _, stage := range stages {
		took := w.took[stage] / time.Duration(rounds)
		all += took
		line += fmt.Sprintf(" %.1f ms |", float64(took.Microseconds())/1000)
	}
	line += fmt.Sprintf(" %.3f ms | %s |", float64(all.Microseconds())/1000/float64(n), size(int(peak))) //nolint:gosec // a size
	// The benchmark is called more than once: the last call counts.
	if last := len(table) - 1; strings.HasPrefix(table[last], fmt.Sprintf("| %d |", n)) {
		table[last] = line
		return
	}
	table = append(table, line)
}

func size(n int) string {
	switch {
	case n == 0:
		return "–"
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if table != nil {
		text := "A plan of n updated resources (BenchmarkPlan):\n\n" + strings.Join(table, "\n") + "\n"
		fmt.Print("\n" + text)
		if path := os.Getenv("PLANGATE_BENCH_REPORT"); path != "" {
			if f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600); err == nil { //nolint:gosec // G304: the caller's file
				_, _ = f.WriteString("\n" + text)
				_ = f.Close()
			}
		}
	}
	os.Exit(code)
}
