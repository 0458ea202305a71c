// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plangate/plangate/tests/golden"
)

var regenerate = flag.Bool("regenerate", false, "run the real Pulumi CLI, from PATH, to make plan.json and events.ndjson anew")

// TestRegenerate makes the golden plans anew with the real CLI, and applies each of them after Strip: the proof that what
// Strip takes away is of no use to an apply.
func TestRegenerate(t *testing.T) {
	if !*regenerate {
		t.Skip("without -regenerate")
	}
	lab := t.TempDir()
	for dir, version := range map[string]string{"plugin": "0.1.0", "plugin-0.1.0": "0.1.0", "plugin-0.2.0": "0.2.0"} {
		if err := golden.Build("../..", filepath.Join(lab, dir), version); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range golden.Cases(t, testdata) {
		t.Run(c.Name, func(t *testing.T) { newBench(t, lab, &c).run() })
	}
}

// bench is a folder in which one case is played.
type bench struct {
	*golden.Case
	t                      *testing.T
	lab, root, world, home string
	env                    []string
}

func newBench(t *testing.T, lab string, c *golden.Case) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{t: t, Case: c, lab: lab, root: root, world: filepath.Join(root, "world"), home: filepath.Join(root, "home")}
	for _, d := range []string{b.world, b.home, filepath.Join(root, "project"), filepath.Join(root, "state")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(os.Environ(),
		"PULUMI_BACKEND_URL=file://"+filepath.Join(root, "state"), "PULUMI_HOME="+b.home,
		"PULUMI_CONFIG_PASSPHRASE=pass", "PULUMI_SKIP_UPDATE_CHECK=true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true",
		"PULUMI_DEBUG_COMMANDS=true")
	return b
}

func (b *bench) run() {
	golden.Run(b.t, b.Setup, b.world)
	b.install(b.PluginsBefore)
	b.program(b.After)
	b.init(golden.Stack)
	if b.Base != "" {
		b.program(b.Base)
		b.init("base")
		b.must("up", "-s", "base", "--yes", "--skip-preview")
	}
	if b.Before != "" {
		b.program(b.Before)
		b.must("up", "-s", golden.Stack, "--yes", "--skip-preview")
	}
	golden.Run(b.t, b.Drift, b.world)
	b.install(b.PluginsAfter)
	b.program(b.After)
	plan, events := filepath.Join(b.root, "plan.json"), filepath.Join(b.root, "events.ndjson")
	preview := append([]string{"preview", "-s", golden.Stack, "--save-plan", plan, "--event-log", events}, b.Flags()...)
	if len(b.Fails) > 0 {
		b.fails(b.Fails, preview...)
		return
	}
	b.must(preview...)
	planFile := read(b.t, plan)
	b.write("plan.json", golden.Normalise(indented(b.t, planFile), b.root, b.lab))
	b.write("events.ndjson", golden.Normalise(withoutDiagnostics(read(b.t, events)), b.root, b.lab))
	b.applies(planFile)
}

// applies applies the stripped plan; then there is nothing left to do. A plan that Pulumi refuses is refused.
func (b *bench) applies(planFile []byte) {
	stripped, err := Strip(planFile)
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.root, "stripped.json")
	if err := os.WriteFile(path, stripped, 0o600); err != nil {
		b.t.Fatal(err)
	}
	golden.Run(b.t, b.Between, b.world)
	up := append([]string{"up", "-s", golden.Stack, "--yes", "--plan", path}, b.Flags()...)
	if len(b.Refused) > 0 {
		b.fails(nil, up...) // what is said is a matter of the agent: see workspace/agent
		return
	}
	b.must(up...)
	b.must(append([]string{"preview", "-s", golden.Stack, "--expect-no-changes"}, b.Flags()...)...)
}

func (b *bench) install(versions []string) {
	for _, v := range versions {
		dir := golden.PluginDir(b.home, v)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pulumi-resource-files"), read(b.t, b.lab, "plugin-"+v, "pulumi-resource-files"), 0o700); err != nil { //nolint:gosec // G306: a program
			b.t.Fatal(err)
		}
	}
}

func (b *bench) init(stack string) {
	b.must("stack", "init", stack)
	b.must("config", "set", "-s", stack, "dir", b.world)
	b.must("config", "set", "-s", stack, "--secret", "password", golden.Secret)
}

func (b *bench) program(text string) {
	plugin := ""
	if len(b.PluginsBefore) == 0 {
		plugin = filepath.Join(b.lab, "plugin")
	}
	if err := os.WriteFile(filepath.Join(b.root, "project", "Pulumi.yaml"), []byte(golden.Program(text, b.world, plugin)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) call(args ...string) (string, error) {
	c := exec.Command("pulumi", append(args, "--non-interactive")...) //nolint:gosec // G204: the CLI
	c.Dir, c.Env = filepath.Join(b.root, "project"), b.env
	out, err := c.CombinedOutput()
	return string(out), err
}

func (b *bench) must(args ...string) {
	b.t.Helper()
	if out, err := b.call(args...); err != nil {
		b.t.Fatalf("pulumi %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (b *bench) fails(words []string, args ...string) {
	b.t.Helper()
	out, err := b.call(args...)
	if err == nil {
		b.t.Fatalf("pulumi %s: it should fail\n%s", strings.Join(args, " "), out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			b.t.Errorf("pulumi %s: it should say %q\n%s", strings.Join(args, " "), w, out)
		}
	}
}

func (b *bench) write(name string, text []byte) {
	if err := os.WriteFile(filepath.Join(b.Dir, name), text, 0o644); err != nil { //nolint:gosec // a golden file
		b.t.Fatal(err)
	}
}

func indented(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// withoutDiagnostics drops what is not read and differs between runs.
func withoutDiagnostics(log []byte) []byte {
	var out []byte
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte(`"diagnosticEvent"`)) {
			out = append(out, line...)
		}
	}
	return out
}
