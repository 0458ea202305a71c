// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// words are all values that a field can have. A rule that compares with another never matches, and a Deny that never
// matches is worse than one that does not compile. A test holds these lists against the CRD of UpdatePlans; the second line
// of each are values that plans get next.
var words = map[string]map[string][]string{
	typePlan: {
		"operation": {"Update", "Destroy", "Refresh"},
		"trigger": {
			"SpecChanged", "SourceChanged", "ConfigChanged", "Requested", "Retry",
			"Drifted", "Deleted",
		},
	},
	typeChange: {
		"operation": {"Create", "Update", "Replace", "Delete", "Import", "Read", "Refresh", "Remove", "Outputs", "Same", "Other"},
	},
}

// mistypedWords finds comparisons with words that a field never has.
func mistypedWords(tree *ast.AST) []string {
	var problems []string
	calls := ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.CallKind))
	for _, call := range calls {
		switch call.AsCall().FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
		default:
			continue
		}
		args := call.AsCall().Args()
		for i := range args {
			allowed, name := wordsOf(tree, args[i])
			if allowed == nil {
				continue
			}
			for _, word := range literals(args[1-i]) {
				if !slices.Contains(allowed, word) {
					problems = append(problems, fmt.Sprintf("%s is never %q: it is one of %s", name, word, strings.Join(allowed, ", ")))
				}
			}
		}
	}
	return problems
}

// wordsOf returns the values that an expression can have, if it is a field that has a list of them.
func wordsOf(tree *ast.AST, e ast.Expr) (allowed []string, name string) {
	if e.Kind() != ast.SelectKind {
		return nil, ""
	}
	selected := e.AsSelect()
	of := tree.GetType(selected.Operand().ID()).TypeName()
	return words[of][selected.FieldName()], strings.TrimPrefix(of, "plangate.") + "." + selected.FieldName()
}

// literals returns the strings that are written in an expression: itself, or the items of a list.
func literals(e ast.Expr) []string {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().Value().(string); ok {
			return []string{s}
		}
	case ast.ListKind:
		var all []string
		for _, item := range e.AsList().Elements() {
			all = append(all, literals(item)...)
		}
		return all
	}
	return nil
}
