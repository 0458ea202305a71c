// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stackconfig

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
)

// StateProvider is the secrets provider that a state names.
type StateProvider struct {
	// Type is "passphrase", "cloud" or "service".
	Type string
	// Salt is the passphrase provider's.
	Salt string
	// URL and EncryptedKey are the cloud providers'.
	URL          string
	EncryptedKey string
}

// ProviderOf reads the secrets provider of an exported deployment. One that it does not know is returned by type alone.
func ProviderOf(deployment json.RawMessage) StateProvider {
	var d struct {
		Provider struct {
			Type  string `json:"type"`
			State struct {
				Salt         string `json:"salt"`
				URL          string `json:"url"`
				EncryptedKey string `json:"encryptedkey"`
			} `json:"state"`
		} `json:"secrets_providers"`
	}
	if json.Unmarshal(deployment, &d) != nil {
		return StateProvider{}
	}
	p := d.Provider
	out := StateProvider{Type: p.Type}
	switch p.Type {
	case "passphrase":
		out.Salt = p.State.Salt
	case "cloud":
		out.URL, out.EncryptedKey = p.State.URL, p.State.EncryptedKey
	}
	return out
}

func passphrase(env map[string]string) (string, error) {
	if phrase, ok := env["PULUMI_CONFIG_PASSPHRASE"]; ok {
		return phrase, nil
	}
	file := env["PULUMI_CONFIG_PASSPHRASE_FILE"]
	if file == "" {
		return "", fmt.Errorf("reading passphrase: %w: neither PULUMI_CONFIG_PASSPHRASE nor PULUMI_CONFIG_PASSPHRASE_FILE is set", ErrSecrets)
	}
	phrase, err := os.ReadFile(file) //nolint:gosec // G304: the user's own file, in the pod
	if err != nil {
		return "", fmt.Errorf("reading passphrase: %w: %w", ErrSecrets, err)
	}
	return strings.TrimSpace(string(phrase)), nil
}

// crypters remembers a few derived keys. It never holds a passphrase.
type crypters struct {
	mu    sync.Mutex
	known map[[32]byte]config.Crypter
}

const maxCrypters = 16

func (c *crypters) get(phrase, salt string) (config.Crypter, error) {
	id := sha256.Sum256([]byte(salt + "\x00" + phrase))
	c.mu.Lock()
	defer c.mu.Unlock()
	if crypter, ok := c.known[id]; ok {
		return crypter, nil
	}
	// "v1:" + base64(salt) + ":" + the encrypted word "pulumi", by which a passphrase is tried.
	parts := strings.SplitN(salt, ":", 3)
	if len(parts) != 3 || parts[0] != "v1" {
		return nil, fmt.Errorf("reading encryption salt: %w: it is malformed", ErrInvalid)
	}
	raw, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("reading encryption salt: %w: it is malformed", ErrInvalid)
	}
	crypter := config.NewSymmetricCrypterFromPassphrase(phrase, raw)
	if word, err := crypter.DecryptValue(context.Background(), parts[2]); err != nil || word != "pulumi" {
		return nil, fmt.Errorf("reading secrets: %w: incorrect passphrase", ErrSecrets)
	}
	c.put(id, crypter)
	return crypter, nil
}

func (c *crypters) put(id [32]byte, crypter config.Crypter) {
	if c.known == nil || len(c.known) >= maxCrypters {
		c.known = map[[32]byte]config.Crypter{}
	}
	c.known[id] = crypter
}

// newSalt makes a salt in the form that Pulumi makes.
func (c *crypters) newSalt(phrase string) (string, error) {
	raw := make([]byte, 8)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("making encryption salt: %w", err)
	}
	crypter := config.NewSymmetricCrypterFromPassphrase(phrase, raw)
	word, err := crypter.EncryptValue(context.Background(), "pulumi")
	if err != nil {
		return "", fmt.Errorf("making encryption salt: %w", err)
	}
	salt := "v1:" + base64.StdEncoding.EncodeToString(raw) + ":" + word
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(sha256.Sum256([]byte(salt+"\x00"+phrase)), crypter)
	return salt, nil
}
