// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

const (
	// compact is how long a value's text may be to be shown whole; a longer object is shown member by member.
	compact  = 160
	maxPath  = 512
	maxDepth = 64
)

// value is a property's value, if it has one.
type value struct {
	v  any
	ok bool
}

// diff collects changed properties.
type diff struct {
	// secret are the paths of what is masked.
	secret []string
	// changed are top-level properties that are known to have changed.
	changed []string
	// anew says that changed holds everything, changed or not: the values must tell.
	anew bool
	// doubt says that what looks the same, but is not known to be, is a change. It is set while such a property is compared.
	doubt bool
	found []v1alpha1.PropertyChange
	seen  map[string]bool
}

// covers tells whether something of a top-level property was described already.
func (d *diff) covers(root string) bool { return d.seen[join("", root)] }

// compare describes a property. An object or array that has both before and after is taken apart, so that what changed is
// seen and the rest is not. known says that there is a change even where the values look the same.
func (d *diff) compare(path string, old, now value, replaces, known bool) {
	d.doubt = d.anew && known
	if d.doubt && same(old, now) {
		return
	}
	if d.hides(path) {
		if known || old.ok != now.ok || unequalPlain(old, now) {
			d.add(path, masked(old), masked(now), replaces)
		}
		return
	}
	before := len(d.found)
	d.walk(path, old, now, replaces, 0)
	if known && len(d.found) == before && !d.seen[rootOf(path)] {
		d.add(path, old, now, replaces)
	}
}

func (d *diff) walk(path string, old, now value, replaces bool, depth int) {
	if old.ok && now.ok && equal(old.v, now.v) && (!d.doubt || same(old, now)) {
		return
	}
	if depth < maxDepth && d.takeApart(path, old, now, replaces, depth) {
		return
	}
	d.add(path, old, now, replaces)
}

// takeApart goes into objects and arrays. It does not when one side is secret, when the sides are of different kinds, when
// elements of an array that holds secrets have moved, or when there is one side and it is short.
func (d *diff) takeApart(path string, old, now value, replaces bool, depth int) bool {
	if whole(old, now) && !d.hidesBelow(path) {
		return false
	}
	if om, nm, ok := both[map[string]any](old, now); ok {
		d.objects(path, om, nm, replaces, depth)
		return len(om)+len(nm) > 0
	}
	oa, na, ok := both[[]any](old, now)
	moved := old.ok && now.ok && len(oa) != len(na)
	if !ok || moved && (hasSecret(old.v) || hasSecret(now.v)) {
		return false
	}
	for i := range max(len(oa), len(na)) {
		d.walk(path+"["+strconv.Itoa(i)+"]", element(oa, i), element(na, i), replaces, depth+1)
	}
	return len(oa)+len(na) > 0
}

// hides tells whether a path is, or is inside of, something secret.
func (d *diff) hides(path string) bool {
	return slices.ContainsFunc(d.secret, func(s string) bool { return inside(path, s) })
}

// hidesBelow tells whether something inside of a path is secret.
func (d *diff) hidesBelow(path string) bool {
	return slices.ContainsFunc(d.secret, func(s string) bool { return s != path && inside(s, path) })
}

