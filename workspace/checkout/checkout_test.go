// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plangate/plangate/workspace"
)

type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	r := &repo{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=T", "-c", "user.email=t@example.com", "-C", r.dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) commit(files map[string]string) string {
	r.t.Helper()
	for name, content := range files {
		write(r.t, filepath.Join(r.dir, name), content)
	}
	r.git("add", "--all", "--force")
	r.git("commit", "--quiet", "--allow-empty", "-m", "x")
	return r.git("rev-parse", "HEAD")
}

func (r *repo) source(commit string) workspace.Source {
	return workspace.Source{URL: "file://" + r.dir, Commit: commit}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		return "(none)"
	}
	return string(raw)
}

func newCheckouts(t testing.TB) *Checkouts {
	t.Helper()
	return New(filepath.Join(t.TempDir(), "sources"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, AllowFiles())
}

func TestGetResetsWhateverWasDone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		spoil  func(t *testing.T, root string, git func(args ...string))
	}{
		"files are changed, removed and added": {
			reason: "a program writes into its folder",
			spoil: func(t *testing.T, root string, _ func(...string)) {
				write(t, filepath.Join(root, "a"), "poison")
				write(t, filepath.Join(root, "new/er"), "x")
				write(t, filepath.Join(root, "ignored"), "x")
				_ = os.Remove(filepath.Join(root, "dir/b"))
			},
		},
		"a changed file is hidden from git with assume-unchanged": {
			reason: "git status would say clean",
			spoil: func(t *testing.T, root string, git func(...string)) {
				git("update-index", "--assume-unchanged", "a")
				write(t, filepath.Join(root, "a"), "poison")
			},
		},
		"a changed file is hidden from git with skip-worktree": {
			reason: "git reset would leave it",
			spoil: func(t *testing.T, root string, git func(...string)) {
				git("update-index", "--skip-worktree", "a")
				write(t, filepath.Join(root, "a"), "poison")
			},
		},
		"the repository's configuration is changed": {
			reason: "sparse checkouts, excludes, a monitor and filters",
			spoil: func(t *testing.T, root string, git func(...string)) {
				git("config", "core.fileMode", "false")
				git("config", "core.worktree", "/tmp")
				git("config", "core.fsmonitor", "touch "+filepath.Join(root, "owned"))
				write(t, filepath.Join(root, ".git/info/exclude"), "*")
				write(t, filepath.Join(root, ".git/info/sparse-checkout"), "nothing")
				write(t, filepath.Join(root, ".git/hooks/post-checkout"), "#!/bin/sh\ntouch "+filepath.Join(root, "owned"))
				_ = os.Chmod(filepath.Join(root, ".git/hooks/post-checkout"), 0o700) //nolint:gosec // G302: a hook
				write(t, filepath.Join(root, "a"), "poison")
			},
		},
		"a branch with other content is checked out": {
			reason: "HEAD moved",
			spoil: func(t *testing.T, root string, git func(...string)) {
				write(t, filepath.Join(root, "a"), "poison")
				git("-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-qam", "poison")
			},
		},
		"git was cut off": {
			reason: "stale locks",
			spoil: func(t *testing.T, root string, _ func(...string)) {
				write(t, filepath.Join(root, ".git/index.lock"), "")
				write(t, filepath.Join(root, ".git/HEAD.lock"), "")
				write(t, filepath.Join(root, "a"), "poison")
			},
		},
		"a folder is replaced by a link": {
			reason: "writing through it would leave the root",
			spoil: func(t *testing.T, root string, _ func(...string)) {
				_ = os.RemoveAll(filepath.Join(root, "dir"))
				if err := os.Symlink(t.TempDir(), filepath.Join(root, "dir")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"the objects are gone": {
			reason: "a damaged clone heals",
			spoil: func(_ *testing.T, root string, _ func(...string)) {
				_ = os.RemoveAll(filepath.Join(root, ".git/objects"))
			},
		},
		"one object is damaged": {
			reason: "a damaged clone heals",
			spoil: func(t *testing.T, root string, _ func(...string)) {
				objects, _ := filepath.Glob(filepath.Join(root, ".git/objects/*/*"))
				for _, o := range objects {
					_ = os.Chmod(o, 0o600)
					write(t, o, "garbage")
				}
				write(t, filepath.Join(root, "a"), "poison")
			},
		},
		"HEAD is garbage": {
			reason: "a damaged clone heals",
			spoil: func(t *testing.T, root string, _ func(...string)) {
				write(t, filepath.Join(root, ".git/HEAD"), "garbage")
			},
		},
		"the repository is gone": {
			reason: "a half-made clone is made anew",
			spoil: func(_ *testing.T, root string, _ func(...string)) {
				_ = os.RemoveAll(filepath.Join(root, ".git"))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			commit := r.commit(map[string]string{"a": "one", "dir/b": "two", ".gitignore": "ignored\n"})
			c := newCheckouts(t)
			first, err := c.Get(context.Background(), r.source(commit))
			if err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, first.Root, func(args ...string) {
				cmd := exec.Command("git", append([]string{"-C", first.Root}, args...)...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v: %s", args, err, out)
				}
			})
			got, err := c.Get(context.Background(), r.source(commit))
			if err != nil {
				t.Fatalf("Get (%s): %v", tc.reason, err)
			}
			if got.Commit != commit || got.Tree != first.Tree {
				t.Errorf("Get: want %+v, got %+v", first, got)
			}
			for file, want := range map[string]string{"a": "one", "dir/b": "two", "new/er": "(none)", "ignored": "(none)", "owned": "(none)"} {
				if is := read(t, filepath.Join(got.Root, file)); is != want {
					t.Errorf("Get (%s): %q is %q, want %q", tc.reason, file, is, want)
				}
			}
			if _, err := os.Stat(filepath.Join(got.Root, "new")); err == nil {
				t.Error("Get left an empty folder")
			}
		})
	}
}

func TestGetFetchesWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	first := r.commit(map[string]string{"a": "one"})
	second := r.commit(map[string]string{"a": "two", "infra/p": "x"})
	r.git("checkout", "--quiet", "-b", "side", first)
	side := r.commit(map[string]string{"a": "side"})
	r.git("tag", "v1")
	r.git("checkout", "--quiet", "main")
	r.git("branch", "-D", "side")
	c := newCheckouts(t)
	for _, step := range []struct {
		commit, dir, ref, want string
	}{{first, "", "refs/heads/main", "one"}, {second, "infra", "", "two"}, {side, "", "refs/tags/v1", "side"}, {first, "", "", "one"}} {
		source := r.source(step.commit)
		source.Dir, source.Ref = step.dir, step.ref
		got, err := c.Get(context.Background(), source)
		if err != nil {
			t.Fatal(err)
		}
		if is := read(t, filepath.Join(got.Root, "a")); is != step.want {
			t.Errorf("at %s: %q, want %q", step.commit, is, step.want)
		}
		spec := step.commit + "^{tree}"
		if step.dir != "" {
			spec = step.commit + ":" + step.dir
		}
		if want := r.git("rev-parse", spec); got.Tree != want {
			t.Errorf("at %s: tree %q, want %q", step.commit, got.Tree, want)
		}
	}
	if _, err := c.Get(context.Background(), r.source(strings.Repeat("0", 39)+"1")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a missing commit: %v", err)
	}
	if got, err := c.Get(context.Background(), r.source(second)); err != nil || read(t, filepath.Join(got.Root, "a")) != "two" {
		t.Errorf("after a missing commit: %v", err)
	}
}

