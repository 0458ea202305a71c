// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
)

func TestEachKindOfSignatureTellsWhoSignedAndToWhichVerdict(t *testing.T) {
	st, k := statement(t), testKeys()
	digest := plans.Digest(st)
	signers := signersOf(t, append(trusted(t), v1alpha1.TrustedSigner{Name: "pem-rsa", PEM: pemOf(t, k.otherSite)}, v1alpha1.TrustedSigner{Name: "pem-ed", PEM: pemOf(t, k.other)})...)
	for name, tc := range map[string]struct {
		value string
		want  signature.Verified
	}{
		"ssh Ed25519":           {sshsig(t, k.ed, "plangate.dev", st), signature.Verified{Signer: "ssh-ci", Format: signature.SSH, Verdict: signature.Approve}},
		"ssh RSA":               {sshsig(t, k.rsa, "plangate.dev", st), signature.Verified{Signer: "ssh-rsa", Format: signature.SSH, Verdict: signature.Approve}},
		"ssh, a rejection":      {sshsig(t, k.ed, "plangate.dev/reject", st), signature.Verified{Signer: "ssh-ci", Format: signature.SSH, Verdict: signature.Reject}},
		"ssh, with its newline": {sshsig(t, k.ed, "plangate.dev", st) + "\n", signature.Verified{Signer: "ssh-ci", Format: signature.SSH, Verdict: signature.Approve}},
		"dsse P-256":            {dsse(t, k.p256, signature.PayloadApprove, st), signature.Verified{Signer: "pem-p256", Format: signature.DSSE, Verdict: signature.Approve}},
		"dsse RSA":              {dsse(t, k.otherSite, signature.PayloadApprove, st), signature.Verified{Signer: "pem-rsa", Format: signature.DSSE, Verdict: signature.Approve}},
		"dsse Ed25519":          {dsse(t, k.other, signature.PayloadApprove, st), signature.Verified{Signer: "pem-ed", Format: signature.DSSE, Verdict: signature.Approve}},
		"dsse, a rejection":     {dsse(t, k.p256, signature.PayloadReject, st), signature.Verified{Signer: "pem-p256", Format: signature.DSSE, Verdict: signature.Reject}},
		"dsse without payload": {
			fmt.Sprintf(`{"payloadType":%q,"payload":"","signatures":[{"sig":%q}]}`, signature.PayloadApprove, raw(t, k.p256, signature.PAE(signature.PayloadApprove, st))),
			signature.Verified{Signer: "pem-p256", Format: signature.DSSE, Verdict: signature.Approve},
		},
		"oidc": {token(t, k.issuer, jose.RS256, claims(digest)), signature.Verified{Signer: "github", Format: signature.Token, Verdict: signature.Approve}},
		"oidc, a rejection": {
			token(t, k.issuer, jose.RS256, claims(digest, func(c map[string]any) { c["aud"] = []string{signature.Audience(signature.Reject, digest)} })),
			signature.Verified{Signer: "github", Format: signature.Token, Verdict: signature.Reject},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: tc.value, Signers: signers, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if got.Identity == "" {
				t.Error("Verify() gives no identity")
			}
			tc.want.Identity, tc.want.Digest, tc.want.Evidence, tc.want.SeenAt = got.Identity, digest, plans.BytesDigest([]byte(tc.value)), now
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Verify(): -want +got\n%s", diff)
			}
		})
	}
}

// TestNothingIsTakenForLackOfSomethingToCompare: each missing part of the input refuses a signature that is good.
func TestNothingIsTakenForLackOfSomethingToCompare(t *testing.T) {
	st := statement(t)
	good := signature.Input{Statement: st, Cluster: cluster, Value: genuine(t, st)["ssh-ci"], Signers: signersOf(t, trusted(t)...), Now: now}
	if _, err := signature.Verify(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*signature.Input){
		"no statement": func(in *signature.Input) { in.Statement = "" },
		"no cluster":   func(in *signature.Input) { in.Cluster = "" },
		"no value":     func(in *signature.Input) { in.Value = "" },
		"no signers":   func(in *signature.Input) { in.Signers = nil },
		"nobody":       func(in *signature.Input) { in.Signers = signersOf(t) },
		"zero signers": func(in *signature.Input) { in.Signers = &signature.Signers{} },
		"no time":      func(in *signature.Input) { in.Now = time.Time{} },
	} {
		in := good
		change(&in)
		if got, err := signature.Verify(in); signature.ReasonOf(err) == "" || got != (signature.Verified{}) {
			t.Errorf("%s: Verify() = %+v, %v", name, got, err)
		}
	}
}

