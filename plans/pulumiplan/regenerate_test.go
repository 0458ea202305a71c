// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var regenerate = flag.Bool("regenerate", false, "run the real Pulumi CLI, from PATH, to make plan.json and events.ndjson anew")

const header = `name: demo
runtime: yaml
plugins:
  providers:
    - name: files
      path: %s
config:
  demo:dir: {type: string}
  demo:password: {type: string}
`

// TestRegenerate makes the golden plans anew and applies each of them, stripped, so that what Strip takes away is proved to
// be of no use to an apply:
//
//	PATH=$(hack/cache/path.sh pulumi pulumi-language-yaml):$PATH go test ./plans/pulumiplan -run TestRegenerate -regenerate
func TestRegenerate(t *testing.T) {
	if !*regenerate {
		t.Skip("without -regenerate")
	}
	lab := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(lab, "plugin", "pulumi-resource-files"), "../../tests/provider-files")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the provider: %v\n%s", err, out)
	}
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			dir, err := filepath.Abs(dir)
			if err != nil {
				t.Fatal(err)
			}
			newBench(t, lab, dir).run()
		})
	}
}

// bench runs the CLI for one case.
type bench struct {
	t                *testing.T
	lab, dir         string
	root, world, cwd string
	env              []string
}

func newBench(t *testing.T, lab, dir string) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{t: t, lab: lab, dir: dir, root: root, world: filepath.Join(root, "world"), cwd: filepath.Join(root, "project")}
	for _, d := range []string{b.world, b.cwd, filepath.Join(root, "state")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(os.Environ(),
		"PULUMI_BACKEND_URL=file://"+filepath.Join(root, "state"), "PULUMI_HOME="+filepath.Join(lab, "home"),
		"PULUMI_CONFIG_PASSPHRASE=pass", "PULUMI_SKIP_UPDATE_CHECK=true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true",
		"PULUMI_DEBUG_COMMANDS=true", "WORLD="+b.world)
	return b
}

func (b *bench) run() {
	b.program("after.yaml")
	b.must("pulumi", "stack", "init", "s1", "-Q")
	b.must("pulumi", "config", "set", "-s", "s1", "dir", b.world)
	b.must("pulumi", "config", "set", "-s", "s1", "--secret", "password", "canary-hunter2")
	if _, err := os.Stat(filepath.Join(b.dir, "before.yaml")); err == nil {
		b.program("before.yaml")
		b.must("pulumi", "up", "-s", "s1", "--yes", "--skip-preview", "--non-interactive")
	}
	if script, err := os.ReadFile(filepath.Join(b.dir, "drift.sh")); err == nil {
		b.must("sh", "-ec", string(script))
	}
	b.program("after.yaml")
	var flags []string
	if text, err := os.ReadFile(filepath.Join(b.dir, "flags")); err == nil {
		flags = strings.Fields(string(text))
	}
	plan, events := filepath.Join(b.root, "plan.json"), filepath.Join(b.root, "events.ndjson")
	b.must("pulumi", append([]string{"preview", "-s", "s1", "--non-interactive", "--save-plan", plan, "--event-log", events}, flags...)...)
	planFile, log := read(b.t, plan), read(b.t, events)
	b.write("plan.json", b.normalise(indented(b.t, planFile)))
	b.write("events.ndjson", b.normalise(withoutDiagnostics(b.t, log)))
	b.applies(planFile, flags)
}

// applies applies a stripped plan, and looks whether the world is then as the program wants it.
func (b *bench) applies(planFile []byte, flags []string) {
	stripped, err := Strip(planFile)
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.root, "stripped.json")
	if err := os.WriteFile(path, stripped, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.must("pulumi", append([]string{"up", "-s", "s1", "--yes", "--non-interactive", "--plan", path}, flags...)...)
	b.must("pulumi", append([]string{"preview", "-s", "s1", "--non-interactive", "--expect-no-changes"}, flags...)...)
}

func (b *bench) program(name string) {
	text := fmt.Sprintf(header, filepath.Join(b.lab, "plugin")) + strings.ReplaceAll(string(read(b.t, b.dir, name)), "$WORLD", b.world)
	if err := os.WriteFile(filepath.Join(b.cwd, "Pulumi.yaml"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) must(name string, args ...string) {
	b.t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = b.cwd, b.env
	if out, err := c.CombinedOutput(); err != nil {
		b.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func (b *bench) write(name string, text []byte) {
	if err := os.WriteFile(filepath.Join(b.dir, name), text, 0o644); err != nil { //nolint:gosec // a golden file
		b.t.Fatal(err)
	}
}

var volatile = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`"time": "[^"]*"`), `"time": "2026-01-01T00:00:00Z"`},
	{regexp.MustCompile(`"timestamp":\d+`), `"timestamp":0`},
	{regexp.MustCompile(`"durationSeconds":\d+`), `"durationSeconds":0`},
	{regexp.MustCompile(`"v1:[^"]*"`), `"v1:AAAAAAAAAAAAAAAA:AAAA"`},
	{regexp.MustCompile(`"seed": "[^"]*"`), `"seed": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`},
	{regexp.MustCompile(`"magic": "[^"]*"`), `"magic": "00"`},
	{regexp.MustCompile(`::[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}`), `::00000000-0000-4000-8000-000000000000`},
	{regexp.MustCompile(`"id":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}"`), `"id":"00000000-0000-4000-8000-000000000000"`},
	{regexp.MustCompile(`(tok|other)-[0-9a-f]{7}`), `$1-0000000`},
}

// normalise takes out what differs from run to run and means nothing.
func (b *bench) normalise(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte(b.root), []byte("/lab"))
	text = bytes.ReplaceAll(text, []byte(b.lab), []byte("/lab"))
	const unknown, kept = "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "<unknown>"
	text = bytes.ReplaceAll(text, []byte(unknown), []byte(kept))
	for _, v := range volatile {
		text = v.pattern.ReplaceAll(text, []byte(v.text))
	}
	return bytes.ReplaceAll(text, []byte(kept), []byte(unknown))
}

func indented(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func withoutDiagnostics(t *testing.T, log []byte) []byte {
	t.Helper()
	var out []byte
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte(`"diagnosticEvent"`)) {
			out = append(out, line...)
		}
	}
	return out
}
