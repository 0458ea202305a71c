// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// filesIn reads all files below a folder, by name.
func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// outFiles are the files that the programs of a rig write.
func (r *rig) outFiles() map[string]string { return filesIn(r.t, r.file("out")) }

// find finds a file below a folder. "": there is none.
func (r *rig) find(dir, name string) string {
	r.t.Helper()
	for path := range filesIn(r.t, dir) {
		if filepath.Base(path) == name {
			return path
		}
	}
	return ""
}
