// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent"
	"github.com/plangate/plangate/workspace/agent/agentpb"
	"github.com/plangate/plangate/workspace/agent/client"
	"github.com/plangate/plangate/workspace/pulumi"
)

const (
	podUID    = "5ca1ab1e-0000-4000-8000-000000000001"
	agentName = "5ca1ab1e.workspace.plangate.dev"
)

// tools are the programs that the tests run.
type tools struct{ path, agent, plugins string }

var (
	toolsOnce sync.Once
	toolsGot  tools
	errTools  error
)

// realTools finds Pulumi and builds the test provider and the agent. It fails the test when Pulumi is missing: a test that
// skips proves nothing.
func realTools(t testing.TB) tools {
	t.Helper()
	toolsOnce.Do(func() { toolsGot, errTools = findTools() })
	if errTools != nil {
		t.Fatal(errTools)
	}
	return toolsGot
}

func findTools() (tools, error) {
	path := os.Getenv("PATH")
	if more := os.Getenv("PLANGATE_TEST_PATH"); more != "" {
		path = more + ":" + path
	}
	for _, name := range []string{"pulumi", "pulumi-language-yaml"} {
		if lookIn(path, name) == "" {
			return tools{}, fmt.Errorf("%s is on neither PLANGATE_TEST_PATH nor PATH; set PLANGATE_TEST_PATH=$(hack/cache/path.sh pulumi pulumi-language-yaml)", name)
		}
	}
	dir, err := os.MkdirTemp("", "plangate-tools-")
	if err != nil {
		return tools{}, err
	}
	for _, build := range [][2]string{{"agent", "cmd/agent"}, {"plugins/pulumi-resource-files", "tests/provider-files"}} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, build[0]), "./"+build[1])
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			return tools{}, fmt.Errorf("building %s: %w: %s", build[1], err, out)
		}
	}
	return tools{path: path, agent: filepath.Join(dir, "agent"), plugins: filepath.Join(dir, "plugins")}, nil
}

