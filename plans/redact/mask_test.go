// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMaskEvents(t *testing.T) {
	const secret = `can"ary&hunter2`
	quoted := `can\"ary&hunter2`
	for name, tc := range map[string]struct{ in, want string }{
		"a line without a secret is left as it is": {
			`{ "b":1, "a" : "x" }` + "\n", `{ "b":1, "a" : "x" }` + "\n",
		},
		"a value is masked at any depth": {
			`{"new":{"inputs":{"a":["x ` + quoted + `"],"n":12345678901234567890}}}` + "\n",
			`{"new":{"inputs":{"a":["x [secret]"],"n":12345678901234567890}}}` + "\n",
		},
		"a URN stays, the resource's properties do not": {
			`{"urn":"urn:x::` + quoted + `","type":"t","inputs":{"urn":"` + quoted + `"}}` + "\n",
			`{"inputs":{"urn":"` + quoted + `"},"type":"t","urn":"urn:x::` + quoted + `"}` + "\n",
		},
		"a property that is named like what stays is masked": {
			`{"inputs":{"type":"` + quoted + `","kind":"` + quoted + `"}}` + "\n",
			`{"inputs":{"kind":"[secret]","type":"[secret]"}}` + "\n",
		},
		"so is an object in the place of what stays": {
			`{"urn":"u","type":{"a":"` + quoted + `"}}` + "\n",
			`{"type":{"a":"[secret]"},"urn":"u"}` + "\n",
		},
		"nothing is made printable": {
			`{"a":"\u001b[1m` + quoted + `\r"}` + "\n", `{"a":"\u001b[1m[secret]\r"}` + "\n",
		},
		"a line with a secret that is no JSON is dropped": {
			`{"a":"` + quoted + "\n" + `{"b":1}` + "\n", "{}\n" + `{"b":1}` + "\n",
		},
		"empty lines go, and the last one gets its end": {
			"\n{}\n\n{}", "{}\n{}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(NewMask([]string{secret}).Events([]byte(tc.in)))); diff != "" {
				t.Errorf("Events(): -want +got\n%s", diff)
			}
			if got := string(NewMask([]string{"abc"}).Events([]byte(tc.in))); got != tc.in {
				t.Errorf("Events() without secrets = %s", got)
			}
		})
	}
}

// TestMaskOfWhatLeavesThePod is what the agent relies on.
func TestMaskOfWhatLeavesThePod(t *testing.T) {
	t.Parallel()
	m := NewMask([]string{"hunter2", "hunter2-and-more", "abc", "true", "", "line one is long\nshort\n-----END KEY-----", `quo"ted`, "us-east-1"})
	cases := map[string]struct{ in, want string }{
		"a secret":                       {"the password is hunter2!", "the password is [secret]!"},
		"the longer of two":              {"hunter2-and-more", "[secret]"},
		"a short value is left":          {"abc", "abc"},
		"a word that everybody uses":     {"true", "true"},
		"a line of a longer secret":      {"found line one is long in x", "found [secret] in x"},
		"a secret inside of quoted JSON": {`{"a":"quo\"ted"}`, `{"a":"[secret]"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := m.Text(tc.in); got != tc.want {
				t.Errorf("Text: want %q, got %q", tc.want, got)
			}
		})
	}
	in := `{"sequence":1,"resourcePreEvent":{"metadata":{"op":"create","urn":"urn:us-east-1","type":"t","new":{"urn":"urn:us-east-1","id":"hunter2","inputs":{"type":"hunter2","n":12345678901234567890,"l":["us-east-1"]}}}}}` + "\n" + `{"sequence":2}` + "\n"
	want := `{"resourcePreEvent":{"metadata":{"new":{"id":"[secret]","inputs":{"l":["[secret]"],"n":12345678901234567890,"type":"[secret]"},"urn":"urn:us-east-1"},"op":"create","type":"t","urn":"urn:us-east-1"}},"sequence":1}` + "\n" + `{"sequence":2}` + "\n"
	if diff := cmp.Diff(want, string(m.Events([]byte(in)))); diff != "" {
		t.Errorf("Events(): -want +got\n%s", diff)
	}
}

// TestMaskEventsHidesEveryEncoding: a program may put an encoded secret into a resource.
func TestMaskEventsHidesEveryEncoding(t *testing.T) {
	const secret = "canary/hunter2+swordfish"
	for name, text := range map[string]string{
		"as it is":  secret,
		"in hex":    hex.EncodeToString([]byte(secret)),
		"in a URL":  url.QueryEscape(secret),
		"in base64": base64.StdEncoding.EncodeToString([]byte("user:" + secret + ":x")),
	} {
		line := fmt.Sprintf(`{"inputs":{"a":"<%s>"}}`, text)
		got := string(NewMask([]string{secret}).Events([]byte(line)))
		if !strings.Contains(got, Secret) || strings.Contains(got, text) {
			t.Errorf("Events() of a secret %s: %s", name, got)
		}
	}
}

// slowly is what mask does, in the plainest way.
func slowly(s string, forms []string) string {
	covered := make([]bool, len(s)+1)
	for _, f := range forms {
		for i := range s {
			if len(f) >= minSecret && strings.HasPrefix(s[i:], f) {
				for j := range f {
					covered[i+j] = true
				}
			}
		}
	}
	var b strings.Builder
	for i := range len(s) {
		switch {
		case !covered[i]:
			b.WriteByte(s[i])
		case i == 0 || !covered[i-1]:
			b.WriteString(Secret)
		}
	}
	return b.String()
}

// FuzzMatcher: the quick way hides exactly what the plain way does.
func FuzzMatcher(f *testing.F) {
	f.Add("abcabcabcd abcd", "abcabc", "bcabcd")
	f.Add("aaaaaaaaa", "aaaa", "aaaaa")
	f.Add("xabcd", "abcd", "abc")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		text, one, two = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(one, "?"), strings.ToValidUTF8(two, "?")
		forms := []string{one, two}
		m := newMatcher(forms)
		want := slowly(text, forms)
		if got := m.mask(text); got != want || m.find(text) != (want != text) && want != text {
			t.Errorf("mask(%q, %q) = %q, want %q", text, forms, got, want)
		}
	})
}

// BenchmarkMaskEvents is what the agent does to the events of an operation that has twenty secrets.
func BenchmarkMaskEvents(b *testing.B) {
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, fmt.Sprintf("canary-%d-hunter2", i))
	}
	line := `{"sequence":1,"resOutputsEvent":{"metadata":{"op":"update","urn":"urn:pulumi:s1::demo::files:index:File::one","new":{"inputs":{"content":"` + strings.Repeat("lorem ipsum ", 40) + `"}}}}}` + "\n"
	for _, n := range []int{1, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			events := []byte(strings.Repeat(line, 2*n))
			m := NewMask(secrets)
			b.SetBytes(int64(len(events)))
			b.ReportAllocs()
			for b.Loop() {
				m.Events(events)
			}
		})
	}
}
