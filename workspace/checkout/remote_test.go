// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plangate/plangate/workspace"
)

// serveGit serves a repository over HTTP as a git host does, for one user.
func serveGit(t *testing.T, r *repo, user, password string) *httptest.Server {
	t.Helper()
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if u, p, ok := q.BasicAuth(); user != "" && (!ok || u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, q)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestGetOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit(map[string]string{"a": "one"})
	r.commit(map[string]string{"a": "two"})
	s := serveGit(t, r, "git", "t0ken-canary")
	dir := t.TempDir()
	c := New(filepath.Join(dir, "sources"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir})
	source := workspace.Source{URL: s.URL + "/.git", Commit: first, Ref: "refs/heads/main"}
	if _, err := c.Get(context.Background(), source); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without credentials: %v", err)
	}
	source.Auth = &workspace.SourceAuth{Password: "wrong-canary"}
	if _, err := c.Get(context.Background(), source); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "canary") {
		t.Errorf("with wrong credentials: %v", err)
	}
	// The older commit is no tip: hosts without allowAnySHA1InWant refuse it by its id, and the whole branch is fetched.
	source.Auth = &workspace.SourceAuth{Password: "t0ken-canary"}
	got, err := c.Get(context.Background(), source)
	if err != nil {
		t.Fatal(err)
	}
	if is := read(t, filepath.Join(got.Root, "a")); is != "one" {
		t.Errorf("the file is %q", is)
	}
	out, _ := exec.Command("grep", "-rl", "canary", dir).Output()
	if len(out) > 0 {
		t.Errorf("credentials are on disk: %s", out)
	}
}

func TestSSHKeysAreFilesForTheFetchAlone(t *testing.T) {
	t.Parallel()
	g := &git{root: filepath.Join(t.TempDir(), "clone")}
	err := g.authenticate(workspace.Source{Auth: &workspace.SourceAuth{SSHPrivateKey: "KEY", KnownHosts: "example.com ssh-ed25519 AAAA"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(g.authDir, "key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", info, err)
	}
	if command := strings.Join(g.auth, " "); !strings.Contains(command, "StrictHostKeyChecking=yes") || strings.Contains(command, "KEY\n") {
		t.Errorf("ssh: %s", command)
	}
	g.forget()
	if _, err := os.Stat(g.authDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key is left: %v", err)
	}
}