func TestTheFirstGetCanBeOfAFolder(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	commit := r.commit(map[string]string{"infra/p": "x"})
	source := r.source(commit)
	source.Dir = "infra"
	got, err := newCheckouts(t).Get(context.Background(), source)
	if err != nil || got.Tree != r.git("rev-parse", commit+":infra") {
		t.Errorf("Get: %+v, %v", got, err)
	}
}

func TestGetRefusesForeignTricks(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("a", 40)
	cases := map[string]workspace.Source{
		"a folder above":                {URL: "https://example.com/x", Commit: commit, Dir: "../x"},
		"an absolute folder":            {URL: "https://example.com/x", Commit: commit, Dir: "/etc"},
		"git's own folder":              {URL: "https://example.com/x", Commit: commit, Dir: "a/.git"},
		"an option as URL":              {URL: "--upload-pack=touch /tmp/owned", Commit: commit},
		"an option as host":             {URL: "ssh://-oProxyCommand=touch/x", Commit: commit},
		"an option as host, scp form":   {URL: "-oProxyCommand=x:y", Commit: commit},
		"a command as transport":        {URL: "ext::sh -c touch% /tmp/owned", Commit: commit},
		"a helper as transport":         {URL: "fd::7", Commit: commit},
		"a local path":                  {URL: "/etc", Commit: commit},
		"a branch instead of a commit":  {URL: "https://example.com/x", Commit: "main"},
		"a short commit":                {URL: "https://example.com/x", Commit: "abcdef1"},
		"an option as reference":        {URL: "https://example.com/x", Commit: commit, Ref: "--upload-pack=x"},
		"a line break in the URL":       {URL: "https://example.com/x\n[core]", Commit: commit},
		"a reference that is no name":   {URL: "https://example.com/x", Commit: commit, Ref: "a b"},
		"a refspec that writes a ref":   {URL: "https://example.com/x", Commit: commit, Ref: "main:refs/heads/x"},
		"a folder with a refspec colon": {URL: "https://example.com/x", Commit: commit, Dir: "a:b"},
	}
	for name, source := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := newCheckouts(t).Get(context.Background(), source); !errors.Is(err, ErrInvalid) {
				t.Errorf("Get: want ErrInvalid, got %+v, %v", got, err)
			}
		})
	}
	if _, err := New(t.TempDir(), nil).Get(context.Background(), workspace.Source{URL: "file:///etc", Commit: commit}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a file URL without the option: %v", err)
	}
}

