// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plangate/plangate/api/v1alpha1"
)

// MinKey is the fewest bytes that the key of a Stack may have.
const MinKey = 16

// ErrKeyTooShort says that a secret value cannot be digested safely.
var ErrKeyTooShort = errors.New("the stack's key is missing or too short")

// ConfigInputs is all that, beside the commit, decides what a preview computes.
type ConfigInputs struct {
	// Stack and Backend are those of the Stack's spec.
	Stack, Backend string
	// Config is laid over the committed configuration.
	Config map[string]apiextensionsv1.JSON
	// Secrets is laid over it too.
	Secrets map[string]string
	// Env is the environment of Pulumi and the program.
	Env map[string]EnvValue
	// Refresh is the flag of preview and apply.
	Refresh bool
	// Targets and TargetDependents are flags of preview and apply, too.
	Targets          []string
	TargetDependents bool
	// ServiceAccountName is whose rights the program has.
	ServiceAccountName string
}

// EnvValue is the value of a variable.
type EnvValue struct {
	Value string
	// Secret is true when the value came from a Secret.
	Secret bool
}

// ConfigDigest digests configuration, environment and options. Equal inputs give equal digests, whatever the order of
// keys and the white space in JSON values; any other difference gives another digest. A secret value enters as an HMAC
// under key, so that nobody without the key can test guesses against the digest. It fails when there is a secret and key
// is shorter than MinKey.
func ConfigDigest(in ConfigInputs, key []byte) (string, error) {
	// Maps of strings, encoded as JSON with sorted keys: no two different inputs have one encoding.
	config := make(map[string]string, len(in.Config))
	for k, v := range in.Config {
		config[k] = canonicalJSON(v.Raw)
	}
	secrets := make(map[string]string, len(in.Secrets))
	for k, v := range in.Secrets {
		secrets[k] = keyed(key, "config", k, v)
	}
	env, hasSecret := make(map[string][2]string, len(in.Env)), len(in.Secrets) > 0
	for k, v := range in.Env {
		env[k] = [2]string{"plain", strconv.Quote(v.Value)}
		if v.Secret {
			env[k], hasSecret = [2]string{"secret", keyed(key, "env", k, v.Value)}, true
		}
	}
	if hasSecret && len(key) < MinKey {
		return "", fmt.Errorf("digesting secret values: %w", ErrKeyTooShort)
	}
	values := []any{"plangate.dev/config/v1", in.Stack, in.Backend, config, secrets, env, in.Refresh, in.ServiceAccountName}
	if len(in.Targets) > 0 {
		values = append(values, in.Targets, in.TargetDependents)
	}
	return digestOf(values...), nil
}

// MaxConfigEntries is the most entries that are listed one by one, and maxEntryNames the most bytes of their names together.
const (
	MaxConfigEntries = 200
	maxEntryNames    = 12 << 10
	maxEntryName     = 512
)

// ConfigEntries lists the entries of configuration and environment with a short keyed digest of each, by name, so that one
// that moves can be named. source tells where the value of an entry comes from: the name of a Secret and its key. There are
// none when they are too many: an approval is tied to ConfigDigest, and this only says what moved in it.
func ConfigEntries(in ConfigInputs, key []byte, source func(field, name string) string) []v1alpha1.ConfigEntry {
	if len(key) < MinKey {
		return nil
	}
	var entries []v1alpha1.ConfigEntry
	size := 0
	add := func(field, name, value string) {
		text := field + "[" + name + "]"
		if from := source(field, name); from != "" {
			text += " (" + from + ")"
		}
		size += len(text)
		if len(text) > maxEntryName {
			size = maxEntryNames + 1
		}
		entries = append(entries, v1alpha1.ConfigEntry{Name: text, Digest: keyed(key, "entry "+field, name, value)[:16]})
	}
	for name, value := range in.Config {
		add("spec.config", name, canonicalJSON(value.Raw))
	}
	for name, value := range in.Secrets {
		add("spec.secretsRef", name, value)
	}
	for name, value := range in.Env {
		add("spec.envRefs", name, value.Value)
	}
	if len(entries) > MaxConfigEntries || size > maxEntryNames {
		return nil
	}
	sort.Slice(entries, func(a, b int) bool { return entries[a].Name < entries[b].Name })
	return entries
}

// InputsDigest digests what a preview is made from, so that the same inputs are not previewed again and again.
func InputsDigest(generation int64, revision, configDigest, request string) string {
	return digestOf("plangate.dev/inputs/v1", strconv.FormatInt(generation, 10), revision, configDigest, request)
}

// DestroyInputsDigest is InputsDigest for a destroy, which needs no source. deleting tells whether the Stack goes with it,
// and token is what the annotation says that asks for it.
func DestroyInputsDigest(generation int64, configDigest, token string, deleting bool, request string) string {
	return digestOf("plangate.dev/destroy-inputs/v1", strconv.FormatInt(generation, 10), configDigest, token, deleting, request)
}

// ChangesDigest digests a list of changes as they are listed.
func ChangesDigest(changes []v1alpha1.ResourceChange) string {
	if changes == nil {
		changes = []v1alpha1.ResourceChange{}
	}
	return digestOf("plangate.dev/changes/v1", changes)
}

// Digest returns "sha256:" and the SHA-256 of a statement, which is what an approval names.
func Digest(statement string) string { return BytesDigest([]byte(statement)) }

// BytesDigest returns "sha256:" and the SHA-256 of b in lower-case hex.
func BytesDigest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Nonce returns 128 bits that nobody without the key can foresee, the same ones for the same operation: an author cannot
// prepare two plans of one digest, and a plan that is published again after a restart keeps its name.
func Nonce(key []byte, operationID string) string {
	return keyed(key, "nonce", operationID, "")[:32]
}

// keyed is an HMAC over a purpose, a name and a value, so that one value under two names does not show.
func keyed(key []byte, purpose, name, value string) string {
	m := hmac.New(sha256.New, key)
	for _, s := range []string{"plangate.dev/v1", purpose, name, value} {
		_, _ = fmt.Fprintf(m, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(m.Sum(nil))
}

// digestOf digests values as a JSON array. Its arguments are strings, booleans, maps and plain structs, which JSON can
// always hold. They come from API objects, which are UTF-8, or are quoted or in hex. Of anything else the digest would be
// empty, which is no digest to anybody who checks one.
func digestOf(values ...any) string {
	b, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return BytesDigest(b)
}

// canonicalJSON returns a JSON text with sorted keys and without white space; numbers keep their digits. A text that is no
// JSON is kept as it is, behind a mark that no JSON text begins with.
func canonicalJSON(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "!" + strconv.Quote(string(raw))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "!" + strconv.Quote(string(raw))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "!" + strconv.Quote(string(raw))
	}
	return string(b)
}
