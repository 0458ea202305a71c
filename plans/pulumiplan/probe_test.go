// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plangate/plangate/plans"
)

const (
	fileURN   = "urn:pulumi:s1::demo::files:index:File::one"
	secretURN = "urn:pulumi:s1::demo::files:index:File::secret"
	stackURN  = "urn:pulumi:s1::demo::pulumi:pulumi:Stack::demo-s1"
)

// probed is a plan file, to be changed.
type probed map[string]any

func (p probed) at(urn string, path ...string) map[string]any {
	m := p["resourcePlans"].(map[string]any)[urn].(map[string]any)
	for _, k := range path {
		if m[k] == nil {
			m[k] = map[string]any{}
		}
		m = m[k].(map[string]any)
	}
	return m
}

func (p probed) adds(urn string) map[string]any { return p.at(urn, "goal", "inputDiff", "adds") }

func (p probed) raw(t *testing.T) []byte {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func load(t *testing.T, name string) probed {
	t.Helper()
	var p probed
	if err := json.Unmarshal(read(t, testdata, name, "plan.json"), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// unstable is what a plan says differs, by URN.
func unstable(plan plans.Plan) map[string][]string {
	found := map[string][]string{}
	for _, c := range plan.Changes {
		if len(c.Unstable) > 0 {
			found[c.URN] = append(found[c.URN], c.Unstable...)
		}
	}
	return found
}

func seededName(t *testing.T, seed, prefix string) string {
	t.Helper()
	name, err := resource.NewUniqueName([]byte(seed), prefix, 7, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProbeNamesWhatAnApplyWouldBeRefusedFor(t *testing.T) {
	const unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
	const seedA, seedB = "c2VlZCBh", "c2VlZCBi" // "seed a", "seed b"
	secret := func(ciphertext string) any {
		return map[string]any{"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": ciphertext}
	}
	name := func(p probed, urn, seed, encoded string) string {
		p.at(urn)["seed"] = encoded
		return seededName(t, seed, "one-")
	}
	cases := map[string]struct {
		reason        string
		first, second func(p probed)
		want          map[string][]string
	}{
		"the same": {reason: "nothing differs"},
		"a time stamp": {
			reason: "an apply gets another one", second: func(p probed) { p.adds(fileURN)["content"] = "now" },
			want: map[string][]string{fileURN: {"content"}},
		},
		"a value deep inside": {
			reason: "the path leads there",
			first:  func(p probed) { p.adds(fileURN)["tags"] = map[string]any{"a/b": []any{"x", map[string]any{"at": 1}}} },
			second: func(p probed) { p.adds(fileURN)["tags"] = map[string]any{"a/b": []any{"x", map[string]any{"at": 2}}} },
			want:   map[string][]string{fileURN: {`tags["a/b"][1].at`}},
		},
		"another order": {
			reason: "the list differs, its elements do not",
			first:  func(p probed) { p.adds(fileURN)["list"] = []any{"x", "y"} },
			second: func(p probed) { p.adds(fileURN)["list"] = []any{"y", "x"} },
			want:   map[string][]string{fileURN: {"list"}},
		},
		"another length": {
			reason: "elements cannot be told apart",
			first:  func(p probed) { p.adds(fileURN)["list"] = []any{"x"} },
			second: func(p probed) { p.adds(fileURN)["list"] = []any{"x", "y"} },
			want:   map[string][]string{fileURN: {"list"}},
		},
		"an input that is there once": {
			reason: "an apply may have it or not", second: func(p probed) { p.adds(fileURN)["more"] = true },
			want: map[string][]string{fileURN: {"more"}},
		},
		"what the bridge keeps for itself": {reason: "an apply is not held to it", second: func(p probed) { p.adds(fileURN)["__defaults"] = []any{"x"} }},
		"unknown at the first preview": {
			reason: "any value passes: it is unbound",
			first:  func(p probed) { p.adds(fileURN)["content"] = unknown },
			second: func(p probed) { p.adds(fileURN)["content"] = "known" },
		},
		"a name made from the seed": {
			reason: "the plan holds the seed, and an apply gets it",
			first:  func(p probed) { p.adds(fileURN)["name"] = name(p, fileURN, "seed a", seedA) },
			second: func(p probed) { p.adds(fileURN)["name"] = name(p, fileURN, "seed b", seedB) },
		},
		"what is made of a name that is made from the seed": {
			reason: "it will be that of the first preview too",
			first: func(p probed) {
				p.adds(fileURN)["name"] = name(p, fileURN, "seed a", seedA)
				p.at(stackURN, "goal", "outputDiff", "adds")["url"] = "https://" + name(p, fileURN, "seed a", seedA) + ".example.com"
			},
			second: func(p probed) {
				p.adds(fileURN)["name"] = name(p, fileURN, "seed b", seedB)
				p.at(stackURN, "goal", "outputDiff", "adds")["url"] = "https://" + name(p, fileURN, "seed b", seedB) + ".example.com"
			},
		},
		"a name that looks like one made from the seed": {
			reason: "the program or the provider made it by itself",
			first:  func(p probed) { p.at(fileURN)["seed"] = seedA; p.adds(fileURN)["name"] = "one-0123456" },
			second: func(p probed) { p.at(fileURN)["seed"] = seedB; p.adds(fileURN)["name"] = "one-abcdef0" },
			want:   map[string][]string{fileURN: {"name"}},
		},
		"a secret of another value": {
			reason: "the caller has made those of the same value the same",
			second: func(p probed) { p.adds(secretURN)["content"] = secret("v1:other") },
			want:   map[string][]string{secretURN: {"content"}},
		},
		"a secret that could not be compared": {
			reason: "unknown is said as unknown",
			second: func(p probed) { p.adds(secretURN)["content"] = secret("plangate:uncompared") },
			want:   map[string][]string{secretURN: {"(secret) content"}},
		},
		"another output": {
			reason: "an apply is held to the outputs too, and says nothing when it is refused",
			first:  func(p probed) { p.at(stackURN, "goal", "outputDiff", "adds")["at"] = 1 },
			second: func(p probed) { p.at(stackURN, "goal", "outputDiff", "adds")["at"] = 2 },
			want:   map[string][]string{stackURN: {"at"}},
		},
		"a resource that is there once": {
			reason: "no step was expected for it", second: func(p probed) { delete(p["resourcePlans"].(map[string]any), fileURN) },
			want: map[string][]string{fileURN: {"(exists)"}},
		},
		"a resource that came with the second": {
			reason: "nothing else shows it",
			second: func(p probed) { p["resourcePlans"].(map[string]any)[fileURN+"2"] = p.at(fileURN) },
			want:   map[string][]string{fileURN + "2": {"(exists)"}},
		},
		"other steps and options": {
			reason: "an apply is held to them",
			second: func(p probed) { p.at(fileURN)["steps"] = []any{"same"}; p.at(fileURN, "goal")["protect"] = true },
			want:   map[string][]string{fileURN: {"(steps)", "(protect)"}},
		},
		"a provider that does not exist yet": {
			reason: "its id is made up each time",
			second: func(p probed) {
				g := p.at(fileURN, "goal")
				g["provider"] = strings.Replace(g["provider"].(string), unknown, "11111111-1111-4111-8111-111111111111", 1)
			},
		},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			a, b := load(t, "create"), load(t, "create")
			for p, change := range map[*probed]func(probed){&a: tc.first, &b: tc.second} {
				if change != nil {
					change(*p)
				}
			}
			before, err := Decode(a.raw(t), read(t, testdata, "create", "events.ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := Probe(before, a.raw(t), b.raw(t))
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == nil {
				want = map[string][]string{}
			}
			if diff := cmp.Diff(want, unstable(plan)); diff != "" {
				t.Errorf("Probe(): %s: -want +got\n%s", tc.reason, diff)
			}
			count := 0
			for _, paths := range want {
				count += len(paths)
			}
			if int(plan.Summary.Unstable) != count || plan.Summary.Create != before.Summary.Create || plan.Empty() != before.Empty() {
				t.Errorf("the summary is %+v, and was %+v", plan.Summary, before.Summary)
			}
			if count > 0 && !strings.Contains(plan.Summary.Brief, "unstable") {
				t.Errorf("the brief does not say so: %q", plan.Summary.Brief)
			}
		})
	}
}

func TestProbeOfAPlanWithItselfFindsNothing(t *testing.T) {
	for _, c := range planned(t) {
		t.Run(c.Name, func(t *testing.T) {
			file := read(t, c.Dir, "plan.json")
			plan, err := Decode(file, read(t, c.Dir, "events.ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			probed, err := Probe(plan, file, file)
			if diff := cmp.Diff(plan, probed); err != nil || diff != "" {
				t.Errorf("Probe(): %v, -before +after\n%s", err, diff)
			}
		})
	}
}

func TestProbeRefusesWhatIsNoPlan(t *testing.T) {
	file := read(t, testdata, "create", "plan.json")
	for name, second := range map[string]string{"nothing": "", "no plan": "{}", "cut off": string(file[:len(file)/2])} {
		if _, err := Probe(plans.Plan{}, file, []byte(second)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