func inside(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// whole tells whether values are shown as they are: marked ones, and short ones that have no counterpart.
func whole(old, now value) bool {
	if redact.IsMarked(old.v) || redact.IsMarked(now.v) {
		return true
	}
	return old.ok != now.ok && len(redact.JSON(either(old, now), compact+1)) <= compact
}

func (d *diff) objects(path string, old, now map[string]any, replaces bool, depth int) {
	for _, k := range sortedKeys(old, now) {
		ov, ook := old[k]
		nv, nok := now[k]
		if !internal(k) {
			d.walk(join(path, k), value{ov, ook}, value{nv, nok}, replaces, depth+1)
		}
	}
}

// both returns two values of one kind; one that is not there is of any kind.
func both[T any](a, b value) (av, bv T, ok bool) {
	av, aok := a.v.(T)
	bv, bok := b.v.(T)
	return av, bv, (aok || !a.ok) && (bok || !b.ok)
}

func (d *diff) add(path string, old, now value, replaces bool) {
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	d.seen[rootOf(path)] = true
	if d.seen["="+path] {
		return
	}
	d.seen["="+path] = true
	if d.hides(path) {
		old, now = masked(old), masked(now)
	}
	c := change(path, old, now)
	c.Replaces = replaces
	d.found = append(d.found, c)
}

func (d *diff) sorted() []v1alpha1.PropertyChange {
	slices.SortStableFunc(d.found, func(a, b v1alpha1.PropertyChange) int { return strings.Compare(a.Path, b.Path) })
	return d.found
}

// change shows a property's old and new value. When something of either is secret and they cannot be taken apart, both are
// masked: a value that becomes secret was one before.
func change(path string, old, now value) v1alpha1.PropertyChange {
	if hasSecret(old.v) || hasSecret(now.v) {
		old, now = masked(old), masked(now)
	}
	c := v1alpha1.PropertyChange{Path: redact.Shorten(redact.Printable(path), maxPath)}
	before, after := redact.Pair(old.v, now.v, redact.MaxValue)
	if old.ok {
		c.Old = &before
	}
	if now.ok {
		c.New = &after
	}
	return c
}

// masked hides a value, unless it is one that is not known yet, which gives nothing away.
func masked(v value) value {
	if !v.ok || redact.IsUnknown(v.v) {
		return v
	}
	return value{redact.Mark(redact.Secret), true}
}

// hasSecret tells whether something in a value is secret.
func hasSecret(v any) bool {
	if redact.IsSecret(v) {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if hasSecret(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasSecret)
	}
	return false
}

// unequalPlain tells whether two values differ as far as that can be seen.
func unequalPlain(old, now value) bool { return old.ok && now.ok && !equal(old.v, now.v) }

// equal compares decoded values. Two secrets look the same.
func equal(a, b any) bool { return reflect.DeepEqual(redact.Value(a), redact.Value(b)) }

func either(a, b value) any {
	if a.ok {
		return a.v
	}
	return b.v
}

func element(a []any, i int) value {
	if i >= len(a) {
		return value{}
	}
	return value{a[i], true}
}

func sortedKeys(a, b map[string]any) []string {
	keys := make([]string, 0, len(a)+len(b))
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, twice := a[k]; !twice {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// secretPaths calls found with the path of every secret in a value.
func secretPaths(path string, v any, found func(string)) {
	if redact.IsSecret(v) {
		found(path)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			secretPaths(join(path, k), e, found)
		}
	case []any:
		for i, e := range v {
			secretPaths(path+"["+strconv.Itoa(i)+"]", e, found)
		}
	}
}

// unknowns calls found with the path of every unknown in a value.
func unknowns(path string, v any, found func(string)) {
	if redact.IsUnknown(v) {
		found(redact.Shorten(redact.Printable(path), maxPath))
		return
	}
	if redact.IsMarked(v) {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			unknowns(join(path, k), e, found)
		}
	case []any:
		for i, e := range v {
			unknowns(path+"["+strconv.Itoa(i)+"]", e, found)
		}
	}
}

// lookup follows a property path into a value.
func lookup(m map[string]any, path resource.PropertyPath) (any, bool) {
	var v any = m
	for _, e := range path {
		switch e := e.(type) {
		case string:
			object, ok := v.(map[string]any)
			if !ok {
				return nil, false
			}
			if v, ok = object[e]; !ok {
				return nil, false
			}
		case int:
			array, ok := v.([]any)
			if !ok || e < 0 || e >= len(array) {
				return nil, false
			}
			v = array[e]
		default:
			return nil, false
		}
		if redact.IsSecret(v) {
			return v, true // what is inside cannot be seen
		}
	}
	return v, true
}

var simpleKey = regexp.MustCompile(`\A[A-Za-z_$][A-Za-z0-9_$-]*\z`)

// join writes paths as Pulumi does: data.greeting, metadata.labels["app/name"].
func join(path, key string) string {
	if !simpleKey.MatchString(key) {
		b, err := json.Marshal(key)
		if err != nil {
			b = []byte(strconv.Quote(key))
		}
		return path + "[" + string(b) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// rootOf is the first step of a path that join wrote.
func rootOf(path string) string {
	if strings.HasPrefix(path, `["`) {
		for i := 2; i < len(path); i++ {
			switch path[i] {
			case '\\':
				i++
			case '"':
				return path[:min(len(path), i+2)]
			}
		}
		return path
	}
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}
