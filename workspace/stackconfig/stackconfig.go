// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stackconfig renders the configuration file of a stack for one operation, outside of the checkout: the committed
// Pulumi.<stack>.yaml, the operation's configuration laid over it, and the secret part encrypted. Nothing of an earlier
// operation survives, so a key that was set and then removed is back at its committed value.
//
// The salt decides which passphrase-encrypted values can be read, so it must never be lost or made anew by accident (a file
// without one makes the CLI invent one and move the whole state to it). It comes from the first that has one:
//
//	committed file → the state → the operation's fallback → a new one, which is reported so that it can be the next fallback
package stackconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	pulumi "github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
	"gopkg.in/yaml.v3"
)

// ErrInvalid is wrapped by all errors that somebody must mend in the repository or the spec.
var ErrInvalid = errors.New("invalid configuration")

// ErrSecrets is wrapped by errors of the secrets provider.
var ErrSecrets = errors.New("secrets provider")

// Input is what a configuration is rendered from.
type Input struct {
	// Project is the loaded project.
	Project *Project
	// Stack is the short name.
	Stack string
	// Config is laid over the committed file, SecretConfig too, encrypted.
	Config       map[string]json.RawMessage
	SecretConfig map[string]string
	// StateProvider is the state's secrets provider. Zero: none.
	StateProvider StateProvider
	// FallbackSalt is for a stack that has no salt anywhere.
	FallbackSalt string
	// Env has the passphrase.
	Env map[string]string
	// File is where the configuration is written, mode 0600.
	File string
	// Encrypt encrypts with a provider other than a passphrase: it sets the key in File.
	Encrypt func(ctx context.Context, key, value string) error
	// ManagedBackend says that the backend has a secrets service of its own, so that no salt is needed.
	ManagedBackend bool
}

// Rendered is what came out.
type Rendered struct {
	// Salt is the "encryptionsalt" in the file. Empty: another secrets provider.
	Salt string
	// NewSalt says that the salt was made just now.
	NewSalt bool
}

// Renderer renders configurations. It remembers the keys derived from passphrases, each of which costs half a second.
type Renderer struct{ passphrases crypters }

// New returns a renderer.
func New() *Renderer { return &Renderer{} }

// Render writes the configuration file.
func (r *Renderer) Render(ctx context.Context, in Input) (*Rendered, error) {
	stack, err := in.Project.committed(in.Stack)
	if err != nil {
		return nil, err
	}
	plain, secret, err := in.keys()
	if err != nil {
		return nil, err
	}
	if stack.Config == nil {
		stack.Config = config.Map{}
	}
	for key, raw := range plain {
		value, err := configValue(raw)
		if err != nil {
			return nil, fmt.Errorf("reading configuration %q: %w: %w", key, ErrInvalid, err)
		}
		stack.Config[key] = value
	}
	out, err := r.provider(stack, in)
	if err != nil {
		return nil, err
	}
	if out.Salt == "" {
		if err := write(in.File, stack); err != nil {
			return nil, err
		}
		return out, encryptEach(ctx, in, secret)
	}
	if len(secret) > 0 {
		if err := r.encrypt(ctx, stack, in, out.Salt, secret); err != nil {
			return nil, err
		}
	}
	return out, write(in.File, stack)
}

// provider settles the secrets provider and the salt of the file.
func (r *Renderer) provider(stack *pulumi.ProjectStack, in Input) (*Rendered, error) {
	if stack.EncryptionSalt != "" {
		return &Rendered{Salt: stack.EncryptionSalt}, nil
	}
	if hasProvider(stack) {
		return &Rendered{}, nil
	}
	s := in.StateProvider
	switch {
	case s.Salt != "":
		stack.EncryptionSalt = s.Salt
	case s.EncryptedKey != "":
		stack.SecretsProvider, stack.EncryptedKey = s.URL, s.EncryptedKey
		return &Rendered{}, nil
	case in.ManagedBackend && stack.SecretsProvider != "passphrase":
		return &Rendered{}, nil
	case in.FallbackSalt != "":
		stack.EncryptionSalt = in.FallbackSalt
	default:
		phrase, err := passphrase(in.Env)
		if err != nil {
			return nil, err
		}
		salt, err := r.passphrases.newSalt(phrase)
		if err != nil {
			return nil, err
		}
		stack.EncryptionSalt = salt
		return &Rendered{Salt: salt, NewSalt: true}, nil
	}
	return &Rendered{Salt: stack.EncryptionSalt}, nil
}

