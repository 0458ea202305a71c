// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/sig"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

const (
	urn     = "urn:pulumi:s::p::files:index:File::one"
	secret  = `{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","ciphertext":"[secret]"}`
	unknown = `"04da6b54-80e4-46f7-96ec-b56ff0331ba9"`
)

// step is an event of one step. old and now are JSON objects of state metadata without urn; empty: null.
func step(op, old, now, extra string) string {
	state := func(s string) string {
		if s == "" {
			return "null"
		}
		return fmt.Sprintf(`{"type":"files:index:File","urn":%q,"custom":true,"id":"id","parent":"","provider":"",%s}`, urn, s)
	}
	if extra == "" {
		extra = `"detailedDiff":null`
	}
	return fmt.Sprintf(`{"sequence":1,"resOutputsEvent":{"metadata":{"op":%q,"urn":%q,"type":"files:index:File","old":%s,"new":%s,"provider":"",%s},"planning":true}}`,
		op, urn, state(old), state(now), extra)
}

const end = `{"sequence":9,"summaryEvent":{"result":"succeeded"}}`

// planOf is a plan file with the steps of one resource.
func planOf(goal string, steps ...string) string {
	b, _ := json.Marshal(steps)
	if goal == "" {
		goal = `"inputDiff":{},"outputDiff":{}`
	}
	return fmt.Sprintf(`{"manifest":{"time":"2026-01-01T00:00:00Z","magic":"","version":"v3.276.0"},"resourcePlans":{%q:{"goal":{"type":"files:index:File","name":"one","custom":true,"protect":false,%s},"steps":%s,"state":{}}}}`, urn, goal, b)
}

