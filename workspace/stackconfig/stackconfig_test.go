// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stackconfig

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"gopkg.in/yaml.v3"
)

const phrase = "correct horse"

// A salt of phrase, made by the CLI's own code path.
func saltOf(t testing.TB, passphrase string) string {
	t.Helper()
	var c crypters
	salt, err := c.newSalt(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return salt
}

func project(t testing.TB, files map[string]string) *Project {
	t.Helper()
	dir := t.TempDir()
	if _, ok := files["Pulumi.yaml"]; !ok {
		write1(t, dir, "Pulumi.yaml", "name: demo\nruntime: yaml\n")
	}
	for name, content := range files {
		write1(t, dir, name, content)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	p, err := LoadProject(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write1(t testing.TB, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func raw(v string) json.RawMessage { return json.RawMessage(v) }

func TestRenderLaysTheSpecOverTheCommittedFile(t *testing.T) {
	t.Parallel()
	salt := saltOf(t, phrase)
	cases := map[string]struct {
		reason string
		files  map[string]string
		config map[string]json.RawMessage
		want   map[string]any
	}{
		"the spec wins, and the rest stays": {
			reason: "laid over, not merged",
			files:  map[string]string{"Pulumi.dev.yaml": "config:\n  demo:a: one\n  demo:b: two\n  aws:region: eu-west-1\n"},
			config: map[string]json.RawMessage{"a": raw(`"spec"`)},
			want:   map[string]any{"demo:a": "spec", "demo:b": "two", "aws:region": "eu-west-1"},
		},
		"strings stay strings": {
			reason: "YAML would read them as something else",
			config: map[string]json.RawMessage{"n": raw(`"007"`), "b": raw(`"true"`), "x": raw(`"null"`), "d": raw(`"2026-01-01"`), "m": raw(`"a\nb: c"`), "e": raw(`""`)},
			want:   map[string]any{"demo:n": "007", "demo:b": "true", "demo:x": "null", "demo:d": "2026-01-01", "demo:m": "a\nb: c", "demo:e": ""},
		},
		"other values keep their types": {
			reason: "structured configuration",
			config: map[string]json.RawMessage{"n": raw(`3`), "f": raw(`1.5`), "b": raw(`true`), "l": raw(`["a",1]`), "o": raw(`{"k":{"deep":false}}`)},
			want:   map[string]any{"demo:n": 3, "demo:f": 1.5, "demo:b": true, "demo:l": []any{"a", 1}, "demo:o": map[string]any{"k": map[string]any{"deep": false}}},
		},
		"an object replaces the committed one": {
			reason: "a key is laid over as a whole",
			files:  map[string]string{"Pulumi.dev.yaml": "config:\n  demo:o: {a: 1, b: 2}\n"},
			config: map[string]json.RawMessage{"o": raw(`{"a":9}`)},
			want:   map[string]any{"demo:o": map[string]any{"a": 9}},
		},
		"dots and brackets belong to the key": {
			reason: "keys are taken literally",
			config: map[string]json.RawMessage{"a.b": raw(`"x"`), "c[0]": raw(`"y"`), "aws:d.e": raw(`"z"`)},
			want:   map[string]any{"demo:a.b": "x", "demo:c[0]": "y", "aws:d.e": "z"},
		},
		"the folder of stack files is honoured": {
			reason: "stackConfigDir",
			files: map[string]string{
				"Pulumi.yaml": "name: demo\nruntime: yaml\nstackConfigDir: stacks\n", "stacks/Pulumi.dev.yaml": "config: {demo:a: inner}\n", "Pulumi.dev.yaml": "config: {demo:a: outer}\n",
			},
			want: map[string]any{"demo:a": "inner"},
		},
		"a committed key without a namespace is the project's": {
			reason: "as Pulumi reads it",
			files:  map[string]string{"Pulumi.dev.yaml": "config: {a: x}\n"},
			want:   map[string]any{"demo:a": "x"},
		},
		"a link inside of the repository is followed": {
			reason: "shared stack files",
			files:  map[string]string{"shared.yaml": "config: {demo:a: shared}\n", "Pulumi.dev.yaml": "-> shared.yaml"},
			want:   map[string]any{"demo:a": "shared"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "op", "Pulumi.dev.yaml")
			out, err := New().Render(context.Background(), Input{
				Project: project(t, tc.files), Stack: "dev", Config: tc.config, FallbackSalt: salt, File: file,
			})
			if err != nil {
				t.Fatalf("Render (%s): %v", tc.reason, err)
			}
			got := rendered(t, file)
			if diff := cmp.Diff(tc.want, got.Config); diff != "" {
				t.Errorf("Render (%s): -want +got\n%s", tc.reason, diff)
			}
			if out.Salt != salt || got.Salt != salt {
				t.Errorf("Render: salt %q in the file, %q in the result", got.Salt, out.Salt)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("Render: mode %v, %v", info.Mode(), err)
			}
		})
	}
}

type renderedFile struct {
	Salt     string         `yaml:"encryptionsalt"`
	Provider string         `yaml:"secretsprovider"`
	Key      string         `yaml:"encryptedkey"`
	Config   map[string]any `yaml:"config"`
	Env      any            `yaml:"environment"`
}

func rendered(t testing.TB, file string) renderedFile {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out renderedFile
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRenderTakesTheSaltFromTheFirstThatHasOne(t *testing.T) {
	t.Parallel()
	committed, state, fallback := saltOf(t, phrase), saltOf(t, phrase), saltOf(t, phrase)
	cases := map[string]struct {
		file     string
		state    StateProvider
		fallback string
		managed  bool
		want     renderedFile
		isNew    bool
	}{
		"the committed file":                         {file: "encryptionsalt: " + committed + "\n", state: StateProvider{Salt: state}, fallback: fallback, want: renderedFile{Salt: committed}},
		"the state":                                  {state: StateProvider{Type: "passphrase", Salt: state}, fallback: fallback, want: renderedFile{Salt: state}},
		"the fallback":                               {fallback: fallback, want: renderedFile{Salt: fallback}},
		"a new one":                                  {isNew: true},
		"none with a committed cloud provider":       {file: "secretsprovider: awskms://x\nencryptedkey: abc\n", state: StateProvider{Salt: state}, fallback: fallback, want: renderedFile{Provider: "awskms://x", Key: "abc"}},
		"none with a cloud provider in the state":    {state: StateProvider{Type: "cloud", URL: "gcpkms://y", EncryptedKey: "k"}, fallback: fallback, want: renderedFile{Provider: "gcpkms://y", Key: "k"}},
		"none with the service":                      {managed: true, fallback: fallback},
		"the state although the service has its own": {managed: true, state: StateProvider{Salt: state}, want: renderedFile{Salt: state}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "Pulumi.dev.yaml")
			out, err := New().Render(context.Background(), Input{
				Project: project(t, map[string]string{"Pulumi.dev.yaml": tc.file + "environment: [base]\n"}), Stack: "dev", StateProvider: tc.state,
				FallbackSalt: tc.fallback, Env: map[string]string{"PULUMI_CONFIG_PASSPHRASE": phrase}, File: file, ManagedBackend: tc.managed,
			})
			if err != nil {
				t.Fatal(err)
			}
			got := rendered(t, file)
			if tc.isNew {
				if !out.NewSalt || out.Salt == "" || got.Salt != out.Salt {
					t.Errorf("Render: want a new salt, got %+v, %+v", out, got)
				}
				return
			}
			if got.Env == nil {
				t.Error("Render: the environment is lost")
			}
			got.Env = nil
			if diff := cmp.Diff(tc.want, got); diff != "" || out.Salt != got.Salt {
				t.Errorf("Render: %+v -want +got\n%s", out, diff)
			}
		})
	}
}

func TestRenderEncryptsSecrets(t *testing.T) {
	t.Parallel()
	salt := saltOf(t, phrase)
	file := filepath.Join(t.TempDir(), "Pulumi.dev.yaml")
	r := New()
	in := Input{
		Project: project(t, nil), Stack: "dev", SecretConfig: map[string]string{"password": "canary", "aws:key": "canary2"},
		FallbackSalt: salt, Env: map[string]string{"PULUMI_CONFIG_PASSPHRASE": phrase}, File: file,
	}
	if _, err := r.Render(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "canary") {
		t.Fatalf("the secret is in clear, or there is no file: %v", err)
	}
	crypter, err := r.passphrases.get(phrase, salt)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"demo:password": "canary", "aws:key": "canary2"} {
		cipher, _ := rendered(t, file).Config[key].(map[string]any)
		text, _ := cipher["secure"].(string)
		if got, err := crypter.DecryptValue(context.Background(), text); err != nil || got != want {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	phraseFile := filepath.Join(t.TempDir(), "phrase")
	write1(t, filepath.Dir(phraseFile), "phrase", phrase+"\n")
	in.Env = map[string]string{"PULUMI_CONFIG_PASSPHRASE_FILE": phraseFile}
	if _, err := r.Render(context.Background(), in); err != nil {
		t.Errorf("with a passphrase file: %v", err)
	}
}

func TestRenderEncryptsWithAnotherProviderThroughTheCLI(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "Pulumi.dev.yaml")
	got := map[string]string{}
	_, err := New().Render(context.Background(), Input{
		Project: project(t, map[string]string{"Pulumi.dev.yaml": "secretsprovider: awskms://x\nencryptedkey: abc\n"}), Stack: "dev",
		SecretConfig: map[string]string{"password": "canary"}, File: file,
		Encrypt: func(_ context.Context, key, value string) error {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("the file is not there: %v", err)
			}
			got[key] = value
			return nil
		},
	})
	if diff := cmp.Diff(map[string]string{"demo:password": "canary"}, got); diff != "" || err != nil {
		t.Errorf("Render: %v -want +got\n%s", err, diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		files  map[string]string
		change func(in *Input)
		want   error
	}{
		"a committed file that is no YAML":         {files: map[string]string{"Pulumi.dev.yaml": "config: ["}, want: ErrInvalid},
		"a committed file of another shape":        {files: map[string]string{"Pulumi.dev.yaml": "- a\n"}, want: ErrInvalid},
		"a committed file that is a link out":      {files: map[string]string{"Pulumi.dev.yaml": "-> /etc/passwd"}, want: ErrInvalid},
		"a committed file that is a relative link": {files: map[string]string{"Pulumi.dev.yaml": "-> ../../../../etc/passwd"}, want: ErrInvalid},
		"a committed file that is a folder":        {files: map[string]string{"Pulumi.dev.yaml/x": "x"}, want: ErrInvalid},
		"a stack folder that leads out":            {files: map[string]string{"Pulumi.yaml": "name: demo\nruntime: yaml\nstackConfigDir: ../../etc\n"}, want: ErrInvalid},
		"a key in both": {change: func(in *Input) {
			in.Config = map[string]json.RawMessage{"a": raw(`"x"`)}
			in.SecretConfig = map[string]string{"demo:a": "y"}
		}, want: ErrInvalid},
		"a key with and without its namespace":    {change: func(in *Input) { in.Config = map[string]json.RawMessage{"a": raw(`"x"`), "demo:a": raw(`"y"`)} }, want: ErrInvalid},
		"a secret with and without its namespace": {change: func(in *Input) { in.SecretConfig = map[string]string{"a": "x", "demo:a": "y"} }, want: ErrInvalid},
		"a key with too many parts":               {change: func(in *Input) { in.Config = map[string]json.RawMessage{"a:b:c:d": raw(`"x"`)} }, want: ErrInvalid},
		"an empty key":                            {change: func(in *Input) { in.Config = map[string]json.RawMessage{"": raw(`"x"`)} }, want: ErrInvalid},
		"null":                                    {change: func(in *Input) { in.Config = map[string]json.RawMessage{"a": raw(`null`)} }, want: ErrInvalid},
		"no JSON":                                 {change: func(in *Input) { in.Config = map[string]json.RawMessage{"a": raw(`{`)} }, want: ErrInvalid},
		"a salt that is none":                     {change: func(in *Input) { in.FallbackSalt = "x"; in.SecretConfig = map[string]string{"a": "y"} }, want: ErrInvalid},
		"a passphrase that is not the salt's":     {change: func(in *Input) { in.FallbackSalt = saltOf(t, "other"); in.SecretConfig = map[string]string{"a": "y"} }, want: ErrSecrets},
		"no passphrase for a secret": {change: func(in *Input) {
			in.Env = nil
			in.SecretConfig = map[string]string{"a": "y"}
			in.FallbackSalt = saltOf(t, phrase)
		}, want: ErrSecrets},
		"a passphrase file that is not there": {change: func(in *Input) { in.Env = map[string]string{"PULUMI_CONFIG_PASSPHRASE_FILE": "/nowhere"} }, want: ErrSecrets},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := Input{
				Project: project(t, tc.files), Stack: "dev", Env: map[string]string{"PULUMI_CONFIG_PASSPHRASE": phrase},
				File: filepath.Join(t.TempDir(), "f"),
			}
			if tc.change != nil {
				tc.change(&in)
			}
			_, err := New().Render(context.Background(), in)
			if !errors.Is(err, tc.want) {
				t.Errorf("Render: want %v, got %v", tc.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "root:") {
				t.Errorf("Render: the error quotes a foreign file: %v", err)
			}
		})
	}
}

func FuzzRender(f *testing.F) {
	f.Add("config:\n  demo:a: one\n", "a", `"x"`)
	f.Add("encryptionsalt: v1:x\nconfig: {a: {secure: v1:y}}", "aws:region", `{"a":[1,null,true]}`)
	f.Add("environment: {values: {a: b}}\n", "a.b[0]", `1e400`)
	f.Add("- x", "", `null`)
	salt := saltOf(f, phrase)
	f.Fuzz(func(t *testing.T, committed, key, value string) {
		file := filepath.Join(t.TempDir(), "f")
		p := project(t, map[string]string{"x": "x"})
		if err := os.WriteFile(filepath.Join(p.root.Name(), "Pulumi.dev.yaml"), []byte(committed), 0o600); err != nil {
			t.Fatal(err)
		}
		in := Input{Project: p, Stack: "dev", Config: map[string]json.RawMessage{key: raw(value)}, FallbackSalt: salt, File: file}
		out, err := New().Render(context.Background(), in)
		if err != nil {
			return
		}
		// What was rendered can be read again, with the same key in it.
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var again struct {
			Salt   string     `yaml:"encryptionsalt"`
			Config config.Map `yaml:"config"`
		}
		if err := yaml.Unmarshal(text, &again); err != nil {
			t.Fatalf("rendered %q: %v", text, err)
		}
		if k, err := p.key(key); err != nil || out.Salt != again.Salt {
			t.Errorf("key %q: %v, salt %q %q", key, err, out.Salt, again.Salt)
		} else if _, ok := again.Config[k]; !ok {
			t.Errorf("key %q is lost in %q", key, text)
		}
	})
}
