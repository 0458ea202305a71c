// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is also process 1 of a container, for TestInit.
func TestMain(m *testing.M) {
	if script := os.Getenv("AGENT_TEST_INIT"); script != "" {
		const setChildSubreaper = 36
		if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
			os.Exit(99)
		}
		_ = beInit("/bin/sh", []string{"sh", "-c", script})
		os.Exit(98)
	}
	os.Exit(m.Run())
}

func TestInit(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		script string
		signal syscall.Signal
		want   int
	}{
		"the agent's exit code is the container's": {script: "exit 7", want: 7},
		"a killed agent is told as shells do":      {script: "kill -9 $$", want: 137},
		"orphans are reaped": {
			script: `sh -c 'sleep 0.05 & echo $! > "$0"' "$PWD/pid"; sleep 0.5; [ -d /proc/$(cat "$PWD/pid") ] && exit 9; exit 7`, want: 7,
		},
		"signals reach the agent": {script: `trap 'exit 5' TERM; touch "$PWD/ready"; while :; do sleep 0.05; done`, signal: syscall.SIGTERM, want: 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0]) //nolint:gosec // G204: this test
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "AGENT_TEST_INIT="+tc.script, "PWD="+cmd.Dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tc.signal != 0 {
				for range 500 {
					if _, err := os.Stat(filepath.Join(cmd.Dir, "ready")); err == nil {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if err := cmd.Process.Signal(tc.signal); err != nil {
					t.Fatal(err)
				}
			}
			err := cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.want {
				t.Errorf("want exit code %d, got %v", tc.want, err)
			}
		})
	}
}

func TestInstallBringsTheUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 { // an init container can run again
		if err := run([]string{"install", dir, "/plangate/work/home"}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "agent"))
	if err != nil || info.Mode().Perm() != 0o755 || info.Size() < 1<<20 {
		t.Errorf("agent: %v, %v", info, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("want three files, got %v", files)
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		uid, gid      int
		passwd, group string
	}{
		"an arbitrary user (OpenShift)": {1000680000, 0, "pulumi:x:1000680000:0:Pulumi:/h:/bin/sh\n", ""},
		"a user with its group":         {1000, 1000, "pulumi:x:1000:1000:Pulumi:/h:/bin/sh\n", "pulumi:x:1000:\n"},
		"root":                          {0, 0, "root:x:0:0:root:/h:/bin/sh\n", ""},
		"nobody":                        {65534, 65534, "pulumi:x:65534:65534:Pulumi:/h:/bin/sh\n", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passwd, group := accounts(tc.uid, tc.gid, "/h")
			if !strings.Contains(passwd, tc.passwd) || !strings.Contains(group, tc.group) {
				t.Errorf("accounts: %q, %q", passwd, group)
			}
			seen := map[string]bool{}
			for _, line := range strings.Split(strings.TrimSpace(passwd), "\n") {
				id := strings.Split(line, ":")[2]
				if seen[id] {
					t.Errorf("user id %s is there twice: %q", id, passwd)
				}
				seen[id] = true
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(healthz())
	address := strings.TrimPrefix(server.URL, "http://")
	if err := run([]string{"check", "--health-listen", address}); err != nil {
		t.Errorf("check of a server: %v", err)
	}
	server.Close()
	if err := run([]string{"check", "--health-listen", address}); err == nil {
		t.Error("check of nothing: no error")
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"what"}, {"install"}, {"serve", "--pod-uid", ""}, {"serve", "--what"}} {
		if err := run(args); err == nil {
			t.Errorf("run(%q): no error", args)
		}
	}
}