func lookIn(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

func TestMain(m *testing.M) {
	code := m.Run()
	if toolsGot.agent != "" {
		_ = os.RemoveAll(filepath.Dir(toolsGot.agent))
	}
	os.Exit(code)
}

// rig is a repository, a state backend, and an agent with a client.
type rig struct {
	t       testing.TB
	tools   tools
	dir     string
	server  *agent.Server
	client  *client.Client
	certs   *certs
	driver  pulumi.Driver
	count   int
	process *exec.Cmd
	address string
	// requireSigners is the agent's.
	requireSigners string
}

// newRig starts an agent in this process. A nil driver is the real Pulumi.
func newRig(t testing.TB, driver pulumi.Driver) *rig {
	t.Helper()
	r := newFolders(t, driver)
	r.serve()
	return r
}

func newFolders(t testing.TB, driver pulumi.Driver) *rig {
	t.Helper()
	// Not t.TempDir: its removal fails when a killed process still writes.
	dir, err := os.MkdirTemp("", "plangate-rig-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, dir: dir, driver: driver, certs: newCerts(t, filepath.Join(dir, "tls"))}
	if driver == nil {
		r.tools = realTools(t)
	}
	for _, d := range []string{"state", "repo", "out", "work"} {
		if err := os.MkdirAll(r.file(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.git("init", "--quiet", "--initial-branch=main")
	r.git("config", "uploadpack.allowAnySHA1InWant", "true")
	return r
}

func (r *rig) serve() {
	r.t.Helper()
	server, err := agent.New(agent.Config{
		PodUID: podUID, Version: "test", WorkDir: r.file("work"), Driver: r.driver, Environ: r.environ(),
		Grace: 20 * time.Second, AllowFileSources: true, Log: logr.Discard(), RequireSigners: r.requireSigners,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	config, err := agent.TLSConfig(r.certs.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	agentpb.RegisterAgentServer(g, server)
	go func() { _ = g.Serve(l) }()
	r.server, r.address = server, l.Addr().String()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		g.Stop()
	})
	r.dial()
}

func (r *rig) dial() {
	r.t.Helper()
	c, err := client.Dial(context.Background(), r.address, r.certs.client("manager.plangate.dev"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.client = c
	r.t.Cleanup(func() { _ = c.Close() })
}

func (r *rig) environ() []string {
	return []string{"PATH=" + r.path(), "TMPDIR=" + os.TempDir(), "PLANGATE_LEAK=agent-own"}
}

func (r *rig) path() string {
	if r.tools.path != "" {
		return r.tools.path
	}
	return os.Getenv("PATH")
}

func (r *rig) file(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

func (r *rig) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = r.file("repo")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, with DIR for the rig's folder, and commits them all.
func (r *rig) commit(files map[string]string) string {
	r.t.Helper()
	for name, content := range files {
		path := r.file("repo", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			r.t.Fatal(err)
		}
		content = strings.NewReplacer("DIR", r.dir, "PLUGINS", r.tools.plugins).Replace(content)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "-m", "change")
	return r.git("rev-parse", "HEAD")
}

// program is a project with the given YAML below "resources:" and more sections after it.
func program(resources string) string {
	return `name: demo
runtime: yaml
plugins:
  providers:
  - name: files
    path: PLUGINS
config:
  content: {type: string, default: none}
resources:
` + strings.TrimPrefix(resources, "\n")
}

const oneFile = `
  a:
    type: files:File
    properties: {path: DIR/out/a, content: "${content}"}
`

func (r *rig) operation(kind workspace.OperationType, commit string) *workspace.Operation {
	r.count++
	return &workspace.Operation{
		ID: fmt.Sprintf("op-%d", r.count), Type: kind, PodUID: podUID, Stack: "organization/demo/dev",
		Backend:  "file://" + r.file("state"),
		Source:   workspace.Source{URL: "file://" + r.file("repo"), Commit: commit},
		Env:      map[string]string{"PULUMI_CONFIG_PASSPHRASE": "correct horse"},
		PlainEnv: nil,
	}
}

// run starts an operation, watches it to its end and returns its result.
func (r *rig) run(op *workspace.Operation) *workspace.Result {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	if err := r.client.Start(ctx, op); err != nil {
		r.t.Fatal(err)
	}
	return r.wait(ctx, op.ID)
}

func (r *rig) wait(ctx context.Context, id string) *workspace.Result {
	r.t.Helper()
	if err := r.client.Watch(ctx, id, 1, func(client.Event) {}); err != nil {
		r.t.Fatal(err)
	}
	result, err := r.client.Result(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// preview runs a preview that must succeed.
func (r *rig) preview(commit string, change ...func(*workspace.Operation)) *workspace.Result {
	r.t.Helper()
	op := r.operation(workspace.Preview, commit)
	for _, c := range change {
		c(op)
	}
	result := r.run(op)
	if result.Outcome != workspace.Succeeded {
		r.t.Fatalf("Preview: %s %s: %s\n%s", result.Outcome, result.Reason, result.Message, result.LogTail)
	}
	return result
}

// apply is the Apply of a preview's plan.
func (r *rig) apply(commit string, preview *workspace.Result, change ...func(*workspace.Operation)) *workspace.Operation {
	op := r.operation(workspace.Apply, commit)
	op.Expect, op.Plan, op.FallbackSalt = preview.Facts, preview.Plan, preview.Salt
	sum := sha256.Sum256(op.Plan)
	op.PlanDigest = "sha256:" + hex.EncodeToString(sum[:])
	for _, c := range change {
		c(op)
	}
	return op
}

func (r *rig) mustApply(commit string, preview *workspace.Result, change ...func(*workspace.Operation)) *workspace.Result {
	r.t.Helper()
	result := r.run(r.apply(commit, preview, change...))
	if result.Outcome != workspace.Succeeded {
		r.t.Fatalf("Apply: %s %s: %s\n%s", result.Outcome, result.Reason, result.Message, result.LogTail)
	}
	return result
}

func (r *rig) content(name string) string {
	raw, err := os.ReadFile(r.file("out", name))
	if err != nil {
		return "(none)"
	}
	return string(raw)
}

func config(key, value string) func(*workspace.Operation) {
	return func(op *workspace.Operation) {
		if op.Config == nil {
			op.Config = map[string]json.RawMessage{}
		}
		raw, _ := json.Marshal(value)
		op.Config[key] = raw
	}
}
