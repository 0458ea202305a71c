// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// CEL's own reckoning of costs looks through all values of a loop's past turns at each further one: over 10,000 changes a
// small rule took a second. So the limits are our own. What an expression can do is to loop, which is counted, and, per turn, to
// walk through itself, which its length bounds. What could make one step arbitrarily long is refused: making texts and lists
// by adding them up, and comparing whole lists.

// refused finds what an expression may not do.
func refused(tree *ast.AST) []string {
	var faults []string
	for _, call := range ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.CallKind)) {
		args := call.AsCall().Args()
		switch call.AsCall().FunctionName() {
		case operators.Add:
			overload := tree.GetOverloadIDs(call.ID())
			texts := slices.Contains(overload, overloads.AddString) || slices.Contains(overload, overloads.AddBytes)
			lists := slices.Contains(overload, overloads.AddList) && !accumulates(args)
			if texts || lists {
				faults = append(faults, "texts and lists cannot be added up: look at them one by one")
			}
		case operators.Equals, operators.NotEquals, operators.In:
			if slices.ContainsFunc(args, func(e ast.Expr) bool { return listOfOurs(tree.GetType(e.ID())) }) {
				faults = append(faults, "whole lists of changes cannot be compared or searched: use exists or all")
			}
		}
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}

// accumulates tells whether an addition is what map and filter are made of. No expression can name that variable itself.
func accumulates(args []ast.Expr) bool {
	return len(args) > 0 && args[0].Kind() == ast.IdentKind && strings.HasPrefix(args[0].AsIdent(), "@")
}

func listOfOurs(t *types.Type) bool {
	return t.Kind() == types.ListKind && len(t.Parameters()) == 1 && strings.HasPrefix(t.Parameters()[0].TypeName(), "plangate.")
}

// turns is how many turns all loops of an expression may take together.
func turns(tree *ast.AST) uint {
	steps := 0
	for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), ast.AllMatcher()) {
		steps++
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == overloads.Matches {
			steps += matchSteps
		}
	}
	return uint(max(ruleSteps/max(steps, 1), 1))
}
