// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package live_test

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

var regenerate = flag.Bool("regenerate", false, "run the real Pulumi CLI, from PATH, to make events and plans anew")

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

// TestRegenerate makes the golden looks anew; see tests/testdata/drift/README.md. Those of the kubernetes provider need KUBECONFIG.
func TestRegenerate(t *testing.T) {
	if !*regenerate {
		t.Skip("without -regenerate")
	}
	lab := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(lab, "plugin", "pulumi-resource-files"), "../../../tests/provider-files")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the provider: %v\n%s", err, out)
	}
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if strings.HasPrefix(filepath.Base(dir), "kubernetes-") && os.Getenv("KUBECONFIG") == "" {
				t.Skip("without KUBECONFIG")
			}
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
	t                           *testing.T
	lab, dir                    string
	root, world, cwd, namespace string
	env                         []string
}

func newBench(t *testing.T, lab, dir string) *bench {
	t.Helper()
	root := t.TempDir()
	b := &bench{t: t, lab: lab, dir: dir, root: root, world: filepath.Join(root, "world"), cwd: filepath.Join(root, "project"), namespace: filepath.Base(dir)}
	for _, d := range []string{b.world, b.cwd, filepath.Join(root, "state")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(os.Environ(),
		"PULUMI_BACKEND_URL=file://"+filepath.Join(root, "state"), "PULUMI_HOME="+filepath.Join(lab, "home"),
		"PULUMI_CONFIG_PASSPHRASE=pass", "PULUMI_SKIP_UPDATE_CHECK=true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true",
		"PULUMI_DEBUG_COMMANDS=true", "WORLD="+b.world, "NAMESPACE="+b.namespace)
	return b
}

func (b *bench) run() {
	if strings.HasPrefix(b.namespace, "kubernetes-") {
		b.must("kubectl", "create", "namespace", b.namespace)
		b.t.Cleanup(func() { b.must("kubectl", "delete", "namespace", b.namespace, "--wait=false") })
	}
	b.program("before.yaml")
	b.must("pulumi", "stack", "init", "s1", "-Q")
	b.must("pulumi", "config", "set", "-s", "s1", "dir", b.world)
	b.must("pulumi", "config", "set", "-s", "s1", "--secret", "password", "canary-hunter2")
	b.must("pulumi", "up", "-s", "s1", "--yes", "--skip-preview", "--non-interactive")
	b.must("sh", "-ec", string(read(b.t, b.dir, "drift.sh")))
	if _, err := os.Stat(filepath.Join(b.dir, "after.yaml")); err == nil {
		b.program("after.yaml")
	}
	plan, events := filepath.Join(b.root, "plan.json"), filepath.Join(b.root, "events.ndjson")
	out, err := b.command("pulumi", "preview", "-s", "s1", "--non-interactive", "--color", "never", "--refresh", "--save-plan", plan, "--event-log", events).CombinedOutput()
	for _, name := range []string{"plan.json", "failure.txt"} {
		_ = os.Remove(filepath.Join(b.dir, name))
	}
	if err != nil {
		b.t.Logf("the preview failed, which may be the point:\n%s", out)
		b.write("failure.txt", b.normalise(out))
	} else {
		var indented bytes.Buffer
		if err := json.Indent(&indented, read(b.t, plan), "", "  "); err != nil {
			b.t.Fatal(err)
		}
		b.write("plan.json", b.normalise(indented.Bytes()))
	}
	b.write("events.ndjson", b.normalise(read(b.t, events)))
}

func (b *bench) program(name string) {
	text := string(read(b.t, b.dir, name))
	image := os.Getenv("IMAGE")
	text = strings.NewReplacer("NAMESPACE", b.namespace, "IMAGE", image).Replace(text)
	if err := os.WriteFile(filepath.Join(b.cwd, "Pulumi.yaml"), []byte(fmt.Sprintf(header, filepath.Join(b.lab, "plugin"))+text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...) //nolint:gosec // the tests' own commands
	c.Dir, c.Env = b.cwd, b.env
	return c
}

func (b *bench) must(name string, args ...string) {
	b.t.Helper()
	if out, err := b.command(name, args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func (b *bench) write(name string, text []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), text, 0o644); err != nil { //nolint:gosec // a golden file
		b.t.Fatal(err)
	}
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// volatile is what differs from one run to the next and means nothing.
var volatile = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`"time": "[^"]*"`), `"time": "2026-01-01T00:00:00Z"`},
	{regexp.MustCompile(`"timestamp":\d+`), `"timestamp":0`},
	{regexp.MustCompile(`"durationSeconds":\d+`), `"durationSeconds":0`},
	{regexp.MustCompile(`"v1:[^"]*"`), `"v1:AAAAAAAAAAAAAAAA:AAAA"`},
	{regexp.MustCompile(`"seed": "[^"]*"`), `"seed": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "00000000-0000-4000-8000-000000000000"},
	{regexp.MustCompile(`pulumi-kubernetes-[0-9a-f]{8}`), "pulumi-kubernetes-00000000"},
	{regexp.MustCompile(`from \$PATH at [^"\\\s]*/`), "from $$PATH at /opt/plangate/"},
	{regexp.MustCompile(`"(time|creationTimestamp|lastTransitionTime|lastUpdateTime)":"[^"]*"`), `"$1":"2026-01-01T00:00:00Z"`},
}

func (b *bench) normalise(text []byte) []byte {
	// The longer ones first: root holds world and project.
	for _, folder := range [][2]string{{b.world, "/lab/world"}, {b.cwd, "/lab/project"}, {b.root, "/lab/root"}, {b.lab, "/lab"}} {
		text = bytes.ReplaceAll(text, []byte(folder[0]), []byte(folder[1]))
	}
	const unknown, kept = "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "<unknown>"
	text = bytes.ReplaceAll(text, []byte(unknown), []byte(kept))
	for _, v := range volatile {
		text = v.pattern.ReplaceAll(text, []byte(v.text))
	}
	return bytes.ReplaceAll(text, []byte(kept), []byte(unknown))
}
