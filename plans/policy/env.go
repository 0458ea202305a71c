// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// ruleSteps is about how many steps one rule may take for one plan: turns of its loops, times the length of its expression.
	// A rule of everyday length may look at each of 100,000 changes, one with a regular expression at 50,000.
	ruleSteps = 8_000_000
	// matchSteps is how many steps a regular expression counts for, which takes that much longer than others.
	matchSteps = 100
	// planItems is how many items of the plan's lists all rules together may look at, each time that the plan is decided on.
	planItems = 10_000_000
	// maxNesting is how deep loops may be nested: a plan's changes, their properties, and once more.
	maxNesting = 3
)

// Names of the types that expressions see. A type has the fields of the table below and no others, so that an expression
// with a mistyped field does not compile.
const (
	typePlan     = "plangate.Plan"
	typeSummary  = "plangate.Summary"
	typeChange   = "plangate.Change"
	typeProperty = "plangate.Property"
	typeUnbound  = "plangate.Unbound"
	typeStack    = "plangate.Stack"
	typeAuthor   = "plangate.Author"
	typeWindow   = "plangate.Window"
)

// field is a field of one of our types: what it is, and how it is read from the Go value.
type field struct {
	kind *types.Type
	get  func(target any) (any, error)
}

// of makes a field from a func that reads it.
func of[T any](kind *types.Type, get func(*T) any) field {
	return field{kind: kind, get: func(target any) (any, error) {
		v, ok := target.(*T)
		if !ok {
			return nil, fmt.Errorf("%T is no %T: this is a bug", target, v)
		}
		return get(v), nil
	}}
}

// counted makes a field of a counted list one of the list.
func (f field) counted() field {
	get := f.get
	f.get = func(target any) (any, error) {
		v, err := get(target)
		if list, ok := v.(counted); ok && err == nil {
			return list.read()
		}
		return v, err
	}
	return f
}

// object is a Go value as CEL sees it.
type object struct {
	kind  *types.Type
	value any
}

var (
	_ ref.Val            = object{}
	_ traits.Indexer     = object{}
	_ traits.FieldTester = object{}
)

func newObject(name string, value any) object {
	return object{kind: types.NewObjectType(name, traits.FieldTesterType|traits.IndexerType), value: value}
}

// ConvertToNative implements ref.Val.
func (o object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot become %v", o.kind, t)
}

// ConvertToType implements ref.Val.
func (o object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.kind
	}
	return types.NewErr("%s cannot become %s", o.kind, t.TypeName())
}

// Equal implements ref.Val. Two objects are the same one, or not equal.
func (o object) Equal(other ref.Val) ref.Val { return types.Bool(o.value == other.Value()) }

// Type implements ref.Val.
func (o object) Type() ref.Type { return o.kind }

// Value implements ref.Val.
func (o object) Value() any { return o.value }

// Get implements traits.Indexer.
func (o object) Get(index ref.Val) ref.Val {
	name, ok := index.Value().(string)
	f, known := schema()[o.kind.TypeName()][name]
	if !ok || !known {
		return types.NewErr("no such field: %v", index)
	}
	value, err := f.get(o.value)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// IsSet implements traits.FieldTester. Every field that there is, is set.
func (o object) IsSet(index ref.Val) ref.Val {
	name, ok := index.Value().(string)
	_, known := schema()[o.kind.TypeName()][name]
	return types.Bool(ok && known)
}

// provider tells CEL of our types.
type provider struct{ types.Provider }

// FindStructType implements types.Provider.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := schema()[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := schema()[name]; ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (p provider) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	fields, ok := schema()[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, fieldName)
	}
	f, ok := fields[fieldName]
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: f.kind, GetFrom: f.get, IsSet: func(any) bool { return true }}, true
}

// NewValue implements types.Provider: expressions make no objects of ours.
func (p provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := schema()[name]; ok {
		return types.NewErr("an expression cannot make a %s", name)
	}
	return p.Provider.NewValue(name, fields)
}

// lowerASCII makes text.lowerAscii() of CEL's extensions known, for comparing e-mail addresses and the like.
var lowerASCII = cel.Function("lowerAscii", cel.MemberOverload("string_lower_ascii", []*cel.Type{cel.StringType}, cel.StringType,
	cel.UnaryBinding(func(v ref.Val) ref.Val {
		text, ok := v.Value().(string)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return types.String(strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}, text))
	})))

// environment is what all expressions are compiled in: CEL's standard, optional values, lowerAscii, and our variables. The
// rest of CEL's extensions stays out: they can make much of little.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.OptionalTypes(),
		lowerASCII,
		// After the libraries, which register types of their own.
		func(e *cel.Env) (*cel.Env, error) { return cel.CustomTypeProvider(provider{e.CELTypeProvider()})(e) },
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(100),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(), cel.ValidateComprehensionNestingLimit(maxNesting)),
		cel.Variable("plan", types.NewObjectType(typePlan)),
		cel.Variable("stack", types.NewObjectType(typeStack)),
		cel.Variable("author", types.NewObjectType(typeAuthor)),
		cel.Variable("window", types.NewObjectType(typeWindow)),
		cel.Variable("now", types.TimestampType),
	)
})
