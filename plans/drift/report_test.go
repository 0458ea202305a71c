// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/plans/drift"
)

type tree = map[string]any

// file is a resource that was read, and of which the provider says what differs.
func file(left, live tree, differs ...string) drift.Resource {
	return drift.Resource{
		URN: "urn:pulumi:s::p::files:index:File::a", Type: "files:index:File", Name: "a", Known: true, Read: true, Judged: true,
		State: &drift.Values{Inputs: left, Outputs: left}, Live: &drift.Values{Inputs: live, Outputs: live}, Differs: differs, Step: "update",
	}
}

func with(r drift.Resource, change func(*drift.Resource)) drift.Resource {
	change(&r)
	return r
}

func build(resources ...drift.Resource) drift.Report {
	return drift.Build(drift.Reading{Resources: resources, Ended: true})
}

func TestAClassIsGivenByWhatCounts(t *testing.T) {
	t.Parallel()
	secret := tree{"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}
	cases := map[string]struct {
		reason   string
		resource drift.Resource
		class    drift.Class
		kind     drift.PropertyKind
	}{
		"nothing differs":           {"equal trees", file(tree{"x": "1"}, tree{"x": "1"}), drift.None, ""},
		"what the provider names":   {"its word counts", file(tree{"x": "1"}, tree{"x": "2"}, "x"), drift.Changed, drift.Moved},
		"what it does not name":     {"somebody wrote it, but applying would leave it", file(tree{"x": "1"}, tree{"x": "2"}), drift.Noise, drift.Unmanaged},
		"a field of a named object": {"the provider may name the whole", file(tree{"x": tree{"y": "1"}}, tree{"x": tree{"y": "2"}}, "x"), drift.Changed, drift.Moved},
		"an ignored path": {"the program says so", with(file(tree{"x": "1"}, tree{"x": "2"}), func(r *drift.Resource) { r.Ignored = []string{"x"} }),
			drift.Noise, drift.Ignored},
		"a status": {"controllers write it", file(tree{"status": tree{"ready": "1"}}, tree{"status": tree{"ready": "2"}}), drift.Noise, drift.ServerSet},
		"a resource version": {"the server counts it up", file(tree{"metadata": tree{"resourceVersion": "1"}}, tree{"metadata": tree{"resourceVersion": "2"}}),
			drift.Noise, drift.ServerSet},
		"a time stamp of the server's": {"one point in time after another, in an output", with(file(nil, nil), func(r *drift.Resource) {
			r.State.Outputs, r.Live.Outputs = tree{"x": "2026-01-01T00:00:00Z"}, tree{"x": "2026-01-02T00:00:00Z"}
		}), drift.Noise, drift.ServerSet},
		"a computed output": {"no input has it", with(file(nil, nil), func(r *drift.Resource) {
			r.State.Outputs, r.Live.Outputs = tree{"size": 1}, tree{"size": 2}
		}), drift.Noise, drift.Computed},
		"what a newer provider tells": {"it is not there on the one side", with(file(nil, nil), func(r *drift.Resource) {
			r.State.Outputs, r.Live.Outputs, r.Upgrade = tree{}, tree{"tier": "gold"}, "files 1 → 2"
		}), drift.Noise, drift.Upgraded},
		"a provider without an opinion, and nothing to do": {"the program needs nothing done", with(file(tree{"x": "1"}, tree{"x": "2"}), func(r *drift.Resource) {
			r.Judged, r.Step = false, "same"
		}), drift.Noise, drift.Moved},
		"a provider without an opinion": {"it may be all that there is to see", with(file(tree{"x": "1"}, tree{"x": "2"}), func(r *drift.Resource) { r.Judged = false }),
			drift.Changed, drift.Moved},
		"it is gone":                {"no live values", with(file(tree{"x": "1"}, nil), func(r *drift.Resource) { r.Live = nil }), drift.Deleted, ""},
		"a secret that cannot show": {"the provider knows", file(tree{"x": secret}, tree{"x": secret}, "x"), drift.Changed, drift.Moved},
		"a new one of the program":  {"it is in no state: not drift", drift.Resource{URN: "u", Step: "create", Wanted: tree{"x": "1"}}, drift.None, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := build(tc.resource)
			if report.Class != tc.class {
				t.Fatalf("%s: class %s, want %s\n%s", tc.reason, report.Class, tc.class, strings.Join(report.Lines(), "\n"))
			}
			var kind drift.PropertyKind
			if len(report.Resources) > 0 && len(report.Resources[0].Properties) > 0 {
				kind = report.Resources[0].Properties[0].Kind
			}
			if kind != tc.kind {
				t.Errorf("%s: kind %q, want %q", tc.reason, kind, tc.kind)
			}
		})
	}
}

