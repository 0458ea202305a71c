// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

func TestParse(t *testing.T) {
	digest := "sha256:" + hexes("a", 64)
	for name, tc := range map[string]struct {
		in   string
		want word
		err  string
	}{
		"digest":                  {digest, word{digest: digest}, ""},
		"digest and reason":       {digest + " CHG-1: looks good — Zoë", word{digest: digest, reason: "CHG-1: looks good — Zoë"}, ""},
		"nothing":                 {"", word{}, "is empty"},
		"yes":                     {"yes", word{}, "does not begin with a digest"},
		"a prefix":                {digest[:30], word{}, "only a part"},
		"a prefix without sha256": {"aaaaaaaa", word{}, "only a part"},
		"one digit too many":      {digest + "a", word{}, "does not begin"},
		"upper case":              {"sha256:" + hexes("A", 64), word{}, "does not begin"},
		"upper-case algorithm":    {"SHA256:" + hexes("a", 64), word{}, "does not begin"},
		"another algorithm":       {"sha512:" + hexes("a", 64), word{}, "does not begin"},
		"without the algorithm":   {hexes("a", 64), word{}, "does not begin"},
		"a leading blank":         {" " + digest, word{}, "does not begin"},
		"a trailing blank":        {digest + " ", word{}, "ends in a blank"},
		"two blanks":              {digest + "  x", word{}, "begins or ends with a blank"},
		"a blank at the end":      {digest + " x ", word{}, "begins or ends with a blank"},
		"a trailing newline":      {digest + "\n", word{}, "does not begin"},
		"a newline in the reason": {digest + " a\nb", word{}, "cannot be shown"},
		"a tab":                   {digest + "\tx", word{}, "does not begin"},
		"a no-break space":        {digest + "\u00a0x", word{}, "does not begin"},
		"a Cyrillic letter":       {"sha256:" + hexes("a", 63) + "а", word{}, "does not begin"},
		"a full-width digit":      {"sha256:" + hexes("a", 63) + "１", word{}, "does not begin"},
		"a zero-width character":  {digest + " a\u200bb", word{}, "cannot be shown"},
		"writing turned around":   {digest + " a\u202eb", word{}, "cannot be shown"},
		"a terminal escape":       {digest + " a\x1b[2Jb", word{}, "cannot be shown"},
		"invalid UTF-8":           {digest + " a\xffb", word{}, "cannot be shown"},
		"a reason that is a book": {digest + " " + strings.Repeat("x", 513), word{}, "longer than"},
		"two digests":             {digest + "," + digest, word{}, "does not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.in)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("parse(%q): %v, want %q", tc.in, err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(word{})); diff != "" {
				t.Errorf("parse(%q): -want +got\n%s", tc.in, diff)
			}
		})
	}
}

func TestParseStamp(t *testing.T) {
	d := "sha256:" + hexes("a", 64)
	for name, tc := range map[string]struct {
		in   string
		want Stamp
		err  string
	}{
		"a digest and who":                   {d + " by alice@example.com", Stamp{d, "alice@example.com", ""}, ""},
		"a reason":                           {d + " by alice -- CHG-1: looks good — Zoë", Stamp{d, "alice", "CHG-1: looks good — Zoë"}, ""},
		"a reason in words of a record":      {d + " by alice -- ok by bob -- sure", Stamp{d, "alice", "ok by bob -- sure"}, ""},
		"a reason of 512 characters":         {d + " by alice -- " + strings.Repeat("ö", 512), Stamp{d, "alice", strings.Repeat("ö", 512)}, ""},
		"a service account":                  {d + " by system:serviceaccount:a:b", Stamp{d, "system:serviceaccount:a:b", ""}, ""},
		"a digest alone":                     {d, Stamp{}, "does not say who"},
		"nothing":                            {"", Stamp{}, "is empty"},
		"nobody":                             {d + " by ", Stamp{}, "user's name"},
		"nobody, with a reason":              {d + " by  -- x", Stamp{}, "user's name"},
		"two blanks":                         {d + "  by alice", Stamp{}, "does not say who"},
		"other words":                        {d + " from alice", Stamp{}, "does not say who"},
		"a part of a digest":                 {d[:40] + " by alice", Stamp{}, "only a part"},
		"upper case":                         {strings.ToUpper(d) + " by alice", Stamp{}, "does not begin"},
		"a leading blank":                    {" " + d + " by alice", Stamp{}, "does not begin"},
		"a trailing blank":                   {d + " by alice ", Stamp{}, "user's name"},
		"a trailing newline":                 {d + " by alice\n", Stamp{}, "user's name"},
		"a user with a blank":                {d + " by alice bob", Stamp{}, "user's name"},
		"a user with a Cyrillic letter":      {d + " by аlice", Stamp{}, "user's name"},
		"a user with a zero-width character": {d + " by al\u200bice", Stamp{}, "user's name"},
		"a user that turns writing around":   {d + " by \u202eecila", Stamp{}, "user's name"},
		"a user of 254 characters":           {d + " by " + hexes("u", 254), Stamp{}, "user's name"},
		"an empty reason":                    {d + " by alice -- ", Stamp{}, "ends in a blank"},
		"a reason that begins with a blank":  {d + " by alice --  x", Stamp{}, "begins or ends with a blank"},
		"a reason with a newline":            {d + " by alice -- a\nb", Stamp{}, "cannot be shown"},
		"a reason that turns writing around": {d + " by alice -- \u202eok", Stamp{}, "cannot be shown"},
		"a reason with a no-break space":     {d + " by alice -- a\u00a0b", Stamp{}, "cannot be shown"},
		"a reason that is a book":            {d + " by alice -- " + hexes("x", 513), Stamp{}, "longer than 512"},
		"more than anybody reads":            {d + " by alice -- " + hexes("x", 9000), Stamp{}, "longer than 8192"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseStamp(tc.in)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("ParseStamp(%q): %v, want %q", tc.in, err, tc.err)
			}
			if got != tc.want {
				t.Errorf("ParseStamp(%q) = %+v, want %+v", tc.in, got, tc.want)
			}
		})
	}
}

