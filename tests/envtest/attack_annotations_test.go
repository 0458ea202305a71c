// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

var background = context.Background()

const (
	approveKey = v1alpha1.DomainApprove + "/me"
	rejectKey  = v1alpha1.DomainReject + "/me"

	noVerb      = "lacks the verb approve"
	notExact    = "what is said must be exactly"
	notChanged  = "cannot be changed or removed"
	noService   = "service accounts and system users do not decide by annotation"
	noRecord    = "cannot be recorded without ambiguity"
	unknownName = "unknown annotation"
)

// long writes what a case says under approveKey.
func long(value func(v victim) string) func(v victim) error {
	return func(v victim) error { return v.annotate(approveKey, value(v)) }
}

// short writes what a case says in the short form.
func short(value func(v victim) string) func(v victim) error {
	return func(v victim) error { return v.annotate(v1alpha1.AnnotationApprove, value(v)) }
}

func honestly(v victim) string { return v.by() }

func theDigest(v victim) string { return v.plan.Spec.Digest }

func TestAttackInWhoseName(t *testing.T) {
	testAttacks(t, map[string]attack{
		"whoever has the verb approves":                       {alice, long(honestly), ""},
		"whoever has the verb approves, in the short form":    {alice, short(theDigest), ""},
		"edit rights without the verb":                        {mallory, long(honestly), noVerb},
		"edit rights without the verb, in the short form":     {mallory, short(theDigest), noVerb},
		"edit rights without the verb, in an approver's name": {mallory, long(func(v victim) string { return v.plan.Spec.Digest + " by " + alice }), noVerb},
		"edit rights on Stacks":                               {trent, long(honestly), "cannot patch resource"},
		"an approver in another's name":                       {alice, long(func(v victim) string { return v.plan.Spec.Digest + " by " + bob }), notExact},
		"another's name in the reason of the short form":      {alice, short(func(v victim) string { return v.plan.Spec.Digest + " by " + bob }), ""},
		"an author of the change":                             {carol, long(honestly), "an author of a change cannot approve it"},
		"an author of the change, in the short form":          {carol, short(theDigest), "an author of a change cannot approve it"},
		"an author of the change rejects":                     {carol, func(v victim) error { return v.annotate(rejectKey, v.by()+" -- wrong region") }, ""},
		"an approver of the Stack":                            {dave, long(honestly), ""},
		"a GitOps controller that may do everything":          {flux, long(honestly), noService},
		"a node":                                  {"system:node:worker of system:masters", long(honestly), noService},
		"the operator":                            {operator, long(honestly), "the operator never approves or rejects"},
		"the operator rejects":                    {operator, func(v victim) error { return v.annotate(rejectKey, v.by()) }, "the operator never approves or rejects"},
		"the operator, in the short form":         {operator, short(theDigest), "the operator never approves or rejects"},
		"an administrator approves, and is named": {"root-admin of system:masters", long(honestly), ""},
		"a user with a Cyrillic letter":           {"аlice@example.com of system:masters", long(honestly), noRecord},
		"a user with a blank":                     {"alice smith of system:masters", long(honestly), noRecord},
		"a user with a zero-width character":      {"alice\u200b@example.com of system:masters", long(honestly), noRecord},
		"a user whose name holds a record":        {alice + " -- by of system:masters", long(honestly), noRecord},
		"a user whose name is a digest":           {"sha256:aa of system:masters", long(honestly), ""},
		"the same person twice":                   {alice, func(v victim) error { v.honest(alice, "a"); return v.annotate(approveKey, v.by()+" -- again") }, "has said so before"},
		"the same person twice, in the short form": {alice, func(v victim) error {
			v.honest(alice, "a")
			return v.annotate(v1alpha1.AnnotationApprove, v.plan.Spec.Digest+" again")
		}, "has said so before"},
		"a second person":                                   {bob, func(v victim) error { v.honest(alice, "a"); return v.annotate(approveKey, v.by()) }, ""},
		"a class without its verb":                          {alice, func(v victim) error { return v.annotate("approve-security.plangate.dev/x", v.by()) }, noVerb},
		"a class without its verb, in the short form":       {alice, func(v victim) error { return v.annotate("plangate.dev/approve-security", v.plan.Spec.Digest) }, noVerb},
		"a class with its verb":                             {erin, func(v victim) error { return v.annotate("plangate.dev/approve-security", v.plan.Spec.Digest) }, ""},
		"the verb of a class is not that of everybody":      {erin, long(honestly), noVerb},
		"a class whose name is a trick":                     {erin, func(v victim) error { return v.annotate("approve--security.plangate.dev/x", v.by()) }, unknownName},
		"the right to reject a class without its verb":      {alice, func(v victim) error { return v.annotate("reject-security.plangate.dev/x", v.by()) }, noVerb},
		"a part of the verb's name":                         {erin, func(v victim) error { return v.annotate("approve-sec.plangate.dev/x", v.by()) }, noVerb},
		"a rejection without the verb":                      {mallory, func(v victim) error { return v.annotate(rejectKey, v.by()) }, noVerb},
		"a rejection without the verb and without a digest": {mallory, func(v victim) error { return v.annotate(v1alpha1.AnnotationReject, "because") }, noVerb},
		"a rejection with a reason and no digest":           {alice, func(v victim) error { return v.annotate(v1alpha1.AnnotationReject, "not on a Friday") }, ""},
		"an approver of another Stack": {dave, func(v victim) error {
			v.plan = builder.UpdatePlan(v.plan.Namespace, "db-1-01234567").StackRef("db", "1").Obj()
			if err := world.client.Create(background, v.plan); err != nil {
				v.t.Fatal(err)
			}
			return v.annotate(approveKey, v.by())
		}, noVerb},
	})
}

