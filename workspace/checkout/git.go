// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plangate/plangate/workspace"
)

// fetchTimeout bounds one fetch.
const fetchTimeout = 10 * time.Minute

type git struct {
	root       string
	env        []string
	allowFiles bool
	// auth is more environment, with the credentials of one repository. It is given to fetches alone.
	auth    []string
	authDir string
}

// environment is git's: no prompts, no hooks, no configuration but ours.
func (g *git) environment() []string {
	protocols := "https:http:ssh:git"
	if g.allowFiles {
		protocols += ":file"
	}
	var env []string
	for _, kv := range g.env {
		if !strings.HasPrefix(kv, "GIT_") {
			env = append(env, kv)
		}
	}
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ALLOW_PROTOCOL="+protocols, "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_LFS_SKIP_SMUDGE=1", "LC_ALL=C")
}

func (g *git) run(ctx context.Context, args ...string) (string, error) {
	return g.runWith(ctx, nil, args...)
}

func (g *git) runWith(ctx context.Context, env []string, args ...string) (string, error) {
	full := append([]string{"-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-c", "core.fsmonitor=false",
		"-c", "submodule.recurse=false", "-c", "advice.detachedHead=false", "-c", "gc.auto=0", "-c", "core.symlinks=true",
		"-c", "protocol.ext.allow=never", "-c", "core.autocrlf=false", "-c", "maintenance.auto=false"}, args...)
	cmd := exec.CommandContext(ctx, "git", full...) //nolint:gosec // G204: no shell, and every value is checked or after "--"
	cmd.Dir = g.root
	cmd.Env = append(g.environment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errs.String())
		if len(text) > 2000 {
			text = text[len(text)-2000:]
		}
		return "", fmt.Errorf("running git %s: %w: %s", args[0], err, withoutPassword(text))
	}
	return out.String(), nil
}

// ready is a file that says that the clone was made to its end.
const ready = "plangate-ready"

// ensureClone makes an empty repository, unless there is one.
func (g *git) ensureClone(ctx context.Context, url string) error {
	if _, err := os.Stat(filepath.Join(g.root, ".git", ready)); err == nil {
		return g.configure(url)
	}
	if err := os.RemoveAll(g.root); err != nil {
		return fmt.Errorf("removing half a clone: %w", err)
	}
	if err := os.MkdirAll(g.root, 0o700); err != nil {
		return fmt.Errorf("making clone: %w", err)
	}
	if _, err := g.run(ctx, "init", "--quiet", "--template=", "--", "."); err != nil {
		return err
	}
	if err := g.configure(url); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.root, ".git", ready), nil, 0o600); err != nil {
		return fmt.Errorf("making clone: %w", err)
	}
	return nil
}

// configure writes the repository's own configuration anew each time: the last program could have written to it, and it can
// name commands to run and files to overlook. The attributes are above those of the repository: no filter may run.
func (g *git) configure(url string) error {
	// In git's configuration a quoted value escapes these two; line breaks are refused before.
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(url)
	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n" +
		"[remote \"origin\"]\n\turl = \"" + quoted + "\"\n"
	info := filepath.Join(g.root, ".git", "info")
	err := os.RemoveAll(info)
	err = errors.Join(err, os.MkdirAll(info, 0o700),
		os.WriteFile(filepath.Join(info, "attributes"), []byte("* -filter -ident\n"), 0o600),
		os.WriteFile(filepath.Join(g.root, ".git", "config"), []byte(config), 0o600))
	if err != nil {
		return fmt.Errorf("configuring clone: %w", err)
	}
	return nil
}

