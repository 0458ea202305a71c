// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"errors"
	"maps"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

var testKey = []byte("0123456789abcdef")

func configInputs() ConfigInputs {
	return ConfigInputs{
		Stack: "org/web/prod", Backend: "s3://state",
		Config: map[string]apiextensionsv1.JSON{
			"a": {Raw: []byte(`{"x": 1, "y": [true, null]}`)},
			"b": {Raw: []byte(`"text"`)},
		},
		Secrets:            map[string]string{"password": "hunter2"},
		Env:                map[string]EnvValue{"REGION": {Value: "eu"}, "TOKEN": {Value: "t", Secret: true}},
		ServiceAccountName: "deployer",
	}
}

func mustDigest(t *testing.T, in ConfigInputs, key []byte) string {
	t.Helper()
	d, err := ConfigDigest(in, key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConfigDigestIgnoresSpelling(t *testing.T) {
	other := configInputs()
	other.Config["a"] = apiextensionsv1.JSON{Raw: []byte("{\"y\":[true,null],\n\t\"x\":1}")}
	if mustDigest(t, configInputs(), testKey) != mustDigest(t, other, testKey) {
		t.Error("the order of keys and white space in a JSON value change the digest")
	}
}

func TestConfigDigestSeesEveryDifference(t *testing.T) {
	seen := map[string]string{mustDigest(t, configInputs(), testKey): "unchanged"}
	for name, change := range map[string]func(*ConfigInputs){
		"stack":                     func(in *ConfigInputs) { in.Stack = "other" },
		"backend":                   func(in *ConfigInputs) { in.Backend = "file:///state" },
		"text moved between fields": func(in *ConfigInputs) { in.Stack, in.Backend = "org/web/prods", "3://state" },
		"refresh":                   func(in *ConfigInputs) { in.Refresh = true },
		"targets":                   func(in *ConfigInputs) { in.Targets = []string{"a"} },
		"other targets":             func(in *ConfigInputs) { in.Targets = []string{"a", "b"} },
		"dependents of targets":     func(in *ConfigInputs) { in.Targets, in.TargetDependents = []string{"a"}, true },
		"service account":           func(in *ConfigInputs) { in.ServiceAccountName = "" },
		"config value":              func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`"other"`)} },
		"config type":               func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`["text"]`)} },
		"number and text":           func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`1`)} },
		"text and number":           func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`"1"`)} },
		"a large number's digits":   func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`12345678901234567890`)} },
		"its neighbour":             func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`12345678901234567891`)} },
		"no JSON":                   func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`{`)} },
		"two JSON values":           func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`1 2`)} },
		"no value":                  func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{} },
		"null":                      func(in *ConfigInputs) { in.Config["b"] = apiextensionsv1.JSON{Raw: []byte(`null`)} },
		"config key gone":           func(in *ConfigInputs) { delete(in.Config, "b") },
		"secret value":              func(in *ConfigInputs) { in.Secrets["password"] = "hunter3" },
		"secret key":                func(in *ConfigInputs) { in.Secrets = map[string]string{"pass": "hunter2"} },
		"secret becomes config": func(in *ConfigInputs) {
			in.Config["password"] = apiextensionsv1.JSON{Raw: []byte(`"hunter2"`)}
			in.Secrets = nil
		},
		"env value":                 func(in *ConfigInputs) { in.Env["REGION"] = EnvValue{Value: "us"} },
		"env becomes secret":        func(in *ConfigInputs) { in.Env["REGION"] = EnvValue{Value: "eu", Secret: true} },
		"secret env":                func(in *ConfigInputs) { in.Env["TOKEN"] = EnvValue{Value: "u", Secret: true} },
		"bytes that are no UTF-8":   func(in *ConfigInputs) { in.Env["REGION"] = EnvValue{Value: "\xff"} },
		"other such bytes":          func(in *ConfigInputs) { in.Env["REGION"] = EnvValue{Value: "\xfe"} },
		"the replacement character": func(in *ConfigInputs) { in.Env["REGION"] = EnvValue{Value: "\uFFFD"} },
	} {
		in := configInputs()
		change(&in)
		d := mustDigest(t, in, testKey)
		if twin, ok := seen[d]; ok {
			t.Errorf("%q has the digest of %q", name, twin)
		}
		seen[d] = name
	}
	if d := mustDigest(t, configInputs(), []byte("another key of 16+")); seen[d] != "" {
		t.Error("the key does not change the digest")
	}
}

