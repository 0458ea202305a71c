// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import "testing"

func TestAuthorIsKnownOnlyForTheGenerationThatIsAskedFor(t *testing.T) {
	for name, tc := range map[string]struct{ annotation, want string }{
		"of this generation":        {"7 by alice@example.com", "alice@example.com"},
		"a service account":         {"7 by system:serviceaccount:flux-system:kustomize-controller", "system:serviceaccount:flux-system:kustomize-controller"},
		"of an older generation":    {"6 by alice", ""},
		"of a later generation":     {"70 by alice", ""},
		"missing":                   {"", ""},
		"no user":                   {"7 by ", ""},
		"a user with a blank":       {"7 by alice bob", ""},
		"a user that is no ASCII":   {"7 by аlice", ""},
		"another spelling of seven": {"07 by alice", ""},
		"no generation":             {" by alice", ""},
		"other words":               {"7 for alice", ""},
		"a user of 254 characters":  {"7 by " + string(make([]byte, 254)), ""},
	} {
		if got := Author(tc.annotation, 7); got != tc.want {
			t.Errorf("%s: Author(%q) = %q, want %q", name, tc.annotation, got, tc.want)
		}
	}
}
