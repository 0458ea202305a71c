// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Mask masks a fixed set of literal secret values in many texts. What it takes depends on the length of the texts, and
// hardly on how many secrets there are. It is safe for concurrent use.
type Mask struct{ forms matcher }

// NewMask returns a mask of the given values. Which of their forms are found is told at Text.
func NewMask(secrets []string) *Mask { return &Mask{forms: newMatcher(Forms(secrets))} }

// Masker returns Text for fixed secrets; it is for many texts.
func Masker(secrets []string) func(string) string { return NewMask(secrets).Text }

// Text masks a text and makes it printable.
func (m *Mask) Text(s string) string {
	// Once before and once after control sequences are taken out, so that neither hides a secret from the other.
	rest := strings.Split(Printable(m.forms.mask(s)), Secret)
	for i := range rest {
		rest[i] = m.forms.mask(rest[i])
	}
	return strings.Join(rest, Secret)
}

// Texts masks each text.
func (m *Mask) Texts(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, m.Text(s))
	}
	return out
}

// Events masks the string values in Pulumi's engine events, one JSON object a line. URNs, types and operations stay, because
// they tell what is meant; whoever shows them masks them then. A line with a secret in it that is no JSON becomes "{}".
// Nothing is made printable: a value that is compared with another must stay what it is.
func (m *Mask) Events(lines []byte) []byte {
	if m.forms.empty() {
		return lines
	}
	out := make([]byte, 0, len(lines))
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) > 0 {
			out = append(append(out, m.event(line)...), '\n')
		}
	}
	return out
}

func (m *Mask) event(line []byte) []byte {
	if !m.forms.find(string(line)) {
		return line
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return []byte(`{}`)
	}
	var clean bytes.Buffer
	encoder := json.NewEncoder(&clean)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(m.inside(v)) != nil {
		return []byte(`{}`)
	}
	return bytes.TrimSpace(clean.Bytes())
}

// structural are the keys whose values are not free text.
var structural = map[string]bool{
	"urn": true, "type": true, "op": true, "provider": true, "parent": true, "resourceUrn": true, "severity": true,
	"diffKind": true, "kind": true, "keys": true, "diffs": true, "color": true, "result": true,
}

func (m *Mask) inside(v any) any {
	switch v := v.(type) {
	case string:
		return m.forms.mask(v)
	case []any:
		for i := range v {
			v[i] = m.inside(v[i])
		}
	case map[string]any:
		// A map of properties may have a secret under any name: "type" is structural only beside "urn" or in metadata.
		_, hasURN := v["urn"]
		_, isDiff := v["diffKind"]
		_, isDiagnostic := v["severity"]
		for key, inner := range v {
			if _, deep := inner.(map[string]any); !deep && structural[key] && (hasURN || isDiff || isDiagnostic) {
				continue
			}
			v[key] = m.inside(inner)
		}
	}
	return v
}

// matcher finds any of many texts in one pass: by their first two bytes, of which a table tells whether any has them, then
// by the first four.
type matcher struct {
	pairs [1 << 16 / 64]uint64
	heads map[[minSecret]byte][]string
}

// newMatcher takes texts of at least minSecret bytes; shorter ones are not found.
func newMatcher(texts []string) matcher {
	m := matcher{heads: map[[minSecret]byte][]string{}}
	for _, t := range texts {
		if len(t) < minSecret {
			continue
		}
		pair := uint(t[0])<<8 | uint(t[1])
		m.pairs[pair/64] |= 1 << (pair % 64)
		head := [minSecret]byte([]byte(t[:minSecret]))
		m.heads[head] = append(m.heads[head], t)
	}
	return m
}

func (m *matcher) empty() bool { return len(m.heads) == 0 }

// at is the end of the longest text that begins at i. None: i.
func (m *matcher) at(s string, i int) int {
	pair := uint(s[i])<<8 | uint(s[i+1])
	if m.pairs[pair/64]&(1<<(pair%64)) == 0 {
		return i
	}
	end := i
	for _, t := range m.heads[[minSecret]byte([]byte(s[i:i+minSecret]))] {
		if strings.HasPrefix(s[i:], t) {
			end = max(end, i+len(t))
		}
	}
	return end
}

func (m *matcher) find(s string) bool {
	for i := 0; i+minSecret <= len(s) && !m.empty(); i++ {
		if m.at(s, i) > i {
			return true
		}
	}
	return false
}

// mask replaces every stretch of s that is covered by one or more of the texts. Replacing text by text would leave the rest
// of a value that overlaps another one.
func (m *matcher) mask(s string) string {
	if m.empty() {
		return s
	}
	var b strings.Builder
	covered := 0 // up to here all is in b
	for i := 0; i+minSecret <= len(s); i++ {
		end := m.at(s, i)
		if end == i {
			continue
		}
		if i > covered || covered == 0 {
			b.WriteString(s[covered:i])
			b.WriteString(Secret)
		}
		covered = max(covered, end)
	}
	if covered == 0 {
		return s
	}
	b.WriteString(s[covered:])
	return b.String()
}
