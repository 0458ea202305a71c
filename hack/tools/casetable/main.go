// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command casetable shows a suite case by case: what was tried, what was expected, what happened.
//
//	casetable -tests PAGE          the tests that a page names, as a pattern for go test -run
//	casetable -page PAGE CASES     a row for each row of the page's table, from what became of the tests that it names
//	casetable CASES                a row for each case that the tests logged: "case: TRIED | EXPECTED | HAPPENED"
//
// CASES is the file that testsummary wrote (PLANGATE_TEST_CASES). It ends with 1 where a test failed or did not run.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// named is how a page names a test, and its case.
var named = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/([^`]+))?`")

// ended is a line of the file.
type ended struct {
	Test   string   `json:"test"`
	Result string   `json:"result"`
	Cases  []string `json:"cases"`
}

// row is one case.
type row struct{ tried, expected, happened string }

var errBad = errors.New("not all is as it should be")

func main() {
	tests := flag.String("tests", "", "print the pattern of the tests that this page names")
	page := flag.String("page", "", "the page whose table is shown")
	flag.Parse()
	if err := run(*tests, *page, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "casetable:", err)
		os.Exit(1)
	}
}

func run(tests, page string, args []string) error {
	if tests != "" {
		text, err := os.ReadFile(tests) //nolint:gosec // G304: the page that was asked for
		if err != nil {
			return err
		}
		_, err = fmt.Println(pattern(string(text)))
		return err
	}
	if len(args) != 1 {
		return errors.New("which file?")
	}
	found, err := read(args[0])
	if err != nil {
		return err
	}
	rows := logged(found)
	if page != "" {
		text, err := os.ReadFile(page) //nolint:gosec // G304: the page that was asked for
		if err != nil {
			return err
		}
		rows = ofPage(string(text), found)
	}
	return show(os.Stdout, rows, found)
}

func read(name string) ([]ended, error) {
	file, err := os.Open(name) //nolint:gosec // G304: the file that was asked for
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var all []ended
	for decoder := json.NewDecoder(file); ; {
		var e ended
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		all = append(all, e)
	}
}

// pattern selects the tests that a page names, each with all its cases: names of cases do not say which test they are of alone.
func pattern(page string) string {
	var names []string
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		name := "^" + m[1] + "$"
		if m[2] != "" {
			name += "/^" + regexp.QuoteMeta(caseName(m[2])) + "$"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "|")
}

// caseName is the name of a case as go test says it.
func caseName(name string) string { return strings.ReplaceAll(name, " ", "_") }

// ofPage is a row for each row of the page's first kind of table: four columns, of which the last names tests.
func ofPage(page string, found []ended) []row {
	var rows []row
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		names := named.FindAllStringSubmatch(line, -1)
		if len(cells) != 4 || len(names) == 0 {
			continue
		}
		var happened []string
		for _, m := range names {
			happened = append(happened, became(m[1], m[2], found))
		}
		rows = append(rows, row{cells[0], plain(cells[2]), strings.Join(happened, "; ")})
	}
	return rows
}

// became says what happened in a test: its own words, or how it ended.
func became(test, name string, found []ended) string {
	if name != "" {
		test += "/" + caseName(name)
	}
	i := slices.IndexFunc(found, func(e ended) bool { return e.Test == test })
	switch {
	case i < 0:
		return "DID NOT RUN: " + test
	case found[i].Result != "pass":
		return strings.ToUpper(found[i].Result) + ": " + test
	case len(found[i].Cases) > 0:
		return strings.Join(found[i].Cases, ", ")
	}
	return "as expected (" + test + ")"
}

func plain(text string) string { return strings.NewReplacer("`", "", "**", "").Replace(text) }

// logged are the cases that the tests logged themselves.
func logged(found []ended) []row {
	var rows []row
	for _, e := range found {
		for _, text := range e.Cases {
			if cells := strings.SplitN(text, " | ", 3); len(cells) == 3 {
				rows = append(rows, row{cells[0], cells[1], cells[2]})
			}
		}
	}
	return rows
}

// show prints the table, and says whether all is well.
func show(out io.Writer, rows []row, found []ended) error {
	const format = "%-58.58s  %-46.46s  %.140s\n"
	fmt.Fprintf(out, "\n"+format, "TRIED", "EXPECTED", "HAPPENED")
	bad := len(rows) == 0
	for _, r := range rows {
		fmt.Fprintf(out, format, strings.TrimSpace(r.tried), r.expected, r.happened)
		bad = bad || strings.Contains(r.happened, "DID NOT RUN: ")
	}
	if bad || slices.ContainsFunc(found, func(e ended) bool { return e.Result == "fail" }) {
		return errBad
	}
	return nil
}