// show writes changes in short: "Update content: "a" → "b" !".
func show(changes []v1alpha1.ResourceChange) []string {
	var lines []string
	text := func(s *string) string {
		if s == nil {
			return "∅"
		}
		return *s
	}
	for _, c := range changes {
		line := string(c.Operation)
		for _, p := range c.Properties {
			line += fmt.Sprintf(" | %s: %s → %s", p.Path, text(p.Old), text(p.New))
			if p.Replaces {
				line += " !"
			}
		}
		if len(c.Unbound) > 0 {
			line += " | unbound " + strings.Join(c.Unbound, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

func TestDecode(t *testing.T) {
	detailed := func(path, kind string, inputDiff bool) string {
		return fmt.Sprintf(`"detailedDiff":{%q:{"diffKind":%q,"inputDiff":%t}}`, path, kind, inputDiff)
	}
	for name, tc := range map[string]struct {
		why    string
		plan   string
		events []string
		want   []string
		same   int32
	}{
		"inputs are compared when the provider says nothing": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":1,"b":{"c":"x","d":"y"},"e":[1,2]}`, `"inputs":{"a":1,"b":{"c":"z","d":"y"},"e":[1,3,4]}`, "")},
			want:   []string{`Update | b.c: "x" → "z" | e[1]: 2 → 3 | e[2]: ∅ → 4`},
		},
		"the provider's path is followed": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"spec":{"c":[{"image":"a"}]}}`, `"inputs":{"spec":{"c":[{"image":"b"}]}}`, detailed("spec.c[0].image", "update", true))},
			want:   []string{`Update | spec.c[0].image: "a" → "b"`},
		},
		"drift is told from the state, not from the inputs": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":"want"},"outputs":{"a":"live"}`, `"inputs":{"a":"want"}`, detailed("a", "update", false))},
			want:   []string{`Update | a: "live" → "want"`},
		},
		"odd keys are quoted": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"labels":{"app/name":"a"}}`, `"inputs":{"labels":{"app/name":"b"}}`, detailed(`labels["app/name"]`, "update", true))},
			want:   []string{`Update | labels["app/name"]: "a" → "b"`},
		},
		"an input that the provider does not name is shown too": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":1,"b":1}`, `"inputs":{"a":2,"b":2}`, detailed("a", "update", true))},
			want:   []string{`Update | a: 1 → 2 | b: 1 → 2`},
		},
		"internal properties are not": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":1,"__defaults":[]}`, `"inputs":{"a":2,"__defaults":["x"]}`, "")},
			want:   []string{`Update | a: 1 → 2`},
		},
		"what forces a replacement is marked": {
			plan: planOf("", "create-replacement", "replace", "delete-replaced"),
			events: []string{
				step("create-replacement", `"inputs":{"a":1,"b":1}`, `"inputs":{"a":2,"b":2}`, `"keys":["b"],"detailedDiff":null`),
				step("replace", `"inputs":{"a":1,"b":1}`, `"inputs":{"a":2,"b":2}`, `"keys":["b"],"detailedDiff":null`),
				step("delete-replaced", `"inputs":{"a":1,"b":1}`, "", ""),
			},
			want: []string{`Replace | (id): "id" → ∅ | a: 1 → 2 | b: 1 → 2 !`},
		},
		"a value that becomes secret was one before": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":"canary"}`, `"inputs":{"a":`+secret+`}`, detailed("a", "update", true))},
			want:   []string{`Update | a: [secret] → [secret]`},
		},
		"a value that was secret stays one": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":`+secret+`}`, `"inputs":{"a":"canary"}`, "")},
			want:   []string{`Update | a: [secret] → [secret]`},
		},
		"an output that is secret makes the input one": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":"canary"},"outputs":{"a":`+secret+`}`, `"inputs":{"a":"canary2"}`, "")},
			want:   []string{`Update | a: [secret] → [secret]`},
		},
		"so does the program's word": {
			plan:   planOf(`"inputDiff":{},"outputDiff":{},"additionalSecretOutputs":["a"]`, "update"),
			events: []string{step("update", `"inputs":{"a":"canary"}`, `"inputs":{"a":"canary2"}`, "")},
			want:   []string{`Update | a: [secret] → [secret]`},
		},
		"a computed property beside a secret is masked": {
			why:    "it may be a hash of it",
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"a":`+secret+`},"outputs":{"a":`+secret+`,"hash":"canary1"}`, `"inputs":{"a":`+secret+`},"outputs":{"hash":"canary2"}`, detailed("hash", "update", false))},
			want:   []string{`Update | hash: [secret] → [secret]`},
		},
		"a secret inside is masked, its neighbours are not": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"env":{"a":"x","pw":`+secret+`}}`, `"inputs":{"env":{"a":"y","pw":"canary"}}`, "")},
			want:   []string{`Update | env.a: "x" → "y" | env.pw: [secret] → [secret]`},
		},
		"a secret inside of the outputs makes the input one": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"env":{"a":"x","pw":"canary1"}},"outputs":{"env":{"a":"x","pw":`+secret+`}}`, `"inputs":{"env":{"a":"y","pw":"canary2"}}`, "")},
			want:   []string{`Update | env.a: "x" → "y" | env.pw: [secret] → [secret]`},
		},
		"also when all of it is new": {
			plan:   planOf("", "create"),
			events: []string{step("create", "", `"inputs":{"env":{"a":"y","pw":"canary2"}},"outputs":{"env":{"a":"x","pw":`+secret+`}}`, "")},
			want:   []string{`Create | env.a: ∅ → "y" | env.pw: ∅ → [secret]`},
		},
		"a list with secrets that moved is masked whole": {
			plan:   planOf("", "update"),
			events: []string{step("update", `"inputs":{"l":[`+secret+`]}`, `"inputs":{"l":["x","canary"]}`, "")},
			want:   []string{`Update | l: [secret] → [secret]`},
		},
		"secrets that did not change are not shown": {
			plan:   planOf(`"inputDiff":{"updates":{"b":2}},"outputDiff":{}`, "update"),
			events: []string{step("update", `"inputs":{"a":`+secret+`,"b":1}`, `"inputs":{"a":`+secret+`,"b":2}`, "")},
			want:   []string{`Update | b: 1 → 2`},
		},
		"a secret that the plan says has changed is": {
			plan:   planOf(`"inputDiff":{"updates":{"a":`+secret+`}},"outputDiff":{}`, "update"),
			events: []string{step("update", `"inputs":{"a":`+secret+`}`, `"inputs":{"a":`+secret+`}`, "")},
			want:   []string{`Update | a: [secret] → [secret]`},
		},
		"unknown inputs are named": {
			plan:   planOf("", "create"),
			events: []string{step("create", "", `"inputs":{"a":`+unknown+`,"b":{"c":[1,`+unknown+`]}}`, "")},
			want:   []string{`Create | a: ∅ → [unknown] | b: ∅ → {"c":[1,"[unknown]"]} | unbound a, b.c[1]`},
		},
		"also of a resource that stays": {
			plan:   planOf(`"inputDiff":{"updates":{"a":`+unknown+`}},"outputDiff":{}`, "same"),
			events: []string{step("same", `"inputs":{"a":1}`, `"inputs":{"a":`+unknown+`}`, "")},
			want:   []string{`Same | a: 1 → [unknown] | unbound a`},
		},
		"a resource that stays is counted": {
			plan: planOf("", "same"), events: []string{step("same", `"inputs":{"a":1}`, `"inputs":{"a":1}`, "")}, same: 1,
		},
		"a long object is shown member by member": {
			plan:   planOf("", "create"),
			events: []string{step("create", "", `"inputs":{"o":{"a":"`+strings.Repeat("x", 200)+`","b":1}}`, "")},
			want:   []string{`Create | o.a: ∅ → "` + strings.Repeat("x", 200) + `" | o.b: ∅ → 1`},
		},
		"what an earlier update left behind is deleted": {
			why:    "the resource itself stays",
			plan:   planOf("", "same", "delete-replaced"),
			events: []string{step("same", `"inputs":{"a":1}`, `"inputs":{"a":1}`, ""), step("delete-replaced", `"delete":true,"inputs":{"a":0}`, "", "")},
			want:   []string{`Delete | (id): "id" → ∅ | a: 0 → ∅`},
			same:   1,
		},
		"what is deleted for another's sake has only changed where it has": {
			why:  "the plan file counts all inputs as added; what cannot be compared must show",
			plan: planOf(`"inputDiff":{"adds":{"a":1,"b":2,"n":1,"o":{"x":1,"pw":`+secret+`},"pw":`+secret+`,"t":"a [secret]"}},"outputDiff":{}`, "delete-replaced", "replace", "create-replacement"),
			events: []string{
				step("delete-replaced", `"inputs":{}`, "", ""),
				step("replace", `"inputs":{"a":1,"b":1,"o":{"x":1,"pw":`+secret+`},"pw":`+secret+`,"t":"a [secret]"}`, `"inputs":{"a":1,"b":2,"n":1,"o":{"x":1,"pw":`+secret+`},"pw":`+secret+`,"t":"a [secret]"}`, ""),
				step("create-replacement", `"inputs":{"a":1,"b":1,"o":{"x":1,"pw":`+secret+`},"pw":`+secret+`,"t":"a [secret]"}`, `"inputs":{"a":1,"b":2,"n":1,"o":{"x":1,"pw":`+secret+`},"pw":`+secret+`,"t":"a [secret]"}`, `"keys":["a"],"detailedDiff":null`),
			},
			want: []string{`Replace | (id): "id" → ∅ | (replacedWith): ∅ → ∅ ! | b: 1 → 2 | n: ∅ → 1 | o.pw: [secret] → [secret] | pw: [secret] → [secret] | t: "a [secret]" → "a [secret]"`},
		},
		"also a secret beside what differs": {
			why:  "one difference is no reason to hide another",
			plan: planOf(`"inputDiff":{"adds":{"o":{"x":2,"pw":`+secret+`}}},"outputDiff":{}`, "delete-replaced", "replace"),
			events: []string{
				step("delete-replaced", `"inputs":{}`, "", ""),
				step("replace", `"inputs":{"o":{"x":1,"pw":`+secret+`}}`, `"inputs":{"o":{"x":2,"pw":`+secret+`}}`, ""),
			},
			want: []string{`Replace | (id): "id" → ∅ | (replacedWith): ∅ → ∅ ! | o.pw: [secret] → [secret] | o.x: 1 → 2`},
		},
		"what a provider says has changed is shown, whatever it looks like": {
			why:  "the provider sees more than the events tell",
			plan: planOf("", "delete-replaced", "replace"),
			events: []string{
				step("delete-replaced", `"inputs":{}`, "", ""),
				step("replace", `"inputs":{"a":1}`, `"inputs":{"a":1}`, `"keys":["a"],"diffs":["a"],"detailedDiff":null`),
			},
			want: []string{`Replace | (id): "id" → ∅ | a: 1 → 1 !`},
		},
		"what is replaced on demand is not blamed on another": {
			why:  "the plan file counts from nothing then, too",
			plan: planOf(`"inputDiff":{"adds":{"a":1}},"outputDiff":{}`, "delete-replaced", "replace"),
			events: []string{
				step("delete-replaced", `"inputs":{}`, "", ""),
				step("replace", `"inputs":{"a":1}`, `"inputs":{"a":1}`, `"keys":["id"],"detailedDiff":null`),
			},
			want: []string{`Replace | (id): "id" → ∅`},
		},
		"a step of a later Pulumi": {
			plan: planOf("", "transmogrify"), events: []string{step("transmogrify", `"inputs":{"a":1}`, `"inputs":{"a":2}`, "")},
			want: []string{`Other | a: 1 → 2`},
		},
		"a step that the events do not tell is shown from the plan": {
			plan:   planOf(`"inputDiff":{"adds":{"n":1},"updates":{"a":`+secret+`},"deletes":["d"]},"outputDiff":{}`, "update"),
			events: []string{step("same", `"inputs":{"a":`+secret+`,"d":1}`, `"inputs":{"a":`+secret+`}`, "")},
			want:   []string{`Update | a: [secret] → [secret] | d: 1 → ∅ | n: ∅ → 1`},
		},
		"a deletion too": {
			plan: planOf("", "delete"), want: []string{`Delete`},
		},
		"discarding what was only read": {
			plan: planOf(""), events: []string{step("discard", `"external":true,"inputs":{}`, "", "")}, want: []string{`Remove`},
		},
		"noise that a refresh finds is no drift": {
			why:    "the provider says that it makes no difference",
			plan:   planOf("", "same"),
			events: []string{step("refresh", `"inputs":{"a":1},"outputs":{"a":1,"seen":1}`, `"inputs":{"a":1},"outputs":{"a":1,"seen":2}`, `"detailedDiff":{}`), step("same", `"inputs":{"a":1}`, `"inputs":{"a":1}`, "")},
			same:   1,
		},
		"drift when the provider has no opinion": {
			plan:   planOf("", "same"),
			events: []string{step("refresh", `"inputs":{"a":1},"outputs":{"a":1,"seen":1}`, `"inputs":{"a":1},"outputs":{"a":1,"seen":2}`, ""), step("same", `"inputs":{"a":1}`, `"inputs":{"a":1}`, "")},
			want:   []string{`Refresh | seen: 1 → 2`},
			same:   1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(tc.plan), []byte(strings.Join(append(tc.events, end), "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, show(got.Changes)); diff != "" {
				t.Errorf("Decode(): -want +got\n%s%s", diff, tc.why)
			}
			if got.Summary.Same != tc.same && !strings.HasPrefix(name, "also") {
				t.Errorf("same = %d, want %d", got.Summary.Same, tc.same)
			}
			if b, err := json.Marshal(got); err != nil || strings.Contains(string(b), "canary") {
				t.Errorf("Decode() shows a secret: %s (%v)", b, err)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	update := step("update", `"inputs":{"a":1}`, `"inputs":{"a":2}`, "")
	for name, tc := range map[string]struct{ plan, events, want string }{
		"no plan":                      {"", end, "reading the plan file"},
		"another file":                 {"{}", end, "not a plan"},
		"two plans":                    {planOf("") + planOf(""), end, "data after its end"},
		"a secret without a value":     {planOf(`"inputDiff":{"adds":{"a":{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270"}}},"outputDiff":{}`, "create"), end, "malformed secret"},
		"events that are cut off":      {planOf("", "update"), update, "end before the preview does"},
		"events that are no JSON":      {planOf("", "update"), "warning: x\n" + end, "line 1"},
		"a preview that failed":        {planOf("", "update"), `{"summaryEvent":{"result":"failed"}}`, "the preview failed"},
		"a step that failed":           {planOf("", "update"), `{"resOpFailedEvent":{"metadata":{"op":"update","urn":"u"}}}` + "\n" + end, "failed"},
		"events of another preview":    {planOf("", "delete"), update + "\n" + end, `the plan holds the step "delete"`},
		"a replacement shown as less":  {planOf("", "create-replacement", "replace", "delete-replaced"), update + "\n" + end, "the plan holds the step"},
		"an event of the wrong type":   {planOf("", "update"), `{"resOutputsEvent":[]}` + "\n" + end, "line 1"},
		"a plan with nonsense for URN": {`{"manifest":{"version":"v3"},"resourcePlans":[]}`, end, "reading the plan file"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(tc.plan), []byte(tc.events))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Decode() = %+v, %v; want an error with %q", got, err, tc.want)
			}
		})
	}
}

