// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signature verifies signatures over the statement of an UpdatePlan.
//
//	annotation ─▶ what is it? ─┬─ SSHSIG ───────┐  which trusted   is the signer    does the
//	             (by content)  ├─ DSSE envelope ├▶ signers may  ─▶ in time, and  ─▶ signature ─▶ Verified
//	                           └─ OIDC ID token ┘  have made it?   for the stack?   verify?
//
// What is signed are the exact bytes of spec.statement. A signature says which verdict it is for in a part that is signed
// too, so that an approval can never serve as a rejection, nor the other way round, nor anything that was signed for another
// purpose as one of them:
//
//	         SSHSIG: namespace       DSSE: payloadType                              OIDC: the only audience
//	approve  plangate.dev            application/vnd.in-toto+json                   plangate.dev/approve#sha256:…
//	reject   plangate.dev/reject     application/vnd.plangate.reject.in-toto+json   plangate.dev/reject#sha256:…
//
// Bytes are compared before anything is parsed. The type of a trusted key decides the one algorithm; nothing in a signature
// can choose another. Everything that costs less than cryptography is asked first, so that junk costs next to nothing.
//
// The package is pure: no clock, no network, no cluster. The time and the issuers' keys come as values.
package signature
