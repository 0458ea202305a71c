// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plangate/plangate/workspace"
)

// projectFiles are the names that a project's file may have.
var projectFiles = []string{"Pulumi.yaml", "Pulumi.yml", "Pulumi.json"}

// Tree finds what Get would give as the tree of the source, without a checkout: the work tree stays as it is, so that it can
// be asked while an operation runs in it. The commit is fetched when it is missing, so that it is here when it is wanted.
func (c *Checkouts) Tree(ctx context.Context, source workspace.Source) (string, error) {
	var tree string
	err := c.inClone(ctx, source, func(g *git) error {
		dir := filepath.Clean(source.Dir)
		found, err := g.objects(ctx, source.Commit, dir)
		switch {
		case err != nil:
			return err
		case found[dir] == "":
			return fmt.Errorf("finding folder %q: %w: it is not in the commit", dir, ErrInvalid)
		case !strings.Contains(found[dir], " tree "):
			return fmt.Errorf("finding folder %q: %w: it is no folder", dir, ErrInvalid)
		}
		tree, err = g.with(ctx, source.Commit, found[dir][strings.LastIndex(found[dir], " ")+1:], source.Paths)
		return err
	})
	return tree, err
}

// ProjectFile reads the project's file at the commit, without a checkout, and its name.
func (c *Checkouts) ProjectFile(ctx context.Context, source workspace.Source) (name string, content []byte, err error) {
	err = c.inClone(ctx, source, func(g *git) error {
		for _, file := range projectFiles {
			path := filepath.ToSlash(filepath.Join(source.Dir, file))
			if out, err := g.run(ctx, "cat-file", "blob", source.Commit+":"+path); err == nil {
				name, content = file, []byte(out)
				return nil
			}
		}
		return fmt.Errorf("reading project %q: %w: there is no Pulumi.yaml in the commit", source.Dir, ErrInvalid)
	})
	return name, content, err
}

// inClone does something with a clone that has the commit.
func (c *Checkouts) inClone(ctx context.Context, source workspace.Source, do func(*git) error) error {
	if err := c.validate(source); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := &git{root: c.rootOf(source.URL), env: c.env, allowFiles: c.allowFiles}
	if err := g.authenticate(source); err != nil {
		return err
	}
	defer g.forget()
	if err := g.ensureClone(ctx, source.URL); err != nil {
		return err
	}
	if err := g.ensureCommit(ctx, source); err != nil {
		return err
	}
	return do(g)
}

// with is the tree, or with more paths a digest of it and what is at each of them: mode, kind and id, or that nothing is.
func (g *git) with(ctx context.Context, commit, tree string, paths []string) (string, error) {
	if len(paths) == 0 {
		return tree, nil
	}
	clean := widest(paths)
	found, err := g.objects(ctx, commit, clean...)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "plangate/tree/v1\x00%s\x00", tree)
	for _, path := range clean {
		_, _ = fmt.Fprintf(sum, "%s\x00%s\x00", path, found[path])
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// widest are the paths, sorted, without those inside of others: git would list only the inner ones.
func widest(paths []string) []string {
	clean := make([]string, 0, len(paths))
	for _, path := range paths {
		clean = append(clean, filepath.Clean(path))
	}
	slices.Sort(clean)
	inside := func(path string) bool {
		return slices.ContainsFunc(clean, func(other string) bool {
			return other != path && (other == "." || strings.HasPrefix(path, other+string(filepath.Separator)))
		})
	}
	return slices.DeleteFunc(slices.Compact(slices.Clone(clean)), inside)
}

// objects finds what is at paths of a commit, as git writes it: "040000 tree <id>". What is not there is not in the answer.
func (g *git) objects(ctx context.Context, commit string, paths ...string) (map[string]string, error) {
	found := map[string]string{}
	args := []string{"ls-tree", "-z", "--full-tree", commit, "--"}
	for _, path := range paths {
		if path != "." {
			args = append(args, filepath.ToSlash(path))
			continue
		}
		root, err := g.run(ctx, "rev-parse", "--verify", commit+"^{tree}")
		if err != nil {
			return nil, err
		}
		found["."] = "040000 tree " + strings.TrimSpace(root)
	}
	if args[len(args)-1] == "--" {
		return found, nil
	}
	out, err := g.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(strings.TrimRight(out, "\x00"), "\x00") {
		if object, path, ok := strings.Cut(line, "\t"); ok {
			found[filepath.FromSlash(path)] = object
		}
	}
	return found, nil
}
