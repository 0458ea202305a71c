// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// audiences are what an ID token's only audience is before the plan's digest.
var audiences = map[string]Verdict{"plangate.dev/approve#": Approve, "plangate.dev/reject#": Reject}

const (
	// defaultLifetime is how long an ID token may live when its signer does not say.
	defaultLifetime = 15 * time.Minute
	// clockSkew is how far the issuer's clock may be ahead. A token that has ended gets no such leeway.
	clockSkew = time.Minute
)

// Audience is the audience for which a CI job asks for an ID token: for one verdict on one plan.
func Audience(verdict Verdict, digest string) string {
	for prefix, v := range audiences {
		if v == verdict {
			return prefix + digest
		}
	}
	return ""
}

// token is an ID token, read and not verified.
type token struct {
	alg, kid        string
	issuer, subject string
	issued, expires time.Time
	claims          map[string]json.RawMessage
}

// readToken reads an ID token. All that it says is compared before its signature is verified, and counts only then.
func (s *subject) readToken(value string, seenAt time.Time) (*reading, *Refusal) {
	t, refusal := parseToken(value)
	if refusal != nil {
		return nil, refusal
	}
	verdict, refusal := s.audience(t)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := t.valid(seenAt); refusal != nil {
		return nil, refusal
	}
	refusal = refuse(UnknownSigner, "no trusted signer has the issuer %q", t.issuer)
	r := &reading{format: Token, verdict: verdict}
	for _, candidate := range s.signers.list {
		if candidate.oidc == nil || candidate.oidc.issuer != t.issuer {
			continue
		}
		key, why := candidate.oidc.accepts(t, candidate.name)
		if why != nil {
			refusal = why
			continue
		}
		r.tries = append(r.tries, try{
			signer: candidate, identity: "oidc " + t.issuer + " " + t.subject,
			verifies: func() bool { return verifyToken(value, t.alg, key) },
		})
	}
	if len(r.tries) == 0 {
		return nil, refusal
	}
	return r, nil
}

// parseToken reads an ID token and what every one must say.
func parseToken(value string) (*token, *Refusal) {
	header, claims, err := objects(value)
	if err != nil {
		return nil, refuse(Malformed, "it is no ID token: %v", err)
	}
	if _, critical := header["crit"]; critical {
		return nil, refuse(Malformed, "it is an ID token that asks for an extension; none is known here")
	}
	t := &token{claims: claims}
	t.alg, _ = text(header, "alg")
	t.kid, _ = text(header, "kid")
	t.issuer, _ = text(claims, "iss")
	t.subject, _ = text(claims, "sub")
	var issued, expires bool
	t.issued, issued = moment(claims["iat"])
	t.expires, expires = moment(claims["exp"])
	if t.issuer == "" || t.subject == "" || t.kid == "" || !issued || !expires {
		return nil, refuse(Malformed, "it is an ID token without one of kid, iss, sub, iat and exp")
	}
	return t, nil
}

// objects reads the header and the claims of a compact JWS: three parts, each in its one exact form.
func objects(value string) (header, claims map[string]json.RawMessage, err error) {
	parts := strings.Split(value, ".")
	if len(parts) != 3 || parts[2] == "" {
		return nil, nil, errors.New("it has not three parts, or no signature")
	}
	var raw [3][]byte
	for i, part := range parts {
		if raw[i], err = strictly(base64.RawURLEncoding, part); err != nil {
			return nil, nil, fmt.Errorf("part %d: %w", i+1, err)
		}
	}
	if header, err = object(raw[0]); err != nil {
		return nil, nil, fmt.Errorf("its header: %w", err)
	}
	if claims, err = object(raw[1]); err != nil {
		return nil, nil, fmt.Errorf("its claims: %w", err)
	}
	return header, claims, nil
}

// moment is a claim that counts seconds since 1970.
func moment(raw json.RawMessage) (time.Time, bool) {
	var seconds float64
	if len(raw) == 0 || json.Unmarshal(raw, &seconds) != nil || seconds < 1 || seconds > math.MaxInt32*100 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0).UTC(), true
}

// audience tells the verdict. A token for several audiences could be used by each of them as if it were the job: it is
// refused.
func (s *subject) audience(t *token) (Verdict, *Refusal) {
	only, ok := text(t.claims, "aud")
	if !ok {
		var list []json.RawMessage
		if json.Unmarshal(t.claims["aud"], &list) != nil || len(list) != 1 {
			return "", refuse(OtherPurpose, "it is an ID token that has not exactly one audience; ask for %q alone", Audience(Approve, s.digest))
		}
		if only, ok = text(map[string]json.RawMessage{"aud": list[0]}, "aud"); !ok {
			return "", refuse(Malformed, "it is an ID token whose audience is no text")
		}
	}
	for prefix, verdict := range audiences {
		if digest, found := strings.CutPrefix(only, prefix); found && digest == s.digest {
			return verdict, nil
		} else if found {
			return "", refuse(OtherStatement, "it is an ID token for another plan; ask for the audience %q", prefix+s.digest)
		}
	}
	return "", refuse(OtherPurpose, "it is an ID token for the audience %q; ask for %q", only, Audience(Approve, s.digest))
}

// valid tells whether the token was valid when it was seen.
func (t *token) valid(seenAt time.Time) *Refusal {
	if raw, there := t.claims["nbf"]; there {
		from, ok := moment(raw)
		if !ok || seenAt.Add(clockSkew).Before(from) {
			return refuse(TokenStale, "it is an ID token that is not valid yet")
		}
	}
	switch {
	case t.issued.After(seenAt.Add(clockSkew)):
		return refuse(TokenStale, "it is an ID token that was made at %s, which is in the future", t.issued.Format(time.RFC3339))
	case !seenAt.Before(t.expires):
		return refuse(TokenStale, "it is an ID token that ended at %s; annotate at once after asking for one", t.expires.Format(time.RFC3339))
	case !t.issued.Before(t.expires):
		return refuse(TokenStale, "it is an ID token that ends before it begins")
	}
	return nil
}

// accepts tells whether a signer's claims are all there, and with which key the token must verify.
func (o *oidcSigner) accepts(t *token, name string) (crypto.PublicKey, *Refusal) {
	if lives := t.expires.Sub(t.issued); lives > o.maxLifetime {
		return nil, refuse(TokenStale, "it is an ID token that lives for %s; the trusted signer %q takes %s at most", lives, name, o.maxLifetime)
	}
	for _, claim := range o.claims {
		if !slices.Contains(claim.Values, scalar(t.claims[claim.Name])) {
			return nil, refuse(UnknownSigner, "its claim %q is not what the trusted signer %q must have", claim.Name, name)
		}
	}
	key, ok := o.keys[t.kid]
	if !ok {
		return nil, refuse(UnknownSigner, "the trusted signer %q has no key %q of its issuer; if the issuer has new keys, put them into the policy", name, t.kid)
	}
	if !slices.Contains(algorithms(key), t.alg) {
		return nil, refuse(Malformed, "it is an ID token with the algorithm %q, which the issuer's key does not make", t.alg)
	}
	return key, nil
}

// scalar is a claim as it is pinned. It is empty, which no pin is, for a claim that is absent, a list or an object.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
		return ""
	}
	if raw[0] != '"' {
		return string(raw)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// verifyToken verifies the signature with one key and one algorithm.
func verifyToken(value, alg string, key crypto.PublicKey) bool {
	parsed, err := jose.ParseSignedCompact(value, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
	if err != nil {
		return false
	}
	_, err = parsed.Verify(key)
	return err == nil
}
