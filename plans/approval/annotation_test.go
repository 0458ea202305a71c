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

func TestDecisions(t *testing.T) {
	p := plan(t)
	p.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "plangate", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
		{Manager: "kubectl-annotate", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:plangate.dev/approve":{}}}}`)},
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{`)},
	}
	approve(" go")(p)
	v := Verify(Input{Plan: p, Now: now})
	want := []v1alpha1.Decision{{
		Verdict: v1alpha1.DecisionApproved, Method: "annotation plangate.dev/approve", By: "unverified (field manager kubectl-annotate)",
		Digest: p.Spec.Digest, Reason: "go", ObservedAt: metav1.NewTime(now), Evidence: plans.Digest(p.Spec.Digest + " go"),
	}}
	if diff := cmp.Diff(want, v.Decisions); diff != "" {
		t.Errorf("decisions: -want +got\n%s", diff)
	}
	wantWords := `Approved by unverified (field manager kubectl-annotate) at 2026-12-01T10:00:00Z ("go"). One approval was needed; the identity behind it was not verified.`
	if v.Requirements != wantWords {
		t.Errorf("requirements = %q", v.Requirements)
	}
}

// TestRefusalsHelp: a refusal names the object, the annotation, what is wrong, and the command that would do.
func TestRefusalsHelp(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, why, command string }{
		"a prefix":          {v1alpha1.AnnotationApprove, "sha256:0123456789", "only a part of a digest", "plangate.dev/approve="},
		"another plan":      {v1alpha1.AnnotationApprove, other, "another plan's digest", "plangate.dev/approve="},
		"a wrong rejection": {v1alpha1.AnnotationReject, "no way", "does not begin with a digest", "plangate.dev/reject="},
		"a typing error":    {"plangate.dev/aprove", "x", "no such annotation", "plangate.dev/approve="},
		"upper case":        {"Plangate.dev/Approve", "x", "no such annotation", "plangate.dev/approve="},
		"a later version's": {"approve.plangate.dev/alice", "x", "no such annotation", "plangate.dev/approve="},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t)
			p.Annotations[tc.key] = tc.value
			v := Verify(Input{Plan: p, Now: now})
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

// FuzzVerify: no value of an annotation allows but the digest itself, with a reason after a blank or without.
func FuzzVerify(f *testing.F) {
	p := plan(f)
	for _, v := range []string{"", p.Spec.Digest, p.Spec.Digest + " why", p.Spec.Digest[:20], "yes", p.Spec.Digest + "\n"} {
		f.Add(v, "", "plangate.dev/approve")
	}
	f.Fuzz(func(t *testing.T, approval, rejection, key string) {
		p := plan(t)
		p.Annotations[key] = approval
		if rejection != "" {
			p.Annotations[v1alpha1.AnnotationReject] = rejection
		}
		v := Verify(Input{Plan: p, Now: now})
		given, _, _ := strings.Cut(p.Annotations[v1alpha1.AnnotationApprove], " ")
		if v.Allows() && (given != p.Spec.Digest || strings.HasPrefix(p.Annotations[v1alpha1.AnnotationReject], p.Spec.Digest+" x")) {
			t.Errorf("Verify() allows with %q", p.Annotations)
		}
		if r, err := parse(rejection); err == nil && r.digest == p.Spec.Digest && key != v1alpha1.AnnotationReject && v.State != Rejected {
			t.Errorf("Verify() = %s with the rejection %q", v.State, rejection)
		}
		for _, d := range v.Decisions {
			if len(d.Reason) > 1024 || len(d.Method) > 256 || len(d.By) > 512 || !utf8.ValidString(d.Reason+d.Method+d.By) {
				t.Errorf("the decision %+v does not fit the API", d)
			}
		}
	})
}
