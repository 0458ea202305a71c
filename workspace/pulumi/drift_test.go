// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDriftNamesWhatMovedAndNothingElse reads the events of the real CLI.
func TestDriftNamesWhatMovedAndNothingElse(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../tests/testdata/plans/drift/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	found := Drift(raw)
	var names []string
	for _, urn := range slices.Sorted(maps.Keys(found.Resources)) {
		names = append(names, urn[strings.LastIndex(urn, ":")+1:])
	}
	if diff := cmp.Diff([]string{"gone", "ignored", "one", "secret"}, names); diff != "" {
		t.Errorf("Drift(): -want +got\n%s", diff)
	}
	if again := Drift(raw); again.Digest != found.Digest {
		t.Errorf("two digests of the same drift: %s, %s", found.Digest, again.Digest)
	}
	elsewhere := Drift([]byte(strings.ReplaceAll(string(raw), "changed by hand", "changed again")))
	if elsewhere.Digest == found.Digest {
		t.Error("drift to another value has the same digest")
	}
	want := []string{"changed urn:pulumi:s1::demo::files:index:File::ignored", "changed urn:pulumi:s1::demo::files:index:File::one"}
	if diff := cmp.Diff(want, Differences(found, elsewhere, 10)); diff != "" {
		t.Errorf("Differences(): -want +got\n%s", diff)
	}
}

func TestDriftIgnoresNoise(t *testing.T) {
	t.Parallel()
	refresh := func(old, now, more string) []byte {
		return []byte(`{"resOutputsEvent":{"metadata":{"op":"refresh","urn":"u","old":` + old + `,"new":` + now + more + `}}}` + "\n")
	}
	none := Drift(nil)
	for name, tc := range map[string]struct {
		events []byte
		drift  bool
	}{
		"nothing was read":                       {nil, false},
		"an output that makes no difference":     {refresh(`{"inputs":{"a":1},"outputs":{"a":1,"status":1}}`, `{"inputs":{"a":1},"outputs":{"a":1,"status":2}}`, `,"detailedDiff":{}`), false},
		"an input":                               {refresh(`{"inputs":{"a":1}}`, `{"inputs":{"a":2}}`, ""), true},
		"an input that is gone":                  {refresh(`{"inputs":{"a":1}}`, `{"inputs":{}}`, ""), true},
		"an output that the provider calls diff": {refresh(`{"inputs":{"a":1},"outputs":{"a":1}}`, `{"inputs":{"a":1},"outputs":{"a":2}}`, `,"diffs":["a"]`), true},
		"a resource that is gone":                {refresh(`{"inputs":{"a":1}}`, `null`, ""), true},
		"a step of another kind":                 {[]byte(strings.Replace(string(refresh(`{"inputs":{"a":1}}`, `{"inputs":{"a":2}}`, "")), "refresh", "update", 1)), false},
		"garbage":                                {[]byte("garbage\n{}\n"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Drift(tc.events); (got.Digest != none.Digest) != tc.drift || (len(got.Resources) > 0) != tc.drift {
				t.Errorf("Drift() = %+v", got)
			}
		})
	}
}