func TestStrip(t *testing.T) {
	in := `{ "resourcePlans": {"urn:b": {"state": {"pw": "canary"}, "seed": "AA==", "steps": ["update"], "later": {"z": 1, "a": 12345678901234567890.10}},
		"urn:a": {"goal": {"inputDiff": {"adds": {"html": "<&>", "big": 1e400, "state": "kept"}}}}, "urn:c": null},
		"manifest": {"time": "2026-01-01T00:00:00Z", "version": "v3"}, "config": {"p:pw": {"secure": "canary"}}, "future": [1, {"state": 2}] }`
	want := `{"future":[1,{"state":2}],"manifest":{"version":"v3"},"resourcePlans":{"urn:a":{"goal":{"inputDiff":{"adds":{"html":"<&>","big":1e400,"state":"kept"}}}},"urn:b":{"later":{"z":1,"a":12345678901234567890.10},"seed":"AA==","steps":["update"]},"urn:c":null}}`
	got, err := Strip([]byte(in))
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("Strip(): %v, -want +got\n%s", err, diff)
	}
	for _, bad := range []string{"", "[]", "null x", `{"resourcePlans":[]}`, `{"resourcePlans":{"u":[]}}`, `{} {}`} {
		if got, err := Strip([]byte(bad)); err == nil {
			t.Errorf("Strip(%q) = %s, want an error", bad, got)
		}
	}
}

