// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plangate/plangate/plans/redact"
)

const (
	maxDepth = 64
	maxPath  = 512
)

// leaf is a place at which two trees of values differ.
type leaf struct {
	path      string
	left, now any
	// hasLeft and hasNow tell whether there is a value.
	hasLeft, hasNow bool
	// input says that it is in the inputs.
	input bool
}

// compare finds the properties that differ, what counts first, and whether anything counts.
func compare(r Resource) (found []Property, counts bool) {
	hidden := newHidden(r)
	// What the program wants is not known to every look, and must not make a difference to the digest.
	world := r
	world.Wanted = nil
	bare := newHidden(world)
	for _, l := range leaves(r) {
		p := Property{Path: redact.Shorten(redact.Printable(l.path), maxPath), Kind: kindOf(r, l)}
		p.Left, p.Live = hidden.pair(l, valueLimit(p.Kind))
		p.live = bare.sum(l)
		if p.Kind == Moved {
			p.Wanted = hidden.wanted(r, l)
		}
		counts = counts || p.Kind == Moved
		found = append(found, p)
	}
	for _, path := range r.Differs {
		if !slices.ContainsFunc(found, func(p Property) bool { return within(p.Path, path) || within(path, p.Path) }) {
			// The provider knows what cannot be seen here: a secret, or something in another shape.
			secret := redact.Secret
			p := Property{Path: redact.Shorten(redact.Printable(path), maxPath), Kind: Moved}
			if hidden.hides(path) {
				p.Left, p.Live, p.Wanted = &secret, &secret, &secret
			}
			found, counts = append(found, p), true
		}
	}
	slices.SortStableFunc(found, func(a, b Property) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Path, b.Path))
	})
	return found, counts
}

func rank(k PropertyKind) int {
	return slices.Index([]PropertyKind{Moved, Unmanaged, Ignored, Upgraded, Computed, ServerSet}, k)
}

// leaves are all places at which state and reality differ: those of the inputs, and those of the outputs that are at no such
// place.
func leaves(r Resource) []leaf {
	var found []leaf
	walk("", r.State.Inputs, r.Live.Inputs, true, true, 0, func(l leaf) {
		l.input = true
		found = append(found, l)
	})
	inputs := len(found)
	walk("", r.State.Outputs, r.Live.Outputs, true, true, 0, func(l leaf) {
		twice := slices.ContainsFunc(found[:inputs], func(i leaf) bool { return within(l.path, i.path) || within(i.path, l.path) })
		if !twice {
			found = append(found, l)
		}
	})
	return found
}

// walk visits every place at which two values differ, as deep down as there are objects on both sides.
func walk(path string, left, now any, hasLeft, hasNow bool, depth int, visit func(leaf)) {
	if hasLeft && hasNow && reflect.DeepEqual(left, now) {
		return
	}
	l, lok := left.(map[string]any)
	n, nok := now.(map[string]any)
	if depth < maxDepth && lok && nok && !redact.IsMarked(left) && !redact.IsMarked(now) {
		walkObjects(path, l, n, depth, visit)
		return
	}
	if walkLists(path, left, now, depth, visit) {
		return
	}
	if path != "" {
		visit(leaf{path: path, left: left, now: now, hasLeft: hasLeft, hasNow: hasNow})
	}
}

// walkObjects goes into two objects.
func walkObjects(path string, left, now map[string]any, depth int, visit func(leaf)) {
	all := map[string]bool{}
	for k := range left {
		all[k] = true
	}
	for k := range now {
		all[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if depth == 0 && strings.HasPrefix(k, "__") {
			continue // what a provider keeps for itself
		}
		l, hasLeft := left[k]
		n, hasNow := now[k]
		walk(Join(path, k), l, n, hasLeft, hasNow, depth+1, visit)
	}
}

// walkLists goes into two lists of the same length.
func walkLists(path string, left, now any, depth int, visit func(leaf)) bool {
	l, lok := left.([]any)
	n, nok := now.([]any)
	if !lok || !nok || len(l) != len(n) || depth >= maxDepth {
		return false
	}
	for i := range l {
		walk(path+"["+strconv.Itoa(i)+"]", l[i], n[i], true, true, depth+1, visit)
	}
	return true
}

// hidden are the paths of what is secret on any side.
type hidden struct {
	paths []string
	// computed says that what the provider computes is hidden too: it may give a secret input away, as a hash does.
	computed bool
}

func newHidden(r Resource) hidden {
	var h hidden
	for _, v := range []map[string]any{r.State.Inputs, r.State.Outputs, r.Live.Inputs, r.Live.Outputs, r.Wanted} {
		secrets("", v, 0, func(path string) { h.paths = append(h.paths, path) })
	}
	h.computed = len(h.paths) > 0
	return h
}

func secrets(path string, v any, depth int, found func(string)) {
	switch {
	case redact.IsSecret(v) && path != "":
		found(path)
		return
	case depth > maxDepth || redact.IsMarked(v):
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			secrets(Join(path, k), e, depth+1, found)
		}
	case []any:
		for i, e := range v {
			secrets(path+"["+strconv.Itoa(i)+"]", e, depth+1, found)
		}
	}
}

