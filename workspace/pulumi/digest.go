// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
)

// EmptyState is the digest of a state without resources, or of none at all.
var EmptyState = digestOf([]byte("plangate/state/v1/empty"))

// secretSignature marks an encrypted value in a state: pulumi's own constants.
const (
	signatureKey    = "4dabf18193072939515e22adb298388d"
	secretSignature = "1b47061264138c4ac30d75fd1eb44270"
)

// noise is what a no-op update or another machine changes in a resource.
var noise = []string{"sourcePosition", "stackTrace", "propertyDependencies", "created", "modified"}

// State is what identifies a state: a digest, and one for each resource so that a difference can be named.
type State struct {
	Digest string `json:"digest"`
	// Resources is URN → digest. A URN that is there twice (a pending replacement) has "#2" and so on.
	Resources map[string]string `json:"resources,omitempty"`
	// Pending are the digests of the operations that were cut off, sorted.
	Pending []string `json:"pending,omitempty"`
}

// Digest computes the digest of a deployment. It survives no-op updates and refreshes, new time stamps and new encryption;
// anything else moves it. Pulumi encrypts every secret anew in each update, so a ciphertext says nothing: for a resource
// that holds secrets the time of its last modification, which Pulumi moves only with a change, stands for their values.
func Digest(deployment json.RawMessage) (State, error) {
	var d struct {
		Resources []map[string]any `json:"resources"`
		Pending   []any            `json:"pending_operations"`
	}
	if len(bytes.TrimSpace(deployment)) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(deployment))
		decoder.UseNumber()
		if err := decoder.Decode(&d); err != nil {
			return State{}, fmt.Errorf("decoding state: %w", err)
		}
	}
	if len(d.Resources) == 0 && len(d.Pending) == 0 {
		return State{Digest: EmptyState}, nil
	}
	s := State{Resources: map[string]string{}}
	lines := make([]string, 0, len(d.Resources)+len(d.Pending))
	for _, r := range d.Resources {
		urn, sum := resourceDigest(r)
		key := urn
		for n := 2; s.Resources[key] != ""; n++ {
			key = fmt.Sprintf("%s#%d", urn, n)
		}
		s.Resources[key] = sum
		lines = append(lines, urn+" "+sum)
	}
	for _, p := range d.Pending {
		neutral, _ := neutralise(p)
		s.Pending = append(s.Pending, digestOf(encode(neutral)))
		lines = append(lines, "pending "+digestOf(encode(neutral)))
	}
	sort.Strings(lines)
	sort.Strings(s.Pending)
	s.Digest = digestOf(encode(lines))
	return s, nil
}

func resourceDigest(r map[string]any) (urn, digest string) {
	urn, _ = r["urn"].(string)
	modified := r["modified"]
	for _, key := range noise {
		delete(r, key)
	}
	neutral, secret := neutralise(r)
	if secret {
		neutral.(map[string]any)["modified"] = modified
	}
	return urn, digestOf(encode(neutral))
}

// neutralise replaces each ciphertext by a constant, and tells whether there was one.
func neutralise(v any) (any, bool) {
	found := false
	switch v := v.(type) {
	case map[string]any:
		if v[signatureKey] == secretSignature {
			return map[string]any{signatureKey: secretSignature}, true
		}
		for key, value := range v {
			neutral, secret := neutralise(value)
			v[key], found = neutral, found || secret
		}
	case []any:
		for i, value := range v {
			neutral, secret := neutralise(value)
			v[i], found = neutral, found || secret
		}
	}
	return v, found
}

// encode is canonical: Go sorts the keys of maps.
func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		// It came out of a JSON decoder, so this cannot be. Never equal to anything is the safe answer.
		return []byte(rand.Text())
	}
	return out
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Differences names the resources that differ: "changed URN", "added URN", "removed URN", sorted, at most limit; and says when what is pending
// differs.
func Differences(was, is State, limit int) []string {
	var out []string
	for urn, sum := range was.Resources {
		switch now, ok := is.Resources[urn]; {
		case !ok:
			out = append(out, "removed "+urn)
		case now != sum:
			out = append(out, "changed "+urn)
		}
	}
	for urn := range is.Resources {
		if _, ok := was.Resources[urn]; !ok {
			out = append(out, "added "+urn)
		}
	}
	sort.Strings(out)
	if len(out) > limit {
		out = append(out[:limit], fmt.Sprintf("and %d more", len(out)-limit))
	}
	if !slices.Equal(was.Pending, is.Pending) {
		out = append(out, fmt.Sprintf("operations that were cut off: %d were pending, %d are", len(was.Pending), len(is.Pending)))
	}
	return out
}
