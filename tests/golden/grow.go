// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
)

// one is the resource that grows.
const one = "urn:pulumi:s1::demo::files:index:File::one"

var hashes = regexp.MustCompile(`"sha256": ?"[0-9a-f]{64}"`)

// Grow returns the golden plan "update" with its resource n times, under names, paths and hashes of their own: what the CLI
// would write for n files that are updated.
func Grow(t testing.TB, root string, n int) (planFile, events []byte) {
	t.Helper()
	c := load(t, filepath.Join(root, "update"))
	whole, log := c.Plan(t)
	var plan, resources map[string]json.RawMessage
	if err := json.Unmarshal(whole, &plan); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(plan["resourcePlans"], &resources); err != nil {
		t.Fatal(err)
	}
	text := resources[one]
	for i := 1; i < n; i++ {
		resources[fmt.Sprintf("%s%d", one, i)] = copyOf(text, i)
	}
	var grown bytes.Buffer
	for line := range bytes.Lines(log) {
		grown.Write(line)
		for i := 1; i < n && bytes.Contains(line, []byte(`"metadata":{"op":"update","urn":"`+one+`"`)); i++ {
			grown.Write(copyOf(line, i))
		}
	}
	var err error
	if plan["resourcePlans"], err = json.Marshal(resources); err != nil {
		t.Fatal(err)
	}
	if planFile, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	return planFile, grown.Bytes()
}

// copyOf renames what belongs to the resource alone.
func copyOf(text []byte, i int) []byte {
	text = bytes.ReplaceAll(text, []byte(one+`"`), fmt.Appendf(nil, `%s%d"`, one, i))
	text = bytes.ReplaceAll(text, []byte(`"name": "one"`), fmt.Appendf(nil, `"name": "one%d"`, i))
	text = bytes.ReplaceAll(text, []byte("/one.txt"), fmt.Appendf(nil, "/one%d.txt", i))
	text = bytes.ReplaceAll(text, []byte("hello again"), fmt.Appendf(nil, "hello again %x", sha256.Sum256(fmt.Append(nil, i))))
	return hashes.ReplaceAllFunc(text, func(old []byte) []byte {
		return fmt.Appendf(nil, `"sha256":"%x"`, sha256.Sum256(fmt.Appendf(nil, "%s%d", old, i)))
	})
}
