// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationSignaturePrefix begins, with a slot behind it, an annotation on an UpdatePlan that holds a signature over the exact
// bytes of spec.statement: an SSH signature, a DSSE envelope or an OIDC ID token. The slot is a free name that tells several
// signatures apart and means nothing.
const AnnotationSignaturePrefix = "signature.plangate.dev/"

// Bounds of what is read as a signature.
const (
	// MaxSignatureBytes is the most bytes that the value of one annotation may have to be read.
	MaxSignatureBytes = 16 << 10
	// MaxSignatures is how many signatures of one plan are verified; more are refused.
	MaxSignatures = 12
)

// TrustedSigner is a key, or a workload of a CI system, whose signature over a plan's statement counts as a decision. Exactly
// one of ssh, pem and oidc is set; it decides which kind of signature is taken from it, and no other is.
//
// +kubebuilder:validation:XValidation:rule="[has(self.ssh), has(self.pem), has(self.oidc)].filter(x, x).size() == 1",message="set exactly one of ssh, pem and oidc"
type TrustedSigner struct {
	// name is what the signer is called in requirements, decisions and messages. No two signers of a policy share one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Name string `json:"name"`
	// ssh is one line of an OpenSSH public key file, "ssh-ed25519 AAAA… comment". Ed25519, ECDSA on P-256, both also on a
	// security key, and RSA of at least 2048 bits are taken; options and certificates are not. It is for signatures that are
	// made with "ssh-keygen -Y sign -n plangate.dev". Absent: the signer has no such key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	SSH string `json:"ssh,omitempty"`
	// pem is one PEM block "PUBLIC KEY". Ed25519, ECDSA on P-256 and RSA of at least 2048 bits are taken. It is for DSSE
	// envelopes, as openssl and cosign can make them. Absent: the signer has no such key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	PEM string `json:"pem,omitempty"`
	// oidc is a workload that an issuer vouches for with an ID token, such as a job of GitHub Actions. Absent: the signer is
	// no such workload.
	// +optional
	OIDC *OIDCSigner `json:"oidc,omitempty"`
	// stacks are the Stacks that the signer is good for, as patterns of "namespace/name" in which "*" stands for any text
	// without "/", and "?" for one character. Absent: all Stacks that the policy selects.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=320
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9*?.-]+/[a-z0-9*?.-]+$`
	Stacks []string `json:"stacks,omitempty"`
	// notAfter is when the signer stops to count, also for signatures that were made and seen before. Absent: never.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// OIDCSigner is a workload that an issuer vouches for. Its ID token counts for one plan alone: its only audience must be
// "plangate.dev/approve#" (or "plangate.dev/reject#") and the plan's digest.
type OIDCSigner struct {
	// issuer is the "iss" of the tokens, compared as it is: "https://token.actions.githubusercontent.com".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[!-~]+$`
	Issuer string `json:"issuer"`
	// jwks are the issuer's public keys, the JSON Web Key Set that it serves. It is not fetched: whoever changes the policy
	// decides which keys are trusted. Keep a key that the issuer no longer uses until the plans that it approved have ended.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	JWKS string `json:"jwks"`
	// claims are what a token must say, all of them. Pin ids, not names: a name can be given to somebody else. For GitHub
	// Actions "repository_id" is required, for gitlab.com "project_id"; pin the branch or the environment as well.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Claims []PinnedClaim `json:"claims"`
	// maxLifetime is the longest time between "iat" and "exp" of a token. At most "1h". Absent: "15m".
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="maxLifetime must be more than nothing and at most 1h"
	MaxLifetime *metav1.Duration `json:"maxLifetime,omitempty"`
}

// PinnedClaim is what one claim of a token must be.
type PinnedClaim struct {
	// name is the claim's name: "repository_id".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// values are the values of which the claim must have one, exactly. A number or a boolean is written as JSON writes it.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Values []string `json:"values"`
}
