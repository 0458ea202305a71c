// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const state = `{
 "manifest": {"time": "2026-11-30T15:57:44Z", "magic": "a", "version": "v3.276.0"},
 "secrets_providers": {"type": "passphrase", "state": {"salt": "v1:one"}},
 "resources": [
  {"urn": "urn:pulumi:dev::demo::pulumi:pulumi:Stack::demo-dev", "custom": false, "type": "pulumi:pulumi:Stack", "outputs": {"c": "hi"},
   "created": "1", "modified": "1", "sourcePosition": "project:///x#1", "stackTrace": [{"sourcePosition": "y"}]},
  {"urn": "urn:pulumi:dev::demo::files:index:File::a", "custom": true, "id": "/a", "type": "files:index:File",
   "inputs": {"content": "hi", "n": 12345678901234567890}, "outputs": {"content": "hi"}, "propertyDependencies": {"content": []}, "modified": "2"},
  {"urn": "urn:pulumi:dev::demo::files:index:Token::t", "custom": true, "id": "t", "type": "files:index:Token", "modified": "3",
   "outputs": {"deep": [{"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:mv72"}]}}
 ]}`

func TestDigestMovesWithChangesAlone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		old, new string
		moves    bool
		names    []string
	}{
		"the manifest's time":                            {old: "2026-11-30T15:57:44Z", new: "2026-11-30T16:00:00Z", reason: "every update moves it"},
		"where in the program":                           {old: "project:///x#1", new: "project:///z#9"},
		"the stack trace":                                {old: `"sourcePosition": "y"`, new: `"sourcePosition": "z"`},
		"which inputs depend on what":                    {old: `"propertyDependencies": {"content": []}`, new: `"propertyDependencies": {}`},
		"new encryption of the same secret":              {old: "v1:mv72", new: "v1:F+6C", reason: "every update encrypts anew"},
		"a new salt":                                     {old: "v1:one", new: "v1:two"},
		"the modification of a resource without secrets": {old: `"modified": "2"`, new: `"modified": "9"`, reason: "its values are compared themselves"},
		"a value":                        {old: `"outputs": {"content": "hi"}`, new: `"outputs": {"content": "ho"}`, moves: true, names: []string{"changed urn:pulumi:dev::demo::files:index:File::a"}},
		"a large number":                 {old: "12345678901234567890", new: "12345678901234567891", moves: true, names: []string{"changed urn:pulumi:dev::demo::files:index:File::a"}, reason: "a float would lose it"},
		"an id":                          {old: `"id": "/a"`, new: `"id": "/b"`, moves: true, names: []string{"changed urn:pulumi:dev::demo::files:index:File::a"}},
		"protection":                     {old: `"id": "/a"`, new: `"id": "/a", "protect": true`, moves: true, names: []string{"changed urn:pulumi:dev::demo::files:index:File::a"}},
		"another secret value":           {old: `"modified": "3"`, new: `"modified": "9"`, moves: true, names: []string{"changed urn:pulumi:dev::demo::files:index:Token::t"}, reason: "Pulumi moves the time only with a change"},
		"a secret that is none any more": {old: `"ciphertext": "v1:mv72"`, new: `"ciphertext": "v1:mv72", "x": 1`, reason: "still a secret by its signature"},
		"a resource more": {
			old: `"resources": [`, new: `"resources": [{"urn": "urn:x", "type": "y"},`, moves: true, names: []string{"added urn:x"},
		},
		"a resource renamed": {
			old: "File::a", new: "File::b", moves: true,
			names: []string{"added urn:pulumi:dev::demo::files:index:File::b", "removed urn:pulumi:dev::demo::files:index:File::a"},
		},
		"an operation that was cut off": {
			old: `"resources": [`, new: `"pending_operations": [{"type": "creating", "resource": {"urn": "urn:x"}}], "resources": [`, moves: true,
			names: []string{"operations that were cut off: 0 were pending, 1 are"},
		},
	}
	was, err := Digest(json.RawMessage(state))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(state, tc.old) {
				t.Fatalf("the case is wrong: %q is not in the state", tc.old)
			}
			is, err := Digest(json.RawMessage(strings.Replace(state, tc.old, tc.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if moved := is.Digest != was.Digest; moved != tc.moves {
				t.Errorf("Digest (%s): moved %v, want %v", tc.reason, moved, tc.moves)
			}
			if diff := cmp.Diff(tc.names, Differences(was, is, 10)); diff != "" {
				t.Errorf("Differences(): -want +got\n%s", diff)
			}
		})
	}
}

func TestDigestOfNothingIsFixed(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "null", "{}", `{"resources": []}`, `{"manifest": {"time": "x"}, "resources": null}`} {
		got, err := Digest(json.RawMessage(in))
		if err != nil || got.Digest != EmptyState {
			t.Errorf("Digest(%q): %+v, %v", in, got, err)
		}
	}
	if EmptyState == digestOf(nil) {
		t.Error("the empty state's digest is that of no bytes")
	}
}

func TestDigestDoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	a, errA := Digest(json.RawMessage(`{"resources":[{"urn":"a","x":1},{"urn":"b"},{"urn":"a","delete":true}]}`))
	b, errB := Digest(json.RawMessage(`{"resources":[{"urn":"b"},{"delete":true,"urn":"a"},{"x":1,"urn":"a"}]}`))
	if errA != nil || errB != nil || a.Digest != b.Digest {
		t.Errorf("Digest: %+v, %+v, %v, %v", a, b, errA, errB)
	}
}

func FuzzDigest(f *testing.F) {
	f.Add([]byte(state))
	f.Add([]byte(`{"resources":[{"urn":1},null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		one, err := Digest(raw)
		if err != nil {
			return
		}
		two, err := Digest(raw)
		if err != nil || one.Digest != two.Digest {
			t.Errorf("Digest is not stable: %v %v %v", one, two, err)
		}
	})
}