func TestAttackWithWhatWords(t *testing.T) {
	digest := func(change func(string) string) func(v victim) error {
		return long(func(v victim) string { return change(v.plan.Spec.Digest) + " by " + v.user })
	}
	reason := func(text string) func(v victim) error {
		return long(func(v victim) string { return v.by() + " -- " + text })
	}
	testAttacks(t, map[string]attack{
		"a reason":                                  {alice, reason("CHG-1: looks good — Zoë"), ""},
		"a reason that looks like a record":         {alice, reason("ok by " + bob + " -- sure"), ""},
		"a part of the digest":                      {alice, digest(func(d string) string { return d[:20] }), notExact},
		"a part of the digest, in the short form":   {alice, short(func(v victim) string { return v.plan.Spec.Digest[:20] }), notExact},
		"the digest in upper case":                  {alice, digest(strings.ToUpper), notExact},
		"the digest without its algorithm":          {alice, digest(func(d string) string { return d[7:] }), notExact},
		"another plan's digest":                     {alice, digest(func(string) string { return builder.Digest("another") }), notExact},
		"two digests":                               {alice, digest(func(d string) string { return builder.Digest("another") + "," + d }), notExact},
		"a digest with a Cyrillic letter":           {alice, digest(func(d string) string { return strings.ReplaceAll(strings.ReplaceAll(d, "a", "а"), "e", "е") }), notExact},
		"a digest with a full-width digit":          {alice, digest(func(d string) string { return d[:len(d)-1] + "１" }), notExact},
		"a digest with a zero-width character":      {alice, digest(func(d string) string { return d + "\u200b" }), notExact},
		"a placeholder":                             {alice, digest(func(string) string { return "sha256:*" }), notExact},
		"yes":                                       {alice, long(func(victim) string { return "yes" }), notExact},
		"true, in the short form":                   {alice, short(func(victim) string { return "true" }), notExact},
		"nothing":                                   {alice, long(func(victim) string { return "" }), notExact},
		"nothing, in the short form":                {alice, short(func(victim) string { return "" }), notExact},
		"the digest alone":                          {alice, long(theDigest), notExact},
		"a leading blank":                           {alice, long(func(v victim) string { return " " + v.by() }), notExact},
		"a trailing blank":                          {alice, long(func(v victim) string { return v.by() + " " }), notExact},
		"a trailing blank, in the short form":       {alice, short(func(v victim) string { return v.plan.Spec.Digest + " " }), notExact},
		"two blanks":                                {alice, long(func(v victim) string { return v.plan.Spec.Digest + "  by " + v.user }), notExact},
		"a tab":                                     {alice, long(func(v victim) string { return v.plan.Spec.Digest + "\tby " + v.user }), notExact},
		"a no-break space":                          {alice, long(func(v victim) string { return v.plan.Spec.Digest + "\u00a0by " + v.user }), notExact},
		"a trailing newline":                        {alice, long(func(v victim) string { return v.by() + "\n" }), notExact},
		"a name that goes on":                       {alice, long(func(v victim) string { return v.by() + "x" }), notExact},
		"a newline in the reason":                   {alice, reason("ok\n" + builder.Digest("x") + " by " + bob), notExact},
		"a newline in the reason of the short form": {alice, short(func(v victim) string { return v.plan.Spec.Digest + " ok\nby " + bob }), notExact},
		"writing turned around in the reason":       {alice, reason("\u202eko"), notExact},
		"a zero-width character in the reason":      {alice, reason("o\u200bk"), notExact},
		"a terminal escape in the reason":           {alice, reason("\x1b[2Jok"), notExact},
		"a reason that begins with a blank":         {alice, reason(" ok"), notExact},
		"a reason that ends in a blank":             {alice, reason("ok "), notExact},
		"an empty reason":                           {alice, reason(""), notExact},
		"a reason of 512 characters":                {alice, reason(strings.Repeat("ö", 512)), ""},
		"a reason of 513 characters":                {alice, reason(strings.Repeat("o", 513)), notExact},
		"a reason of 200 KiB":                       {alice, reason(strings.Repeat("o", 200<<10)), notExact},
		"annotations of 300 KiB":                    {alice, func(v victim) error { return v.annotate("example.com/note", strings.Repeat("o", 300<<10)) }, "Too long"},
		"a regular expression's nightmare":          {alice, reason(strings.Repeat("a ", 250) + "!\x00"), notExact},
	})
}

