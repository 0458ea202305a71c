// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/workspace"
)

// BenchmarkPreviewAfterAConfigChange compares a preview through the agent (call, reset of the checkout, configuration, state
// digest, Pulumi, journal, result) with a bare `pulumi preview --save-plan` of the same project. They alternate, so that the
// machine's load falls on both.
func BenchmarkPreviewAfterAConfigChange(b *testing.B) {
	for _, resources := range []int{1, 100} {
		b.Run(fmt.Sprintf("resources=%d", resources), func(b *testing.B) {
			r := newRig(b, nil)
			var yaml strings.Builder
			for i := range resources {
				fmt.Fprintf(&yaml, "  f%d:\n    type: files:File\n    properties: {path: DIR/out/f%d, content: \"${content}\"}\n", i, i)
			}
			commit := r.commit(map[string]string{"Pulumi.yaml": program(yaml.String())})
			first := r.preview(commit, config("content", "v0"))
			r.mustApply(commit, first, config("content", "v0"))
			bare, through := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
			for i := range b.N {
				value := fmt.Sprintf("v%d", i+1)
				bare = append(bare, r.barePreview(b, first.Salt, value))
				start := time.Now()
				op := r.operation(workspace.Preview, commit)
				config("content", value)(op)
				if got := r.run(op); got.Outcome != workspace.Succeeded || got.Steps.Total != resources {
					b.Fatalf("%+v", got)
				}
				through = append(through, time.Since(start))
			}
			b.ReportMetric(float64(median(bare).Milliseconds()), "bare-ms")
			b.ReportMetric(float64(median(through).Milliseconds()), "agent-ms")
			b.ReportMetric(float64(median(through))/float64(median(bare)), "ratio")
		})
	}
}

// BenchmarkDriftCheck compares a check for drift through the agent, reading and report included, with a bare `pulumi preview
// --refresh --save-plan` of the same stack, one after the other, and says how many checks a minute one workspace holds.
func BenchmarkDriftCheck(b *testing.B) {
	for _, resources := range []int{1, 100} {
		b.Run(fmt.Sprintf("resources=%d", resources), func(b *testing.B) {
			r := newRig(b, nil)
			var yaml strings.Builder
			for i := range resources {
				fmt.Fprintf(&yaml, "  f%d:\n    type: files:File\n    properties: {path: DIR/out/f%d, content: \"${content}\"}\n", i, i)
			}
			commit := r.commit(map[string]string{"Pulumi.yaml": program(yaml.String())})
			first := r.preview(commit, config("content", "v0"))
			r.mustApply(commit, first, config("content", "v0"))
			bare, through := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
			for range b.N {
				bare = append(bare, r.barePreview(b, first.Salt, "v0", "--refresh"))
				start := time.Now()
				if result, report := r.check(commit, config("content", "v0")); result.Outcome != workspace.Succeeded || report.Class != drift.None {
					b.Fatalf("%+v", result)
				}
				through = append(through, time.Since(start))
			}
			b.ReportMetric(float64(median(bare).Milliseconds()), "bare-ms")
			b.ReportMetric(float64(median(through).Milliseconds()), "check-ms")
			b.ReportMetric(float64(median(through))/float64(median(bare)), "ratio")
			b.ReportMetric(float64(time.Minute)/float64(median(through)), "checks/minute")
		})
	}
}

func (r *rig) barePreview(b *testing.B, salt, value string, flags ...string) time.Duration {
	b.Helper()
	file := r.file("bare.yaml")
	if err := os.WriteFile(file, []byte("encryptionsalt: "+salt+"\nconfig:\n  demo:content: "+value+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	args := append([]string{
		"preview", "-s", "organization/demo/dev", "--save-plan", r.file("bare.json"), "--config-file", file, "--non-interactive", "--color", "never",
	}, flags...)
	cmd := exec.Command(lookIn(r.path(), "pulumi"), args...)
	cmd.Dir = r.file("repo")
	cmd.Env = append(r.environ(), "PULUMI_BACKEND_URL=file://"+r.file("state"), "PULUMI_CONFIG_PASSPHRASE=correct horse",
		"PULUMI_HOME="+r.file("barehome"), "HOME="+r.file("barehome"), "PULUMI_SKIP_UPDATE_CHECK=true",
		"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	sorted := append([]time.Duration(nil), d...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i] < sorted[j] })
	return sorted[len(sorted)/2]
}
