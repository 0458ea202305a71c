// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/ssh"
)

const (
	minRSA = 2048
	// maxRSA bounds what a verification costs.
	maxRSA = 8192
	// maxIssuerKeys is how many keys of an issuer are taken.
	maxIssuerKeys = 32
)

// parseSSH reads one line of a public key file.
func parseSSH(line string) (ssh.PublicKey, error) {
	line = strings.TrimSuffix(line, "\n")
	if strings.Contains(line, "PRIVATE KEY") {
		return nil, errors.New("it is a private key: take it out of the policy, make a new one, and put its public key here")
	}
	if strings.ContainsAny(line, "\r\n") {
		return nil, errors.New("it has more than one line; it must be one line such as \"ssh-ed25519 AAAA… comment\"")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, errors.New("it is no line of an OpenSSH public key file, such as \"ssh-ed25519 AAAA… comment\"")
	}
	if len(options) > 0 {
		return nil, errors.New("it has options before the key, which mean nothing here; leave them out")
	}
	if _, ok := sshAlgorithms[key.Type()]; !ok {
		return nil, fmt.Errorf("a key of type %q is not taken; use ssh-ed25519, ecdsa-sha2-nistp256, their security-key forms, or ssh-rsa", key.Type())
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if err := strong(c.CryptoPublicKey()); err != nil {
			return nil, err
		}
	}
	return key, nil
}

// parsePEM reads one block "PUBLIC KEY".
func parsePEM(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case strings.Contains(text, "PRIVATE KEY"):
		return nil, errors.New("it is a private key: take it out of the policy, make a new one, and put its public key here (openssl pkey -pubout)")
	case block == nil || !strings.HasPrefix(text, "-----BEGIN ") || len(bytes.TrimSpace(rest)) > 0 || len(block.Headers) > 0:
		return nil, errors.New("it is not one PEM block and nothing else")
	case block.Type != "PUBLIC KEY":
		return nil, fmt.Errorf("it is a PEM block %q, not \"PUBLIC KEY\" (openssl pkey -pubout makes one)", block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("its PEM block holds no public key that can be read")
	}
	return key, strong(key)
}

// strong tells why a key is not good enough, by the type that was read.
func strong(key crypto.PublicKey) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return fmt.Errorf("an ECDSA key on %s is not taken; use P-256 or Ed25519", k.Curve.Params().Name)
		}
		return nil
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA {
			return fmt.Errorf("an RSA key of %d bits is not taken; use one of %d to %d bits, or Ed25519", n, minRSA, maxRSA)
		}
		return nil
	default:
		return fmt.Errorf("a key of type %T is not taken; use Ed25519, ECDSA on P-256 or RSA", key)
	}
}

// algorithms are the JWS algorithms that a key makes.
func algorithms(key crypto.PublicKey) []string {
	switch key.(type) {
	case ed25519.PublicKey:
		return []string{string(jose.EdDSA)}
	case *ecdsa.PublicKey:
		return []string{string(jose.ES256)}
	case *rsa.PublicKey:
		return []string{string(jose.RS256)}
	default:
		return nil
	}
}

// parseJWKS reads an issuer's keys, by their id. Keys of kinds that are not taken are left out, since issuers publish them
// beside others; a private key, two keys of one id, and no key at all are faults.
func parseJWKS(text string) (map[string]crypto.PublicKey, error) {
	set, err := object([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON Web Key Set: %w", err)
	}
	var raws []json.RawMessage
	if json.Unmarshal(set["keys"], &raws) != nil || len(raws) > maxIssuerKeys {
		return nil, fmt.Errorf("it is no JSON Web Key Set with a list \"keys\" of at most %d", maxIssuerKeys)
	}
	keys := map[string]crypto.PublicKey{}
	var unfit error
	for i, raw := range raws {
		id, key, err := parseJWK(raw)
		switch {
		case errors.Is(err, errSecretKey):
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		case err != nil:
			unfit = fmt.Errorf("keys[%d]: %w", i, err)
		case keys[id] != nil:
			return nil, fmt.Errorf("keys[%d]: the kid %q is there twice", i, id)
		default:
			keys[id] = key
		}
	}
	if len(keys) == 0 {
		return nil, errors.Join(errors.New("it has no key that is taken"), unfit)
	}
	return keys, nil
}

var errSecretKey = errors.New("it holds a secret or private key: take it out of the policy, and have the issuer make a new one")

func parseJWK(raw json.RawMessage) (string, crypto.PublicKey, error) {
	members, err := object(raw)
	if err != nil {
		return "", nil, err
	}
	for _, private := range []string{"d", "k"} {
		if _, there := members[private]; there {
			return "", nil, errSecretKey
		}
	}
	var jwk jose.JSONWebKey
	if json.Unmarshal(raw, &jwk) != nil || !jwk.Valid() {
		return "", nil, errors.New("it cannot be read")
	}
	if jwk.KeyID == "" || jwk.Use != "" && jwk.Use != "sig" {
		return "", nil, errors.New("it has no kid, or another use than sig")
	}
	return jwk.KeyID, jwk.Key, strong(jwk.Key)
}