// ensureCommit fetches the commit when it is missing: by its id, else its reference, else everything.
func (g *git) ensureCommit(ctx context.Context, source workspace.Source) error {
	if g.has(ctx, source.Commit) {
		return nil
	}
	g.removeLocks()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	tries := [][]string{{"--depth=1", source.Commit}}
	if source.Ref != "" {
		tries = append(tries, []string{source.Ref})
	}
	tries = append(tries, []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"})
	var last error
	for _, try := range tries {
		args := []string{"fetch", "--quiet", "--no-tags", "--force", "--no-recurse-submodules", "--no-write-fetch-head"}
		if strings.HasPrefix(try[0], "--") {
			args, try = append(args, try[0]), try[1:]
		}
		_, err := g.runWith(ctx, g.auth, append(append(args, "--", "origin"), try...)...)
		if g.has(ctx, source.Commit) {
			return nil
		}
		if err != nil {
			last = err
		}
	}
	if last == nil {
		return fmt.Errorf("fetching commit %q: %w: the repository has no such commit", source.Commit, ErrUnavailable)
	}
	return fmt.Errorf("fetching commit %q: %w: %w", source.Commit, ErrUnavailable, last)
}

// has says whether the commit and all of its trees and files are here.
func (g *git) has(ctx context.Context, commit string) bool {
	_, err := g.run(ctx, "cat-file", "-e", commit+"^{tree}")
	return err == nil
}

func (g *git) removeLocks() {
	for _, name := range []string{"index.lock", "HEAD.lock", "shallow.lock", "config.lock", "packed-refs.lock"} {
		_ = os.Remove(filepath.Join(g.root, ".git", name))
	}
}

// reset makes the work tree that of the commit, whatever was there, proves it, and returns the tree id of the folder. Most
// often nothing but leftovers has to go, so the proof comes first, and the hard way only when it fails.
func (g *git) reset(ctx context.Context, commit, dir string) (string, error) {
	g.removeLocks() // nobody else works here
	if err := g.clean(ctx); err != nil {
		return "", err
	}
	if tree, err := g.prove(ctx, commit, dir); err == nil || errors.Is(err, ErrInvalid) {
		return tree, err
	}
	if _, err := g.run(ctx, "checkout", "--quiet", "--force", "--detach", commit, "--"); err != nil {
		return "", err
	}
	if _, err := g.run(ctx, "reset", "--quiet", "--hard", commit, "--"); err != nil {
		return "", err
	}
	if err := g.clean(ctx); err != nil {
		return "", err
	}
	return g.prove(ctx, commit, dir)
}

// clean removes what is not tracked. Twice -f: nested repositories go too. This is the place for excludes of installed
// dependencies, once there is a proof that they belong to the lock file.
func (g *git) clean(ctx context.Context) error {
	_, err := g.run(ctx, "clean", "-ffdxq")
	return err
}

// prove checks that the work tree is that of the commit, and returns the tree id of the folder.
func (g *git) prove(ctx context.Context, commit, dir string) (string, error) {
	status, err := g.run(ctx, "status", "--porcelain", "--ignored", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil {
		return "", err
	}
	if status != "" {
		return "", fmt.Errorf("proving checkout of %q: the work tree differs: %.500q", commit, status)
	}
	spec := commit + "^{tree}"
	if dir != "." {
		spec = commit + ":" + filepath.ToSlash(dir)
	}
	out, treeErr := g.run(ctx, "rev-parse", "HEAD", spec)
	if treeErr != nil {
		// Most likely the commit has no such folder; but only at the commit does that mean anything.
		if out, err = g.run(ctx, "rev-parse", "HEAD"); err != nil {
			return "", err
		}
	}
	head, tree, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if head != commit {
		return "", fmt.Errorf("proving checkout of %q: HEAD is %q", commit, head)
	}
	if err := resolve(g.root, dir); err != nil {
		return "", err
	}
	return tree, treeErr
}

// authenticate prepares the credentials; they reach git by its environment and by files of mode 0600, never by arguments.
func (g *git) authenticate(source workspace.Source) error {
	a := source.Auth
	if a == nil {
		return nil
	}
	if a.Password != "" {
		user := a.Username
		if user == "" {
			user = "git"
		}
		basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + a.Password))
		g.auth = append(g.auth, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader",
			"GIT_CONFIG_VALUE_0=Authorization: Basic "+basic)
	}
	if a.SSHPrivateKey == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "plangate-ssh-")
	if err != nil {
		return fmt.Errorf("making folder for SSH key: %w", err)
	}
	g.authDir = dir
	key, known := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	check := "yes"
	if a.KnownHosts == "" {
		check = "accept-new"
		known = filepath.Join(filepath.Dir(g.root), "known_hosts")
	}
	err = os.WriteFile(key, []byte(strings.TrimSpace(a.SSHPrivateKey)+"\n"), 0o600)
	if a.KnownHosts != "" {
		err = errors.Join(err, os.WriteFile(known, []byte(strings.TrimSpace(a.KnownHosts)+"\n"), 0o600))
	}
	if err != nil {
		g.forget()
		return fmt.Errorf("writing SSH key: %w", err)
	}
	g.auth = append(g.auth, "GIT_SSH_COMMAND=ssh -F /dev/null -i '"+key+"' -o IdentitiesOnly=yes -o BatchMode=yes"+
		" -o StrictHostKeyChecking="+check+" -o UserKnownHostsFile='"+known+"'")
	return nil
}

func (g *git) forget() {
	if g.authDir != "" {
		_ = os.RemoveAll(g.authDir)
	}
}
