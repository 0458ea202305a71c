// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden knows the folders in tests/testdata/plans: small changes of small programs, as the real Pulumi CLI previews
// them. README.md there tells what is in a folder.
package golden

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

// Stack is the stack's name in every case, Project the project's.
const (
	Stack   = "s1"
	Project = "demo"
	// Secret is the value of the secret that the programs know as password.
	Secret = "canary-hunter2"
)

// Case is one change.
type Case struct {
	// Name is the folder's name, Dir the folder, as an absolute path.
	Name, Dir string
	// Before and After are the programs: what follows the project's head. No Before: the stack is new.
	Before, After string
	// Base is the program of a second stack, "base", that is applied before all. Empty: there is none.
	Base string
	// Setup, Drift and Between are scripts: before all, before the preview, and between preview and apply.
	Setup, Drift, Between string
	// Refresh, Targets and TargetDependents are the flags of preview and apply.
	Refresh          bool
	Targets          []string
	TargetDependents bool
	// PluginsBefore and PluginsAfter are the versions of the provider that are installed. None: the project names its path.
	PluginsBefore, PluginsAfter []string
	// Fails are words of a preview that must fail. None: it succeeds.
	Fails []string
	// Unshown are the names of resources of which the apply changes what the state alone remembers, without a word.
	Unshown []string
	// Afterwards are words of the preview that comes after the apply, which must fail. None: it finds nothing to do.
	Afterwards []string
	// Refused are words of Pulumi's refusal to apply its own plan. None: it applies it.
	Refused []string
}

// Cases reads all cases below a folder. It fails the test when there are none.
func Cases(t testing.TB, root string) []Case {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, "*", "after.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no golden plans in %s: %v", root, err)
	}
	cases := make([]Case, 0, len(found))
	for _, path := range found {
		cases = append(cases, load(t, filepath.Dir(path)))
	}
	return cases
}

func load(t testing.TB, dir string) Case {
	t.Helper()
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // G304: a folder of ours
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	lines := func(name string) []string {
		return strings.FieldsFunc(text(name), func(r rune) bool { return r == '\n' })
	}
	c := Case{
		Name: filepath.Base(dir), Dir: dir, Before: text("before.yaml"), After: text("after.yaml"), Base: text("base.yaml"),
		Setup: text("setup.sh"), Drift: text("drift.sh"), Between: text("between.sh"), Fails: lines("fails"), Refused: lines("refused"), Unshown: lines("unshown"), Afterwards: lines("afterwards"),
	}
	if versions := lines("plugins"); len(versions) == 2 {
		c.PluginsBefore, c.PluginsAfter = strings.Fields(versions[0]), strings.Fields(versions[1])
	}
	words := strings.Fields(text("flags"))
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "--refresh":
			c.Refresh = true
		case "--target-dependents":
			c.TargetDependents = true
		case "--target":
			i++
			c.Targets = append(c.Targets, words[i])
		default:
			t.Fatalf("%s: unknown flag %q", c.Name, words[i])
		}
	}
	return c
}

// Flags are the flags of the CLI for preview and apply.
func (c *Case) Flags() []string {
	var flags []string
	if c.Refresh {
		flags = append(flags, "--refresh")
	}
	for _, urn := range c.Targets {
		flags = append(flags, "--target", urn)
	}
	if c.TargetDependents {
		flags = append(flags, "--target-dependents")
	}
	return flags
}

// Plan reads what the CLI wrote: the plan file and the events.
func (c *Case) Plan(t testing.TB) (planFile, events []byte) {
	t.Helper()
	for name, into := range map[string]*[]byte{"plan.json": &planFile, "events.ndjson": &events} {
		b, err := os.ReadFile(filepath.Join(c.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		*into = b
	}
	return planFile, events
}

// Program makes a project of a case's program. Its files go to world; plugin is the folder with the provider's binary, or ""
// when versions of it are installed.
func Program(program, world, plugin string) string {
	head := "name: " + Project + "\nruntime: yaml\n"
	if plugin != "" {
		head += "plugins:\n  providers:\n    - name: files\n      path: " + plugin + "\n"
	}
	return head + "config:\n  dir: {type: string}\n  password: {type: string}\n" + strings.ReplaceAll(program, "$WORLD", world)
}

// Run runs a script of a case in its world.
func Run(t testing.TB, script, world string) {
	t.Helper()
	if script == "" {
		return
	}
	c := exec.Command("sh", "-ec", script) //nolint:gosec // G204: a script of ours
	c.Env = append(os.Environ(), "WORLD="+world)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// Build builds the test provider of a version into a folder.
func Build(root, dir, version string) error {
	build := exec.Command("go", "build", "-ldflags", "-X main.version="+version, "-o", filepath.Join(dir, "pulumi-resource-files"), "./tests/provider-files") //nolint:gosec // G204: of ours
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the test provider: %w\n%s", err, out)
	}
	return nil
}

// PluginDir is where a version of the provider is installed below Pulumi's home.
func PluginDir(home, version string) string {
	return filepath.Join(home, "plugins", "resource-files-v"+version)
}

// volatile is what differs between two runs, and what stands for it in the golden files.
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
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`), `00000000-0000-4000-8000-000000000000`},
}

// drawn are names that Pulumi draws by chance. Each becomes another number: that two differ is seen by an approver.
var drawn = regexp.MustCompile(`(tok|other)-[0-9a-f]{7}\b`)

// unknowns are UUIDs that mean something and are the same in every run.
var unknowns = []string{"04da6b54-80e4-46f7-96ec-b56ff0331ba9", "3eeb2bf0-c639-47a8-9e75-3b44932eb421"}

// Normalise takes out of a text what differs between two runs. folders are the folders that were used, which become /lab,
// the first ones first.
func Normalise(text []byte, folders ...string) []byte {
	for _, dir := range folders {
		text = bytes.ReplaceAll(text, []byte(dir), []byte("/lab"))
	}
	for i, u := range unknowns {
		text = bytes.ReplaceAll(text, []byte(u), fmt.Appendf(nil, "<unknown%d>", i))
	}
	for _, v := range volatile {
		text = v.pattern.ReplaceAll(text, []byte(v.text))
	}
	for i, u := range unknowns {
		text = bytes.ReplaceAll(text, fmt.Appendf(nil, "<unknown%d>", i), []byte(u))
	}
	return number(text)
}

// number gives the drawn names numbers: of each kind the first that is met is 1.
func number(text []byte) []byte {
	numbers, kinds := map[string]int{}, map[string]int{}
	return drawn.ReplaceAllFunc(text, func(name []byte) []byte {
		kind, _, _ := strings.Cut(string(name), "-")
		if numbers[string(name)] == 0 {
			kinds[kind]++
			numbers[string(name)] = kinds[kind]
		}
		return fmt.Appendf(nil, "%s-%07d", kind, numbers[string(name)])
	})
}

// Want is what want.yaml holds of a plan: what an approver sees.
func Want(t testing.TB, plan plans.Plan) []byte {
	t.Helper()
	spec := &v1alpha1.UpdatePlanSpec{Changes: plan.First(plans.MaxListed), Summary: plan.Summary}
	text, err := yaml.Marshal(map[string]any{
		"empty": plan.Empty(), "summary": plan.Summary, "changes": plan.Changes, "lines": plans.DiffLines(spec),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
