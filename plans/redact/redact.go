// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact is the only place that masks: property values that Pulumi marks as secret, literal secret values in
// text, and characters that would fool a terminal.
//
// Value and JSON work on what Pulumi marked. Text works on what the caller knows to be secret. Neither can find a secret
// that nobody marked and nobody names: a hash of a secret, for example, passes as what it is, another value.
package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// What stands in place of a value that is not shown.
const (
	Secret  = "[secret]"
	Unknown = "[unknown]"
	hidden  = "[hidden]"
)

// Mark is what Value puts in place of a value that is not shown. Its type tells it from a text that looks like one: at the
// top of what JSON returns, a Mark has no quotes.
type Mark string

// MaxValue is the most bytes that a value shown in an UpdatePlan may have.
const MaxValue = 512

// Signatures by which Pulumi marks values that JSON has no form for. They are those of sdk/v3's resource/sig, repeated
// here so that the masking stands without any Pulumi module.
const (
	sigKey         = "4dabf18193072939515e22adb298388d"
	sigSecret      = "1b47061264138c4ac30d75fd1eb44270"
	sigAsset       = "c44067f5952c0a294b673a41bacd8c17"
	sigArchive     = "0def7320c3a5731c473e5ecbe6d01bc7"
	sigResourceRef = "5cf8f73096256a8f31e491e813e4eb8e"
	sigByteString  = "803fd3297a5875dc03ca845dda5d2a98"
	sigFloat       = "8ad145fe-0d11-4827-bfd7-1abcbf086f5c"
	sigOutputValue = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
)

// unknowns are the strings that stand for a value that is not known before the apply, one for each type.
var unknowns = map[string]bool{
	"1c4a061d-8072-4f0a-a4cb-0ff528b18fe7": true,
	"3eeb2bf0-c639-47a8-9e75-3b44932eb421": true,
	"04da6b54-80e4-46f7-96ec-b56ff0331ba9": true,
	"6a19a0b0-7e62-4c92-b797-7f8e31da9cc2": true,
	"030794c1-ac77-496b-92df-f27374a8bd58": true,
	"e48ece36-62e2-4504-bad9-02848725956a": true,
	"dd056dcd-154b-4c76-9bd3-c8f88648b5ff": true,
}

// IsUnknown tells whether a decoded property value stands for one that is not known before the apply.
func IsUnknown(v any) bool {
	switch v := v.(type) {
	case string:
		return unknowns[v]
	case Mark:
		return v == Unknown
	case map[string]any:
		if v[sigKey] != sigOutputValue {
			return false
		}
		element, known := v["value"]
		return !known || IsUnknown(element)
	}
	return false
}

// IsSecret tells whether a decoded property value is marked as secret, whole. The text "[secret]" counts as marked: it is
// what Pulumi itself puts in place of secrets that it finds in texts.
func IsSecret(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return v == Secret || v == Mark(Secret)
	}
	switch m[sigKey] {
	case sigSecret:
		return true
	case sigOutputValue:
		secret, _ := m["secret"].(bool)
		return secret || IsSecret(m["value"])
	}
	return false
}

// IsMarked tells whether a decoded property value is one of Pulumi's marked values: a secret, an asset, a reference. Such
// a value is a leaf: what is inside is no property.
func IsMarked(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	_, marked := m[sigKey]
	return marked
}

// Value returns a decoded property value as it may be shown: secrets as "[secret]", unknown values as "[unknown]", assets,
// archives and references as a short text, at any depth. The argument is not changed. It may be applied twice.
func Value(v any) any {
	switch v := v.(type) {
	case string:
		switch {
		case unknowns[v]:
			return Mark(Unknown)
		case v == Secret:
			return Mark(Secret)
		}
		return v
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Value(v[i])
		}
		return out
	case map[string]any:
		if signature, ok := v[sigKey]; ok {
			return marked(signature, v)
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Value(e)
		}
		return out
	}
	return v
}

// marked says a marked value in words. A mark that is not known is hidden: it could be a new kind of secret.
func marked(signature any, v map[string]any) any {
	switch signature {
	case sigSecret:
		return Mark(Secret)
	case sigOutputValue:
		if IsSecret(v) {
			return Mark(Secret)
		}
		element, known := v["value"]
		if !known {
			return Mark(Unknown)
		}
		return Value(element)
	case sigAsset:
		return content("asset", v)
	case sigArchive:
		return content("archive", v)
	case sigResourceRef:
		return Mark("[resource " + member(v, "urn") + "]")
	case sigByteString:
		return Mark("[bytes " + member(v, "value") + "]")
	case sigFloat:
		return Mark("[number 0x" + member(v, "value") + "]")
	}
	return Mark(hidden)
}

func member(v map[string]any, key string) string {
	s, _ := v[key].(string)
	return s
}

// content names an asset or archive by where it comes from and its hash; its text is not shown.
func content(kind string, v map[string]any) Mark {
	var b strings.Builder
	b.WriteString("[" + kind)
	for _, k := range []string{"path", "uri"} {
		if s := member(v, k); s != "" {
			b.WriteString(" " + s)
		}
	}
	if s := member(v, "hash"); s != "" {
		b.WriteString(" sha256:" + s)
	}
	return Mark(b.String() + "]")
}

// JSON returns a decoded property value, masked by Value, as compact JSON text of at most limit bytes. Longer text ends in
// an ellipsis, and is then no JSON any more. Characters that would fool a terminal are escaped.
func JSON(v any, limit int) string {
	return Shorten(text(Value(v)), limit)
}

// Pair returns two values as JSON does. When they differ but their beginnings do not, it shows both from where they part,
// so that a change at the end of a long value cannot hide behind the ellipsis.
func Pair(before, after any, limit int) (string, string) {
	return ShortenPair(text(Value(before)), text(Value(after)), limit)
}

// ShortenPair shortens two texts, and as Pair does shows what they differ in.
func ShortenPair(b, a string, limit int) (string, string) {
	if b == a || Shorten(b, limit) != Shorten(a, limit) {
		return Shorten(b, limit), Shorten(a, limit)
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	// What both have in common before at has the same characters, so one boundary is that of both.
	const context = 40
	from := max(0, at-context)
	for from > 0 && !utf8.RuneStart((b + "\x00")[from]) {
		from--
	}
	return Shorten(ellipsis+b[from:], limit), Shorten(ellipsis+a[from:], limit)
}

// text encodes a masked value. A value that JSON cannot hold is hidden, not guessed at.
func text(v any) string {
	if mark, ok := v.(Mark); ok {
		return Printable(string(mark))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return hidden
	}
	return Printable(strings.TrimSuffix(b.String(), "\n"))
}

const ellipsis = "…"

// Shorten cuts a text to at most limit bytes, at the boundary of a character, and ends it in an ellipsis if something was
// cut off.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if limit < len(ellipsis) {
		return ""
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}