// FuzzDecode: whatever the files hold, Decode returns, within the limits of the API, and shows every step of the plan.
func FuzzDecode(f *testing.F) {
	for _, c := range planned(f) {
		planFile, events := c.Plan(f)
		f.Add(planFile, events)
	}
	f.Add([]byte(planOf("", "transmogrify")), []byte(step("update", `"inputs":{"a":1}`, "", "")+"\n"+end))
	f.Fuzz(func(t *testing.T, planFile, events []byte) {
		plan, err := Decode(planFile, events)
		if err != nil {
			return
		}
		for _, c := range plan.Changes {
			if c.Operation == "" || len(c.Type) > 512 || len(c.Name) > 512 || len(c.URN) > 2048 {
				t.Errorf("the change %+v does not fit the API", c)
			}
			for _, p := range c.Properties {
				if len(p.Path) > 512 || p.Old != nil && len(*p.Old) > 512 || p.New != nil && len(*p.New) > 512 {
					t.Errorf("the property %+v does not fit the API", p)
				}
			}
		}
	})
}

// FuzzStrip: what is stripped is read as the same plan.
func FuzzStrip(f *testing.F) {
	for _, c := range planned(f) {
		planFile, _ := c.Plan(f)
		f.Add(planFile)
	}
	f.Fuzz(func(t *testing.T, planFile []byte) {
		stripped, err := Strip(planFile)
		if err != nil {
			return
		}
		again, err := Strip(stripped)
		if err != nil || !bytes.Equal(again, stripped) {
			t.Errorf("Strip() twice = %s, %v; once %s", again, err, stripped)
		}
	})
}

// TestRedactKnowsPulumisMarks compares the marks that redact repeats with the SDK's own.
func TestRedactKnowsPulumisMarks(t *testing.T) {
	for mark, want := range map[string]string{
		sig.Secret: "[secret]", sig.AssetSig: "[asset]", sig.ArchiveSig: "[archive]", sig.ResourceReference: "[resource ]", sig.OutputValue: "[unknown]", sig.ByteString: "[bytes ]",
	} {
		if got := redact.JSON(map[string]any{sig.Key: mark}, redact.MaxValue); got != want {
			t.Errorf("redact.JSON() of %s = %s, want %s", mark, got, want)
		}
	}
	for _, u := range []string{
		sig.UnknownBoolValue, sig.UnknownNumberValue, sig.UnknownStringValue, sig.UnknownArrayValue, sig.UnknownAssetValue, sig.UnknownArchiveValue, sig.UnknownObjectValue,
	} {
		if !redact.IsUnknown(u) || !sig.IsUnknown(u) {
			t.Errorf("redact does not know the unknown value %s", u)
		}
	}
}
