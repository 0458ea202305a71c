// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"errors"
	"fmt"

	"github.com/plangate/plangate/plans/redact"
)

// Reason tells in one word why a signature does not count. It is fit for the label of a metric.
type Reason string

// Why a signature may not count.
const (
	// Invalid: the signature does not verify.
	Invalid Reason = "Invalid"
	// Malformed: it is none of the known kinds, or not in the exact form of its kind.
	Malformed Reason = "Malformed"
	// TooLong: it has more than v1alpha1.MaxSignatureBytes.
	TooLong Reason = "TooLong"
	// TooMany: v1alpha1.MaxSignatures others of the plan were verified already.
	TooMany Reason = "TooMany"
	// OtherStatement: it was made for other bytes, such as an older plan of the same Stack.
	OtherStatement Reason = "OtherStatement"
	// OtherPurpose: it was made neither to approve nor to reject a plan.
	OtherPurpose Reason = "OtherPurpose"
	// OtherCluster: the statement was made in another cluster, or says nothing that can be read.
	OtherCluster Reason = "OtherCluster"
	// UnknownSigner: no trusted signer has that key, or that issuer and those claims.
	UnknownSigner Reason = "UnknownSigner"
	// SignerExpired: the trusted signer's notAfter is over.
	SignerExpired Reason = "SignerExpired"
	// SignerNotForStack: the trusted signer is good for other Stacks.
	SignerNotForStack Reason = "SignerNotForStack"
	// TokenStale: an ID token was not valid when it was seen, or lives too long.
	TokenStale Reason = "TokenStale"
)

// Refusal is a signature that does not count.
type Refusal struct {
	// Slot is the annotation's name behind the prefix, printable. Empty: Verify was called, which knows of no slot.
	Slot string
	// Reason says why in one word.
	Reason Reason
	// Message says it to a person, with the way out. It quotes nothing secret, and is printable and short.
	Message string
}

func (r *Refusal) Error() string {
	if r.Slot == "" {
		return "signature: " + r.Message
	}
	return fmt.Sprintf("signature %q: %s", r.Slot, r.Message)
}

// ReasonOf returns the reason of a refusal, or nothing if err is none.
func ReasonOf(err error) Reason {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}

const maxWords = 512

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: words(fmt.Sprintf(format, args...))}
}

func words(s string) string { return redact.Shorten(redact.Printable(s), maxWords) }
