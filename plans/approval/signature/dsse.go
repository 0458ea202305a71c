// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// The payload types of DSSE envelopes: the verdict that is signed.
const (
	PayloadApprove = "application/vnd.in-toto+json"
	PayloadReject  = "application/vnd.plangate.reject.in-toto+json"
)

var dssePurposes = map[string]Verdict{PayloadApprove: Approve, PayloadReject: Reject}

// readDSSE reads an envelope with one signature. An envelope without a payload is one over the statement as well: where the
// statement is long, both do not fit into an annotation.
func (s *subject) readDSSE(value string) (*reading, *Refusal) {
	envelope, err := object([]byte(value), "payloadType", "payload", "signatures")
	if err != nil {
		return nil, refuse(Malformed, "it is no DSSE envelope: %v", err)
	}
	kind, _ := text(envelope, "payloadType")
	verdict, ok := dssePurposes[kind]
	if !ok {
		return nil, refuse(OtherPurpose, "its payloadType is %q; approve with %q", kind, PayloadApprove)
	}
	if refusal := s.samePayload(envelope); refusal != nil {
		return nil, refusal
	}
	sig, refusal := onlySignature(envelope["signatures"])
	if refusal != nil {
		return nil, refusal
	}
	signed := PAE(kind, s.statement)
	r := &reading{format: DSSE, verdict: verdict}
	for _, t := range s.signers.list {
		if t.key == nil || !plausible(t.key, sig) {
			continue
		}
		r.tries = append(r.tries, try{signer: t, identity: t.identity, verifies: func() bool { return verifyRaw(t.key, signed, sig) }})
	}
	if len(r.tries) == 0 {
		return nil, refuse(UnknownSigner, "no trusted signer has a key that makes signatures of that form")
	}
	return r, nil
}

// samePayload compares the envelope's payload with the statement, byte for byte.
func (s *subject) samePayload(envelope map[string]json.RawMessage) *Refusal {
	if _, there := envelope["payload"]; !there {
		return nil
	}
	encoded, ok := text(envelope, "payload")
	if !ok {
		return refuse(Malformed, "it is no DSSE envelope: its payload is no text")
	}
	if encoded == "" {
		return nil
	}
	payload, err := strictly(base64.StdEncoding, encoded)
	if err != nil {
		return refuse(Malformed, "it is no DSSE envelope: its payload is %v", err)
	}
	if string(payload) != s.statement {
		return refuse(OtherStatement, "it signs another statement than this plan's: sign spec.statement of this very plan, byte for byte")
	}
	return nil
}

// onlySignature returns the signature of an envelope that has exactly one. The key id is a hint that nobody signed: it is
// not used.
func onlySignature(raw json.RawMessage) ([]byte, *Refusal) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) != 1 {
		return nil, refuse(Malformed, "it is a DSSE envelope with %d signatures; put each into an envelope, and an annotation, of its own", len(list))
	}
	members, err := object(list[0], "keyid", "sig")
	if err != nil {
		return nil, refuse(Malformed, "it is no DSSE envelope: its signature is %v", err)
	}
	encoded, _ := text(members, "sig")
	sig, err := strictly(base64.StdEncoding, encoded)
	if err != nil || len(sig) == 0 {
		return nil, refuse(Malformed, "it is no DSSE envelope: its signature is not base64")
	}
	return sig, nil
}

// PAE is what a DSSE envelope signs: the payload with its type.
func PAE(payloadType, payload string) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// plausible tells, without cryptography, whether the key can have made a signature of that form.
func plausible(key crypto.PublicKey, sig []byte) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return len(sig) == ed25519.SignatureSize
	case *ecdsa.PublicKey:
		return len(sig) >= 8 && len(sig) <= 72 && sig[0] == 0x30
	case *rsa.PublicKey:
		return len(sig) == k.Size()
	default:
		return false
	}
}

// verifyRaw verifies with the one algorithm that the key's type means.
func verifyRaw(key crypto.PublicKey, message, sig []byte) bool {
	sum := sha256.Sum256(message)
	switch k := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, sig)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], sig)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], sig) == nil
	default:
		return false
	}
}
