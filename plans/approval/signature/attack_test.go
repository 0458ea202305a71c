// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
)

// attack is a value that must not count, on the plan prod/web.
type attack struct {
	value string
	want  signature.Reason
}

func TestASignatureThatWasNotMadeForThisPlanAndVerdictDoesNotCount(t *testing.T) {
	st := statement(t)
	signers := signersOf(t, trusted(t)...)
	for name, tc := range merged(attacksByReplay(t, st), attacksOnSSH(t, st), attacksOnDSSE(t, st), attacksOnTokens(t, st)) {
		t.Run(name, func(t *testing.T) {
			got, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: tc.value, Signers: signers, Now: now})
			if signature.ReasonOf(err) != tc.want {
				t.Fatalf("Verify() = %+v, %v, want it refused as %s", got, err, tc.want)
			}
			t.Logf("%s: %v", tc.want, err)
		})
	}
}

func merged(all ...map[string]attack) map[string]attack {
	out := map[string]attack{}
	for _, m := range all {
		for name, a := range m {
			out[name] = a
		}
	}
	return out
}

// attacksByReplay are genuine signatures over other statements.
func attacksByReplay(t *testing.T, st string) map[string]attack {
	replays := map[string]string{
		"an old plan of the same name and changes": statement(t, func(in *plans.SpecInput) { in.Nonce = strings.Repeat("b", 32) }),
		"another stack":            statement(t, func(in *plans.SpecInput) { in.Stack.Name = "db" }),
		"another namespace":        statement(t, func(in *plans.SpecInput) { in.Namespace = "dev" }),
		"a stack that was remade":  statement(t, func(in *plans.SpecInput) { in.Stack.UID = "uid-2" }),
		"another cluster":          statement(t, func(in *plans.SpecInput) { in.Cluster = "other" }),
		"one byte more":            st + " ",
		"one byte of another case": strings.Replace(st, "prod", "Prod", 1),
		"a repeated key":           strings.Replace(st, `"sequence":7`, `"sequence":7,"sequence":7`, 1),
		"white space in it":        strings.Replace(st, `"sequence":7`, `"sequence": 7`, 1),
		"the digest alone":         plans.Digest(st),
	}
	out := map[string]attack{}
	for what, over := range replays {
		if over == st {
			t.Fatalf("the test is broken: %q changes nothing", what)
		}
		for signer, value := range genuine(t, over) {
			want := signature.OtherStatement
			if strings.HasPrefix(signer, "ssh") {
				want = signature.Invalid // an SSH signature does not hold what it signs
			}
			out[signer+" over "+what] = attack{value, want}
		}
	}
	return out
}

