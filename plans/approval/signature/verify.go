// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

// Verdict is what a signature says of the plan. The zero value is invalid and means nothing.
type Verdict string

// What a signature can say.
const (
	Approve Verdict = "Approve"
	Reject  Verdict = "Reject"
)

// Format is the kind of a signature.
type Format string

// The kinds of signatures.
const (
	SSH   Format = "SSH"
	DSSE  Format = "DSSE"
	Token Format = "OIDC"
)

// Input is one signature, and what it is verified against.
type Input struct {
	// Statement is spec.statement of the UpdatePlan, as it is.
	Statement string
	// Cluster is the id of this cluster: the UID of the namespace kube-system. Required: without it nothing verifies.
	Cluster string
	// Value is the annotation's value, as it is. VerifyAll takes it from the annotations.
	Value string
	// Signers are those who are trusted.
	Signers *Signers
	// Now is the time of the verification. Required.
	Now time.Time
	// SeenAt is when this very value was verified for the first time, as the decision's record has it. An ID token, which
	// lives for minutes, must have been valid then; the signer itself must be in time Now. Zero: this is the first time.
	SeenAt time.Time
}

// Verified is a signature that counts.
type Verified struct {
	// Slot is the annotation's name behind the prefix. Empty: Verify was called, which knows of no slot.
	Slot string
	// Signer is the trusted signer's name.
	Signer string
	// Identity is what must be distinct where distinct signers are asked for: the key, or the issuer and subject. Two signers
	// of two policies that are one key have one identity.
	Identity string
	// Verdict is what the signature says.
	Verdict Verdict
	// Format is the kind of the signature.
	Format Format
	// Digest is "sha256:…" of the statement.
	Digest string
	// Evidence is "sha256:…" of the value, by which the decision is recognised later.
	Evidence string
	// SeenAt is the time at which it counted first: what comes back as Input.SeenAt.
	SeenAt time.Time
}

// Verify tells who signed the plan's statement, and to which verdict. Every error is a *Refusal.
func Verify(in Input) (Verified, error) {
	s, refusal := newSubject(in)
	if refusal != nil {
		return Verified{}, refusal
	}
	r, refusal := s.read(in.Value, in.seenAt())
	if refusal != nil {
		return Verified{}, refusal
	}
	v, refusal := s.verify(r, in)
	if refusal != nil {
		return Verified{}, refusal
	}
	return v, nil
}

// Report is what the signatures of a plan come to.
type Report struct {
	// Verified are those that count, by slot.
	Verified []Verified
	// Refused are those that do not, by slot, the first v1alpha1.MaxSignatures of them.
	Refused []Refusal
	// More counts refused ones that are not listed.
	More int
}

// VerifyAll verifies every signature among the annotations of a plan, as Verify does; in.Value and in.SeenAt are not used.
// Only so many as v1alpha1.MaxSignatures come to cryptography: those that could be a trusted signer's, by slot. Junk that
// could not be anybody's is refused before and takes nobody's place. seenAt tells when a value was verified for the first
// time, by its Evidence, and returns the zero time for one that was not; those that were seen before come first.
func VerifyAll(in Input, annotations map[string]string, seenAt func(evidence string) time.Time) Report {
	var report Report
	s, bad := newSubject(in)
	candidates, budget := collect(annotations, seenAt), v1alpha1.MaxSignatures
	for _, c := range candidates {
		one := in
		one.Value, one.SeenAt = c.value, c.seenAt
		v, refusal := Verified{}, bad
		if bad == nil {
			v, refusal = s.within(one, &budget)
		}
		if refusal == nil {
			v.Slot = c.slot
			report.Verified = append(report.Verified, v)
			continue
		}
		if len(report.Refused) == v1alpha1.MaxSignatures {
			report.More++
			continue
		}
		named := *refusal
		named.Slot = words(c.slot)
		report.Refused = append(report.Refused, named)
	}
	slices.SortFunc(report.Verified, func(a, b Verified) int { return cmp.Compare(a.Slot, b.Slot) })
	slices.SortFunc(report.Refused, func(a, b Refusal) int { return cmp.Compare(a.Slot, b.Slot) })
	return report
}

// candidate is an annotation that claims to be a signature.
type candidate struct {
	slot, value string
	seenAt      time.Time
}

// collect returns the signatures among annotations: those that were seen before, then the others, by slot.
func collect(annotations map[string]string, seenAt func(string) time.Time) []candidate {
	var found []candidate
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		slot, ok := strings.CutPrefix(key, v1alpha1.AnnotationSignaturePrefix)
		if !ok {
			continue
		}
		c := candidate{slot: slot, value: annotations[key]}
		if seenAt != nil && len(c.value) <= v1alpha1.MaxSignatureBytes {
			c.seenAt = seenAt(plans.BytesDigest([]byte(c.value)))
		}
		found = append(found, c)
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		switch {
		case a.seenAt.IsZero() == b.seenAt.IsZero():
			return 0
		case b.seenAt.IsZero():
			return -1
		default:
			return 1
		}
	})
	return found
}