func TestObstaclesAreTheMostSeriousAndCarryTheirTextAndAWayOut(t *testing.T) {
	t.Parallel()
	stuck := func(o drift.Obstacle, r drift.Resource) drift.Report {
		o.URN = r.URN
		return drift.Build(drift.Reading{Resources: []drift.Resource{r}, Obstacles: []drift.Obstacle{o}})
	}
	unread := with(file(nil, nil), func(r *drift.Resource) { r.Read, r.Live = false, nil })
	cases := map[string]struct {
		report drift.Report
		class  drift.Class
		words  string
	}{
		"not readable": {stuck(drift.Obstacle{Kind: drift.ObstacleForbidden, Reading: true, Text: "403"}, unread), drift.Unreadable, "give the workspace's credentials"},
		"a conflict while reading": {stuck(drift.Obstacle{Kind: drift.ObstacleConflict, Reading: true, Text: "field conflict", Fields: []string{"spec.replicas"}, Writer: "kubectl"}, unread),
			drift.Conflict, "another manager owns what Pulumi manages by kubectl"},
		"a conflict in the preview":      {stuck(drift.Obstacle{Kind: drift.ObstacleConflict, Text: "field conflict"}, file(tree{"x": "1"}, tree{"x": "2"}, "x")), drift.Conflict, "patchForce"},
		"a preview that fails otherwise": {stuck(drift.Obstacle{Kind: drift.ObstacleFailed, Text: "boom"}, file(tree{"x": "1"}, tree{"x": "2"}, "x")), drift.Changed, "The preview failed at a: boom"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Join(tc.report.Lines(), "\n")
			if tc.report.Class != tc.class || !strings.Contains(text, tc.words) {
				t.Errorf("class %s, want %s, with %q in\n%s", tc.report.Class, tc.class, tc.words, text)
			}
		})
	}
}