func attacksOnSSH(t *testing.T, st string) map[string]attack {
	k := testKeys()
	good := sshsig(t, k.ed, "plangate.dev", st)
	rsaSigner, err := ssh.NewSignerFromSigner(k.rsa)
	if err != nil {
		t.Fatal(err)
	}
	// relabel changes the namespace in the blob and leaves the signature as it is.
	relabel := func(value, from, to string) string {
		body := strings.TrimSuffix(strings.TrimPrefix(value, "-----BEGIN SSH SIGNATURE-----\n"), "\n-----END SSH SIGNATURE-----")
		blob, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			t.Fatal(err)
		}
		field := func(s string) string { return string(ssh.Marshal(struct{ S string }{s})) }
		changed := strings.Replace(string(blob), field(from), field(to), 1)
		if changed == string(blob) {
			t.Fatal("the test is broken: nothing was changed")
		}
		return "-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString([]byte(changed)) + "\n-----END SSH SIGNATURE-----"
	}
	// edit changes what the armor holds.
	edit := func(change func([]byte) []byte) string {
		body := strings.TrimSuffix(strings.TrimPrefix(good, "-----BEGIN SSH SIGNATURE-----\n"), "\n-----END SSH SIGNATURE-----")
		blob, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			t.Fatal(err)
		}
		return "-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString(change(blob)) + "\n-----END SSH SIGNATURE-----"
	}
	return map[string]attack{
		"ssh: another version":               {edit(func(b []byte) []byte { b[9] = 2; return b }), signature.Malformed},
		"ssh: bytes in the armor":            {edit(func(b []byte) []byte { return append(b, 0) }), signature.Malformed},
		"ssh: a reserved field":              {relabelReserved(t, good), signature.Malformed},
		"ssh: a commit signature":            {sshsig(t, k.ed, "git", st), signature.OtherPurpose},
		"ssh: a file signature":              {sshsig(t, k.ed, "file", st), signature.OtherPurpose},
		"ssh: a namespace in upper case":     {sshsig(t, k.ed, "Plangate.dev", st), signature.OtherPurpose},
		"ssh: no namespace":                  {sshsig(t, k.ed, "", st), signature.OtherPurpose},
		"ssh: a longer namespace":            {sshsig(t, k.ed, "plangate.dev/approve", st), signature.OtherPurpose},
		"ssh: a rejection made an approval":  {relabel(sshsig(t, k.ed, "plangate.dev/reject", st), "plangate.dev/reject", "plangate.dev"), signature.Invalid},
		"ssh: an approval made a rejection":  {relabel(good, "plangate.dev", "plangate.dev/reject"), signature.Invalid},
		"ssh: a commit signature, relabeled": {relabel(sshsig(t, k.ed, "git", st), "git", "plangate.dev"), signature.Invalid},
		"ssh: a foreign key":                 {sshsig(t, k.other, "plangate.dev", st), signature.UnknownSigner},
		"ssh: a key trusted for envelopes":   {sshsig(t, k.p256, "plangate.dev", st), signature.UnknownSigner},
		"ssh: RSA with SHA-1":                {sshsigWith(t, rsaSigner, ssh.KeyAlgoRSA, "plangate.dev", st, "sha512"), signature.Malformed},
		"ssh: an unknown hash":               {sshsigWith(t, rsaSigner, ssh.KeyAlgoRSASHA512, "plangate.dev", st, "md5"), signature.Malformed},
		"ssh: the wrong hash":                {sshsigWith(t, rsaSigner, ssh.KeyAlgoRSASHA512, "plangate.dev", st, "sha256"), signature.Invalid},
		"ssh: bytes behind it":               {good + "\nx", signature.Malformed},
		"ssh: two newlines behind it":        {good + "\n\n", signature.Malformed},
		"ssh: a second one behind it":        {good + "\n" + good, signature.Malformed},
		"ssh: bytes before it":               {" " + good, signature.Malformed},
		"ssh: carriage returns":              {strings.ReplaceAll(good, "\n", "\r\n"), signature.Malformed},
		"ssh: cut off":                       {good[:len(good)-40], signature.Malformed},
		"ssh: a private key":                 {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----", signature.Malformed},
		"a very long value":                  {good + strings.Repeat("\n", v1alpha1.MaxSignatureBytes), signature.TooLong},
	}
}

// relabelReserved puts something into the field of the blob that is reserved.
func relabelReserved(t *testing.T, value string) string {
	t.Helper()
	body := strings.TrimSuffix(strings.TrimPrefix(value, "-----BEGIN SSH SIGNATURE-----\n"), "\n-----END SSH SIGNATURE-----")
	blob, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(blob), "plangate.dev\x00\x00\x00\x00", "plangate.dev\x00\x00\x00\x01x", 1)
	if changed == string(blob) {
		t.Fatal("the test is broken: nothing was changed")
	}
	return "-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString([]byte(changed)) + "\n-----END SSH SIGNATURE-----"
}

// spareBit sets a bit of the last character that means nothing to a lenient decoder.
func spareBit(value string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, value[len(value)-1])
	return value[:len(value)-1] + string(alphabet[last^1])
}

