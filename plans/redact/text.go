// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minSecret is the fewest bytes that a secret value must have to be masked in text. Shorter ones have next to no
	// entropy, and masking every "a" or "80" would make the text unreadable while it gives the value away.
	minSecret = 4
	// minLine and minMember are the fewest bytes of a part of a secret that is masked by itself: a line of a key, and a text
	// in a JSON document, where short ones are words like the names of types.
	minLine   = 8
	minMember = 16
)

// words are secret values that are masked nowhere, for the reason that short ones are not. Nor are they in capitals.
var words = map[string]bool{"true": true, "false": true, "null": true, "none": true}

func isWord(s string) bool { return words[strings.ToLower(s)] }

// Text masks literal secret values in a text, and makes it printable. Values are found as they are, JSON-escaped,
// URL-escaped, in hex, and in base64 also when they are only a part of what was encoded; so are the longer lines (from 8
// bytes) and the longer texts in JSON (from 16 bytes) of values that have them. Values of less than 4 bytes, and the words
// true, false, null and none, are not masked. Overlapping values are masked as one.
func Text(s string, secrets []string) string {
	return Masker(secrets)(s)
}

// Forms returns every form of the secrets that Text looks for, longest first.
func Forms(secrets []string) []string {
	set := map[string]bool{}
	for _, s := range secrets {
		addForms(set, s)
		for _, part := range parts(s) {
			addForms(set, part)
		}
	}
	forms := make([]string, 0, len(set))
	for f := range set {
		forms = append(forms, f)
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return forms
}

func addForms(set map[string]bool, s string) {
	if len(s) < minSecret || isWord(s) {
		return
	}
	set[s] = true
	set[jsonEscaped(s)] = true
	set[strings.Trim(text(s), `"`)] = true
	set[url.QueryEscape(s)] = true
	set[url.PathEscape(s)] = true
	set[hex.EncodeToString([]byte(s))] = true
	set[base64.RawStdEncoding.EncodeToString([]byte(s))] = true
	set[base64.RawURLEncoding.EncodeToString([]byte(s))] = true
	if trimmed := strings.TrimSpace(s); trimmed != s {
		addForms(set, trimmed)
	}
	if len(s) < 8 {
		return
	}
	for offset := range 3 {
		set[inside(base64.RawStdEncoding, s, offset)] = true
		set[inside(base64.RawURLEncoding, s, offset)] = true
	}
}

// inside returns the characters that base64 makes of s, and of s alone, where s begins offset bytes after a multiple of 3.
func inside(enc *base64.Encoding, s string, offset int) string {
	head := []int{0, 2, 3}[offset]
	encoded := enc.EncodeToString(append(make([]byte, offset), s...))
	whole := (offset + len(s)) * 8 / 6
	return encoded[head:whole]
}

func jsonEscaped(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(b[1 : len(b)-1])
}

// parts returns what of a secret may stand alone: the lines of a key, the texts in a JSON document.
func parts(s string) []string {
	var found []string
	if strings.ContainsRune(s, '\n') {
		found = lines(found, s, minLine)
	}
	var document any
	if trimmed := strings.TrimSpace(s); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if json.Unmarshal([]byte(s), &document) == nil {
			found = leaves(found, document)
		}
	}
	return found
}

func lines(found []string, s string, limit int) []string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); len(line) >= limit {
			found = append(found, line)
		}
	}
	return found
}

func leaves(found []string, v any) []string {
	switch v := v.(type) {
	case string:
		if len(v) >= minMember {
			found = append(found, v)
		}
		found = lines(found, v, minMember)
	case []any:
		for _, e := range v {
			found = leaves(found, e)
		}
	case map[string]any:
		for _, e := range v {
			found = leaves(found, e)
		}
	}
	return found
}

// escapes are the terminal control sequences of ECMA-48 (colours, cursor moves) and the operating system commands (titles,
// links).
var escapes = regexp.MustCompile("\x1b\\[[\\x30-\\x3f]*[\\x20-\\x2f]*[\\x40-\\x7e]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\u009b[\\x30-\\x3f]*[\\x20-\\x2f]*[\\x40-\\x7e]")

// Printable takes terminal control sequences out of a text and escapes what else a terminal would act on or not show:
// control characters other than newline and tab, marks that turn the direction of writing, characters without width, line
// separators, and bytes that are no UTF-8.
func Printable(s string) string {
	clean := true
	for _, r := range s {
		if unseen(r) {
			clean = false
			break
		}
	}
	if clean && utf8.ValidString(s) {
		return s
	}
	s = escapes.ReplaceAllString(s, "")
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unseen(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unseen(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}
