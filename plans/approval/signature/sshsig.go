// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd   = "\n-----END SSH SIGNATURE-----"
	sshMagic   = "SSHSIG"
)

// sshPurposes are the namespaces of `ssh-keygen -Y sign -n`.
var sshPurposes = map[string]Verdict{"plangate.dev": Approve, "plangate.dev/reject": Reject}

// sshBlob is what the armor holds behind the magic.
type sshBlob struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// sshSigned is what is signed, behind the magic.
type sshSigned struct {
	Namespace, Reserved, Hash string
	Message                   []byte
}

// readSSH reads an SSH signature. It names its key, so that only that key's signer is tried.
func (s *subject) readSSH(value string) (*reading, *Refusal) {
	malformed := refuse(Malformed, "it is no whole SSH signature as ssh-keygen -Y sign writes it")
	blob, ok := unarmor(value)
	if !ok {
		return nil, malformed
	}
	verdict, ok := sshPurposes[blob.Namespace]
	if !ok {
		return nil, refuse(OtherPurpose, "it was made for the namespace %q; approve with ssh-keygen -Y sign -n plangate.dev", blob.Namespace)
	}
	var sig ssh.Signature
	if ssh.Unmarshal(blob.Signature, &sig) != nil {
		return nil, malformed
	}
	t := s.signers.bySSH(blob.PublicKey)
	if t == nil {
		return nil, refuse(UnknownSigner, "no trusted signer has the SSH key %s", fingerprint(blob.PublicKey))
	}
	hash := sshHash(blob.Hash, s.statement)
	if hash == nil || !sshAlgorithms[t.ssh.Type()][sig.Format] || len(sig.Rest) != sshRest[t.ssh.Type()] {
		return nil, refuse(Malformed, "it uses an algorithm that is not taken: hash %q, signature %q", blob.Hash, sig.Format)
	}
	signed := append([]byte(sshMagic), ssh.Marshal(sshSigned{Namespace: blob.Namespace, Hash: blob.Hash, Message: hash})...)
	verifies := func() bool { return t.ssh.Verify(signed, &sig) == nil }
	return &reading{format: SSH, verdict: verdict, tries: []try{{signer: t, identity: t.identity, verifies: verifies}}}, nil
}

// unarmor reads what is between the lines of dashes.
func unarmor(value string) (blob sshBlob, ok bool) {
	body, ok := strings.CutSuffix(strings.TrimSuffix(strings.TrimPrefix(value, armorBegin), "\n"), armorEnd)
	if !ok {
		return blob, false
	}
	raw, err := strictly(base64.StdEncoding, strings.ReplaceAll(body, "\n", ""))
	if err != nil || !strings.HasPrefix(string(raw), sshMagic) || ssh.Unmarshal(raw[len(sshMagic):], &blob) != nil {
		return blob, false
	}
	return blob, blob.Version == 1 && blob.Reserved == ""
}

// sshAlgorithms are, by the type of the key, the signatures that are taken: none with SHA-1.
var sshAlgorithms = map[string]map[string]bool{
	ssh.KeyAlgoED25519:    {ssh.KeyAlgoED25519: true},
	ssh.KeyAlgoECDSA256:   {ssh.KeyAlgoECDSA256: true},
	ssh.KeyAlgoSKED25519:  {ssh.KeyAlgoSKED25519: true},
	ssh.KeyAlgoSKECDSA256: {ssh.KeyAlgoSKECDSA256: true},
	ssh.KeyAlgoRSA:        {ssh.KeyAlgoRSASHA256: true, ssh.KeyAlgoRSASHA512: true},
}

// sshRest is how many bytes are behind the signature proper: a security key's flags and counter.
var sshRest = map[string]int{ssh.KeyAlgoSKED25519: 5, ssh.KeyAlgoSKECDSA256: 5}

func sshHash(name, message string) []byte {
	switch name {
	case "sha512":
		sum := sha512.Sum512([]byte(message))
		return sum[:]
	case "sha256":
		sum := sha256.Sum256([]byte(message))
		return sum[:]
	default:
		return nil
	}
}

// fingerprint is what ssh-keygen -l shows.
func fingerprint(wire []byte) string {
	sum := sha256.Sum256(wire)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
