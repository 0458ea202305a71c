// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const (
	secretJSON  = `{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","ciphertext":"v1:canary"}`
	unknownJSON = `"04da6b54-80e4-46f7-96ec-b56ff0331ba9"`
)

func decoded(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestJSON(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"a secret has no quotes":             {secretJSON, `[secret]`},
		"a text that looks like one does":    {`"[unknown]"`, `"[unknown]"`},
		"what Pulumi itself masked":          {`"[secret]"`, `[secret]`},
		"a secret inside":                    {`{"b":[1,` + secretJSON + `],"a":{"c":` + secretJSON + `}}`, `{"a":{"c":"[secret]"},"b":[1,"[secret]"]}`},
		"a secret in plaintext":              {strings.Replace(secretJSON, "ciphertext", "plaintext", 1), `[secret]`},
		"unknown":                            {unknownJSON, `[unknown]`},
		"unknown number":                     {`"3eeb2bf0-c639-47a8-9e75-3b44932eb421"`, `[unknown]`},
		"unknown inside":                     {`[` + unknownJSON + `]`, `["[unknown]"]`},
		"an asset by hash, not by content":   {`{"4dabf18193072939515e22adb298388d":"c44067f5952c0a294b673a41bacd8c17","hash":"abc","text":"canary"}`, `[asset sha256:abc]`},
		"an archive":                         {`{"4dabf18193072939515e22adb298388d":"0def7320c3a5731c473e5ecbe6d01bc7","path":"./dist","hash":"abc"}`, `[archive ./dist sha256:abc]`},
		"a resource":                         {`{"4dabf18193072939515e22adb298388d":"5cf8f73096256a8f31e491e813e4eb8e","urn":"urn:x","id":"canary"}`, `[resource urn:x]`},
		"bytes":                              {`{"4dabf18193072939515e22adb298388d":"803fd3297a5875dc03ca845dda5d2a98","value":"/w=="}`, `[bytes /w==]`},
		"a number that JSON has not":         {`[{"4dabf18193072939515e22adb298388d":"8ad145fe-0d11-4827-bfd7-1abcbf086f5c","value":"7ff8000000000001"}]`, `["[number 0x7ff8000000000001]"]`},
		"a secret output value":              {`{"4dabf18193072939515e22adb298388d":"d0e6a833031e9bbcd3f4e8bde6ca49a4","secret":true,"value":"canary"}`, `[secret]`},
		"an unknown output value":            {`{"4dabf18193072939515e22adb298388d":"d0e6a833031e9bbcd3f4e8bde6ca49a4"}`, `[unknown]`},
		"a plain output value":               {`{"4dabf18193072939515e22adb298388d":"d0e6a833031e9bbcd3f4e8bde6ca49a4","value":{"a":1}}`, `{"a":1}`},
		"a mark that is not known is hidden": {`{"4dabf18193072939515e22adb298388d":"new","value":"canary"}`, `[hidden]`},
		"a mark that is no text is hidden":   {`{"4dabf18193072939515e22adb298388d":7,"value":"canary"}`, `[hidden]`},
		"digits are kept":                    {`12345678901234567890`, `12345678901234567890`},
		"nothing is escaped for HTML":        {`"a<b>&c"`, `"a<b>&c"`},
		"control characters":                 {`"\u001b[31mred\u007f\u009b1m\u202e"`, `"\u001b[31mred\u007f\u202e"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := JSON(decoded(t, tc.in), MaxValue)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("JSON(): -want +got\n%s", diff)
			}
			if strings.Contains(got, "canary") {
				t.Errorf("JSON() shows a secret: %s", got)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		in    string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "…"}, {"äöü", 5, "ä…"}, {"äöüß", 7, "äö…"}, {"abcd", 2, ""}, {"", 0, ""},
	} {
		if got := Shorten(tc.in, tc.limit); got != tc.want || len(got) > tc.limit {
			t.Errorf("Shorten(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.want)
		}
	}
}

func TestPairShowsWhereTheyPart(t *testing.T) {
	common := strings.Repeat("ä", 400)
	before, after := Pair(common+" one", common+" two", 64)
	if before == after || !strings.HasSuffix(before, ` one"`) || !strings.HasSuffix(after, ` two"`) || len(before) > 64 || !utf8.ValidString(before) {
		t.Errorf("Pair() = %q, %q", before, after)
	}
	if before, after := Pair("a", "a", 64); before != after {
		t.Errorf("Pair() of equal values = %q, %q", before, after)
	}
}

func TestText(t *testing.T) {
	const secret = `p"ä&ss+wo/rd=`
	multi := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----\n"
	for name, tc := range map[string]struct {
		in      string
		secrets []string
		want    string
	}{
		"as it is":                  {"x " + secret + " y", []string{secret}, "x [secret] y"},
		"JSON-escaped":              {`{"a":"p\"ä&ss+wo/rd="}`, []string{secret}, `{"a":"[secret]"}`},
		"JSON-escaped, HTML-safe":   {`{"a":"p\"ä\u0026ss+wo/rd="}`, []string{secret}, `{"a":"[secret]"}`},
		"in a query":                {"?q=" + url.QueryEscape(secret), []string{secret}, "?q=[secret]"},
		"in a path":                 {"/" + url.PathEscape(secret), []string{secret}, "/[secret]"},
		"in hex":                    {hex.EncodeToString([]byte(secret)), []string{secret}, "[secret]"},
		"in base64":                 {base64.RawStdEncoding.EncodeToString([]byte(secret)), []string{secret}, "[secret]"},
		"the longer one first":      {"hunter2000", []string{"hunter", "hunter2000"}, "[secret]"},
		"overlapping":               {"abcdefgh", []string{"abcdef", "cdefgh"}, "[secret]"},
		"next to each other":        {"abcdabcd", []string{"abcd"}, "[secret]"},
		"a secret named secret":     {"secret", []string{"secret"}, "[secret]"},
		"short ones stay":           {"abc 80", []string{"abc", "80", ""}, "abc 80"},
		"words stay":                {"true, False, null", []string{"true", "False", "null"}, "true, False, null"},
		"one within another one":    {"aaaaaaa", []string{"aaaa"}, "[secret]"},
		"a line of a key":           {"at MIIEvQIBADANBgkqhkiG9w0BAQEFAASC!", []string{multi}, "at [secret]!"},
		"a short line of a key":     {"at 8letters, and the short one", []string{"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n8letters\nshort\n"}, "at [secret], and the short one"},
		"short members stay":        {"the type of it is service_account", []string{`{"type":"service_account","key":"very-long-private-value"}`}, "the type of it is service_account"},
		"a line of a document":      {`at "id": "x",`, []string{"{\n  \"id\": \"x\",\n  \"a\": 1\n}"}, "at [secret]"},
		"a member of a document":    {"got very-long-private-value", []string{`{"id":"x","key":["very-long-private-value"]}`}, "got [secret]"},
		"a trailing newline":        {"pw=hunter2!", []string{"hunter2\n"}, "pw=[secret]!"},
		"split by a colour":         {"hun\x1b[31mter2", []string{"hunter2"}, "[secret]"},
		"colours, links and titles": {"\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://x\x1b\\link", nil, "red  link"},
		"other control characters":  {"a\rb\x00c\x1bd\u202ee\u200bf\xffg\u2028h", nil, `a\u000db\u0000c\u001bd\u202ee\u200bf\xffg\u2028h`},
		"lines and tabs stay":       {"a\n\tb", nil, "a\n\tb"},
		"umlauts and emoji stay":    {"ü 🙂", nil, "ü 🙂"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Text(tc.in, tc.secrets)); diff != "" {
				t.Errorf("Text(): -want +got\n%s", diff)
			}
		})
	}
}