// seenAt is the time for which an ID token must have been valid.
func (in Input) seenAt() time.Time {
	if in.SeenAt.IsZero() || in.SeenAt.After(in.Now) {
		return in.Now
	}
	return in.SeenAt
}

// subject is what is signed, read once.
type subject struct {
	statement, digest string
	stack             string
	signers           *Signers
}

func newSubject(in Input) (*subject, *Refusal) {
	switch {
	case in.Signers == nil || in.Now.IsZero():
		return nil, refuse(UnknownSigner, "there are no trusted signers to verify with, or no time: this is a bug")
	case in.Cluster == "":
		return nil, refuse(OtherCluster, "the id of this cluster is not known: this is a bug")
	}
	stated, err := plans.Parse(in.Statement)
	if err != nil {
		return nil, refuse(OtherCluster, "the plan's statement cannot be read: %v", err)
	}
	if stated.Predicate.Cluster != in.Cluster {
		return nil, refuse(OtherCluster, "the statement is of cluster %q; this is %q. Sign a plan of this cluster", stated.Predicate.Cluster, in.Cluster)
	}
	return &subject{
		statement: in.Statement, digest: plans.Digest(in.Statement),
		stack: stated.Predicate.Namespace + "/" + stated.Predicate.Stack.Name, signers: in.Signers,
	}, nil
}

// reading is a signature that was read but not verified.
type reading struct {
	format  Format
	verdict Verdict
	// tries are the trusted signers who may have made it. There is at least one.
	tries []try
}

// try verifies the signature with one trusted signer.
type try struct {
	signer   *signer
	identity string
	verifies func() bool
}

// read finds out what a value is, and who may have made it, without cryptography.
func (s *subject) read(value string, seenAt time.Time) (*reading, *Refusal) {
	switch {
	case len(value) > v1alpha1.MaxSignatureBytes:
		return nil, refuse(TooLong, "it has %d bytes; at most %d are read", len(value), v1alpha1.MaxSignatureBytes)
	case strings.HasPrefix(value, armorBegin):
		return s.readSSH(value)
	case strings.HasPrefix(value, "{"):
		return s.readDSSE(value)
	case strings.HasPrefix(value, "eyJ"):
		return s.readToken(value, seenAt)
	default:
		return nil, refuse(Malformed, "it begins like none of the known kinds: an SSH signature, a DSSE envelope, an OIDC ID token")
	}
}

// within is read and verify, as long as the budget of verifications lasts.
func (s *subject) within(in Input, budget *int) (Verified, *Refusal) {
	r, refusal := s.read(in.Value, in.seenAt())
	if refusal != nil {
		return Verified{}, refusal
	}
	if *budget == 0 {
		return Verified{}, refuse(TooMany, "%d other signatures of the plan were verified already; remove those that are not needed", v1alpha1.MaxSignatures)
	}
	*budget--
	return s.verify(r, in)
}

// verify does the cryptography.
func (s *subject) verify(r *reading, in Input) (Verified, *Refusal) {
	refusal := refuse(Invalid, "it does not verify over the plan's statement with the key of any trusted signer")
	for _, t := range r.tries {
		if out := t.signer.outOfScope(s.stack, in.Now); out != nil {
			// What is said of a key is only said to whom has it.
			if t.verifies() {
				refusal = out
			}
			continue
		}
		if t.verifies() {
			return Verified{
				Signer: t.signer.name, Identity: t.identity, Verdict: r.verdict, Format: r.format, Digest: s.digest,
				Evidence: plans.BytesDigest([]byte(in.Value)), SeenAt: in.seenAt(),
			}, nil
		}
	}
	return Verified{}, refusal
}

// outOfScope tells why a signer does not count for a Stack now. Nil: it does.
func (s *signer) outOfScope(stack string, now time.Time) *Refusal {
	if !s.notAfter.IsZero() && !now.Before(s.notAfter) {
		return refuse(SignerExpired, "the trusted signer %q counted until %s only", s.name, s.notAfter.UTC().Format(time.RFC3339))
	}
	if len(s.stacks) == 0 {
		return nil
	}
	for _, pattern := range s.stacks {
		if ok, err := path.Match(pattern, stack); err == nil && ok {
			return nil
		}
	}
	return refuse(SignerNotForStack, "the trusted signer %q is not good for the Stack %q", s.name, stack)
}