func TestATokenThatWasSeenInTimeStaysGoodAndItsSignerMustStillBeTrusted(t *testing.T) {
	st := statement(t)
	list := trusted(t)
	in := signature.Input{Statement: st, Cluster: cluster, Value: genuine(t, st)["github"], Signers: signersOf(t, list...), Now: now}
	first, err := signature.Verify(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Now = now.Add(time.Hour)
	if _, err := signature.Verify(in); signature.ReasonOf(err) != signature.TokenStale {
		t.Errorf("an hour later, never seen before: %v, want it stale", err)
	}
	in.SeenAt = first.SeenAt
	again, err := signature.Verify(in)
	if err != nil || again != first {
		t.Errorf("an hour later, seen in time: %+v, %v, want %+v", again, err, first)
	}
	in.SeenAt = in.Now.Add(time.Second)
	if _, err := signature.Verify(in); signature.ReasonOf(err) != signature.TokenStale {
		t.Errorf("seen in the future: %v, want it stale", err)
	}
	in.SeenAt = first.SeenAt
	in.Signers = signersOf(t, list[:3]...)
	if _, err := signature.Verify(in); signature.ReasonOf(err) != signature.UnknownSigner {
		t.Errorf("seen in time, the signer taken out of the policy: %v", err)
	}
}

func TestVerifyAllTellsEachSlotAndJunkTakesNobodysPlace(t *testing.T) {
	st := statement(t)
	annotations := map[string]string{"plangate.dev/approve": plans.Digest(st), "signature.plangate.dev/": "eyJ"}
	for i := range 1000 {
		// Sorted before the genuine ones, and each like a signature.
		value := []string{"junk", "{}", "eyJhbGciOiJub25lIn0.e30.", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----"}[i%4]
		annotations[fmt.Sprintf("signature.plangate.dev/a%04d", i)] = value
	}
	want := []string{}
	for slot, value := range genuine(t, st) {
		annotations[v1alpha1.AnnotationSignaturePrefix+slot] = value
		want = append(want, slot)
	}
	in := signature.Input{Statement: st, Cluster: cluster, Signers: signersOf(t, trusted(t)...), Now: now}
	began := time.Now()
	report := signature.VerifyAll(in, annotations, nil)
	took := time.Since(began)
	if len(report.Verified) != len(want) {
		t.Fatalf("VerifyAll() verified %+v, want %v", report.Verified, want)
	}
	for _, v := range report.Verified {
		if v.Slot != v.Signer {
			t.Errorf("slot %q is said to be of %q", v.Slot, v.Signer)
		}
	}
	if len(report.Refused) != v1alpha1.MaxSignatures || report.More != 1001-v1alpha1.MaxSignatures {
		t.Errorf("VerifyAll() lists %d refusals and counts %d more", len(report.Refused), report.More)
	}
	if took > time.Second {
		t.Errorf("1,000 junk signatures took %s", took)
	}
}

func TestMoreThanTwelveSignaturesThatCouldBeGoodAreNotVerified(t *testing.T) {
	st, k := statement(t), testKeys()
	annotations := map[string]string{}
	seen := ""
	for i := range 20 {
		value := dsse(t, k.p256, signature.PayloadApprove, st)
		annotations[fmt.Sprintf("signature.plangate.dev/s%02d", i)] = value
		if i == 19 {
			seen = plans.BytesDigest([]byte(value))
		}
	}
	in := signature.Input{Statement: st, Cluster: cluster, Signers: signersOf(t, trusted(t)...), Now: now}
	report := signature.VerifyAll(in, annotations, func(evidence string) time.Time {
		if evidence == seen {
			return now.Add(-time.Minute)
		}
		return time.Time{}
	})
	if len(report.Verified) != v1alpha1.MaxSignatures || len(report.Refused) != 8 || report.Refused[0].Reason != signature.TooMany {
		t.Fatalf("VerifyAll() = %d verified, refused %+v", len(report.Verified), report.Refused)
	}
	if last := report.Verified[len(report.Verified)-1]; last.Slot != "s19" || !last.SeenAt.Equal(now.Add(-time.Minute)) {
		t.Errorf("the one that counted before is not among them: %+v", last)
	}
}

// TestNoMutationOfASignatureCountsForOtherBytes: whatever is done to a value and to the statement, what verifies verifies
// over the statement that was signed.
func TestNoMutationOfASignatureCountsForOtherBytes(t *testing.T) {
	st := statement(t)
	others := []string{
		statement(t, func(in *plans.SpecInput) { in.Nonce = strings.Repeat("b", 32) }),
		statement(t, func(in *plans.SpecInput) { in.Stack.Name = "db" }),
		statement(t, func(in *plans.SpecInput) { in.Binding.Revision = strings.Repeat("7", 40) }),
	}
	signers := signersOf(t, trusted(t)...)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible on purpose
	for name, value := range genuine(t, st) {
		counted := 0
		for range 2000 {
			mutated := []byte(value)
			for range 1 + random.IntN(3) {
				i := random.IntN(len(mutated))
				switch random.IntN(3) {
				case 0:
					mutated[i] ^= 1 << random.IntN(8)
				case 1:
					mutated = append(mutated[:i], mutated[i+1:]...)
				case 2:
					mutated = append(mutated[:i], append([]byte{mutated[random.IntN(len(mutated))]}, mutated[i:]...)...)
				}
			}
			for i, over := range append(others, st) {
				v, err := signature.Verify(signature.Input{Statement: over, Cluster: cluster, Value: string(mutated), Signers: signers, Now: now})
				if err == nil && (i < len(others) || v.Signer != name || v.Verdict != signature.Approve) {
					t.Fatalf("%s: %q counts as %+v over statement %d", name, mutated, v, i)
				}
				if err == nil {
					counted++
				}
			}
		}
		t.Logf("%s: %d of 2000 mutations still count for the statement that was signed", name, counted)
	}
}

// FuzzVerify: Verify never panics, and nothing but what the keys' holders made counts.
func FuzzVerify(f *testing.F) {
	st := statement(f)
	// The same keys in every process of a run, so that its seeds are good signatures there too; none that takes long to make.
	key := func(c string) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed([]byte(strings.Repeat(c, ed25519.SeedSize)))
	}
	oidc := v1alpha1.OIDCSigner{Issuer: github, JWKS: jwksOf(f, key("3")), Claims: []v1alpha1.PinnedClaim{{Name: "repository_id", Values: []string{"4711"}}}}
	signers := signersOf(f, v1alpha1.TrustedSigner{Name: "ssh", SSH: sshOf(f, key("1"))}, v1alpha1.TrustedSigner{Name: "pem", PEM: pemOf(f, key("2"))}, v1alpha1.TrustedSigner{Name: "oidc", OIDC: &oidc})
	for _, value := range []string{sshsig(f, key("1"), "plangate.dev", st), dsse(f, key("2"), signature.PayloadApprove, st), token(f, key("3"), jose.EdDSA, claims(plans.Digest(st)))} {
		if _, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: value, Signers: signers, Now: now}); err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	for _, value := range []string{"", "{", "{}", "eyJ", "eyJ..", "eyJhbGciOiJub25lIn0.e30.", `{"payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"MEUCIQ=="}]}`, "-----BEGIN SSH SIGNATURE-----\n\n-----END SSH SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQ==\n-----END SSH SIGNATURE-----"} {
		f.Add(value)
	}
	other := statement(f, func(in *plans.SpecInput) { in.Nonce = strings.Repeat("c", 32) })
	f.Fuzz(func(t *testing.T, value string) {
		if v, err := signature.Verify(signature.Input{Statement: other, Cluster: cluster, Value: value, Signers: signers, Now: now}); err == nil {
			t.Errorf("%q counts as %+v, and nobody signed that", value, v)
		} else if signature.ReasonOf(err) == "" {
			t.Errorf("%v is no refusal", err)
		}
		_, _ = signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: value, Signers: signers, Now: now})
	})
}

// FuzzParse: a list of signers never panics.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "[]", `[{"name":"a","ssh":"ssh-ed25519 AAAA"}]`, `[{"name":"a","pem":"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"}]`, `[{"name":"a","oidc":{"issuer":"https://x","jwks":"{\"keys\":[{}]}","claims":[{"name":"sub","values":["a"]}]}}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if s, err := signature.Parse([]byte(raw)); err != nil && s.Len() != 0 {
			t.Errorf("Parse() = %d signers and %v", s.Len(), err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	st := statement(b)
	signers := signersOf(b, trusted(b)...)
	for name, value := range genuine(b, st) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: value, Signers: signers, Now: now}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerifyAllJunk1000(b *testing.B) {
	st := statement(b)
	signers := signersOf(b, trusted(b)...)
	annotations := map[string]string{}
	for i := range 1000 {
		annotations[fmt.Sprintf("signature.plangate.dev/a%04d", i)] = []string{"junk", "{}", "eyJhbGciOiJub25lIn0.e30.", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----"}[i%4]
	}
	for b.Loop() {
		signature.VerifyAll(signature.Input{Statement: st, Cluster: cluster, Signers: signers, Now: now}, annotations, nil)
	}
}
