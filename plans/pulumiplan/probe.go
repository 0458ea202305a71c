// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// What differs and is no property.
const (
	pathSteps = "(steps)"
	// secretPrefix stands before the path of a secret that could not be compared.
	secretPrefix = "(secret) "
	// uncomparedMark stands in place of the ciphertext of such a secret.
	uncomparedMark = "plangate:uncompared"
)

// Probe names in a plan what differs between its file and that of a second preview of the same world: what an apply, which
// runs the program a third time, would be refused for. Values are never told. What was unknown at the first preview is left
// out: an apply is not held to it. So are names that a provider makes from the seed that the plan holds, since an apply gets
// the same seed, and what was made of such a name. A secret is the same when its ciphertext is: the caller has seen to that,
// and has put a mark in its place where it could not compare.
func Probe(plan plans.Plan, first, second []byte) (out plans.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = plans.Plan{}, fmt.Errorf("comparing two plans: malformed: %v", r)
		}
	}()
	a, err := readPlan(first)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("comparing two plans: reading the first: %w", err)
	}
	b, err := readPlan(second)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("comparing two plans: reading the second: %w", err)
	}
	p := &probe{first: a.ResourcePlans, second: b.ResourcePlans, pinned: map[string]string{}}
	p.pinNames()
	changes, same := slices.Clone(plan.Changes), int(plan.Summary.Same)
	for _, c := range changes {
		if c.Operation == v1alpha1.ChangeSame && !plans.Bookkeeping(c.Type, c.Name) {
			same-- // New counts these itself
		}
	}
	for _, urn := range slices.Sorted(maps.Keys(merge(p.first, p.second))) {
		properties, outputs := p.differences(urn)
		if len(properties) > 0 {
			changes, same = attach(changes, same, string(urn), properties, false)
		}
		if len(outputs) > 0 {
			changes, same = attach(changes, same, string(urn), outputs, true)
		}
	}
	return plans.New(changes, same), nil
}

// attach names what differs at the change of a resource, and lists one that was not listed.
func attach(changes []v1alpha1.ResourceChange, same int, urn string, paths []string, outputs bool) ([]v1alpha1.ResourceChange, int) {
	for i := range paths {
		paths[i] = redact.Shorten(redact.Printable(paths[i]), maxPath)
	}
	rec := &record{urn: urn}
	entry := rec.change(v1alpha1.ChangeSame, nil, nil)
	for i := range changes {
		c := &changes[i]
		if c.URN != entry.URN || (c.Operation == v1alpha1.ChangeOutputs) != outputs || c.Operation == v1alpha1.ChangeRefresh {
			continue
		}
		c.Unstable = paths
		return changes, same
	}
	entry.Unstable = paths
	if !plans.Bookkeeping(entry.Type, entry.Name) {
		same = max(0, same-1)
	}
	return append(changes, entry), same
}

// probe compares two plans.
type probe struct {
	first, second map[resource.URN]apitype.ResourcePlanV1
	// pinned are names of the second plan that come from its seed, with those of the first; names puts the ones in the others' place.
	pinned map[string]string
	names  *strings.Replacer
}

func merge[K comparable, V any](a, b map[K]V) map[K]V {
	out := maps.Clone(a)
	if out == nil {
		out = map[K]V{}
	}
	maps.Copy(out, b)
	return out
}

// pinNames finds the names that were made from the seeds.
func (p *probe) pinNames() {
	for urn, a := range p.first {
		b, both := p.second[urn]
		if !both || a.Goal == nil || b.Goal == nil || len(a.Seed) == 0 || bytes.Equal(a.Seed, b.Seed) {
			continue
		}
		was, is := merged(a.Goal.InputDiff.Adds, a.Goal.InputDiff.Updates), merged(b.Goal.InputDiff.Adds, b.Goal.InputDiff.Updates)
		texts(was, is, func(x, y string) {
			if seeded(x, a.Seed, y, b.Seed) {
				p.pinned[y] = x
			}
		})
	}
	// The longer ones first: one may be the beginning of another.
	byLength := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) }
	var pairs []string
	for _, is := range slices.SortedFunc(maps.Keys(p.pinned), byLength) {
		pairs = append(pairs, is, p.pinned[is])
	}
	p.names = strings.NewReplacer(pairs...)
}