func attacksOnDSSE(t *testing.T, st string) map[string]attack {
	k := testKeys()
	good := dsse(t, k.p256, signature.PayloadApprove, st)
	change := func(from, to string) string {
		changed := strings.Replace(good, from, to, 1)
		if changed == good {
			t.Fatalf("the test is broken: no %q in %q", from, good)
		}
		return changed
	}
	sig := raw(t, k.p256, signature.PAE(signature.PayloadApprove, st))
	foreign := raw(t, k.other, signature.PAE(signature.PayloadApprove, st))
	two := fmt.Sprintf(`"signatures":[{"keyid":"x","sig":%q},{"keyid":"ci","sig":%q}]}`, foreign, sig)
	_, tail, _ := strings.Cut(good, `"signatures"`)
	tail = `"signatures"` + tail
	onlyTypes := func(payloadType string) string {
		return fmt.Sprintf(`{"payloadType":%q,"payload":"","signatures":[{"sig":%q}]}`, payloadType, raw(t, k.p256, []byte(st)))
	}
	return map[string]attack{
		"dsse: one foreign signature beside a good one": {strings.Replace(good, tail, two, 1), signature.Malformed},
		"dsse: the same signature twice":                {strings.Replace(good, tail, fmt.Sprintf(`"signatures":[{"sig":%q},{"sig":%q}]}`, sig, sig), 1), signature.Malformed},
		"dsse: no signature":                            {strings.Replace(good, tail, `"signatures":[]}`, 1), signature.Malformed},
		"dsse: an empty signature":                      {strings.Replace(good, tail, `"signatures":[{"sig":""}]}`, 1), signature.Malformed},
		"dsse: a foreign key":                           {dsse(t, k.otherSite, signature.PayloadApprove, st), signature.UnknownSigner},
		"dsse: a foreign key of the same kind":          {dsse(t, mustP256(t), signature.PayloadApprove, st), signature.Invalid},
		"dsse: a key trusted for ssh":                   {dsse(t, k.ed, signature.PayloadApprove, st), signature.UnknownSigner},
		"dsse: a rejection made an approval":            {strings.Replace(dsse(t, k.p256, signature.PayloadReject, st), signature.PayloadReject, signature.PayloadApprove, 1), signature.Invalid},
		"dsse: an approval made a rejection":            {change(signature.PayloadApprove, signature.PayloadReject), signature.Invalid},
		"dsse: another payload type":                    {dsse(t, k.p256, "application/json", st), signature.OtherPurpose},
		"dsse: a bare signature":                        {onlyTypes(signature.PayloadApprove), signature.Invalid},
		"dsse: the payload twice":                       {change(`"payload":`, `"payload":"","payload":`), signature.Malformed},
		"dsse: the type twice":                          {change(`{"payloadType"`, `{"payloadType":"application/json","payloadType"`), signature.Malformed},
		"dsse: a second payload in upper case":          {change(`"payload":`, `"Payload":"","payload":`), signature.Malformed},
		"dsse: an unknown member":                       {change(`{"payloadType"`, `{"x":1,"payloadType"`), signature.Malformed},
		"dsse: bytes behind it":                         {good + "x", signature.Malformed},
		"dsse: a second one behind it":                  {good + good, signature.Malformed},
		"dsse: a payload that is null":                  {`{"payloadType":"application/vnd.in-toto+json","payload":null,` + tail, signature.Malformed},
		"dsse: a payload with line breaks":              {change(`"payload":"`, `"payload":"\n`), signature.Malformed},
		"dsse: an array":                                {"[" + good + "]", signature.Malformed},
		"a Sigstore bundle":                             {`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":` + good + `}`, signature.Malformed},
	}
}

