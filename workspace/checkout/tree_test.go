// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package checkout

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/plangate/plangate/workspace"
)

// treeOf asks for a tree in both ways, which must agree, and takes the one of the look first: it fetches.
func treeOf(t *testing.T, c *Checkouts, source workspace.Source) string {
	t.Helper()
	looked, err := c.Tree(context.Background(), source)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(context.Background(), source)
	if err != nil {
		t.Fatal(err)
	}
	if got.Tree != looked {
		t.Errorf("Tree() = %s, Get() has %s", looked, got.Tree)
	}
	return looked
}

func TestTheTreeMovesWithTheProjectAndItsPathsAlone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		dir    string
		paths  []string
		change map[string]string
		moves  bool
	}{
		"a file of the project":                {reason: "the program", dir: "app", change: map[string]string{"app/deep/a": "2"}, moves: true},
		"a file beside the project":            {reason: "another's", dir: "app", change: map[string]string{"lib/a": "2"}},
		"a commit without a change":            {reason: "nothing is touched", dir: "app", change: map[string]string{}},
		"a file at the root":                   {reason: "the project is the root", change: map[string]string{"other": "2"}, moves: true},
		"no file, and the project is the root": {reason: "an empty commit", change: map[string]string{}},
		"a file of a path that counts":         {reason: "the Stack says so", dir: "app", paths: []string{"lib"}, change: map[string]string{"lib/a": "2"}, moves: true},
		"a path that counts is a file":         {reason: "files can be named", dir: "app", paths: []string{"go.mod"}, change: map[string]string{"go.mod": "2"}, moves: true},
		"a path that comes to be":              {reason: "it was not there", dir: "app", paths: []string{"new"}, change: map[string]string{"new/a": "1"}, moves: true},
		"a file beside all of that":            {reason: "nothing names it", dir: "app", paths: []string{"lib", "go.mod", "new"}, change: map[string]string{"other": "2"}},
		"a path and one inside of it":          {reason: "the wider one counts", dir: "app", paths: []string{"lib", "lib/sub"}, change: map[string]string{"lib/a": "2"}, moves: true},
		"everything":                           {reason: "a dot is the root", dir: "app", paths: []string{"."}, change: map[string]string{"other": "2"}, moves: true},
		"a name like another's beginning":      {reason: "paths are whole", dir: "app", paths: []string{"lib"}, change: map[string]string{"library/a": "1"}},
		"a path with marks of a pattern":       {reason: "paths are no patterns", dir: "app", paths: []string{"l*"}, change: map[string]string{"lib/a": "2"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo, c := newRepo(t), newCheckouts(t)
			first := repo.commit(map[string]string{"app/Pulumi.yaml": "x", "app/deep/a": "1", "lib/a": "1", "lib/sub/a": "1", "go.mod": "1", "other": "1"})
			second := repo.commit(tc.change)
			source := repo.source(first)
			source.Dir, source.Paths = tc.dir, tc.paths
			was := treeOf(t, c, source)
			source.Commit = second
			if is := treeOf(t, c, source); (is != was) != tc.moves {
				t.Errorf("%s: the tree was %s and is %s", tc.reason, was, is)
			}
		})
	}
}

func TestTheModeOfAPathCounts(t *testing.T) {
	t.Parallel()
	repo, c := newRepo(t), newCheckouts(t)
	source := repo.source(repo.commit(map[string]string{"app/a": "1", "run": "x"}))
	source.Dir, source.Paths = "app", []string{"run"}
	was := treeOf(t, c, source)
	if err := os.Chmod(filepath.Join(repo.dir, "run"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	source.Commit = repo.commit(nil)
	if treeOf(t, c, source) == was {
		t.Error("a file became a program and the tree is the same")
	}
}

func TestALookAtTheTreeLeavesTheWorkTreeAlone(t *testing.T) {
	t.Parallel()
	repo, c := newRepo(t), newCheckouts(t)
	first := repo.source(repo.commit(map[string]string{"app/Pulumi.yaml": "name: one", "app/a": "1"}))
	first.Dir = "app"
	got, err := c.Get(context.Background(), first)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(got.Path(), "a"), "a program's")
	second := first
	second.Commit = repo.commit(map[string]string{"app/Pulumi.yaml": "name: two", "app/a": "2"})
	if _, err := c.Tree(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	name, content, err := c.ProjectFile(context.Background(), second)
	if err != nil || name != "Pulumi.yaml" || string(content) != "name: two" {
		t.Errorf("ProjectFile() = %q, %q, %v", name, content, err)
	}
	if read(t, filepath.Join(got.Path(), "a")) != "a program's" || read(t, filepath.Join(got.Path(), "Pulumi.yaml")) != "name: one" {
		t.Error("a look has changed the work tree")
	}
}

func TestATreeThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	repo, c := newRepo(t), newCheckouts(t)
	source := repo.source(repo.commit(map[string]string{"app": "a file", "x/y": "1"}))
	for dir, want := range map[string]error{"app": ErrInvalid, "none": ErrInvalid, "../up": ErrInvalid, "x": nil} {
		source.Dir = dir
		if _, err := c.Tree(context.Background(), source); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("Tree() of %q: %v, want %v", dir, err, want)
		}
	}
	source.Dir, source.Paths = "x", []string{"../up"}
	if _, err := c.Tree(context.Background(), source); !errors.Is(err, ErrInvalid) {
		t.Errorf("a path that leads out of the repository: %v", err)
	}
	source.Paths, source.Commit = nil, "0123456789abcdef0123456789abcdef01234567"
	if _, err := c.Tree(context.Background(), source); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a commit that is not there: %v", err)
	}
}