// texts calls found with the different texts at the same place of two values.
func texts(a, b any, found func(x, y string)) {
	switch b := b.(type) {
	case string:
		if x, ok := a.(string); ok && x != b {
			found(x, b)
		}
	case map[string]any:
		if am, ok := a.(map[string]any); ok && !redact.IsMarked(b) {
			for k, v := range b {
				texts(am[k], v, found)
			}
		}
	case []any:
		if as, ok := a.([]any); ok && len(as) == len(b) {
			for i, v := range b {
				texts(as[i], v, found)
			}
		}
	}
}

// charsets are those that names are made of, by providers that use Pulumi's own maker of names.
var charsets = [][]rune{nil, []rune("0123456789"), []rune("abcdefghijklmnopqrstuvwxyz"), []rune("0123456789abcdefghijklmnopqrstuvwxyz"),
	[]rune("abcdefghijklmnopqrstuvwxyz0123456789")}

// maxSuffix is how long the made part of a name may be.
const maxSuffix = 32

// seeded tells whether two texts are one beginning with what Pulumi makes of one seed and of the other. That is not guessed:
// it is made again.
func seeded(a string, seedA []byte, b string, seedB []byte) bool {
	if len(a) != len(b) {
		return false
	}
	shared := 0
	for shared < len(a) && a[shared] == b[shared] {
		shared++
	}
	for at := max(0, len(a)-maxSuffix); at <= shared && at < len(a); at++ {
		for _, charset := range charsets {
			x, errA := resource.NewUniqueName(seedA, a[:at], len(a)-at, 0, charset)
			y, errB := resource.NewUniqueName(seedB, b[:at], len(b)-at, 0, charset)
			if errA == nil && errB == nil && x == a && y == b {
				return true
			}
		}
	}
	return false
}

// differences are the paths of what an apply would be held to and that differs, and those of the stack's outputs.
func (p *probe) differences(urn resource.URN) (properties, outputs []string) {
	a, inFirst := p.first[urn]
	b, inSecond := p.second[urn]
	if inFirst != inSecond || (a.Goal == nil) != (b.Goal == nil) {
		return []string{pathExists}, nil
	}
	if !sameSet(a.Steps, b.Steps) {
		properties = append(properties, pathSteps)
	}
	if a.Goal == nil {
		return properties, nil
	}
	properties = append(properties, goalOptions(a.Goal, b.Goal)...)
	properties = append(properties, p.diffs(a.Goal.InputDiff, b.Goal.InputDiff)...)
	if typ, _ := typeAndName(string(urn)); typ == stackType {
		outputs = p.diffs(a.Goal.OutputDiff, b.Goal.OutputDiff)
	}
	return properties, outputs
}

// goalOptions are the options of a resource that differ, of those that an apply is held to.
func goalOptions(a, b *apitype.GoalV1) []string {
	var found []string
	add := func(name string, same bool) {
		if !same {
			found = append(found, "("+name+")")
		}
	}
	add("provider", providerURN(a.Provider) == providerURN(b.Provider))
	add("parent", a.Parent == b.Parent)
	add("protect", a.Protect == b.Protect)
	add("deleteBeforeReplace", reflect.DeepEqual(a.DeleteBeforeReplace, b.DeleteBeforeReplace))
	add("import", a.ID == b.ID)
	add("customTimeouts", a.CustomTimeouts == b.CustomTimeouts)
	add("ignoreChanges", sameSet(a.IgnoreChanges, b.IgnoreChanges))
	add("additionalSecretOutputs", sameSet(a.AdditionalSecretOutputs, b.AdditionalSecretOutputs))
	add("dependsOn", sameSet(a.Dependencies, b.Dependencies))
	add("aliases", sameSet(a.AliasURNs, b.AliasURNs) && len(a.Aliases) == len(b.Aliases))
	for k, urns := range a.PropertyDependencies {
		if others, ok := b.PropertyDependencies[k]; ok && !sameSet(urns, others) && !slices.Contains(found, "(dependsOn)") {
			add("dependsOn", false)
		}
	}
	return found
}