func mustP256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func attacksOnTokens(t *testing.T, st string) map[string]attack {
	k := testKeys()
	digest := plans.Digest(st)
	with := func(change func(map[string]any)) string {
		return token(t, k.issuer, jose.RS256, claims(digest, change))
	}
	set := func(name string, value any) string { return with(func(c map[string]any) { c[name] = value }) }
	unset := func(name string) string { return with(func(c map[string]any) { delete(c, name) }) }
	good := token(t, k.issuer, jose.RS256, claims(digest))
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	// The classic: the issuer's public key, which everybody has, as the secret of an HMAC.
	hmac := token(t, []byte(pemOf(t, k.issuer)), jose.HS256, claims(digest))
	twice := strings.Replace(string(body), `"repository_id":"4711"`, `"repository_id":"1","repository_id":"4711"`, 1)
	return map[string]attack{
		"oidc: alg none":                       {encode([]byte(`{"alg":"none","kid":"k1","typ":"JWT"}`)) + "." + parts[1] + ".", signature.Malformed},
		"oidc: alg none with a signature":      {encode([]byte(`{"alg":"none","kid":"k1"}`)) + "." + parts[1] + "." + parts[2], signature.Malformed},
		"oidc: HS256 with the public key":      {hmac, signature.Malformed},
		"oidc: RS512":                          {token(t, k.issuer, jose.RS512, claims(digest)), signature.Malformed},
		"oidc: PS256":                          {token(t, k.issuer, jose.PS256, claims(digest)), signature.Malformed},
		"oidc: ES256 by somebody else":         {token(t, k.p256, jose.ES256, claims(digest)), signature.Malformed},
		"oidc: another key of the same id":     {token(t, k.otherSite, jose.RS256, claims(digest)), signature.Invalid},
		"oidc: a key id that is not there":     {strings.Replace(good, parts[0], encode([]byte(`{"alg":"RS256","kid":"k2"}`)), 1), signature.UnknownSigner},
		"oidc: no key id":                      {strings.Replace(good, parts[0], encode([]byte(`{"alg":"RS256"}`)), 1), signature.Malformed},
		"oidc: a critical extension":           {strings.Replace(good, parts[0], encode([]byte(`{"alg":"RS256","kid":"k1","b64":false,"crit":["b64"]}`)), 1), signature.Malformed},
		"oidc: two audiences":                  {set("aud", []string{signature.Audience(signature.Approve, digest), "sts.example.com"}), signature.OtherPurpose},
		"oidc: both verdicts":                  {set("aud", []string{signature.Audience(signature.Approve, digest), signature.Audience(signature.Reject, digest)}), signature.OtherPurpose},
		"oidc: no audience":                    {unset("aud"), signature.OtherPurpose},
		"oidc: an empty list of audiences":     {set("aud", []string{}), signature.OtherPurpose},
		"oidc: another service's audience":     {set("aud", "sts.example.com"), signature.OtherPurpose},
		"oidc: an audience with a prefix only": {set("aud", signature.Audience(signature.Approve, digest)[:40]), signature.OtherStatement},
		"oidc: an upper-case digest":           {set("aud", "plangate.dev/approve#sha256:"+strings.ToUpper(digest[7:])), signature.OtherStatement},
		"oidc: a digest with a blank behind":   {set("aud", signature.Audience(signature.Approve, digest)+" "), signature.OtherStatement},
		"oidc: stale":                          {set("exp", now.Unix()), signature.TokenStale},
		"oidc: from the future":                {set("iat", now.Add(2*time.Minute).Unix()), signature.TokenStale},
		"oidc: not yet valid":                  {set("nbf", now.Add(2*time.Minute).Unix()), signature.TokenStale},
		"oidc: lives too long":                 {set("exp", now.Add(16*time.Minute).Unix()), signature.TokenStale},
		"oidc: lives for ever":                 {unset("exp"), signature.Malformed},
		"oidc: made at no time":                {unset("iat"), signature.Malformed},
		"oidc: ends before it begins": {with(func(c map[string]any) {
			c["iat"], c["exp"] = now.Add(50*time.Second).Unix(), now.Add(40*time.Second).Unix()
		}), signature.TokenStale},
		"oidc: another repository, the same name": {set("repository_id", "4712"), signature.UnknownSigner},
		"oidc: the id as a number":                {set("repository_id", 47110), signature.UnknownSigner},
		"oidc: the id in a list":                  {set("repository_id", []string{"4711"}), signature.UnknownSigner},
		"oidc: no id":                             {unset("repository_id"), signature.UnknownSigner},
		"oidc: another branch":                    {set("ref", "refs/heads/main2"), signature.UnknownSigner},
		"oidc: another issuer":                    {set("iss", "https://token.actions.githubusercontent.com.evil.example"), signature.UnknownSigner},
		"oidc: the issuer with a slash":           {set("iss", github+"/"), signature.UnknownSigner},
		"oidc: a claim twice":                     {jws(t, k.issuer, jose.RS256, twice), signature.Malformed},
		"oidc: claims that were changed":          {parts[0] + "." + encode([]byte(strings.Replace(string(body), "octo/infra", "octo/other", 1))) + "." + parts[2], signature.Invalid},
		"oidc: bytes behind it":                   {good + "x", signature.Malformed},
		"oidc: a fourth part":                     {good + ".e30", signature.Malformed},
		"oidc: a bit that means nothing":          {spareBit(good), signature.Malformed},
		"oidc: padding":                           {good + "==", signature.Malformed},
		"oidc: a line break":                      {good + "\n", signature.Malformed},
		"oidc: in JSON form":                      {fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, parts[1], parts[0], parts[2]), signature.Malformed},
	}
}