func TestAttackUnderWhatName(t *testing.T) {
	under := func(key string) func(v victim) error {
		return func(v victim) error { return v.annotate(key, v.by()) }
	}
	testAttacks(t, map[string]attack{
		"somebody else's annotation":                     {mallory, func(v victim) error { return v.annotate("example.com/note", "x") }, ""},
		"a typing error in the domain":                   {alice, under("approved.plangate.dev/me"), unknownName},
		"a typing error in the name":                     {alice, under("plangate.dev/aprove"), unknownName},
		"upper case in the domain":                       {alice, under("Plangate.dev/approve"), unknownName},
		"upper case in the name":                         {alice, under("plangate.dev/Approve"), unknownName},
		"upper case in the verb":                         {alice, under("Approve.plangate.dev/me"), unknownName},
		"no slot":                                        {alice, under("approve.plangate.dev"), unknownName},
		"a domain that ends otherwise":                   {alice, under("approve.plangate.dev.example.com/me"), unknownName},
		"a domain that begins otherwise":                 {alice, under("xapprove.plangate.dev/me"), unknownName},
		"no domain":                                      {alice, under("plangate-approve"), unknownName},
		"a name that a later version may have":           {alice, under("plangate.dev/unlock"), unknownName},
		"the operator's own mark":                        {alice, under("operator.plangate.dev/verdict"), unknownName},
		"the answer to a typing error tells the command": {alice, under("plangate.dev/approved"), "plangate.dev/approve=sha256:"},
		"two approvals at once": {alice, func(v victim) error {
			return v.annotate(approveKey, v.by(), v1alpha1.DomainApprove+"/me2", v.by())
		}, "one approval or rejection a request"},
		"an approval and a rejection at once": {alice, func(v victim) error { return v.annotate(approveKey, v.by(), rejectKey, v.by()) }, "one approval or rejection a request"},
		"both forms at once": {alice, func(v victim) error {
			return v.annotate(approveKey, v.by(), v1alpha1.AnnotationApprove, v.plan.Spec.Digest)
		}, "one approval or rejection a request"},
		"both short forms at once": {alice, func(v victim) error {
			return v.annotate(v1alpha1.AnnotationApprove, v.plan.Spec.Digest, v1alpha1.AnnotationReject, v.plan.Spec.Digest)
		}, "one approval or rejection a request"},
		"the same words again":                     {alice, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, v.by()) }, ""},
		"other words in its place":                 {alice, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, v.by()+" -- hm") }, notChanged},
		"taking one's own approval back":           {alice, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, nil) }, notChanged},
		"taking another's approval away":           {bob, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, nil) }, notChanged},
		"writing over another's approval":          {bob, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, v.by()) }, notChanged},
		"taking an approval away without the verb": {mallory, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, nil) }, noVerb},
		"the operator takes an approval away":      {operator, func(v victim) error { v.honest(alice, "me"); return v.annotate(approveKey, nil) }, "the operator never"},
		"a slot that somebody else sits on, in the short form": {alice, func(v victim) error {
			v.honest(bob, "alice.example.com")
			return v.annotate(v1alpha1.AnnotationApprove, v.plan.Spec.Digest)
		}, ""},
		"33 approvals": {"one-more of system:masters", func(v victim) error {
			for i := range 32 {
				user := fmt.Sprintf("user-%d", i)
				if err := patchAs(as(user, "system:masters"), v.plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.DomainApprove + "/" + user: v.plan.Spec.Digest + " by " + user}}}); err != nil {
					v.t.Fatal(err)
				}
			}
			return v.annotate(approveKey, v.by())
		}, "at most 32"},
	})
}