func TestParseKey(t *testing.T) {
	const yes, no = v1alpha1.DecisionApproved, v1alpha1.DecisionRejected
	for annotation, want := range map[string]Key{
		"approve.plangate.dev/alice":                    {yes, "", "alice"},
		"reject.plangate.dev/alice.2":                   {no, "", "alice.2"},
		"approve-security.plangate.dev/x":               {yes, "security", "x"},
		"reject-two-words.plangate.dev/x":               {no, "two-words", "x"},
		"plangate.dev/approve":                          {yes, "", ""},
		"plangate.dev/reject-security":                  {no, "security", ""},
		"approve-" + hexes("a", 32) + ".plangate.dev/x": {yes, hexes("a", 32), "x"},
		// What decides nothing.
		"approve.plangate.dev":                          {},
		"approve.plangate.dev/":                         {},
		"Approve.plangate.dev/x":                        {},
		"approve-.plangate.dev/x":                       {},
		"approve--a.plangate.dev/x":                     {},
		"approve-a-.plangate.dev/x":                     {},
		"approve-A.plangate.dev/x":                      {},
		"approve-" + hexes("a", 33) + ".plangate.dev/x": {},
		"approveXplangate.dev/x":                        {},
		"xapprove.plangate.dev/x":                       {},
		"plangate.dev/approved":                         {},
		"plangate.dev/approve-":                         {},
		"signature.plangate.dev/ci":                     {},
		"approve":                                       {},
		"":                                              {},
	} {
		got, ok := ParseKey(annotation)
		if got != want || ok != (want.Verdict != "") {
			t.Errorf("ParseKey(%q) = %+v, %t, want %+v", annotation, got, ok, want)
		}
	}
}

func TestDecisions(t *testing.T) {
	p := plan(t)
	approve("go")(p)
	v := Verify(Input{Plan: p, Now: now, Admission: enforced})
	want := []v1alpha1.Decision{{
		Verdict: v1alpha1.DecisionApproved, Method: v1alpha1.MethodAnnotation, Key: alicesKey, By: "alice", Verified: true,
		Digest: p.Spec.Digest, Reason: "go", Requirement: "one approval by a person", ObservedAt: metav1.NewTime(now), Evidence: plans.Digest(p.Spec.Digest + " by alice -- go"),
	}}
	if diff := cmp.Diff(want, v.Decisions); diff != "" {
		t.Errorf("decisions: -want +got\n%s", diff)
	}
	wantWords := `Approved by alice at 2026-12-01T10:00:00Z ("go"). One approval by a person was needed. Who wrote the change is not known.`
	if v.Requirements != wantWords {
		t.Errorf("requirements = %q", v.Requirements)
	}
}