// TestTextInsideBase64 is a password within what a basic authentication header encodes, at every position.
func TestTextInsideBase64(t *testing.T) {
	const secret = "hunter2-canary"
	for before := range 7 {
		for after := range 4 {
			plain := strings.Repeat("u", before) + secret + strings.Repeat("v", after)
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
				text := "Basic " + enc.EncodeToString([]byte(plain))
				got := Text(text, []string{secret})
				if !strings.Contains(got, Secret) {
					t.Errorf("Text(%q) = %q", text, got)
					continue
				}
				// What is left on both sides may give away a few bits of the first and last byte, and no more.
				if left := len(got) - len(Secret) - len("Basic "); left > (before+after)*4/3+8 {
					t.Errorf("Text(%q) = %q leaves %d characters", text, got, left)
				}
			}
		}
	}
}

// FuzzText: no form of a secret is left, nothing that a terminal acts on is left, and doing it twice is doing it once.
func FuzzText(f *testing.F) {
	f.Add("the password is hunter2", "hunter2")
	f.Add("hun\x1b[31mter2 \xff \u202e", "hunter2")
	f.Add("[secret]", "cret]")
	f.Fuzz(func(t *testing.T, text, secret string) {
		got := Text(text, []string{secret})
		if !utf8.ValidString(got) {
			t.Errorf("Text() = %q is not UTF-8", got)
		}
		if strings.ContainsFunc(got, unseen) {
			t.Errorf("Text() = %q holds control characters", got)
		}
		if len(secret) >= minSecret && !isWord(secret) && strings.Contains(got, secret) && !overlapsMark(got, secret) {
			t.Errorf("Text(%q, %q) = %q", text, secret, got)
		}
	})
}

// overlapsMark tells whether every place of secret in got touches a mark, as "cret] x" does in "[secret] x".
func overlapsMark(got, secret string) bool {
	for i := range got {
		if !strings.HasPrefix(got[i:], secret) {
			continue
		}
		from, to := max(0, i-len(Secret)+1), min(len(got), i+len(secret)+len(Secret)-1)
		if !strings.Contains(got[from:to], Secret) {
			return false
		}
	}
	return true
}

// FuzzJSON: whatever a value is, it is shown in bounds and twice masking is once.
func FuzzJSON(f *testing.F) {
	f.Add(secretJSON, 20)
	f.Add(`[{"a":`+unknownJSON+`}]`, 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		limit = min(max(limit, 0), 4096)
		got := JSON(v, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("JSON(%s, %d) = %q", text, limit, got)
		}
		if diff := cmp.Diff(Value(v), Value(Value(v))); diff != "" {
			t.Errorf("Value() twice: -once +twice\n%s", diff)
		}
		before, after := Pair(v, text, limit)
		if len(before) > limit || len(after) > limit || !utf8.ValidString(before+after) {
			t.Errorf("Pair() = %q, %q", before, after)
		}
	})
}