func (h hidden) hides(path string) bool {
	return slices.ContainsFunc(h.paths, func(s string) bool { return within(path, s) || within(s, path) })
}

// masks tells whether the values of a place are not shown.
func (h hidden) masks(l leaf) bool {
	return h.hides(l.path) || h.computed && !l.input && !metadata(l.path)
}

// maxServerSet is how much is shown of a value that servers set.
const maxServerSet = 80

func valueLimit(kind PropertyKind) int {
	if kind == ServerSet {
		return maxServerSet
	}
	return redact.MaxValue
}

// pair are the two values as they may be shown. Nil: there is none. Long ones are shown from where they part.
func (h hidden) pair(l leaf, limit int) (left, now *string) {
	lt, nt := redact.Pair(l.left, l.now, limit)
	if h.masks(l) {
		lt, nt = redact.Secret, redact.Secret
	}
	if l.hasLeft {
		left = &lt
	}
	if l.hasNow {
		now = &nt
	}
	return left, now
}

// sum is a digest of the live value, whole; of a secret one it tells nothing.
func (h hidden) sum(l leaf) string {
	switch {
	case !l.hasNow:
		return ""
	case h.masks(l):
		return sum([]byte(redact.Secret))
	default:
		return sum([]byte(redact.JSON(l.now, math.MaxInt)))
	}
}

// metadata tells whether a path is one of the well-known ones that servers set, which are no secrets.
func metadata(path string) bool { return serverSet.MatchString(path) }

func (h hidden) wanted(r Resource, l leaf) *string {
	v, ok := lookup(r.Wanted, l.path)
	if !ok {
		return nil
	}
	text := redact.JSON(v, redact.MaxValue)
	if h.hides(l.path) {
		text = redact.Secret
	}
	return &text
}

// kindOf says why a difference counts or not.
func kindOf(r Resource, l leaf) PropertyKind {
	covered := func(paths []string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return within(l.path, p) || within(p, l.path) })
	}
	switch {
	case covered(r.Differs):
		return Moved
	case covered(r.Ignored):
		return Ignored
	case serverSet.MatchString(l.path), timeStamps(l):
		return ServerSet
	case r.Upgrade != "" && !l.hasLeft:
		return Upgraded
	case l.input && !r.Judged:
		return Moved
	case !l.input && !given(r, l.path):
		if r.Judged {
			return Computed
		}
		return Moved // it may be all that there is to see
	default:
		return Unmanaged
	}
}

// given tells whether an input is at the root of a path.
func given(r Resource, path string) bool {
	root := rootOf(path)
	for _, inputs := range []map[string]any{r.State.Inputs, r.Live.Inputs} {
		for k := range inputs {
			if Join("", k) == root {
				return true
			}
		}
	}
	return false
}

// serverSet are paths that servers and controllers write by themselves.
var serverSet = regexp.MustCompile(`(?i)(^|\.)status(\.|\[|$)` +
	`|^metadata\.(resourceVersion|generation|uid|selfLink|creationTimestamp|deletionTimestamp|managedFields)(\.|\[|$)` +
	`|annotations\["(deployment\.kubernetes\.io/revision|kubectl\.kubernetes\.io/last-applied-configuration|control-plane\.alpha\.kubernetes\.io/leader)"\]` +
	`|(^|\.)(etag|selfLink|fingerprint|labelFingerprint|resourceVersion|observedGeneration)$` +
	`|(^|\.)(last(Modified|Updated?|Transition|Probe|Heartbeat|Seen|Used)[A-Za-z]*|(updated?|modified|modification)(At|On|Date|Time|Timestamp))$`)

var timeStamp = regexp.MustCompile(`\A\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}`)

// timeStamps tells whether one point in time has become another, in what is no input.
func timeStamps(l leaf) bool {
	left, lok := l.left.(string)
	now, nok := l.now.(string)
	return !l.input && lok && nok && timeStamp.MatchString(left) && timeStamp.MatchString(now)
}

var simpleKey = regexp.MustCompile(`\A[A-Za-z_$][A-Za-z0-9_$-]*\z`)

// Join writes paths as Pulumi does: data.greeting, metadata.labels["app/name"].
func Join(path, key string) string {
	if !simpleKey.MatchString(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// within tells whether a path is at, or inside of, another.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func rootOf(path string) string {
	if strings.HasPrefix(path, `["`) {
		if i := strings.Index(path, `"]`); i > 0 {
			return path[:i+2]
		}
		return path
	}
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// lookup finds the value at a path that Join wrote.
func lookup(tree any, path string) (any, bool) {
	if path == "" {
		return tree, true
	}
	switch v := tree.(type) {
	case map[string]any:
		for k, e := range v {
			if step := Join("", k); within(path, step) {
				return lookup(e, strings.TrimPrefix(strings.TrimPrefix(path, step), "."))
			}
		}
	case []any:
		end := strings.IndexByte(path, ']')
		if end < 1 || path[0] != '[' {
			return nil, false
		}
		i, err := strconv.Atoi(path[1:end])
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return lookup(v[i], strings.TrimPrefix(path[end+1:], "."))
	}
	return nil, false
}