// TestASignerCountsOnlyWhereAndAsLongAsItIsTrusted: the same good signature, and what the policy says of its signer.
func TestASignerCountsOnlyWhereAndAsLongAsItIsTrusted(t *testing.T) {
	st := statement(t)
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TrustedSigner)
		want   signature.Reason
	}{
		"for all stacks, for ever":    {func(*v1alpha1.TrustedSigner) {}, ""},
		"for this stack":              {func(s *v1alpha1.TrustedSigner) { s.Stacks = []string{"prod/web"} }, ""},
		"for the namespace":           {func(s *v1alpha1.TrustedSigner) { s.Stacks = []string{"dev/*", "prod/*"} }, ""},
		"for stacks of that name":     {func(s *v1alpha1.TrustedSigner) { s.Stacks = []string{"*/we?"} }, ""},
		"for another stack":           {func(s *v1alpha1.TrustedSigner) { s.Stacks = []string{"prod/web2", "prod/we", "dev/web"} }, signature.SignerNotForStack},
		"for a name that is a prefix": {func(s *v1alpha1.TrustedSigner) { s.Stacks = []string{"prod/w"} }, signature.SignerNotForStack},
		"until a moment from now":     {func(s *v1alpha1.TrustedSigner) { s.NotAfter = &metav1.Time{Time: now.Add(time.Second)} }, ""},
		"until this very moment":      {func(s *v1alpha1.TrustedSigner) { s.NotAfter = &metav1.Time{Time: now} }, signature.SignerExpired},
		"for this stack, until before": {func(s *v1alpha1.TrustedSigner) {
			s.Stacks, s.NotAfter = []string{"prod/web"}, &metav1.Time{Time: now.Add(-time.Hour)}
		}, signature.SignerExpired},
	} {
		t.Run(name, func(t *testing.T) {
			list := trusted(t)
			for i := range list {
				tc.change(&list[i])
			}
			signers := signersOf(t, list...)
			for signer, value := range genuine(t, st) {
				// That it counted an hour ago helps no signer.
				got, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: value, Signers: signers, Now: now, SeenAt: now.Add(-time.Second)})
				if signature.ReasonOf(err) != tc.want || (err == nil) != (tc.want == "") {
					t.Errorf("%s: Verify() = %+v, %v, want %q", signer, got, err, tc.want)
				}
			}
		})
	}
}

func TestAStatementOfAnotherClusterCountsForNothingHere(t *testing.T) {
	foreign := statement(t, func(in *plans.SpecInput) { in.Cluster = "another" })
	signers := signersOf(t, trusted(t)...)
	for name, value := range genuine(t, foreign) {
		if _, err := signature.Verify(signature.Input{Statement: foreign, Cluster: cluster, Value: value, Signers: signers, Now: now}); signature.ReasonOf(err) != signature.OtherCluster {
			t.Errorf("%s: %v, want it refused as of another cluster", name, err)
		}
	}
	report := signature.VerifyAll(signature.Input{Statement: foreign, Cluster: cluster, Signers: signers, Now: now}, map[string]string{"signature.plangate.dev/a": genuine(t, foreign)["ssh-ci"]}, nil)
	if len(report.Verified) != 0 || len(report.Refused) != 1 || report.Refused[0].Slot != "a" || report.Refused[0].Reason != signature.OtherCluster {
		t.Errorf("VerifyAll() = %+v", report)
	}
}

