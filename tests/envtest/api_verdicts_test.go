// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// edit changes an object as it is on the wire, so that a case can say what no Go value can.
type edit func(map[string]any)

// set puts a value at a path: "spec.secretsRef.key.type". A "*" in a path stands for the first item of a list. A key that
// has dots in it cannot be named.
func set(path string, value any) edit {
	return func(object map[string]any) {
		parent, key := walk(object, path)
		parent[key] = onWire(value)
	}
}

// unset removes what is at a path.
func unset(path string) edit {
	return func(object map[string]any) {
		parent, key := walk(object, path)
		delete(parent, key)
	}
}

// all applies several edits in order.
func all(edits ...edit) edit {
	return func(object map[string]any) {
		for _, change := range edits {
			change(object)
		}
	}
}

func walk(object map[string]any, path string) (parent map[string]any, key string) {
	parts := strings.Split(path, ".")
	for i, part := range parts[:len(parts)-1] {
		if part == "*" {
			continue
		}
		if parts[i+1] == "*" {
			first, ok := object[part].([]any)[0].(map[string]any)
			if !ok {
				panic("no list of objects: " + path)
			}
			object = first
			continue
		}
		child, ok := object[part].(map[string]any)
		if !ok {
			child = map[string]any{}
			object[part] = child
		}
		object = child
	}
	return object, parts[len(parts)-1]
}

// onWire turns a Go value into what decoding its JSON gives.
func onWire(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		panic(err)
	}
	return decoded
}

// wire is an object as it is on the wire, without the status that a typed object always has.
func wire(object client.Object) *unstructured.Unstructured {
	content, ok := onWire(object).(map[string]any)
	if !ok {
		panic("not an object")
	}
	delete(content, "status")
	// What the API server returned as a typed object has no kind any more.
	kind, err := apiutil.GVKForObject(object, world.scheme)
	if err != nil {
		panic(err)
	}
	wired := &unstructured.Unstructured{Object: content}
	wired.SetGroupVersionKind(kind)
	return wired
}

// verdictCase is an edit of a valid object, and what the API server says of it.
type verdictCase struct {
	reason string
	edit   edit
	// want is a part of the message; empty if the object is accepted.
	want string
}

// testVerdicts asks the API server, without keeping anything, what it says of each case.
func testVerdicts(t *testing.T, base client.Object, cases map[string]verdictCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := wire(base)
			tc.edit(object.Object)
			err := world.client.Create(t.Context(), object, client.DryRunAll)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred(), tc.reason)
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)), tc.reason)
		})
	}
}

// times is a list of n values.
func times(n int, value func(int) any) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = value(i)
	}
	return list
}
