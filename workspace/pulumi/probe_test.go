// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretsOfOneValueLookTheSame(t *testing.T) {
	t.Parallel()
	secret := func(ciphertext string) string {
		return `{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","ciphertext":"` + ciphertext + `"}`
	}
	plain := func(all []string) ([]string, error) {
		out := make([]string, len(all))
		for i, c := range all {
			out[i] = c[strings.Index(c, ":")+1:]
		}
		return out, nil
	}
	broken := func([]string) ([]string, error) { return nil, errors.New("no key") }
	never := func([]string) ([]string, error) { t.Error("decrypted for nothing"); return nil, nil }
	cases := map[string]struct {
		reason              string
		first, second, want string
		decrypt             func([]string) ([]string, error)
	}{
		"one value": {
			reason: "it was encrypted anew", decrypt: plain,
			first: `{"a":[1,` + secret("1:x") + `]}`, second: `{"a":[1,` + secret("2:x") + `]}`, want: `{"a":[1,` + secret("1:x") + `]}`,
		},
		"another value": {
			reason: "it differs, and shows", decrypt: plain,
			first: `{"a":` + secret("1:x") + `}`, second: `{"a":` + secret("2:y") + `}`, want: `{"a":` + secret("2:y") + `}`,
		},
		"no key": {
			reason: "that it is not known is kept apart from that it differs", decrypt: broken,
			first: `{"a":` + secret("1:x") + `}`, second: `{"a":` + secret("2:x") + `}`, want: `{"a":` + secret(Uncompared) + `}`,
		},
		"one ciphertext": {
			reason: "nothing need be decrypted", decrypt: never,
			first: `{"a":` + secret("1:x") + `}`, second: `{"a":` + secret("1:x") + `}`, want: `{"a":` + secret("1:x") + `}`,
		},
		"no counterpart": {
			reason: "there is nothing to compare", decrypt: never,
			first: `{"a":"x","l":[]}`, second: `{"a":` + secret("1:x") + `,"b":1,"l":[` + secret("2:y") + `]}`, want: `{"a":` + secret("1:x") + `,"b":1,"l":[` + secret("2:y") + `]}`,
		},
		"a large number": {
			reason: "its digits are kept", decrypt: plain,
			first: `{"a":` + secret("1:x") + `,"n":1}`, second: `{"a":` + secret("2:x") + `,"n":12345678901234567890.10}`, want: `{"a":` + secret("1:x") + `,"n":12345678901234567890.10}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := SameSecrets([]byte(tc.first), []byte(tc.second), tc.decrypt)
			if diff := cmp.Diff(compacted(t, tc.want), compacted(t, string(got))); err != nil || diff != "" {
				t.Errorf("SameSecrets(): %s: %v, -want +got\n%s", tc.reason, err, diff)
			}
		})
	}
	if _, err := SameSecrets([]byte(`{}`), []byte(`{`), plain); err == nil {
		t.Error("half a plan was taken")
	}
}

func compacted(t *testing.T, text string) string {
	t.Helper()
	v, err := decodeNumbers([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