func TestRefusalsQuoteNothingThatCannotBeShown(t *testing.T) {
	st := statement(t)
	value := token(t, testKeys().issuer, jose.RS256, claims(plans.Digest(st), func(c map[string]any) { c["iss"] = "https://x\n\u202e" + strings.Repeat("y", 5000) }))
	_, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: value, Signers: signersOf(t, trusted(t)...), Now: now})
	if err == nil || len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\u202e") {
		t.Errorf("Verify() = %q", err)
	}
}

func TestABadSignerIsToldByNameAndField(t *testing.T) {
	k := testKeys()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.issuer, KeyID: "k1"}}})
	if err != nil {
		t.Fatal(err)
	}
	oidc := func(change func(*v1alpha1.OIDCSigner)) v1alpha1.TrustedSigner {
		o := *trusted(t)[3].OIDC
		change(&o)
		return v1alpha1.TrustedSigner{OIDC: &o}
	}
	good := sshOf(t, k.ed)
	for name, tc := range map[string]struct {
		signer      v1alpha1.TrustedSigner
		field, says string
	}{
		"nothing set":           {v1alpha1.TrustedSigner{}, "ssh, pem, oidc", "exactly one"},
		"two set":               {v1alpha1.TrustedSigner{SSH: good, PEM: pemOf(t, k.ed)}, "ssh, pem, oidc", "exactly one"},
		"ssh: junk":             {v1alpha1.TrustedSigner{SSH: "hello"}, "ssh", "no line"},
		"ssh: two keys":         {v1alpha1.TrustedSigner{SSH: good + "\n" + sshOf(t, k.other)}, "ssh", "more than one line"},
		"ssh: with options":     {v1alpha1.TrustedSigner{SSH: "cert-authority " + good}, "ssh", "options"},
		"ssh: RSA of 1024 bits": {v1alpha1.TrustedSigner{SSH: sshOf(t, weak)}, "ssh", "1024 bits"},
		"ssh: P-384":            {v1alpha1.TrustedSigner{SSH: sshOf(t, p384)}, "ssh", "not taken"},
		"ssh: a private key":    {v1alpha1.TrustedSigner{SSH: "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA"}, "ssh", "private key"},
		"pem: junk":             {v1alpha1.TrustedSigner{PEM: "hello"}, "pem", "not one PEM block"},
		"pem: two keys":         {v1alpha1.TrustedSigner{PEM: pemOf(t, k.ed) + pemOf(t, k.p256)}, "pem", "not one PEM block"},
		"pem: text before":      {v1alpha1.TrustedSigner{PEM: "x\n" + pemOf(t, k.ed)}, "pem", "not one PEM block"},
		"pem: a certificate":    {v1alpha1.TrustedSigner{PEM: strings.ReplaceAll(pemOf(t, k.ed), "PUBLIC KEY", "CERTIFICATE")}, "pem", "CERTIFICATE"},
		"pem: a private key":    {v1alpha1.TrustedSigner{PEM: strings.ReplaceAll(pemOf(t, k.ed), "PUBLIC", "PRIVATE")}, "pem", "private key"},
		"pem: RSA of 1024 bits": {v1alpha1.TrustedSigner{PEM: pemOf(t, weak)}, "pem", "1024 bits"},
		"pem: P-224":            {v1alpha1.TrustedSigner{PEM: pemOf(t, p224)}, "pem", "P-224"},
		"pem: P-384":            {v1alpha1.TrustedSigner{PEM: pemOf(t, p384)}, "pem", "P-384"},
		"oidc: no JWKS":         {oidc(func(o *v1alpha1.OIDCSigner) { o.JWKS = "" }), "oidc.jwks", "no JSON"},
		"oidc: no keys":         {oidc(func(o *v1alpha1.OIDCSigner) { o.JWKS = `{"keys":[]}` }), "oidc.jwks", "no key"},
		"oidc: a weak key":      {oidc(func(o *v1alpha1.OIDCSigner) { o.JWKS = jwksOf(t, weak) }), "oidc.jwks", "1024 bits"},
		"oidc: a private key":   {oidc(func(o *v1alpha1.OIDCSigner) { o.JWKS = string(private) }), "oidc.jwks", "private"},
		"oidc: a shared secret": {oidc(func(o *v1alpha1.OIDCSigner) { o.JWKS = `{"keys":[{"kty":"oct","kid":"k1","k":"AAAA"}]}` }), "oidc.jwks", "secret"},
		"oidc: one id twice": {oidc(func(o *v1alpha1.OIDCSigner) {
			o.JWKS = strings.Replace(o.JWKS, `[`, `[`+o.JWKS[9:len(o.JWKS)-2]+`,`, 1)
		}), "oidc.jwks", "twice"},
		"oidc: no claims": {oidc(func(o *v1alpha1.OIDCSigner) { o.Claims = nil }), "oidc.claims", "every workload"},
		"oidc: the name alone": {oidc(func(o *v1alpha1.OIDCSigner) {
			o.Claims = []v1alpha1.PinnedClaim{{Name: "repository", Values: []string{"octo/infra"}}}
		}), "oidc.claims", "repository_id"},
		"oidc: an empty value": {oidc(func(o *v1alpha1.OIDCSigner) {
			o.Claims[0] = v1alpha1.PinnedClaim{Name: "repository_id", Values: []string{""}}
		}), "oidc.claims", "empty"},
		"oidc: plain http":        {oidc(func(o *v1alpha1.OIDCSigner) { o.Issuer = "http://issuer.example" }), "oidc.issuer", "https"},
		"oidc: a long lifetime":   {oidc(func(o *v1alpha1.OIDCSigner) { o.MaxLifetime = &metav1.Duration{Duration: 2 * time.Hour} }), "oidc.maxLifetime", "1h"},
		"stacks: no pattern":      {v1alpha1.TrustedSigner{SSH: good, Stacks: []string{"prod"}}, "stacks", "namespace/name"},
		"stacks: an open bracket": {v1alpha1.TrustedSigner{SSH: good, Stacks: []string{"prod/[a"}}, "stacks", "namespace/name"},
		"stacks: none":            {v1alpha1.TrustedSigner{SSH: good, Stacks: []string{}}, "stacks", "empty list"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.signer.Name = "bad-one"
			signers, err := signature.New([]v1alpha1.TrustedSigner{{Name: "good", SSH: sshOf(t, k.rsa)}, tc.signer})
			if err == nil || signers != nil {
				t.Fatalf("New() = %d signers, %v, want a fault and none", signers.Len(), err)
			}
			if want := fmt.Sprintf("signer %q: %s: ", "bad-one", tc.field); !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("New() = %q, want it to begin with %q and to say %q", err, want, tc.says)
			}
		})
	}
}

