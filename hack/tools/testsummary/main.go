// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testsummary reads the output of `go test -json`, prints it as go test itself would, and counts.
//
// A test that has subtests is not counted beside them. A package that failed without a failed test in it (it did not
// build, it panicked, it ran out of time) counts as one that failed, so that the sum never looks better than the truth.
// If PLANGATE_TEST_COUNTS names a file, a line "PASSED FAILED SKIPPED" is appended to it. If PLANGATE_TEST_CASES names one, it
// gets a line of JSON for each test that ended, with what the test logged behind "case: "; casetable shows them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// counts is how many tests ended how.
type counts struct {
	passed, failed, skipped int
}

// summary gathers what was said.
type summary struct {
	out io.Writer
	counts
	output  map[string][]string // by package and test: what it said, until it ends
	parents map[string]bool     // by package and test: has subtests
	failing map[string]bool     // by package, and by package and test: a failed test in it was counted
	cases   *json.Encoder       // nil: nobody asks for them
}

// ended is a line of PLANGATE_TEST_CASES.
type ended struct {
	Package string   `json:"package"`
	Test    string   `json:"test"`
	Result  string   `json:"result"`
	Cases   []string `json:"cases,omitempty"`
}

func main() {
	s := &summary{out: os.Stdout, output: map[string][]string{}, parents: map[string]bool{}, failing: map[string]bool{}}
	if name := os.Getenv("PLANGATE_TEST_CASES"); name != "" {
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testsummary:", err)
			os.Exit(1)
		}
		s.cases = json.NewEncoder(file)
	}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	if err := appendCounts(os.Getenv("PLANGATE_TEST_COUNTS"), s.counts); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	if s.failed > 0 {
		os.Exit(1)
	}
}

func (s *summary) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	// A test can print long lines; the scanner's own limit of 64 KiB would end the reading.
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command's own words, such as a package pattern that matches nothing.
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.add(e)
	}
	return lines.Err()
}

func (s *summary) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "run":
		if i := strings.LastIndex(e.Test, "/"); i > 0 {
			s.parents[e.Package+" "+e.Test[:i]] = true
		}
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		s.say(e, key)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		s.endTest(e, key)
	}
}

// say keeps what a test prints until it is known whether it failed; what a package prints is short, and shown.
func (s *summary) say(e event, key string) {
	if e.Test != "" {
		s.output[key] = append(s.output[key], e.Output)
		return
	}
	// go test says PASS only where it is asked to be verbose, which -json is.
	if e.Output != "PASS\n" && !strings.Contains(e.Output, "[no test files]") {
		fmt.Fprint(s.out, e.Output)
	}
}

func (s *summary) endTest(e event, key string) {
	if e.Action == "fail" {
		fmt.Fprint(s.out, strings.Join(s.output[key], ""))
	}
	s.tell(e, s.output[key])
	delete(s.output, key)
	// Its subtests were counted; but a test that fails by itself after they all passed must not be lost.
	if s.parents[key] && (e.Action != "fail" || s.failing[key]) {
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.blame(e)
	default:
		s.skipped++
	}
}

// tell writes down how a test ended and what it says of its cases.
func (s *summary) tell(e event, output []string) {
	if s.cases == nil {
		return
	}
	line := ended{Package: e.Package, Test: e.Test, Result: e.Action}
	for _, text := range strings.Split(strings.Join(output, ""), "\n") {
		if _, words, ok := strings.Cut(text, "case: "); ok {
			line.Cases = append(line.Cases, words)
		}
	}
	if err := s.cases.Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
}

// blame marks the package and the tests around a failed test, so that they do not count again.
func (s *summary) blame(e event) {
	s.failing[e.Package] = true
	for test := e.Test; ; {
		i := strings.LastIndex(test, "/")
		if i < 0 {
			return
		}
		test = test[:i]
		s.failing[e.Package+" "+test] = true
	}
}

func (s *summary) endPackage(e event) {
	if e.Action != "fail" {
		return
	}
	// What its tests said before they were cut off is all there is to go by.
	for key, output := range s.output {
		if strings.HasPrefix(key, e.Package+" ") {
			fmt.Fprint(s.out, strings.Join(output, ""))
			delete(s.output, key)
		}
	}
	if !s.failing[e.Package] {
		s.failed++
	}
}

func appendCounts(name string, c counts) error {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the counts: %w", err)
	}
	if _, err := fmt.Fprintln(file, c.passed, c.failed, c.skipped); err != nil {
		return fmt.Errorf("writing the counts: %w", err)
	}
	return file.Close()
}