// hasProvider says whether the committed file names a provider other than a passphrase.
func hasProvider(stack *pulumi.ProjectStack) bool {
	switch stack.SecretsProvider {
	case "", "default", "passphrase":
		return stack.EncryptedKey != ""
	}
	return true
}

func (r *Renderer) encrypt(ctx context.Context, stack *pulumi.ProjectStack, in Input, salt string, secret map[config.Key]string) error {
	phrase, err := passphrase(in.Env)
	if err != nil {
		return err
	}
	crypter, err := r.passphrases.get(phrase, salt)
	if err != nil {
		return err
	}
	for key, value := range secret {
		cipher, err := crypter.EncryptValue(ctx, value)
		if err != nil {
			return fmt.Errorf("encrypting configuration %q: %w", key, err)
		}
		stack.Config[key] = config.NewSecureValue(cipher)
	}
	return nil
}

func encryptEach(ctx context.Context, in Input, secret map[config.Key]string) error {
	for key, value := range secret {
		if in.Encrypt == nil {
			return fmt.Errorf("encrypting configuration %q: %w: not possible here", key, ErrSecrets)
		}
		if err := in.Encrypt(ctx, key.String(), value); err != nil {
			return fmt.Errorf("encrypting configuration %q: %w: %w", key, ErrSecrets, err)
		}
	}
	return nil
}

// keys gives each key its namespace, and refuses one that is given twice.
func (in Input) keys() (map[config.Key]json.RawMessage, map[config.Key]string, error) {
	plain, secret := map[config.Key]json.RawMessage{}, map[config.Key]string{}
	for name, raw := range in.Config {
		key, err := in.Project.key(name)
		if err != nil {
			return nil, nil, err
		}
		if _, twice := plain[key]; twice {
			return nil, nil, fmt.Errorf("reading configuration %q: %w: it is given twice, with and without its namespace", name, ErrInvalid)
		}
		plain[key] = raw
	}
	for name, value := range in.SecretConfig {
		key, err := in.Project.key(name)
		if err != nil {
			return nil, nil, err
		}
		_, alsoPlain := plain[key]
		_, twice := secret[key]
		if alsoPlain || twice {
			return nil, nil, fmt.Errorf("reading configuration %q: %w: it is given twice", name, ErrInvalid)
		}
		secret[key] = value
	}
	return plain, secret, nil
}

// configValue keeps strings as they are, and everything else as the structured value that it is.
func configValue(raw json.RawMessage) (config.Value, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return config.Value{}, err
	}
	switch v := v.(type) {
	case nil:
		return config.Value{}, errors.New("null is no value")
	case string:
		return config.NewValue(v), nil
	case bool:
		return config.NewTypedValue(strings.TrimSpace(string(raw)), config.TypeBool), nil
	case float64:
		return number(strings.TrimSpace(string(raw)))
	}
	compact, err := json.Marshal(v)
	if err != nil {
		return config.Value{}, err
	}
	return config.NewObjectValue(string(compact)), nil
}

func write(file string, stack *pulumi.ProjectStack) error {
	out, err := yaml.Marshal(stack)
	if err != nil {
		return fmt.Errorf("encoding configuration: %w: %w", ErrInvalid, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("writing configuration: %w", err)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		return fmt.Errorf("writing configuration: %w", err)
	}
	return nil
}