// Whichever way one comes to the object.
func TestAttackByWhatWay(t *testing.T) {
	object := func(v victim, annotations map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": v.plan.Name, "namespace": v.plan.Namespace, "annotations": annotations}}}
		o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UpdatePlan"))
		return o
	}
	apply := func(v victim, annotations map[string]any) error {
		return v.mine.Apply(background, client.ApplyConfigurationFromUnstructured(object(v, annotations)), client.FieldOwner("attack"), client.ForceOwnership)
	}
	jsonPatch := func(v victim, patch string) error {
		return v.mine.Patch(background, v.plan.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(patch)))
	}
	testAttacks(t, map[string]attack{
		"server-side apply by an approver": {alice, func(v victim) error { return apply(v, map[string]any{approveKey: v.by()}) }, ""},
		"server-side apply in the short form": {alice, func(v victim) error {
			return apply(v, map[string]any{v1alpha1.AnnotationApprove: v.plan.Spec.Digest})
		}, ""},
		"server-side apply without the verb":       {mallory, func(v victim) error { return apply(v, map[string]any{approveKey: v.by()}) }, noVerb},
		"server-side apply in another's name":      {alice, func(v victim) error { return apply(v, map[string]any{approveKey: v.plan.Spec.Digest + " by " + bob}) }, notExact},
		"server-side apply by a GitOps controller": {flux, func(v victim) error { return apply(v, map[string]any{approveKey: v.by()}) }, noService},
		"server-side apply that leaves one's own approval out": {alice, func(v victim) error {
			if err := apply(v, map[string]any{approveKey: v.by()}); err != nil {
				v.t.Fatal(err)
			}
			return apply(v, map[string]any{"example.com/note": "x"})
		}, notChanged},
		"PUT with an approval": {mallory, func(v victim) error {
			p := v.now()
			p.Annotations = map[string]string{approveKey: v.by()}
			return as(mallory).Update(background, p)
		}, "cannot update resource"},
		"PUT with an approval in another's name": {sam, func(v victim) error {
			p := v.now()
			p.Annotations = map[string]string{approveKey: v.plan.Spec.Digest + " by " + alice}
			return v.mine.Update(background, p)
		}, noVerb},
		"PUT that leaves an approval out": {sam, func(v victim) error {
			v.honest(alice, "me")
			p := v.now()
			p.Annotations = nil
			return v.mine.Update(background, p)
		}, noVerb},
		"JSON patch that replaces an approval": {bob, func(v victim) error {
			v.honest(alice, "me")
			return jsonPatch(v, `[{"op":"replace","path":"/metadata/annotations/approve.plangate.dev~1me","value":"`+v.by()+`"}]`)
		}, notChanged},
		"JSON patch that moves an approval": {alice, func(v victim) error {
			v.honest(alice, "me")
			return jsonPatch(v, `[{"op":"move","from":"/metadata/annotations/approve.plangate.dev~1me","path":"/metadata/annotations/approve.plangate.dev~1you"}]`)
		}, "one approval or rejection a request"},
		"JSON patch that takes all annotations": {"root-admin of system:masters", func(v victim) error {
			v.honest(alice, "me")
			return jsonPatch(v, `[{"op":"remove","path":"/metadata/annotations"}]`)
		}, notChanged},
		"an old resourceVersion": {alice, func(v victim) error {
			return v.merge(map[string]any{"metadata": map[string]any{"resourceVersion": "1", "annotations": map[string]any{approveKey: v.by()}}})
		}, "the object has been modified"},
		"an approval through the status": {operator, func(v victim) error {
			p := v.now()
			before := p.DeepCopy()
			p.Annotations = map[string]string{approveKey: v.plan.Spec.Digest + " by " + alice}
			p.Status.Requirements = "x"
			if err := v.mine.Status().Patch(background, p, client.MergeFrom(before)); err != nil {
				return err
			}
			if len(v.now().Annotations) > 0 {
				v.t.Error("the annotation was taken")
			}
			return nil
		}, ""},
		"a field manager that is called like an approver": {mallory, func(v victim) error {
			return v.mine.Patch(background, v.plan.DeepCopy(), client.RawPatch(types.MergePatchType, mustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{approveKey: v.plan.Spec.Digest + " by " + alice}}})), client.FieldOwner(alice))
		}, noVerb},
	})
}

