// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/plangate/plangate/plans"
)

func record(name string) plans.Record {
	return plans.Record{Version: plans.RecordVersion, Index: 1, Plan: plans.RecordedPlan{Name: name}, Message: "<a> & \u2028 \"b\"\n"}
}

// The bytes of the record in a line are those that were digested, so that a reader needs no encoder of ours.
func TestALineHoldsTheRecordsOwnBytes(t *testing.T) {
	var out strings.Builder
	l := New(&out, "the cluster")
	for range 2 {
		if err := l.Write(record("web-1")); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 || lines[0] != lines[1] {
		t.Fatalf("two writes of one record are not one line twice: %q", lines)
	}
	if want := `{"schema":"plangate.dev/audit/v1alpha1","cluster":"the cluster","digest":"` + record("web-1").Digest() + `","record":{"version":`; !strings.HasPrefix(lines[0], want) {
		t.Errorf("the line is %s, want %s…", lines[0], want)
	}
	var got line
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	if plans.BytesDigest(got.Record) != got.Digest {
		t.Errorf("the digest is not that of the bytes in the line: %s", lines[0])
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestAWriteThatFailsIsTold(t *testing.T) {
	if err := New(failing{}, "").Write(record("web-1")); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("Write() = %v", err)
	}
}

func TestAFileIsAppendedToAndMayBeTakenAway(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(name, []byte("whole\nbroken o"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(name, "c")
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			if err := l.Write(record("web-1")); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 10 || lines[0] != "whole" || lines[1] != "broken o" || lines[2] != lines[9] || !json.Valid([]byte(lines[9])) {
		t.Errorf("the file holds %q", lines)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(record("web-2")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "web-2") || strings.Contains(string(text), "web-1") {
		t.Errorf("after a rotation: %q, %v", text, err)
	}
}

func TestAFileThatCannotBeOpenedIsToldAtOnce(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "no", "such", "folder"), "c"); err == nil {
		t.Error("Open() says nothing")
	}
}
