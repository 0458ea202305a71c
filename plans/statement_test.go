// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

func TestNewSpec(t *testing.T) {
	spec := mustSpec(t, specInput())
	again := mustSpec(t, specInput())
	if diff := cmp.Diff(spec, again); diff != "" {
		t.Errorf("NewSpec() twice: -first +second\n%s", diff)
	}
	if err := CheckSpec("team-a", &spec); err != nil {
		t.Errorf("CheckSpec() of a new spec: %v", err)
	}
	if got, want := PlanName("web", 7, spec.Digest), "web-7-"+spec.Digest[7:15]; got != want {
		t.Errorf("PlanName() = %q, want %q", got, want)
	}
	s, err := Parse(spec.Statement)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Predicate.NotAfter; got != "2026-12-01T11:00:00Z" {
		t.Errorf("notAfter = %q: not the same time in UTC and whole seconds", got)
	}
	if got := s.Subject[0]; got.Name != "pulumi-plan" || got.Digest.SHA256 != hexes("5", 64) {
		t.Errorf("subject = %+v", got)
	}
}

// TestSpecThroughAPIServer shows that a spec survives being written and read as JSON.
func TestSpecThroughAPIServer(t *testing.T) {
	spec := mustSpec(t, specInput())
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.UpdatePlanSpec
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if err := CheckSpec("team-a", &back); err != nil {
		t.Errorf("CheckSpec() after JSON: %v", err)
	}
}

// TestCheckSpecFindsTampering changes every single value in a spec.
func TestCheckSpecFindsTampering(t *testing.T) {
	spec := mustSpec(t, specInput())
	count := 0
	eachChange(t, "spec", reflect.ValueOf(&spec).Elem(), func(path string) {
		count++
		if err := CheckSpec("team-a", &spec); err == nil {
			t.Errorf("CheckSpec() did not find that %s was changed", path)
		}
	})
	if err := CheckSpec("team-b", &spec); err == nil {
		t.Error("CheckSpec() did not find that the plan is in another namespace")
	}
	if err := CheckSpec("team-a", &spec); err != nil || count < 50 {
		t.Fatalf("the test is broken: %d changes, then %v", count, err)
	}
}

// TestCheckSpecWithHonestDigest is a forger who makes a new digest too: a statement that says something else than the spec.
func TestCheckSpecWithHonestDigest(t *testing.T) {
	honest := mustSpec(t, specInput())
	in := specInput()
	in.Plan = New(nil, 4)
	other := mustSpec(t, in)
	forged := honest
	forged.Statement, forged.Digest = other.Statement, other.Digest
	err := CheckSpec("team-a", &forged)
	if err == nil || !strings.Contains(err.Error(), "changes: not what the statement says") {
		t.Errorf("CheckSpec() = %v, want it to name the changes", err)
	}
}

// TestStatementBindsEverything changes every single value of a statement's input: each gives another digest or none.
func TestStatementBindsEverything(t *testing.T) {
	spec := mustSpec(t, specInput())
	in := statementInput(&spec, "team-a", "cluster", hexes("a", 32), StateChanges(spec.Changes, spec.Changes, ""))
	base, err := NewStatement(in)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{Digest(base): "unchanged"}
	eachChange(t, "input", reflect.ValueOf(&in).Elem(), func(path string) {
		s, err := NewStatement(in)
		if err != nil {
			return
		}
		if twin, ok := seen[Digest(s)]; ok {
			t.Errorf("changing %s gives the digest of %s", path, twin)
		}
		seen[Digest(s)] = path
	})
	if len(seen) < 20 {
		t.Errorf("only %d changes gave a statement", len(seen))
	}
}

func TestNewStatementRefuses(t *testing.T) {
	for name, change := range map[string]func(*SpecInput){
		"no namespace":                  func(in *SpecInput) { in.Namespace = "" },
		"no cluster":                    func(in *SpecInput) { in.Cluster = "" },
		"a short nonce":                 func(in *SpecInput) { in.Nonce = "abc" },
		"no commit":                     func(in *SpecInput) { in.Binding.Revision = "" },
		"a branch for a commit":         func(in *SpecInput) { in.Binding.Revision = "main" },
		"no digest of the state":        func(in *SpecInput) { in.Binding.StateDigest = "" },
		"no digest of the plan file":    func(in *SpecInput) { in.Artifact.Digest = "" },
		"no chunks":                     func(in *SpecInput) { in.Artifact.Chunks = nil },
		"sequence 0":                    func(in *SpecInput) { in.Sequence = 0 },
		"a ConfigMap that nobody needs": func(in *SpecInput) { in.ChangesConfigMap = "web-changes" },
		"invalid UTF-8":                 func(in *SpecInput) { in.Stack.Name = "a\xff" },
		"a statement that is too long":  func(in *SpecInput) { in.Binding.Directory = strings.Repeat("d", MaxStatement) },
	} {
		t.Run(name, func(t *testing.T) {
			in := specInput()
			change(&in)
			if spec, err := NewSpec(in); err == nil {
				t.Errorf("NewSpec() = %s, want an error", spec.Statement)
			}
		})
	}
}