func TestOneKeyIsOneSignerInWhateverForm(t *testing.T) {
	k := testKeys()
	if _, err := signature.New([]v1alpha1.TrustedSigner{{Name: "a", SSH: sshOf(t, k.ed)}, {Name: "b", PEM: pemOf(t, k.ed)}}); err == nil || !strings.Contains(err.Error(), `"a" has the same key`) {
		t.Errorf("New() with one key in two forms = %v", err)
	}
	if _, err := signature.New([]v1alpha1.TrustedSigner{{Name: "a", SSH: sshOf(t, k.ed)}, {Name: "a", SSH: sshOf(t, k.other)}}); err == nil {
		t.Error("New() took one name for two signers")
	}
	st := statement(t)
	id := func(s v1alpha1.TrustedSigner, value string) string {
		v, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: value, Signers: signersOf(t, s), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return v.Identity
	}
	a := id(v1alpha1.TrustedSigner{Name: "a", SSH: sshOf(t, k.ed)}, sshsig(t, k.ed, "plangate.dev", st))
	b := id(v1alpha1.TrustedSigner{Name: "b", PEM: pemOf(t, k.ed)}, dsse(t, k.ed, signature.PayloadApprove, st))
	if a != b {
		t.Errorf("one key of two policies has the identities %q and %q", a, b)
	}
}
