// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"encoding/json"
	"regexp"
	"sort"
	"strings"
)

// masked stands in the place of a secret.
const masked = "[secret]"

// minSecret is the length below which a value is not masked: it would be found everywhere.
const minSecret = 4

// Mask replaces secrets in all that leaves the pod, except in what goes to the operator as secret.
type Mask struct {
	needles  []string
	replacer *strings.Replacer
}

// plain are values that are no secret, whoever says so: masking them would only destroy texts.
var plain = map[string]bool{"true": true, "false": true, "null": true, "none": true}

// NewMask returns a mask of the given values, and of the longer lines of those with many.
func NewMask(values []string) *Mask {
	seen := map[string]bool{}
	for _, value := range values {
		add := func(v string, limit int) {
			if v = strings.TrimSpace(v); len(v) >= limit && !plain[strings.ToLower(v)] {
				seen[v] = true
			}
		}
		add(value, minSecret)
		if strings.Contains(value, "\n") {
			for _, line := range strings.Split(value, "\n") {
				add(line, 8)
			}
		}
	}
	m := &Mask{}
	for v := range seen {
		m.needles = append(m.needles, v)
	}
	// The longest first: a secret may be a part of another.
	sort.Slice(m.needles, func(i, j int) bool {
		a, b := m.needles[i], m.needles[j]
		return len(a) > len(b) || len(a) == len(b) && a < b
	})
	pairs := make([]string, 0, 4*len(m.needles))
	for _, v := range m.needles {
		pairs = append(pairs, v, masked)
	}
	for _, v := range m.needles {
		if quoted := jsonText(v); quoted != v {
			pairs = append(pairs, quoted, masked)
		}
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// escapes are what a terminal takes as colours and the like; language hosts write them whatever --color says.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[\x20-\x2f]*[\x40-\x7e]`)

// Text masks a text and takes terminal escapes out of it. Values are found as they are and as they look inside of JSON.
func (m *Mask) Text(s string) string { return m.replacer.Replace(escapes.ReplaceAllString(s, "")) }

// Texts masks each text.
func (m *Mask) Texts(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, m.Text(s))
	}
	return out
}

// Events masks the string values in lines of JSON; names, URNs and types stay, because the operator needs them to know what
// is meant.
func (m *Mask) Events(lines []byte) []byte {
	if len(m.needles) == 0 {
		return lines
	}
	var out bytes.Buffer
	for _, line := range bytes.Split(lines, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		out.Write(m.event(line))
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func (m *Mask) event(line []byte) []byte {
	if m.Text(string(line)) == string(line) {
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
	if encoder.Encode(m.value(v)) != nil {
		return []byte(`{}`)
	}
	return bytes.TrimSpace(clean.Bytes())
}

// structural are the keys whose values are not free text.
var structural = map[string]bool{
	"urn": true, "type": true, "op": true, "provider": true, "parent": true, "resourceUrn": true, "severity": true,
	"diffKind": true, "kind": true, "keys": true, "diffs": true, "color": true, "result": true,
}

func (m *Mask) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case []any:
		for i := range v {
			v[i] = m.value(v[i])
		}
	case map[string]any:
		// A map of properties may have a secret under any name: "type" is structural only beside "urn" or in metadata.
		_, hasURN := v["urn"]
		_, isDiff := v["diffKind"]
		_, isDiagnostic := v["severity"]
		for key, inner := range v {
			if structural[key] && (hasURN || isDiff || isDiagnostic) && !isContainer(inner) {
				continue
			}
			v[key] = m.value(inner)
		}
	}
	return v
}

func isContainer(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func jsonText(s string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)
	text := strings.TrimSpace(b.String())
	return text[1 : len(text)-1]
}