func TestConfigDigestNeedsAKey(t *testing.T) {
	for name, in := range map[string]ConfigInputs{
		"secret config": {Secrets: map[string]string{"a": "b"}},
		"secret env":    {Env: map[string]EnvValue{"A": {Value: "b", Secret: true}}},
	} {
		if d, err := ConfigDigest(in, []byte("short")); !errors.Is(err, ErrKeyTooShort) {
			t.Errorf("%s: ConfigDigest() without a key = %q, %v", name, d, err)
		}
	}
	if _, err := ConfigDigest(ConfigInputs{Stack: "s"}, nil); err != nil {
		t.Errorf("ConfigDigest() without secrets and key: %v", err)
	}
}

func TestInputsDigest(t *testing.T) {
	base := InputsDigest(1, "rev", "cfg", "req")
	all := map[string]bool{base: true}
	maps.Copy(all, map[string]bool{
		InputsDigest(2, "rev", "cfg", "req"): true, InputsDigest(1, "rew", "cfg", "req"): true,
		InputsDigest(1, "rev", "cfh", "req"): true, InputsDigest(1, "rev", "cfg", "res"): true,
		InputsDigest(1, "revc", "fg", "req"): true, InputsDigest(1, "rev", "cfgr", "eq"): true,
	})
	if len(all) != 7 || base != InputsDigest(1, "rev", "cfg", "req") {
		t.Errorf("InputsDigest(): %d different digests of 7 inputs", len(all))
	}
}

func TestConfigEntriesNameWhatMovesAndTellNothing(t *testing.T) {
	in := func(change func(*ConfigInputs)) ConfigInputs {
		c := ConfigInputs{
			Config:  map[string]apiextensionsv1.JSON{"size": {Raw: []byte(`{"b":1,"a":2}`)}},
			Secrets: map[string]string{"pw": "canary"},
			Env:     map[string]EnvValue{"TOKEN": {Value: "canary", Secret: true}},
		}
		change(&c)
		return c
	}
	source := func(field, name string) string {
		if name == "pw" {
			return "Secret db/" + name
		}
		return ""
	}
	key := []byte("0123456789abcdef")
	was := ConfigEntries(in(func(*ConfigInputs) {}), key, source)
	for name, tc := range map[string]struct {
		change func(*ConfigInputs)
		want   string
	}{
		"nothing":     {func(*ConfigInputs) {}, "-"},
		"white space": {func(c *ConfigInputs) { c.Config["size"] = apiextensionsv1.JSON{Raw: []byte(`{ "a":2, "b":1 }`)} }, "-"},
		"a value":     {func(c *ConfigInputs) { c.Config["size"] = apiextensionsv1.JSON{Raw: []byte(`1`)} }, "changed spec.config[size]"},
		"a secret":    {func(c *ConfigInputs) { c.Secrets["pw"] = "other" }, "changed spec.secretsRef[pw] (Secret db/pw)"},
		"a variable":  {func(c *ConfigInputs) { c.Env["TOKEN"] = EnvValue{Value: "x"} }, "changed spec.envRefs[TOKEN]"},
		"one less":    {func(c *ConfigInputs) { delete(c.Env, "TOKEN") }, "removed spec.envRefs[TOKEN]"},
	} {
		is := ConfigEntries(in(tc.change), key, source)
		if got := ConfigChanges(was, is, "-"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if was[1].Digest == was[2].Digest {
		t.Error("one value under two names shows")
	}
	many := in(func(c *ConfigInputs) {
		for i := range MaxConfigEntries {
			c.Secrets[strconv.Itoa(i)] = "x"
		}
	})
	if got := ConfigEntries(many, key, source); got != nil {
		t.Errorf("%d entries are listed", len(got))
	}
	if got := ConfigEntries(in(func(*ConfigInputs) {}), nil, source); got != nil {
		t.Error("entries without a key")
	}
}
