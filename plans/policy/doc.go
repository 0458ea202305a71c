// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy decides what a plan needs before it is applied, and whether it has it.
//
//	policies ─ Compile ─▶ Compiled ─┐
//	plan, stack, changes, author ───┼─ Decide: rules ─▶ requirements ─▶ count of votes ─▶ windows ─▶ Verdict
//	votes, now ─────────────────────┘
//
// All policies that select a Stack count together, and the strictest combination holds. Whatever cannot be understood holds
// the plan: a policy that does not compile, a rule that cannot be evaluated, an effect that is not known, changes of which
// some are missing. Nothing here is ever more lenient for lack of knowledge.
//
// Everything comes in as values, the time included, so that equal input gives an equal verdict. A verdict is never kept to
// be used later: it is computed anew from all votes each time, which is how a change of a policy re-opens the count.
package policy
