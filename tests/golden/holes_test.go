// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var named = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/([^`]+))?`")

// TestEveryTestThatDocsHolesNamesIsThere: a promise in docs/holes.md whose test is gone is no promise.
func TestEveryTestThatDocsHolesNamesIsThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/holes.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := testSources(t, "../..")
	rows := 0
	for line := range strings.Lines(string(page)) {
		found := named.FindAllStringSubmatch(line, -1)
		if isRow := strings.HasPrefix(line, "| ") && strings.Count(line, " | ") == 3 && !strings.HasPrefix(line, "| after the plan"); isRow {
			rows++
			if len(found) == 0 {
				t.Errorf("no test is named in: %s", line)
			}
		}
		for _, f := range found {
			if !defines(sources, f[1], f[2]) {
				t.Errorf("there is no test %s with a case %q", f[1], f[2])
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d holes are listed", rows)
	}
	for _, c := range Cases(t, "../testdata/plans") {
		if len(c.Refused) > 0 != strings.Contains(string(page), "| `"+c.Name+"` |") {
			t.Errorf("the golden case %s: Pulumi refuses it %t, and the page says otherwise", c.Name, len(c.Refused) > 0)
		}
	}
}

// testSources are the texts of all test files.
func testSources(t *testing.T, root string) []string {
	t.Helper()
	var sources []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		sources = append(sources, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// defines tells whether a package's files hold a test, and the name of its case.
func defines(sources []string, test, name string) bool {
	there, held := false, name == ""
	for _, text := range sources {
		there = there || strings.Contains(text, "\nfunc "+test+"(t *testing.T)")
		held = held || strings.Contains(text, `"`+name+`"`)
	}
	return there && held
}
