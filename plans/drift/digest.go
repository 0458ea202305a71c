// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// NothingDrifted is the digest of a look at the real resources that found nothing drifted.
var NothingDrifted = sum([]byte("plangate/drift/v1/nothing"))

// sumOf is a digest of what happened to a resource: that it is gone, or which properties count and which values they have now.
// What is secret enters as "[secret]", so that nothing can be guessed from it; what is noise does not enter.
func sumOf(f Finding) string {
	type moved struct {
		Path string `json:"path"`
		Live string `json:"live"`
	}
	var properties []moved
	for _, p := range f.Properties {
		if p.Kind == Moved {
			properties = append(properties, moved{p.Path, p.live})
		}
	}
	text, err := json.Marshal([]any{f.URN, f.Class == Deleted, properties})
	if err != nil {
		return sum([]byte(f.URN)) // it is made of texts, so this cannot be
	}
	return sum(text)
}

func digest(findings []Finding) string {
	var lines []string
	for _, f := range findings {
		if f.sum != "" {
			lines = append(lines, f.URN+" "+f.sum)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	return sum([]byte(strings.Join(lines, "\n")))
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(s[:])
}

// Bound is the digest that an approval is bound to: the report's, or NothingDrifted.
func (r Report) Bound() string {
	if r.Digest == "" {
		return NothingDrifted
	}
	return r.Digest
}

// Sums are one digest for each resource that is drifted, by URN, so that what has moved since can be named.
func (r Report) Sums() map[string]string {
	sums := map[string]string{}
	for _, f := range r.Resources {
		if f.sum != "" {
			sums[f.URN] = f.sum
		}
	}
	return sums
}
