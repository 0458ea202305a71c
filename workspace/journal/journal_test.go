// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/workspace"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, dir string) *Journal {
	t.Helper()
	j, _, err := Open(dir, 3, now)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func entry(id string, n int) Entry {
	return Entry{ID: id, Type: workspace.Apply, Stack: "dev", Host: "pod", StartedAt: now.Add(time.Duration(n) * time.Minute)}
}

func result(id string) *workspace.Result {
	return &workspace.Result{ID: id, Type: workspace.Apply, Outcome: workspace.Succeeded, StartedAt: now, EndedAt: now}
}

func TestAnOperationIsKnownWhateverHappensToTheProcess(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		do     func(t *testing.T, j *Journal)
		damage func(t *testing.T, folder string)
		want   workspace.Outcome
		gone   bool
	}{
		"ended": {
			reason: "the plain case",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0)), j.End(result("a"))) },
			want:   workspace.Succeeded,
		},
		"begun and cut off": {
			reason: "the process died",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0)), j.Note("a", 42)) },
			want:   workspace.Interrupted,
		},
		"a destroy, begun and cut off": {
			reason: "a destroy is never run twice either",
			do: func(t *testing.T, j *Journal) {
				e := entry("a", 0)
				e.Type = workspace.Destroy
				must(t, j.Begin(e), j.Note("a", 42))
			},
			want: workspace.Interrupted,
		},
		"cut off before the beginning was whole": {
			reason: "Begin did not return, so nothing was run",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0))) },
			damage: func(t *testing.T, folder string) { must(t, os.Remove(filepath.Join(folder, entryFile))) },
			gone:   true,
		},
		"cut off while the end was written": {
			reason: "the file beside was not renamed",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0))) },
			damage: func(t *testing.T, folder string) {
				must(t, os.WriteFile(filepath.Join(folder, resultFile+".tmp-1"), []byte(`{"id":"a"`), 0o600))
			},
			want: workspace.Interrupted,
		},
		"the end is half a file": {
			reason: "a damaged disk",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0)), j.End(result("a"))) },
			damage: func(t *testing.T, folder string) {
				must(t, os.WriteFile(filepath.Join(folder, resultFile), []byte(`{"id":"a","outcome":"Succ`), 0o600))
			},
			want: workspace.Interrupted,
		},
		"the end is of another operation": {
			reason: "a damaged disk",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0)), j.End(result("a"))) },
			damage: func(t *testing.T, folder string) {
				must(t, os.WriteFile(filepath.Join(folder, resultFile), []byte(`{"id":"b","outcome":"Succeeded"}`), 0o600))
			},
			want: workspace.Interrupted,
		},
		"the beginning is garbage": {
			reason: "it was started, so it must never be started again",
			do:     func(t *testing.T, j *Journal) { must(t, j.Begin(entry("a", 0)), j.End(result("a"))) },
			damage: func(t *testing.T, folder string) {
				must(t, os.WriteFile(filepath.Join(folder, entryFile), []byte("\x00\x00"), 0o600))
			},
			want: workspace.Interrupted,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			j := open(t, dir)
			must(t, j.Begin(entry("other", 1)), j.End(result("other")))
			tc.do(t, j)
			if tc.damage != nil {
				tc.damage(t, filepath.Join(dir, folderOf("a")))
			}
			must(t, os.WriteFile(filepath.Join(dir, "stray"), []byte("x"), 0o600))
			for range 2 { // what one start decided, the next one keeps
				j = open(t, dir)
			}
			got, err := j.Get("a")
			if tc.gone {
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("Get (%s): want ErrNotFound, got %+v, %v", tc.reason, got, err)
				}
				must(t, j.Begin(entry("a", 0)))
			} else {
				if err != nil || got.Result == nil || got.Result.Outcome != tc.want {
					t.Fatalf("Get (%s): want %s, got %+v, %v", tc.reason, tc.want, got, err)
				}
				if err := j.Begin(entry("a", 0)); !errors.Is(err, ErrExists) {
					t.Errorf("Begin again (%s): want ErrExists, got %v", tc.reason, err)
				}
			}
			if other, err := j.Get("other"); err != nil || other.Result.Outcome != workspace.Succeeded {
				t.Errorf("another operation was lost: %+v, %v", other, err)
			}
		})
	}
}

func TestEndKeepsThePlanAndNoOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, dir)
	r := result("a")
	r.Plan, r.Events = []byte("plan"), []byte("events\n")
	r.Outputs = map[string]json.RawMessage{"x": json.RawMessage(`"canary"`)}
	must(t, j.Begin(entry("a", 0)), j.Note("a", 42), j.End(r))
	got, err := open(t, dir).Get("a")
	if err != nil {
		t.Fatal(err)
	}
	want := *r
	want.Outputs, want.OutputsLost = nil, true
	if diff := cmp.Diff(&want, got.Result); diff != "" {
		t.Errorf("Get(): -want +got\n%s", diff)
	}
	if got.PID != 42 {
		t.Errorf("Get(): pid %d", got.PID)
	}
	_ = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		must(t, err)
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			must(t, err)
			if strings.Contains(string(raw), "canary") {
				t.Errorf("%s has an output", path)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
		return nil
	})
}

func TestOnlyTheLastOperationsAreKept(t *testing.T) {
	t.Parallel()
	j := open(t, t.TempDir())
	for i := range 6 {
		id := fmt.Sprint(i)
		must(t, j.Begin(entry(id, i)), j.End(result(id)))
	}
	must(t, j.Begin(entry("running", -100)))
	must(t, j.Begin(entry("last", 100)), j.End(result("last")))
	var ids []string
	for _, r := range j.All() {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"running", "4", "5", "last"}, ids); diff != "" {
		t.Errorf("All(): -want +got\n%s", diff)
	}
}

func TestStatesAreBounded(t *testing.T) {
	t.Parallel()
	s := States{Dir: filepath.Join(t.TempDir(), "states"), Limit: 2}
	for i := range 4 {
		must(t, s.Keep(fmt.Sprint(i), []byte{byte(i)}))
		must(t, os.Chtimes(filepath.Join(s.Dir, s.name(fmt.Sprint(i))), now, now.Add(time.Duration(i)*time.Second)))
	}
	must(t, s.Keep("4", []byte{4}))
	if s.Get("0") != nil || s.Get("4") == nil || s.Get("never") != nil {
		t.Error("the wrong states are kept")
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte(`{"id":"a","type":"Apply"}`))
	f.Add([]byte(`{"id":"","type":"Apply"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := decodeEntry(raw)
		if err == nil && (e.ID == "" || e.Type == "") {
			t.Errorf("decoded %+v", e)
		}
	})
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatACutOffOperationToldIsKept(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	open := func() *Journal {
		j, problems, err := Open(dir, 10, now)
		if err != nil || len(problems) > 0 {
			t.Fatalf("Open: %v %v", err, problems)
		}
		return j
	}
	j := open()
	if err := j.Begin(Entry{ID: "a", Type: workspace.Apply, StartedAt: now}); err != nil {
		t.Fatal(err)
	}
	trail, err := j.Trail("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trail.WriteString("{\"n\":1}\n{\"n\":2}\n{\"n\":"); err != nil {
		t.Fatal(err)
	}
	_ = trail.Close()
	released := []workspace.ReleasedLock{{Lock: workspace.Lock{ID: "lock-1", Host: "h"}, Cause: workspace.LockOwnDead, By: "proof"}}
	if err := j.Releasing("a", released); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is an ended operation
		record, err := open().Get("a")
		if err != nil || record.Result == nil || record.Result.Outcome != workspace.Interrupted {
			t.Fatalf("Get: %+v, %v", record, err)
		}
		if got := string(record.Result.Events); got != "{\"n\":1}\n{\"n\":2}\n" {
			t.Errorf("events: %q", got)
		}
		if diff := cmp.Diff(released, record.Result.Released); diff != "" {
			t.Errorf("released: -want +got\n%s", diff)
		}
	}
}

func TestChecksForDriftPushNothingElseOut(t *testing.T) {
	t.Parallel()
	j := open(t, t.TempDir())
	must(t, j.Begin(entry("apply", 0)), j.End(result("apply")))
	for n := 1; n <= 10; n++ {
		e, r := entry(fmt.Sprint("check-", n), n), result(fmt.Sprint("check-", n))
		e.Type, r.Type = workspace.DriftCheck, workspace.DriftCheck
		must(t, j.Begin(e), j.End(r))
	}
	if _, err := j.Get("apply"); err != nil {
		t.Errorf("the apply is not known any more: %v", err)
	}
	if _, err := j.Get("check-10"); err != nil {
		t.Errorf("the newest check is not known: %v", err)
	}
	if all := j.All(); len(all) != 1+keptChecks {
		t.Errorf("%d operations are kept, want %d", len(all), 1+keptChecks)
	}
}