// providerURN is a provider's reference without its id, which is made up when the provider does not exist yet.
func providerURN(reference string) string {
	if at := strings.LastIndex(reference, "::"); at > 0 {
		return reference[:at]
	}
	return reference
}

func sameSet[T ~string](a, b []T) bool {
	norm := func(list []T) []T {
		list = slices.Clone(list)
		slices.Sort(list)
		return slices.Compact(list)
	}
	return slices.Equal(norm(a), norm(b))
}

// diffs compares what two plans say of the inputs, or of the outputs. Whether one is added or updated does not matter.
func (p *probe) diffs(a, b apitype.PlanDiffV1) []string {
	was, is := merged(a.Adds, a.Updates), merged(b.Adds, b.Updates)
	var found []string
	add := func(path string) { found = append(found, path) }
	for _, k := range sortedKeys(was, is) {
		if internal(k) {
			continue
		}
		old, hasOld := was[k]
		now, hasNow := is[k]
		if hasOld != hasNow {
			if !redact.IsUnknown(old) { // an unknown one may come to nothing
				add(join("", k))
			}
			continue
		}
		p.walk(join("", k), old, now, add)
	}
	for _, k := range union(a.Deletes, b.Deletes) {
		if slices.Contains(a.Deletes, k) != slices.Contains(b.Deletes, k) && !slices.Contains(found, join("", k)) && !internal(k) {
			add(join("", k))
		}
	}
	slices.Sort(found)
	return found
}

// walk finds where two values differ.
func (p *probe) walk(path string, a, b any, found func(string)) { //nolint:gocyclo // one case a kind of event, or of what two values are
	if redact.IsUnknown(a) || p.equal(a, b) {
		return
	}
	am, aMap := a.(map[string]any)
	bm, bMap := b.(map[string]any)
	if aMap && bMap && !redact.IsMarked(a) && !redact.IsMarked(b) {
		for _, k := range sortedKeys(am, bm) {
			old, hasOld := am[k]
			now, hasNow := bm[k]
			switch {
			case internal(k):
			case hasOld != hasNow:
				found(join(path, k))
			default:
				p.walk(join(path, k), old, now, found)
			}
		}
		return
	}
	as, aList := a.([]any)
	bs, bList := b.([]any)
	if aList && bList && len(as) == len(bs) && !p.sameElements(as, bs) {
		for i := range as {
			p.walk(path+"["+strconv.Itoa(i)+"]", as[i], bs[i], found)
		}
		return
	}
	if uncompared(b) {
		path = secretPrefix + path
	}
	found(path)
}

// sameElements tells whether two lists differ in their order alone: that is told of the list and not of each element.
func (p *probe) sameElements(a, b []any) bool {
	keys := func(list []any) []string {
		out := make([]string, 0, len(list))
		for _, v := range list {
			raw, err := json.Marshal(p.asFirst(v))
			if err != nil {
				return nil
			}
			out = append(out, string(raw))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(keys(a), keys(b))
}

func (p *probe) equal(a, b any) bool { return reflect.DeepEqual(a, p.asFirst(b)) }

// asFirst puts the names of the first plan in the place of those that the second one's seeds have made.
func (p *probe) asFirst(v any) any {
	if len(p.pinned) == 0 {
		return v
	}
	switch v := v.(type) {
	case string:
		return p.names.Replace(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = p.asFirst(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = p.asFirst(e)
		}
		return out
	}
	return v
}

// uncompared tells whether a value is a secret that could not be decrypted.
func uncompared(v any) bool {
	m, ok := v.(map[string]any)
	return ok && redact.IsSecret(v) && m["ciphertext"] == uncomparedMark
}
