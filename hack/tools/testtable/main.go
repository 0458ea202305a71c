// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testtable reads the output of `go test -json` and prints what failed, and then a table of all tests, case by case.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

func main() {
	failed, err := table(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtable:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// table prints the table and tells how many tests, or packages without a failed test, have failed.
func table(in io.Reader, out io.Writer) (failed int, err error) {
	said := map[string]*strings.Builder{}
	inside := map[string]bool{} // packages with a failed test
	var rows []string
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return failed, fmt.Errorf("reading what go test said: %w", err)
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			hear(said, key, e.Output)
		case "pass", "fail", "skip":
			bad := e.Action == "fail" && (e.Test != "" || !inside[e.Package])
			if bad {
				failed++
				inside[e.Package] = true
			}
			tell(out, bad, said[key])
			if e.Test != "" || bad {
				rows = append(rows, fmt.Sprintf("%-4s %7.1f s  %-12s %s", e.Action, e.Elapsed, path.Base(e.Package), sentence(e.Test)))
			}
		}
	}
	for _, row := range rows {
		fmt.Fprintln(out, row)
	}
	fmt.Fprintf(out, "%d cases, %d failed\n", len(rows), failed)
	return failed, nil
}

// sentence is a test's name in words.
func sentence(name string) string {
	if name == "" {
		return "(the package itself)"
	}
	head, rest, sub := strings.Cut(strings.TrimPrefix(name, "Test"), "/")
	var b strings.Builder
	for i, r := range head {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte(' ')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	if sub {
		b.WriteString(": " + strings.ReplaceAll(rest, "_", " "))
	}
	return b.String()
}

// tell prints what a test that failed has said. Nil: nothing.
func tell(out io.Writer, bad bool, text *strings.Builder) {
	if bad && text != nil {
		fmt.Fprintln(out, text.String())
	}
}

// hear keeps what a test says.
func hear(said map[string]*strings.Builder, key, text string) {
	if said[key] == nil {
		said[key] = &strings.Builder{}
	}
	said[key].WriteString(text)
}
