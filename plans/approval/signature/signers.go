// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Signers are trusted signers whose keys were read. The zero value trusts nobody. It never changes, and may be used by many
// at once.
type Signers struct {
	list []*signer
	wire map[string]*signer
}

// signer is a trusted signer, ready to verify with. One of ssh, key and oidc is set.
type signer struct {
	name     string
	identity string
	stacks   []string
	notAfter time.Time

	ssh  ssh.PublicKey
	key  crypto.PublicKey
	oidc *oidcSigner
}

type oidcSigner struct {
	issuer      string
	keys        map[string]crypto.PublicKey
	claims      []v1alpha1.PinnedClaim
	maxLifetime time.Duration
}

// SignerError is a fault of one trusted signer.
type SignerError struct {
	// Signer is the signer's name, Field the field of it that is at fault: "oidc.jwks".
	Signer, Field string
	// Err says why, with the way out. It quotes no key.
	Err error
}

func (e *SignerError) Error() string {
	return fmt.Sprintf("signer %q: %s: %s", e.Signer, e.Field, words(e.Err.Error()))
}

// Unwrap returns what it is about.
func (e *SignerError) Unwrap() error { return e.Err }

// New reads the keys of trusted signers. It checks all that the API server checks as well, since a list may come from a file.
// With any fault there are no Signers, so that a policy with a typing error fails closed; every fault is told, each as a
// *SignerError.
func New(trusted []v1alpha1.TrustedSigner) (*Signers, error) {
	s := &Signers{wire: map[string]*signer{}}
	var errs []error
	names, identities := map[string]bool{}, map[string]string{}
	for i := range trusted {
		t := &trusted[i]
		one, err := newSigner(t)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case names[t.Name]:
			errs = append(errs, &SignerError{t.Name, "name", errors.New("another signer of the list has it too")})
			continue
		case one.identity != "" && identities[one.identity] != "":
			errs = append(errs, &SignerError{t.Name, field(t), fmt.Errorf("the signer %q has the same key: one key is one signer", identities[one.identity])})
			continue
		}
		names[t.Name], identities[one.identity] = true, t.Name
		s.list = append(s.list, one)
		if one.ssh != nil {
			s.wire[string(one.ssh.Marshal())] = one
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// Parse reads trusted signers from JSON: a list in the form of a policy's spec.signers. Unknown fields are refused.
func Parse(raw []byte) (*Signers, error) {
	var trusted []v1alpha1.TrustedSigner
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&trusted); err != nil {
		return nil, fmt.Errorf("reading trusted signers: %s", words(err.Error()))
	}
	if d.More() {
		return nil, errors.New("reading trusted signers: something is behind the list")
	}
	return New(trusted)
}

// Len is how many there are.
func (s *Signers) Len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

func (s *Signers) bySSH(wire []byte) *signer { return s.wire[string(wire)] }

func field(t *v1alpha1.TrustedSigner) string {
	switch {
	case t.SSH != "":
		return "ssh"
	case t.PEM != "":
		return "pem"
	default:
		return "oidc"
	}
}

func newSigner(t *v1alpha1.TrustedSigner) (*signer, error) {
	fault := func(field string, err error) error { return &SignerError{t.Name, field, err} }
	if t.Name == "" || len(t.Name) > 63 || words(t.Name) != t.Name {
		return nil, fault("name", errors.New("it is empty, too long, or has characters that cannot be shown"))
	}
	if n := kinds(t); n != 1 {
		return nil, fault("ssh, pem, oidc", fmt.Errorf("%d of them are set; set exactly one", n))
	}
	s := &signer{name: t.Name, stacks: t.Stacks}
	if t.NotAfter != nil {
		s.notAfter = t.NotAfter.Time
	}
	if err := checkStacks(t.Stacks); err != nil {
		return nil, fault("stacks", err)
	}
	if err := s.readKey(t); err != nil {
		return nil, fault(field(t)+at(err), err)
	}
	return s, nil
}

// kinds counts how many kinds of signers it says to be.
func kinds(t *v1alpha1.TrustedSigner) (n int) {
	for _, there := range []bool{t.SSH != "", t.PEM != "", t.OIDC != nil} {
		if there {
			n++
		}
	}
	return n
}

func checkStacks(patterns []string) error {
	if patterns != nil && len(patterns) == 0 {
		return errors.New("it is an empty list, which is good for nothing; leave it out to mean all")
	}
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil || strings.Count(pattern, "/") != 1 || strings.ContainsAny(pattern, `[]\`) {
			return fmt.Errorf("%q is no pattern of namespace/name with * and ?", pattern)
		}
	}
	return nil
}

func (s *signer) readKey(t *v1alpha1.TrustedSigner) (err error) {
	switch {
	case t.SSH != "":
		if s.ssh, err = parseSSH(t.SSH); err == nil {
			s.identity = sshIdentity(s.ssh)
		}
	case t.PEM != "":
		if s.key, err = parsePEM(t.PEM); err == nil {
			s.identity = keyIdentity(s.key)
		}
	default:
		s.oidc, err = newOIDC(t.OIDC)
	}
	return err
}

// keyIdentity is the same for a key in whatever form it is written.
func keyIdentity(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return "key sha256:" + hex.EncodeToString(sum[:])
}

func sshIdentity(key ssh.PublicKey) string {
	c, ok := key.(ssh.CryptoPublicKey)
	if _, hardware := sshRest[key.Type()]; ok && !hardware {
		return keyIdentity(c.CryptoPublicKey())
	}
	return "key " + fingerprint(key.Marshal())
}

// below is a fault of a field within oidc.
type below struct {
	field string
	error
}

func (b below) Unwrap() error { return b.error }

// at is the path of that field.
func at(err error) string {
	var b below
	if errors.As(err, &b) {
		return "." + b.field
	}
	return ""
}

// pinnedIDs are the claims that must be pinned for issuers that many strangers use: the id of the repository. Its name, and
// with it "sub", may belong to somebody else tomorrow.
var pinnedIDs = map[string]string{
	"https://token.actions.githubusercontent.com": "repository_id",
	"https://gitlab.com":                          "project_id",
}

func newOIDC(o *v1alpha1.OIDCSigner) (*oidcSigner, error) {
	if !strings.HasPrefix(o.Issuer, "https://") || words(o.Issuer) != o.Issuer {
		return nil, below{"issuer", errors.New("it is no https URL")}
	}
	keys, err := parseJWKS(o.JWKS)
	if err != nil {
		return nil, below{"jwks", err}
	}
	if err := checkClaims(o); err != nil {
		return nil, below{"claims", err}
	}
	s := &oidcSigner{issuer: o.Issuer, keys: keys, claims: o.Claims, maxLifetime: defaultLifetime}
	if o.MaxLifetime != nil {
		s.maxLifetime = o.MaxLifetime.Duration
	}
	if s.maxLifetime <= 0 || s.maxLifetime > time.Hour {
		return nil, below{"maxLifetime", errors.New("it must be more than nothing and at most 1h")}
	}
	return s, nil
}

// checkClaims tells why the pinned claims are not enough to know who signs.
func checkClaims(o *v1alpha1.OIDCSigner) error {
	pinned := map[string]bool{}
	for _, c := range o.Claims {
		if c.Name == "" || len(c.Values) == 0 || pinned[c.Name] {
			return fmt.Errorf("%q has no name, no values, or is there twice", c.Name)
		}
		if slices.Contains(c.Values, "") {
			return fmt.Errorf("%q may be empty: a claim that is absent would do", c.Name)
		}
		pinned[c.Name] = true
	}
	if len(pinned) == 0 {
		return errors.New("none is pinned: every workload of the issuer could sign")
	}
	if id := pinnedID(o.Issuer); id != "" && !pinned[id] {
		return fmt.Errorf("%q is not pinned: a name can be given to somebody else, an id cannot", id)
	}
	return nil
}

// pinnedID is the claim that must be pinned for an issuer. Empty: any will do.
func pinnedID(issuer string) string {
	if strings.HasPrefix(issuer, "https://token.actions.githubusercontent.com/") {
		return "repository_id" // an enterprise's own issuer
	}
	return pinnedIDs[strings.TrimSuffix(issuer, "/")]
}
