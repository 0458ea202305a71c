// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package source

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	repo    = "https://git.example.com/project.git"
)

// remote is a remote that counts how often it is asked.
type remote struct {
	asked atomic.Int32
	refs  map[string]string
	err   error
	wait  chan struct{}
}

func (r *remote) resolver(maxAge time.Duration, now func() time.Time) *Resolver {
	out := NewResolver(maxAge)
	out.now = now
	out.list = func(context.Context, string) (map[string]string, error) {
		r.asked.Add(1)
		if r.wait != nil {
			<-r.wait
		}
		return r.refs, r.err
	}
	return out
}

func TestResolve(t *testing.T) {
	refs := map[string]string{
		"refs/heads/main": commitA, "refs/heads/v1": commitA, "refs/tags/v1": "cccc", "refs/tags/v1^{}": commitB, "refs/tags/light": commitB,
	}
	tests := map[string]struct {
		reason, branch, commit string
		want                   Revision
		notFound               bool
	}{
		"a branch":           {reason: "the plain case", branch: "main", want: Revision{Commit: commitA, Ref: "refs/heads/main"}},
		"a whole reference":  {reason: "it is taken as it is", branch: "refs/heads/main", want: Revision{Commit: commitA, Ref: "refs/heads/main"}},
		"a branch and a tag": {reason: "a short name is a branch", branch: "v1", want: Revision{Commit: commitA, Ref: "refs/heads/v1"}},
		"an annotated tag":   {reason: "the commit, not the tag object", branch: "refs/tags/v1", want: Revision{Commit: commitB, Ref: "refs/tags/v1"}},
		"a light tag":        {reason: "it is a commit", branch: "refs/tags/light", want: Revision{Commit: commitB, Ref: "refs/tags/light"}},
		"a commit":           {reason: "there is nothing to ask", commit: commitB, want: Revision{Commit: commitB}},
		"a missing branch":   {reason: "the remote says so", branch: "gone", notFound: true},
		"a short tag":        {reason: "a tag is never taken for a branch", branch: "light", notFound: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := (&remote{refs: refs}).resolver(time.Minute, time.Now)
			got, err := r.Resolve(t.Context(), repo, tc.branch, tc.commit)
			if IsNotFound(err) != tc.notFound || (err != nil) != tc.notFound {
				t.Fatalf("Resolve(): %s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Resolve(): %s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAnAnswerIsSharedAndGetsOld(t *testing.T) {
	now := time.Unix(1000, 0)
	far := &remote{refs: map[string]string{"refs/heads/main": commitA}}
	r := far.resolver(time.Minute, func() time.Time { return now })
	ask := func(want string, asked int32, resolve func(context.Context, string, string, string) (Revision, error)) {
		t.Helper()
		got, err := resolve(t.Context(), repo, "main", "")
		if err != nil || got.Commit != want || far.asked.Load() != asked {
			t.Errorf("got %q, %v after %d questions; want %q after %d", got.Commit, err, far.asked.Load(), want, asked)
		}
	}
	ask(commitA, 1, r.Resolve)
	far.refs = map[string]string{"refs/heads/main": commitB}
	ask(commitA, 1, r.Resolve)
	ask(commitB, 2, r.ResolveNow)
	ask(commitB, 2, r.Resolve)
	far.refs = map[string]string{"refs/heads/main": commitA}
	now = now.Add(time.Minute)
	ask(commitA, 3, r.Resolve)
	far.err = errors.New("down")
	if _, err := r.ResolveNow(t.Context(), repo, "main", ""); err == nil || IsNotFound(err) {
		t.Errorf("ResolveNow() of a remote that is down: %v", err)
	}
	now = now.Add(time.Hour)
	if _, err := r.Resolve(t.Context(), repo, "main", ""); err == nil {
		t.Error("an answer from an hour ago was used")
	}
}

func TestManyWhoAskAtOnceAreOneQuestion(t *testing.T) {
	far := &remote{refs: map[string]string{"refs/heads/main": commitA}, wait: make(chan struct{})}
	r := far.resolver(time.Minute, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			ctx := ctx
			if i > 0 {
				ctx = t.Context()
			}
			if got, err := r.Resolve(ctx, repo, "main", ""); i > 0 && (err != nil || got.Commit != commitA) {
				t.Errorf("Resolve() = %v, %v", got, err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	cancel() // the first asker's end is not that of the others
	close(far.wait)
	all.Wait()
	if n := far.asked.Load(); n > 2 {
		t.Errorf("20 at once were %d questions", n)
	}
}

func TestAnswersAreForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	r := (&remote{refs: map[string]string{"refs/heads/main": commitA}}).resolver(time.Minute, func() time.Time { return now })
	for _, name := range []string{"a", "b", "c"} {
		if _, err := r.Resolve(t.Context(), "https://example.com/"+name, "main", ""); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Minute)
	}
	if len(r.answers) != 1 {
		t.Errorf("%d answers are kept", len(r.answers))
	}
}

func TestCheckURL(t *testing.T) {
	tests := map[string]struct {
		url string
		bad bool
	}{
		"https":                 {url: "https://git.example.com/a.git"},
		"http with a port":      {url: "http://git:8080/a.git"},
		"ssh with a user":       {url: "ssh://git@example.com/a.git"},
		"git":                   {url: "git://example.com/a.git"},
		"a token":               {url: "https://token@example.com/a.git", bad: true},
		"a password":            {url: "https://me:secret-word@example.com/a.git", bad: true},
		"a password over ssh":   {url: "ssh://me:secret-word@example.com/a.git", bad: true},
		"a local file":          {url: "file:///etc", bad: true},
		"a path":                {url: "/etc", bad: true},
		"scp's form":            {url: "git@example.com:a.git", bad: true},
		"a helper":              {url: "ext::sh -c touch% /tmp/pwned", bad: true},
		"no host":               {url: "https:///a.git", bad: true},
		"nothing":               {url: "", bad: true},
		"characters of control": {url: "https://secret-word@exa\x7fmple.com/", bad: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := CheckURL(tc.url)
			if (err != nil) != tc.bad {
				t.Errorf("CheckURL(%q) = %v", tc.url, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret-word") {
				t.Errorf("CheckURL(%q) tells the password: %v", tc.url, err)
			}
		})
	}
}

// A real git server, by git's own backend.
func TestListOfARealRemote(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("git is not installed: these tests need the real one")
	}
	root := t.TempDir()
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	bare, work := filepath.Join(root, "a.git"), filepath.Join(root, "work")
	run(root, "init", "--bare", "-q", "-b", "main", bare)
	server := httptest.NewServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Dir: root, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH"), "HOME=" + root}})
	defer server.Close()
	r := NewResolver(time.Minute)
	if _, err := r.ResolveNow(t.Context(), server.URL+"/a.git", "main", ""); !IsNotFound(err) {
		t.Errorf("ResolveNow() of an empty repository: %v", err)
	}
	run(root, "clone", "-q", bare, work)
	run(work, "commit", "-q", "--allow-empty", "-m", "one")
	run(work, "tag", "-a", "-m", "t", "v1")
	run(work, "push", "-q", "origin", "HEAD:main", "v1")
	want := run(work, "rev-parse", "HEAD")
	for _, branch := range []string{"main", "refs/tags/v1"} {
		got, err := r.ResolveNow(t.Context(), server.URL+"/a.git", branch, "")
		if err != nil || got.Commit != want {
			t.Errorf("ResolveNow(%q) = %v, %v; want %s", branch, got, err, want)
		}
	}
	if _, err := r.ResolveNow(t.Context(), server.URL+"/none.git", "main", ""); err == nil || IsNotFound(err) {
		t.Errorf("ResolveNow() of a repository that is not there: %v", err)
	}
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	defer hang.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := listRemote(ctx, hang.URL+"/a.git"); err == nil {
		t.Error("listRemote() of a remote that says nothing came back without an error")
	}
}