// What the short form becomes is what everybody reads.
func TestTheShortFormBecomesARecordInTheOwnName(t *testing.T) {
	namespace := newNamespace(t)
	for i, tc := range []struct {
		user, key, value string
		want             func(digest string) (key, value string)
	}{
		{alice, v1alpha1.AnnotationApprove, "%s", func(d string) (string, string) {
			return "approve.plangate.dev/alice.example.com", d + " by " + alice
		}},
		{alice, v1alpha1.AnnotationApprove, "%s CHG-1 — ok", func(d string) (string, string) {
			return "approve.plangate.dev/alice.example.com", d + " by " + alice + " -- CHG-1 — ok"
		}},
		{alice, v1alpha1.AnnotationApprove, "%s by " + bob + " -- sure", func(d string) (string, string) {
			return "approve.plangate.dev/alice.example.com", d + " by " + alice + " -- by " + bob + " -- sure"
		}},
		{alice, v1alpha1.AnnotationReject, "not on a Friday", func(d string) (string, string) {
			return "reject.plangate.dev/alice.example.com", d + " by " + alice + " -- not on a Friday"
		}},
		{alice, v1alpha1.AnnotationReject, "%s not on a Friday", func(d string) (string, string) {
			return "reject.plangate.dev/alice.example.com", d + " by " + alice + " -- not on a Friday"
		}},
		{erin, "plangate.dev/approve-security", "%s", func(d string) (string, string) {
			return "approve-security.plangate.dev/erin.example.com", d + " by " + erin
		}},
		{strings.Repeat("long-", 20) + "@example.com", v1alpha1.AnnotationApprove, "%s", func(d string) (string, string) {
			return "approve.plangate.dev/" + strings.Repeat("long.", 11) + "lonx", d + " by " + strings.Repeat("long-", 20) + "@example.com"
		}},
		{"!!!", v1alpha1.AnnotationApprove, "%s", func(d string) (string, string) { return "approve.plangate.dev/x", d + " by !!!" }},
	} {
		t.Run(fmt.Sprint(i, " ", tc.key), func(t *testing.T) {
			plan := builder.UpdatePlan(namespace, fmt.Sprintf("web-%d-01234567", i+1)).Obj()
			if err := world.client.Create(background, plan); err != nil {
				t.Fatal(err)
			}
			groups := []string{}
			if tc.user != alice && tc.user != erin {
				groups = append(groups, "system:masters")
			}
			v := victim{t: t, plan: plan, user: tc.user, mine: as(tc.user, groups...)}
			value := strings.ReplaceAll(tc.value, "%s", plan.Spec.Digest)
			for range 2 { // kubectl annotate twice is no mistake
				if err := v.annotate(tc.key, value); err != nil {
					t.Fatal(err)
				}
			}
			key, want := tc.want(plan.Spec.Digest)
			if got := v.now().Annotations; len(got) != 1 || got[key] != want {
				t.Errorf("annotations = %q, want %s: %q", got, key, want)
			}
		})
	}
}