func TestParseIsStrict(t *testing.T) {
	valid := mustSpec(t, specInput()).Statement
	replace := func(old, now string) string {
		if !strings.Contains(valid, old) {
			t.Fatalf("the test is broken: no %q in %s", old, valid)
		}
		return strings.Replace(valid, old, now, 1)
	}
	for name, s := range map[string]string{
		"empty":                 "",
		"no JSON":               "sha256",
		"null":                  "null",
		"an array":              "[" + valid + "]",
		"an unknown field":      replace(`"sequence":7`, `"sequence":7,"extra":1`),
		"a repeated field":      replace(`"sequence":7`, `"sequence":8,"sequence":7`),
		"another spelling":      replace(`"sequence"`, `"Sequence"`),
		"a missing field":       replace(`"sequence":7,`, ``),
		"trailing data":         valid + "{}",
		"a trailing newline":    valid + "\n",
		"a leading blank":       " " + valid,
		"white space inside":    replace(`"sequence":7`, `"sequence": 7`),
		"an escaped character":  replace(`"namespace":"team-a"`, `"namespace":"team\u002da"`),
		"a number as a string":  replace(`"sequence":7`, `"sequence":"7"`),
		"a fraction":            replace(`"sequence":7`, `"sequence":7.0`),
		"null for a text":       replace(`"namespace":"team-a"`, `"namespace":null`),
		"another predicateType": replace(PredicateType, "https://plangate.dev/Other/v1"),
		"another _type":         replace(StatementType, "https://in-toto.io/Statement/v0.1"),
		"two subjects":          replace(`"subject":[{`, `"subject":[{"name":"pulumi-plan","digest":{"sha256":"`+hexes("9", 64)+`"}},{`),
		"an upper-case digest":  replace(hexes("5", 64), hexes("A", 64)),
		"another time zone":     replace("2026-12-01T11:00:00Z", "2026-12-01T12:00:00+01:00"),
		"invalid UTF-8":         replace("team-a", "team-\xff"),
		"a lone surrogate":      replace("team-a", `team-\ud800`),
		"too long":              valid + strings.Repeat(" ", MaxStatement),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Parse(s); err == nil {
				t.Errorf("Parse() = %+v, want an error", got)
			}
		})
	}
}

// FuzzParse: Parse never panics, and what it takes it takes as the one form that is written.
func FuzzParse(f *testing.F) {
	f.Add(mustSpec(f, specInput()).Statement)
	f.Add(`{"_type":"https://in-toto.io/Statement/v1"}`)
	f.Fuzz(func(t *testing.T, statement string) {
		s, err := Parse(statement)
		if err != nil {
			return
		}
		if again, err := encode(s); err != nil || again != statement {
			t.Errorf("Parse() took %q, which is written as %q (%v)", statement, again, err)
		}
	})
}

// FuzzCheckSpec: whatever statement a spec has, it passes only when the spec is what the statement says.
func FuzzCheckSpec(f *testing.F) {
	valid := mustSpec(f, specInput())
	f.Add(valid.Statement, valid.Binding.Revision, valid.Sequence)
	f.Fuzz(func(t *testing.T, statement, revision string, sequence int64) {
		spec := valid
		spec.Statement, spec.Digest, spec.Binding.Revision, spec.Sequence = statement, Digest(statement), revision, sequence
		if CheckSpec("team-a", &spec) == nil && (statement != valid.Statement && revision == valid.Binding.Revision && sequence == valid.Sequence && !strings.Contains(statement, `"nonce"`)) {
			t.Errorf("CheckSpec() took %q", statement)
		}
		if CheckSpec("team-a", &spec) == nil && statement == valid.Statement && (revision != valid.Binding.Revision || sequence != valid.Sequence) {
			t.Errorf("CheckSpec() took revision %q, sequence %d", revision, sequence)
		}
	})
}

func TestNonce(t *testing.T) {
	key, other := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	n := Nonce(key, "op-1")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(n) {
		t.Errorf("Nonce() = %q, want 32 hex digits", n)
	}
	if n != Nonce(key, "op-1") || n == Nonce(key, "op-2") || n == Nonce(other, "op-1") {
		t.Error("Nonce() is not a function of key and operation alone, or not of both")
	}
}