// TestUnverifiedDecisionsSayWhoWroteThem: where nothing vouches for a name, what clients called themselves helps to remember.
func TestUnverifiedDecisionsSayWhoWroteThem(t *testing.T) {
	p := plan(t)
	p.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "plangate", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
		{Manager: "kubectl-annotate", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:` + alicesKey + `":{}}}}`)},
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{`)},
	}
	approve("")(p)
	v := Verify(Input{Plan: p, Now: now})
	if got, want := v.Decisions[0].By, "unverified (it says alice) (field manager kubectl-annotate)"; got != want {
		t.Errorf("by = %q, want %q", got, want)
	}
}

// TestRefusalsHelp: a refusal names the object, the annotation, what is wrong, and the command that would do.
func TestRefusalsHelp(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, why, command string }{
		"a prefix":          {alicesKey, "sha256:0123456789 by alice", "only a part of a digest", "plangate.dev/approve="},
		"another plan":      {alicesKey, other + " by alice", "another plan's digest", "plangate.dev/approve="},
		"the short form":    {v1alpha1.AnnotationApprove, "", "is empty", "plangate.dev/approve="},
		"a wrong rejection": {v1alpha1.AnnotationReject, "sha256:no way", "does not begin with a digest", "plangate.dev/reject="},
		"a typing error":    {"plangate.dev/aprove", "x", "no such annotation", "plangate.dev/approve="},
		"upper case":        {"Plangate.dev/Approve", "x", "no such annotation", "plangate.dev/approve="},
		"no slot":           {"approve.plangate.dev", "x", "no such annotation", "plangate.dev/approve="},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t)
			p.Annotations[tc.key] = tc.value
			v := Verify(Input{Plan: p, Now: now, Admission: enforced})
			if v.State != Waiting || len(v.Decisions) != 1 || v.Decisions[0].Verdict != v1alpha1.DecisionRefused {
				t.Fatalf("Verify() = %+v", v)
			}
			for _, want := range []string{"UpdatePlan team-a/" + p.Name, "annotation " + tc.key, tc.why, "kubectl annotate updateplan " + p.Name + " -n team-a " + tc.command + p.Spec.Digest + " --overwrite"} {
				if !strings.Contains(v.Decisions[0].Reason, want) {
					t.Errorf("the refusal %q lacks %q", v.Decisions[0].Reason, want)
				}
			}
			if !strings.Contains(v.Message, v.Decisions[0].Reason) {
				t.Errorf("the message %q lacks the refusal", v.Message)
			}
		})
	}
}

func TestUnrelatedAnnotationsAreNoDecisions(t *testing.T) {
	p := plan(t)
	p.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
	p.Annotations["example.com/approved-by"] = "me"
	p.Annotations["plangate.dev/note"] = "x"
	if v := Verify(Input{Plan: p, Now: now}); len(v.Decisions) != 0 {
		t.Errorf("decisions = %+v", v.Decisions)
	}
}

func TestCommands(t *testing.T) {
	p := plan(t)
	want := "kubectl annotate updateplan " + p.Name + " -n team-a plangate.dev/approve=" + p.Spec.Digest
	if got := ApproveCommand(p); got != want {
		t.Errorf("ApproveCommand() = %q, want %q", got, want)
	}
	if got := RejectCommand(p); got != strings.Replace(want, "approve=", "reject=", 1) {
		t.Errorf("RejectCommand() = %q", got)
	}
}

// FuzzVerify: no value under any name allows but a record of the digest by somebody who is no author, and no more than one of
// that kind is needed.
func FuzzVerify(f *testing.F) {
	p := planBy(f, "author")
	for _, v := range []string{"", p.Spec.Digest, p.Spec.Digest + " by alice", p.Spec.Digest + " by alice -- why", p.Spec.Digest + " by author", p.Spec.Digest[:20], "yes", p.Spec.Digest + " by alice\n"} {
		f.Add(v, "", alicesKey)
		f.Add(v, "", v1alpha1.AnnotationApprove)
		f.Add("", v, "approve-security.plangate.dev/x")
	}
	f.Fuzz(func(t *testing.T, approval, rejection, key string) {
		p := planBy(t, "author")
		p.Annotations[key] = approval
		if rejection != "" {
			p.Annotations[bobsKey] = rejection
		}
		v := Verify(Input{Plan: p, Now: now, Admission: enforced})
		digest, by, _ := strings.Cut(p.Annotations[key], " by ")
		user, _, _ := strings.Cut(by, " ")
		if v.Allows() && (digest != p.Spec.Digest || user == "" || user == "author" || !strings.HasPrefix(key, "approve.plangate.dev/") || strings.HasPrefix(p.Annotations[bobsKey], p.Spec.Digest+" by x")) {
			t.Errorf("Verify() allows with %q", p.Annotations)
		}
		if Verify(Input{Plan: p, Now: now}).Allows() {
			t.Errorf("Verify() allows %q and nothing vouches for it", p.Annotations)
		}
		if r, err := ParseStamp(rejection); err == nil && r.Digest == p.Spec.Digest && key != bobsKey && v.State != Rejected {
			t.Errorf("Verify() = %s with the rejection %q", v.State, rejection)
		}
		for _, d := range v.Decisions {
			if len(d.Reason) > 1024 || len(d.Key) > 320 || len(d.By) > 512 || len(d.Class) > 64 || !utf8.ValidString(d.Reason+d.Key+d.By) {
				t.Errorf("the decision %+v does not fit the API", d)
			}
		}
	})
}

// FuzzParseStamp: what is read is written again to the same bytes, so that there is one way to say a thing.
func FuzzParseStamp(f *testing.F) {
	d := "sha256:" + hexes("a", 64)
	for _, v := range []string{d + " by alice", d + " by alice -- x -- y by z", d + " by -- -- --", d, ""} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if s, err := ParseStamp(value); err == nil && s.String() != value {
			t.Errorf("ParseStamp(%q) = %+v, which is written %q", value, s, s.String())
		}
	})
}
