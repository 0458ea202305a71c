// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatus(t *testing.T) {
	cases := map[string]struct {
		reason string
		method string
		path   string
		want   int
	}{
		"it says that it serves":         {"readiness probes ask for it", http.MethodGet, "/healthz", http.StatusOK},
		"a new repository is created":    {"PUT makes one ahead of a push", http.MethodPut, "/new.git", http.StatusCreated},
		"a repository can be made twice": {"set-up scripts run again", http.MethodPut, "/there.git", http.StatusOK},
		"a repository can be read":       {"git starts a fetch like this", http.MethodGet, "/there.git/info/refs?service=git-upload-pack", http.StatusOK},
		"an unknown one is not found":    {"reading must not create", http.MethodGet, "/other.git/info/refs?service=git-upload-pack", http.StatusNotFound},
		"a first push creates":           {"git starts a push like this", http.MethodGet, "/pushed.git/info/refs?service=git-receive-pack", http.StatusOK},
		"a name needs its suffix":        {"one spelling per repository", http.MethodPut, "/new", http.StatusNotFound},
		"a name cannot climb":            {"the root is the border", http.MethodPut, "/..git", http.StatusNotFound},
		"a name is one element":          {"no folders of repositories", http.MethodPut, "/a/b.git", http.StatusNotFound},
		"no file beside is served":       {"only git's own paths", http.MethodGet, "/there.git/../../etc/passwd", http.StatusNotFound},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := newServer(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.create("there.git"); err != nil {
				t.Fatal(err)
			}
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, httptest.NewRequest(tc.method, tc.path, http.NoBody))
			if recorder.Code != tc.want {
				t.Errorf("%s %s = %d, want %d (%s): %s", tc.method, tc.path, recorder.Code, tc.want, tc.reason, recorder.Body)
			}
		})
	}
}

func TestPushAndClone(t *testing.T) {
	cases := map[string]struct {
		reason string
		size   int
	}{
		"a small push": {"git sends it with a length", 10},
		"a large push": {"over 1 MiB git sends chunks, which CGI does not know", 3 << 20},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := newServer(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			web := httptest.NewServer(s)
			defer web.Close()
			content := make([]byte, tc.size)
			rand.Read(content) // incompressible; never fails
			work := t.TempDir()
			if err := os.WriteFile(filepath.Join(work, "file"), content, 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, work, "init", "--quiet", "--initial-branch=main")
			git(t, work, "add", "file")
			git(t, work, "-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "-m", "one")
			git(t, work, "push", "--quiet", web.URL+"/repo.git", "main")

			clone := filepath.Join(t.TempDir(), "clone")
			git(t, work, "clone", "--quiet", web.URL+"/repo.git", clone)
			got, err := os.ReadFile(filepath.Join(clone, "file"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, content) {
				t.Errorf("the clone's file differs from what was pushed (%s)", tc.reason)
			}
			if left, _ := filepath.Glob(filepath.Join(s.root, ".*")); len(left) > 0 {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.Command("git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
