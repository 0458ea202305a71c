// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/ssh"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
)

const (
	cluster = "4b7c1a52-8f1d-4b59-a4f4-9b6f4f5d2f10"
	github  = "https://token.actions.githubusercontent.com"
)

var now = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// statement is that of a plan of the Stack prod/web, as change makes it.
func statement(t testing.TB, change ...func(*plans.SpecInput)) string {
	t.Helper()
	in := plans.SpecInput{
		Namespace: "prod", Cluster: cluster, Nonce: strings.Repeat("a", 32), Sequence: 7,
		Stack:   v1alpha1.StackReference{Name: "web", UID: "uid-1", Generation: 3, ResourceVersion: "4711"},
		Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSpecChanged},
		Binding: v1alpha1.Binding{
			Revision: strings.Repeat("1", 40), Repository: "https://git.example/repo", Tree: strings.Repeat("2", 40),
			ConfigDigest: "sha256:" + strings.Repeat("3", 64), StateDigest: "sha256:" + strings.Repeat("4", 64),
			PulumiVersion: "v3.276.0", WorkspaceImage: "registry.example/pulumi",
		},
		Artifact: v1alpha1.Artifact{Digest: "sha256:" + strings.Repeat("5", 64), Size: 1234, Chunks: []string{"web-plan-555555555555-0"}},
		NotAfter: now.Add(time.Hour),
		Plan:     plans.New([]v1alpha1.ResourceChange{{Operation: v1alpha1.ChangeCreate, Type: "files:index:File", Name: "new", URN: "urn:new"}}, 4),
	}
	for _, c := range change {
		c(&in)
	}
	spec, err := plans.NewSpec(in)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Statement
}

// keys are made once: RSA keys take their time.
type keys struct {
	ed        ed25519.PrivateKey
	p256      *ecdsa.PrivateKey
	rsa       *rsa.PrivateKey
	other     ed25519.PrivateKey
	issuer    *rsa.PrivateKey
	otherSite *rsa.PrivateKey
}

var testKeys = sync.OnceValue(func() keys {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	k, _ := rsa.GenerateKey(rand.Reader, 2048)
	issuer, _ := rsa.GenerateKey(rand.Reader, 2048)
	otherSite, _ := rsa.GenerateKey(rand.Reader, 2048)
	return keys{ed: ed, p256: p256, rsa: k, other: other, issuer: issuer, otherSite: otherSite}
})

func pemOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func sshOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	pub, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
}

func jwksOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// trusted is a policy with a signer of each kind.
func trusted(t testing.TB) []v1alpha1.TrustedSigner {
	t.Helper()
	k := testKeys()
	return []v1alpha1.TrustedSigner{
		{Name: "ssh-ci", SSH: sshOf(t, k.ed)},
		{Name: "ssh-rsa", SSH: sshOf(t, k.rsa)},
		{Name: "pem-p256", PEM: pemOf(t, k.p256)},
		{Name: "github", OIDC: &v1alpha1.OIDCSigner{
			Issuer: github, JWKS: jwksOf(t, k.issuer),
			Claims: []v1alpha1.PinnedClaim{{Name: "repository_id", Values: []string{"4711"}}, {Name: "ref", Values: []string{"refs/heads/main", "refs/heads/release"}}},
		}},
	}
}

func signersOf(t testing.TB, list ...v1alpha1.TrustedSigner) *signature.Signers {
	t.Helper()
	s, err := signature.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sshsig makes what ssh-keygen -Y sign makes.
func sshsig(t testing.TB, key crypto.Signer, namespace, message string) string {
	t.Helper()
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	algorithm := signer.PublicKey().Type()
	if algorithm == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512
	}
	return sshsigWith(t, signer, algorithm, namespace, message, "sha512")
}

func sshsigWith(t testing.TB, signer ssh.Signer, algorithm, namespace, message, hash string) string {
	t.Helper()
	sum := sha512.Sum512([]byte(message))
	signed := append([]byte("SSHSIG"), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Message                   []byte
	}{namespace, "", hash, sum[:]})...)
	sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signed, algorithm)
	if err != nil {
		t.Fatal(err)
	}
	blob := append([]byte("SSHSIG"), ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
	}{1, signer.PublicKey().Marshal(), namespace, "", hash, ssh.Marshal(sig)})...)
	return "-----BEGIN SSH SIGNATURE-----\n" + wrapped(base64.StdEncoding.EncodeToString(blob)) + "\n-----END SSH SIGNATURE-----"
}

func wrapped(s string) string {
	var lines []string
	for len(s) > 70 {
		lines, s = append(lines, s[:70]), s[70:]
	}
	return strings.Join(append(lines, s), "\n")
}

func raw(t testing.TB, key crypto.Signer, message []byte) string {
	t.Helper()
	var sig []byte
	var err error
	if _, ok := key.(ed25519.PrivateKey); ok {
		sig, err = key.Sign(rand.Reader, message, crypto.Hash(0))
	} else {
		sum := sha256.Sum256(message)
		sig, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sig)
}

// dsse makes an envelope over a payload.
func dsse(t testing.TB, key crypto.Signer, payloadType, payload string) string {
	t.Helper()
	return fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"keyid":"ci","sig":%q}]}`,
		payloadType, base64.StdEncoding.EncodeToString([]byte(payload)), raw(t, key, signature.PAE(payloadType, payload)))
}

// claims are those of a token of GitHub Actions for a plan, as change makes them.
func claims(digest string, change ...func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": github, "sub": "repo:octo/infra:ref:refs/heads/main", "aud": "plangate.dev/approve#" + digest,
		"iat": now.Add(-30 * time.Second).Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"repository": "octo/infra", "repository_id": "4711", "repository_owner_id": "17", "ref": "refs/heads/main", "run_attempt": 1,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func token(t testing.TB, key any, alg jose.SignatureAlgorithm, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return jws(t, key, alg, string(payload))
}

func jws(t testing.TB, key any, alg jose.SignatureAlgorithm, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// genuine is a signature of each kind that counts, over a statement.
func genuine(t testing.TB, over string) map[string]string {
	t.Helper()
	k := testKeys()
	return map[string]string{
		"ssh-ci":   sshsig(t, k.ed, "plangate.dev", over),
		"ssh-rsa":  sshsig(t, k.rsa, "plangate.dev", over),
		"pem-p256": dsse(t, k.p256, signature.PayloadApprove, over),
		"github":   token(t, k.issuer, jose.RS256, claims(plans.Digest(over))),
	}
}
