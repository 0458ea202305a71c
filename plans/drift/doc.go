// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drift says how the real resources differ from what Pulumi left, in words, and what may be done about it.
//
// There are three values of every property: the state's (what Pulumi left), the live one (what is there now) and the wanted
// one (what the program asks for by now). Drift is live against state, whatever the program wants; putting it back is live
// against wanted. Pulumi's own words for a refresh mix the two up, so that the directions are told here.
//
//	events of a refreshing preview ──live.Read──▶ Reading ──Build──▶ Report ─┬─▶ Digest: what an approval is bound to
//	                                                                         ├─▶ Summary, Lines: for people
//	                                                                         └─▶ FindLoop: is it a fight?
//
// It does no I/O, reads no clock, and knows neither Kubernetes nor Pulumi's formats.
package drift