func TestDirectionsAreThoseOfAPerson(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		left, live, wanted tree
		want               string
	}{
		"changed":                        {tree{"x": "left"}, tree{"x": "live"}, tree{"x": "left"}, `x was changed from "left" to "live"`},
		"added":                          {tree{}, tree{"x": "live"}, tree{}, `x was added: "live"`},
		"removed":                        {tree{"x": "left"}, tree{}, tree{"x": "left"}, `x was removed; it was "left"`},
		"wanted otherwise by now":        {tree{"x": "left"}, tree{"x": "live"}, tree{"x": "new"}, `x was changed from "left" to "live"; the program wants "new" by now`},
		"what the program wants now":     {tree{"x": "left"}, tree{"x": "live"}, tree{"x": "live"}, `x was changed from "left" to "live", which is what the program wants by now`},
		"of a key that is no plain word": {tree{`a"b`: "1"}, tree{`a"b`: "2"}, nil, `["a\"b"] was changed from "1" to "2"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "x"
			if _, odd := tc.left[`a"b`]; odd {
				path = `["a\"b"]`
			}
			r := with(file(tc.left, tc.live, path), func(r *drift.Resource) { r.Wanted = tc.wanted })
			if got := build(r).Resources[0].Properties[0].Words(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTheDigestMovesWithWhatCountsAndWithNothingElse(t *testing.T) {
	t.Parallel()
	base := file(tree{"x": "1", "y": "1"}, tree{"x": "2", "y": "1"}, "x")
	of := func(change func(*drift.Resource)) string { return build(with(base, change)).Digest }
	want := build(base).Digest
	same := map[string]func(*drift.Resource){
		"noise": func(r *drift.Resource) {
			r.Live = &drift.Values{Inputs: tree{"x": "2", "y": "1"}, Outputs: tree{"x": "2", "y": "1", "status": "new"}}
		},
		"another step": func(r *drift.Resource) { r.Step = "" },
		"another wish": func(r *drift.Resource) { r.Wanted = tree{"x": "3"} },
		"another value in the state": func(r *drift.Resource) {
			r.State = &drift.Values{Inputs: tree{"x": "0", "y": "1"}, Outputs: tree{"x": "0", "y": "1"}}
		},
	}
	for name, change := range same {
		if got := of(change); got != want {
			t.Errorf("%s: the digest moved", name)
		}
	}
	long := strings.Repeat("x", 5000)
	tail := func(end string) string {
		v := tree{"x": long + end + long}
		return of(func(r *drift.Resource) { r.Live = &drift.Values{Inputs: v, Outputs: v} })
	}
	if tail("a") == tail("b") {
		t.Error("two long values that differ in the middle have one digest")
	}
	moved := map[string]func(*drift.Resource){
		"another live value": func(r *drift.Resource) {
			r.Live = &drift.Values{Inputs: tree{"x": "3", "y": "1"}, Outputs: tree{"x": "3", "y": "1"}}
		},
		"one property more": func(r *drift.Resource) {
			r.Differs = []string{"x", "y"}
			r.Live = &drift.Values{Inputs: tree{"x": "2", "y": "2"}, Outputs: tree{"x": "2", "y": "2"}}
		},
		"deleted":          func(r *drift.Resource) { r.Live = nil },
		"another resource": func(r *drift.Resource) { r.URN += "b" },
		"back as it was":   func(r *drift.Resource) { r.Live, r.Differs = r.State, nil },
	}
	for name, change := range moved {
		if got := of(change); got == want {
			t.Errorf("%s: the digest stayed", name)
		}
	}
}

func TestASecretIsShownNowhere(t *testing.T) {
	t.Parallel()
	secret := tree{"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}
	r := file(nil, nil, "password")
	r.State = &drift.Values{Inputs: tree{"password": secret}, Outputs: tree{"password": secret, "hash": "canary-left"}}
	r.Live = &drift.Values{Inputs: tree{"password": "canary-live"}, Outputs: tree{"password": "canary-live", "hash": "canary-hash"}}
	r.Wanted = tree{"password": secret}
	report := build(r)
	text := strings.Join(append(report.Lines(), report.Fields()...), "\n")
	list, err := report.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if text += string(list); strings.Contains(text, "canary") {
		t.Errorf("%s", text)
	}
	masked := build(file(tree{"x": "1"}, tree{"x": "the canary-live value"}, "x")).Masked([]string{"canary-live"})
	if text := strings.Join(masked.Lines(), "\n"); strings.Contains(text, "canary") || !strings.Contains(text, "[secret]") {
		t.Errorf("%s", text)
	}
}

func TestWhoWroteLastIsToldByTheManagedFields(t *testing.T) {
	t.Parallel()
	left := tree{"spec": tree{"replicas": "1"}}
	live := tree{"spec": tree{"replicas": "3"}, "metadata": tree{"managedFields": []any{
		tree{"manager": "pulumi-kubernetes-1", "time": "2026-01-03T00:00:00Z", "fieldsV1": tree{"f:spec": tree{"f:replicas": tree{}}}},
		tree{"manager": "older", "time": "2026-01-01T00:00:00Z", "fieldsV1": tree{"f:spec": tree{"f:replicas": tree{}}}},
		tree{"manager": "autoscaler", "time": "2026-01-02T00:00:00Z", "fieldsV1": tree{"f:spec": tree{"f:replicas": tree{}}}},
		tree{"manager": "another", "time": "2026-01-02T12:00:00Z", "fieldsV1": tree{"f:metadata": tree{"f:labels": tree{}}}},
	}}}
	if got := build(file(left, live, "spec.replicas")).Resources[0].Writer; got != "autoscaler" {
		t.Errorf("the writer is %q", got)
	}
}

func TestTheListOfWhatIsAcceptedIsReadBackAsItWasAndNothingElseIs(t *testing.T) {
	t.Parallel()
	report := build(file(tree{"x": "1"}, tree{"x": "2"}, "x"))
	text, err := report.Accept()
	if err != nil {
		t.Fatal(err)
	}
	list, err := drift.ParseAcceptance(text)
	if err != nil {
		t.Fatal(err)
	}
	want := drift.Acceptance{Digest: report.Digest, Resources: []drift.Accepted{{URN: report.Resources[0].URN, Sum: report.Sums()[report.Resources[0].URN]}}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := build(file(tree{"x": "1"}, tree{"x": "1"})).Accept(); err == nil {
		t.Error("nothing can be accepted")
	}
	for _, text := range []string{``, `{}`, `{"digest":"x","resources":[],"more":1}`, `[]`} {
		if _, err := drift.ParseAcceptance([]byte(text)); err == nil {
			t.Errorf("%q is a list", text)
		}
	}
}
