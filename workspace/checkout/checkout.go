// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checkout puts a folder into exactly the state of a commit, and proves it. It keeps one clone for each repository
// and resets it before every operation, instead of starting anew: an unchanged checkout costs a few calls of git.
//
// A repository is foreign input. Git is called without a shell, with an allow-list of protocols, with hooks, filters from
// system or user configuration and submodules off, and every path is resolved below the checkout's root.
package checkout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/plangate/plangate/workspace"
)

var (
	// ErrUnavailable is wrapped when the repository cannot be reached, or has no such commit.
	ErrUnavailable = errors.New("source unavailable")
	// ErrInvalid is wrapped when the source is wrong in itself: a bad URL, commit or folder.
	ErrInvalid = errors.New("source invalid")
)

// Checkout is a folder at a commit.
type Checkout struct {
	// Root is the repository's root on disk.
	Root string
	// Dir is the project's folder, relative to Root.
	Dir string
	// Commit is the id of the commit. Tree is that of the tree of Dir; with more paths a SHA-256 over it and what is there.
	Commit, Tree string
}

// Path is the project's folder on disk.
func (c *Checkout) Path() string { return filepath.Join(c.Root, c.Dir) }

// Checkouts keeps the clones below a folder. It is for one process; calls for the same repository wait for each other.
type Checkouts struct {
	dir        string
	env        []string
	allowFiles bool
	mu         sync.Mutex
	// indexes are the digests of the clones' index files as this process left them.
	indexes map[string][sha256.Size]byte
}

// Option changes how checkouts are made.
type Option func(*Checkouts)

// AllowFiles allows file:// URLs. Only for tests: a source could name any folder of the pod.
func AllowFiles() Option { return func(c *Checkouts) { c.allowFiles = true } }

// New keeps clones below dir. Env is git's environment (PATH, HOME, proxies).
func New(dir string, env []string, options ...Option) *Checkouts {
	c := &Checkouts{dir: dir, env: env, indexes: map[string][sha256.Size]byte{}}
	for _, option := range options {
		option(c)
	}
	return c
}

var (
	commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	scpPattern    = regexp.MustCompile(`^[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^:]+$`)
	refPattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@+#-]*$`)
)

// Get puts the source's checkout into the state of its commit and proves it. A clone that is damaged is made anew once.
func (c *Checkouts) Get(ctx context.Context, source workspace.Source) (*Checkout, error) {
	if err := c.validate(source); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	root := c.rootOf(source.URL)
	out, err := c.get(ctx, root, source)
	if err == nil || errors.Is(err, ErrInvalid) || ctx.Err() != nil {
		return out, err
	}
	if errors.Is(err, ErrUnavailable) && c.healthy(ctx, root) {
		return nil, err
	}
	if err := os.RemoveAll(root); err != nil { //nolint:gosec // G703: below the folder of the clones
		return nil, fmt.Errorf("removing damaged clone: %w", err)
	}
	return c.get(ctx, root, source)
}

// rootOf is the folder of a repository's clone.
func (c *Checkouts) rootOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:8]))
}

func (c *Checkouts) validate(source workspace.Source) error {
	if !commitPattern.MatchString(source.Commit) {
		return fmt.Errorf("reading commit %q: %w: it is no full commit id", source.Commit, ErrInvalid)
	}
	if source.Ref != "" && (!refPattern.MatchString(source.Ref) || strings.Contains(source.Ref, "..")) {
		return fmt.Errorf("reading reference %q: %w", source.Ref, ErrInvalid)
	}
	for _, path := range append([]string{source.Dir}, source.Paths...) {
		if path != "" && !isFolder(path) {
			return fmt.Errorf("reading folder %q: %w: it leads out of the repository", path, ErrInvalid)
		}
	}
	if c.allowed(source.URL) {
		return nil
	}
	return fmt.Errorf("reading repository URL %q: %w: only https, http, ssh and git are allowed", withoutPassword(source.URL), ErrInvalid)
}

// allowed says whether git may be given the URL.
func (c *Checkouts) allowed(url string) bool {
	if strings.HasPrefix(url, "-") || strings.ContainsAny(url, "\x00\n\r") {
		return false
	}
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return scpPattern.MatchString(url)
	}
	switch scheme {
	case "https", "http", "ssh", "git":
		return rest != "" && rest[0] != '-'
	case "file":
		return c.allowFiles
	}
	return false
}

// isFolder says whether a relative path stays in the repository's files, and is no syntax to git.
func isFolder(dir string) bool {
	return filepath.IsLocal(dir) && !strings.ContainsAny(dir, "\x00:\n") && !hasGit(filepath.Clean(dir))
}

func hasGit(dir string) bool {
	for _, part := range strings.Split(dir, string(filepath.Separator)) {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

var userinfo = regexp.MustCompile(`://[^/@]*@`)

// withoutPassword keeps credentials in a URL out of messages.
func withoutPassword(text string) string { return userinfo.ReplaceAllString(text, "://") }

func (c *Checkouts) get(ctx context.Context, root string, source workspace.Source) (*Checkout, error) {
	g := &git{root: root, env: c.env, allowFiles: c.allowFiles}
	if err := g.authenticate(source); err != nil {
		return nil, err
	}
	defer g.forget()
	if err := g.ensureClone(ctx, source.URL); err != nil {
		return nil, err
	}
	if err := g.ensureCommit(ctx, source); err != nil {
		return nil, err
	}
	c.distrust(root)
	dir := filepath.Clean(source.Dir)
	tree, err := g.reset(ctx, source.Commit, dir)
	if err == nil {
		tree, err = g.with(ctx, source.Commit, tree, source.Paths)
	}
	if err != nil {
		return nil, err
	}
	c.trust(root)
	return &Checkout{Root: root, Dir: dir, Commit: source.Commit, Tree: tree}, nil
}

// distrust removes an index that is not as this process left it. The index is what git compares files with: a program that
// wrote to it could make git overlook changed files. Without an index git writes all files anew.
func (c *Checkouts) distrust(root string) {
	path := filepath.Join(root, ".git", "index")
	raw, err := os.ReadFile(path) //nolint:gosec // G304: below the folder of the clones
	if known, ok := c.indexes[root]; err != nil || !ok || known != sha256.Sum256(raw) {
		_ = os.Remove(path) //nolint:gosec // G703: below the folder of the clones
	}
}

func (c *Checkouts) trust(root string) {
	raw, err := os.ReadFile(filepath.Join(root, ".git", "index")) //nolint:gosec // G304: below the folder of the clones
	delete(c.indexes, root)
	if err == nil {
		c.indexes[root] = sha256.Sum256(raw)
	}
}

// resolve refuses a folder that is, or is reached through, a symbolic link: git's tree of it would not be what is there.
func resolve(root, dir string) error {
	at := root
	for _, part := range strings.Split(dir, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return fmt.Errorf("finding folder %q: %w: it is not in the commit", dir, ErrInvalid)
		case info.Mode()&os.ModeSymlink != 0:
			return fmt.Errorf("finding folder %q: %w: %q is a symbolic link", dir, ErrInvalid, part)
		case !info.IsDir():
			return fmt.Errorf("finding folder %q: %w: %q is no folder", dir, ErrInvalid, part)
		}
	}
	return nil
}

// healthy says whether the clone itself is whole, so that an error is the remote's.
func (c *Checkouts) healthy(ctx context.Context, root string) bool {
	g := &git{root: root, env: c.env}
	_, err := g.run(ctx, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	return err == nil
}
