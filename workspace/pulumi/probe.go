// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/yaml"
)

// Uncompared stands in place of the ciphertext of a secret that could not be decrypted.
const Uncompared = "plangate:uncompared"

// SameSecrets makes secrets of two plan files comparable: Pulumi encrypts one value anew each time. It returns the second file
// with the ciphertext of the first wherever both have a secret of the same value at the same place. When they cannot be
// decrypted, which is not an error here, it has the mark Uncompared there. The plain values stay in this call.
func SameSecrets(first, second []byte, decrypt func(ciphertexts []string) ([]string, error)) ([]byte, error) {
	a, err := decodeNumbers(first)
	if err != nil {
		return nil, fmt.Errorf("comparing two plans: %w", err)
	}
	b, err := decodeNumbers(second)
	if err != nil {
		return nil, fmt.Errorf("comparing two plans: %w", err)
	}
	var pairs []secretPair
	pairSecrets(a, b, func(p secretPair) { pairs = append(pairs, p) })
	if len(pairs) == 0 {
		return second, nil
	}
	ciphertexts := make([]string, 0, 2*len(pairs))
	for _, p := range pairs {
		ciphertexts = append(ciphertexts, p.was, p.is)
	}
	plain, err := decrypt(ciphertexts)
	known := err == nil && len(plain) == len(ciphertexts)
	for i, p := range pairs {
		switch {
		case !known:
			p.in["ciphertext"] = Uncompared
		case plain[2*i] == plain[2*i+1]:
			p.in["ciphertext"] = p.was
		}
	}
	return json.Marshal(b)
}

func decodeNumbers(raw []byte) (any, error) {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err := decoder.Decode(&v)
	return v, err
}

// secretPair are the ciphertexts at one place of two plans, and the object of the second that holds its.
type secretPair struct {
	was, is string
	in      map[string]any
}

// pairSecrets finds secrets at the same place whose ciphertexts differ.
func pairSecrets(a, b any, found func(secretPair)) {
	switch b := b.(type) {
	case map[string]any:
		am, ok := a.(map[string]any)
		if !ok {
			return
		}
		if am[signatureKey] == secretSignature && b[signatureKey] == secretSignature {
			was, hasWas := am["ciphertext"].(string)
			is, hasIs := b["ciphertext"].(string)
			if hasWas && hasIs && was != is {
				found(secretPair{was, is, b})
			}
			return
		}
		for key, value := range b {
			pairSecrets(am[key], value, found)
		}
	case []any:
		as, _ := a.([]any)
		for i, value := range b {
			if i < len(as) {
				pairSecrets(as[i], value, found)
			}
		}
	}
}

// Decrypt puts the ciphertexts into a configuration file of its own, beside the rendered one and with its secrets provider, and
// lets the CLI read that: it knows every provider, and takes nothing secret as an argument.
func (c *CLI) Decrypt(ctx context.Context, t Target, ciphertexts []string) ([]string, error) {
	raw, err := os.ReadFile(t.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	var file map[string]any
	if err := yaml.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	if file == nil {
		file = map[string]any{}
	}
	config := map[string]any{}
	for i, ciphertext := range ciphertexts {
		config["plangate:s"+strconv.Itoa(i)] = map[string]string{"secure": ciphertext}
	}
	file["config"] = config
	out, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encoding configuration: %w", err)
	}
	t.ConfigFile = filepath.Join(t.Scratch, "secrets.yaml")
	if err := os.WriteFile(t.ConfigFile, out, 0o600); err != nil {
		return nil, fmt.Errorf("writing configuration: %w", err)
	}
	defer func() { _ = os.Remove(t.ConfigFile) }()
	text, err := c.text(ctx, t, "", "config", "--show-secrets", "--json", "--config-file", t.ConfigFile, "-s", t.Stack)
	if err != nil {
		return nil, err
	}
	var shown map[string]struct {
		Value *string `json:"value"`
	}
	if json.Unmarshal([]byte(text), &shown) != nil {
		return nil, errors.New("decoding configuration: it is not what was expected") // not the text: it holds secrets
	}
	plain := make([]string, len(ciphertexts))
	for i := range ciphertexts {
		v, ok := shown["plangate:s"+strconv.Itoa(i)]
		if !ok || v.Value == nil {
			return nil, errors.New("decoding configuration: a value is missing")
		}
		plain[i] = *v.Value
	}
	return plain, nil
}
