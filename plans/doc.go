// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plans is the pure core: what a plan is, what it changes, what its approval is tied to, and whether all of that
// still holds. It and the packages below it do no I/O, read no clock, hold no client and log nothing; everything they need
// comes in as a value.
//
//	events, plan file ──pulumiplan.Decode──▶ Plan ─┐
//	source, config, pod's facts ──NewBinding──▶ Binding ─┼──NewSpec──▶ UpdatePlanSpec {statement, digest, …}
//	stored file ──────────────▶ Artifact ─┘                 │
//	                                                        ├──CheckSpec: is it still what was published?
//	                                                        ├──approval.Verify: did somebody approve this digest?
//	                                                        └──Compare: is the world still what it was?
package plans