func TestGetRefusesALinkAsFolder(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for name, target := range map[string]string{"out": "/etc", "in": "real"} {
		if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	commit := r.commit(map[string]string{"real/sub/Pulumi.yaml": "x"})
	for _, dir := range []string{"out", "in", "in/sub", "real/none", "real/sub/Pulumi.yaml"} {
		source := r.source(commit)
		source.Dir = dir
		if _, err := newCheckouts(t).Get(context.Background(), source); !errors.Is(err, ErrInvalid) {
			t.Errorf("folder %q: want ErrInvalid, got %v", dir, err)
		}
	}
}

func TestFiltersOfTheRepositoryDoNotRun(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	commit := r.commit(map[string]string{".gitattributes": "* filter=evil text eol=crlf\n", "a": "one\n"})
	got, err := newCheckouts(t).Get(context.Background(), r.source(commit))
	if err != nil {
		t.Fatal(err)
	}
	_ = got
}

func FuzzValidateLetsNothingOut(f *testing.F) {
	for _, seed := range [][3]string{{"https://example.com/x", "main", "infra"}, {"git@example.com:x", "refs/heads/a", "../.."}, {"file:///x", "-x", ".git"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	c := New("/nonexistent", nil)
	f.Fuzz(func(t *testing.T, url, ref, dir string) {
		source := workspace.Source{URL: url, Ref: ref, Dir: dir, Commit: strings.Repeat("a", 40)}
		if c.validate(source) != nil {
			return
		}
		joined := filepath.Join("/root/x", dir)
		if joined != "/root/x" && !strings.HasPrefix(joined, "/root/x/") {
			t.Errorf("folder %q leads out", dir)
		}
		if strings.HasPrefix(url, "-") || strings.HasPrefix(ref, "-") || strings.Contains(url, "\n") || strings.Contains(ref, ":") {
			t.Errorf("accepted %q %q", url, ref)
		}
	})
}

func BenchmarkGetUnchanged(b *testing.B) {
	r := newRepo(b)
	commit := r.commit(map[string]string{"Pulumi.yaml": "x", "infra/Pulumi.yaml": "y"})
	c := newCheckouts(b)
	if _, err := c.Get(context.Background(), r.source(commit)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Get(context.Background(), r.source(commit)); err != nil {
			b.Fatal(err)
		}
	}
}
