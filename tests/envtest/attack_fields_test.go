// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

// What is the operator's alone.
func TestAttackOnTheRestOfThePlan(t *testing.T) {
	metadata := func(field string, value any) func(v victim) error {
		return func(v victim) error { return v.merge(map[string]any{"metadata": map[string]any{field: value}}) }
	}
	create := func(annotations map[string]string) func(v victim) error {
		return func(v victim) error {
			o := builder.UpdatePlan(v.plan.Namespace, fmt.Sprintf("%s-forged", v.plan.Name)).Obj()
			o.Annotations = map[string]string{}
			for key, value := range annotations {
				o.Annotations[key] = strings.ReplaceAll(value, "DIGEST", o.Spec.Digest)
			}
			return v.mine.Create(background, o)
		}
	}
	approved := func(v victim) *v1alpha1.UpdatePlan {
		p := v.now()
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionApproved, Status: metav1.ConditionTrue, Reason: "Approved", LastTransitionTime: metav1.Now()}}
		return p
	}
	const labels, rest = "only the operator changes the labels", "only the operator changes the finalizers and owner references"
	owner := []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}}
	testAttacks(t, map[string]attack{
		"a plan made by a user who may":                    {sam, create(nil), "only the operator creates UpdatePlans"},
		"a plan made by an administrator":                  {"root-admin of system:masters", create(nil), "only the operator creates UpdatePlans"},
		"a plan made by a GitOps controller":               {flux, create(nil), "only the operator creates UpdatePlans"},
		"a plan made by an approver":                       {alice, create(nil), "cannot create resource"},
		"a plan made with an approval, by the operator":    {operator, create(map[string]string{approveKey: "DIGEST by " + alice}), "the operator never approves or rejects"},
		"a plan made with a signature, by the operator":    {operator, create(map[string]string{"signature.plangate.dev/ci": "x"}), "created without approvals"},
		"a plan made with the short form, by the operator": {operator, create(map[string]string{v1alpha1.AnnotationApprove: "DIGEST"}), "created without approvals"},
		"a plan made with the short form, by a user":       {sam, create(map[string]string{v1alpha1.AnnotationApprove: "DIGEST"}), "only the operator creates UpdatePlans"},
		"the spec, by an administrator": {"root-admin of system:masters", func(v victim) error {
			return v.merge(map[string]any{"spec": map[string]any{"digest": builder.Digest("x")}})
		}, "never changes"},
		"the authors, by one of them": {sam, func(v victim) error { return v.merge(map[string]any{"spec": map[string]any{"authors": nil}}) }, "never changes"},
		"labels":                      {alice, metadata("labels", map[string]any{"a": "b"}), labels},
		"labels, by an administrator": {"root-admin of system:masters", metadata("labels", map[string]any{"plangate.dev/operation": "x"}), labels},
		"a finalizer":                 {alice, metadata("finalizers", []string{"example.com/x"}), rest},
		"no finalizer, by an administrator": {"root-admin of system:masters", func(v victim) error {
			if err := patchAs(world.client, v.plan, map[string]any{"metadata": map[string]any{"finalizers": []string{v1alpha1.Finalizer}}}); err != nil {
				v.t.Fatal(err)
			}
			return metadata("finalizers", nil)(v)
		}, rest},
		"an owner":                                {alice, metadata("ownerReferences", owner), rest},
		"an owner, by an administrator":           {"root-admin of system:masters", metadata("ownerReferences", owner), rest},
		"an owner that is gone, by the collector": {"system:serviceaccount:kube-system:generic-garbage-collector of system:masters", metadata("ownerReferences", owner), ""},
		"labels, by the collector":                {"system:serviceaccount:kube-system:generic-garbage-collector of system:masters", metadata("labels", map[string]any{"a": "b"}), labels},
		"an approval, by the collector":           {"system:serviceaccount:kube-system:generic-garbage-collector of system:masters", long(honestly), noService},
		"the status, by a user who may": {sam, func(v victim) error {
			return v.mine.Status().Patch(background, approved(v), client.MergeFrom(v.plan))
		}, "only the operator writes the status"},
		"the status, with PUT": {sam, func(v victim) error { return v.mine.Status().Update(background, approved(v)) }, "only the operator writes the status"},
		"the status, by an administrator": {"root-admin of system:masters", func(v victim) error {
			return v.mine.Status().Patch(background, approved(v), client.MergeFrom(v.plan))
		}, "only the operator writes the status"},
		"the status, by an approver": {alice, func(v victim) error {
			return v.mine.Status().Patch(background, approved(v), client.MergeFrom(v.plan))
		}, "cannot patch resource"},
		"the status with the plan": {sam, func(v victim) error {
			if err := v.merge(map[string]any{"status": map[string]any{"requirements": "none"}}); err != nil {
				return err
			}
			if got := v.now().Status.Requirements; got != "" {
				v.t.Errorf("the status was taken: %q", got)
			}
			return nil
		}, ""},
		"the plan's deletion, by an approver": {alice, func(v victim) error { return v.mine.Delete(background, v.plan) }, "cannot delete resource"},
		"the right to approve, by who may grant": {"adam@example.com", func(v victim) error {
			r := role("granter", rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create"}}, rule("updateplans", "get", "patch"))
			if err := world.client.Create(background, r); err != nil {
				v.t.Fatal(err)
			}
			if err := grant(background, v.user, "granter"); err != nil {
				v.t.Fatal(err)
			}
			return v.mine.Create(background, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: v.plan.Namespace, Name: "mine"}, Rules: []rbacv1.PolicyRule{rule("updateplans", "approve")}})
		}, "attempting to grant RBAC permissions not currently held"},
	})
}

// What comes after the end decides nothing.
func TestAttackAfterTheEnd(t *testing.T) {
	after := func(change func(s *v1alpha1.UpdatePlanStatus)) func(v victim) error {
		return func(v victim) error {
			p := v.now()
			before := p.DeepCopy()
			change(&p.Status)
			if err := world.client.Status().Patch(background, p, client.MergeFrom(before)); err != nil {
				v.t.Fatal(err)
			}
			return v.annotate(approveKey, v.by())
		}
	}
	condition := func(kind string, status metav1.ConditionStatus, reason string) func(v victim) error {
		return after(func(s *v1alpha1.UpdatePlanStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()})
		})
	}
	running := func(s *v1alpha1.UpdatePlanStatus) {
		s.Operation = &v1alpha1.ApplyOperation{ID: "id", Pod: v1alpha1.PodReference{Name: "pod", UID: "uid"}, StartedAt: metav1.Now()}
	}
	testAttacks(t, map[string]attack{
		"approving what waits":            {alice, condition(v1alpha1.ConditionApproved, metav1.ConditionUnknown, "WaitingForApproval"), ""},
		"approving what is not obsolete":  {alice, condition(v1alpha1.ConditionObsolete, metav1.ConditionFalse, "Current"), ""},
		"approving what was superseded":   {alice, condition(v1alpha1.ConditionObsolete, metav1.ConditionTrue, "Superseded"), "has ended: Superseded"},
		"approving what has expired":      {alice, condition(v1alpha1.ConditionObsolete, metav1.ConditionTrue, "Expired"), "has ended: Expired"},
		"approving what was rejected":     {alice, condition(v1alpha1.ConditionApproved, metav1.ConditionFalse, "Rejected"), "has ended: Rejected"},
		"approving what is being applied": {alice, after(running), "is being applied, or was"},
		"rejecting what is being applied": {alice, func(v victim) error {
			_ = after(running)(v)
			return v.annotate(v1alpha1.AnnotationReject, "stop!")
		}, "is being applied, or was"},
		"signing what was superseded": {mallory, func(v victim) error {
			_ = condition(v1alpha1.ConditionObsolete, metav1.ConditionTrue, "Superseded")(v)
			return v.annotate("signature.plangate.dev/ci", "x")
		}, "has ended: Superseded"},
		"approving what is being deleted": {alice, func(v victim) error {
			if err := patchAs(world.client, v.plan, map[string]any{"metadata": map[string]any{"finalizers": []string{v1alpha1.Finalizer}}}); err != nil {
				v.t.Fatal(err)
			}
			if err := world.client.Delete(background, v.plan); err != nil {
				v.t.Fatal(err)
			}
			return v.annotate(approveKey, v.by())
		}, "is being deleted"},
	})
}

// Signatures are anybody's to bring, within bounds; whether they are worth anything is not decided here.
func TestAttackWithSignatures(t *testing.T) {
	const key = "signature.plangate.dev/ci"
	testAttacks(t, map[string]attack{
		"a signature": {mallory, func(v victim) error {
			return v.annotate(key, "-----BEGIN SSH SIGNATURE-----\nabc\n-----END SSH SIGNATURE-----\n")
		}, ""},
		"a signature by a service account": {flux, func(v victim) error { return v.annotate(key, "{}") }, ""},
		"a signature of 16 KiB":            {mallory, func(v victim) error { return v.annotate(key, strings.Repeat("s", 16384)) }, ""},
		"a signature of more":              {mallory, func(v victim) error { return v.annotate(key, strings.Repeat("s", 16385)) }, "at most 16384 characters"},
		"another in its place":             {mallory, func(v victim) error { _ = v.annotate(key, "a"); return v.annotate(key, "b") }, "cannot be replaced"},
		"taking one away":                  {mallory, func(v victim) error { _ = v.annotate(key, "a"); return v.annotate(key, nil) }, "cannot be taken away"},
		"the operator takes one away":      {operator, func(v victim) error { _ = v.annotate(key, "a"); return v.annotate(key, nil) }, ""},
		"13 signatures": {mallory, func(v victim) error {
			for i := range 12 {
				if err := v.annotate(fmt.Sprint(key, i), strings.Repeat("s", 16384)); err != nil {
					v.t.Fatal(err)
				}
			}
			return v.annotate(key, "x")
		}, "at most 12 signatures"},
		"an approval among 12 signatures of 16 KiB": {alice, func(v victim) error {
			for i := range 12 {
				if err := patchAs(as(mallory), v.plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{fmt.Sprint(key, i): strings.Repeat("s", 16384)}}}); err != nil {
					v.t.Fatal(err)
				}
			}
			return v.annotate(v1alpha1.AnnotationApprove, v.plan.Spec.Digest)
		}, ""},
	})
}

// editedStack is a Stack that trent made, with who edits it.
type editedStack struct {
	t     *testing.T
	stack *v1alpha1.Stack
}

func (e editedStack) edit(user string, spec, annotations map[string]any, groups ...string) error {
	patch := map[string]any{}
	if spec != nil {
		patch["spec"] = spec
	}
	if annotations != nil {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	return patchAs(as(user, groups...), e.stack, patch)
}

func (e editedStack) editedBy() string {
	e.t.Helper()
	o := &v1alpha1.Stack{}
	if err := world.client.Get(background, client.ObjectKeyFromObject(e.stack), o); err != nil {
		e.t.Fatal(err)
	}
	return o.Annotations[v1alpha1.AnnotationEditedBy]
}

// Who wrote a Stack's spec last is the API server's to say.
func TestAttackOnTheAuthorOfAStack(t *testing.T) {
	const key = v1alpha1.AnnotationEditedBy
	by := func(text string) map[string]any { return map[string]any{key: text} }
	branch := func(name string) map[string]any { return map[string]any{"branch": name} }
	const leaveIt = "leave it to the API server"
	cases := map[string]struct {
		who  string
		try  func(e editedStack) error
		want string
		// left is what the Stack says afterwards.
		left string
	}{
		"nobody touched it":                       {trent, func(editedStack) error { return nil }, "", "1 by " + trent},
		"an edit":                                 {carol, func(e editedStack) error { return e.edit(carol, branch("x"), nil) }, "", "2 by " + carol},
		"an edit in another's name":               {carol, func(e editedStack) error { return e.edit(carol, branch("x"), by("2 by "+trent)) }, "", "2 by " + carol},
		"an edit that takes the name away":        {carol, func(e editedStack) error { return e.edit(carol, branch("x"), by("")) }, "", "2 by " + carol},
		"another's name, and no edit":             {carol, func(e editedStack) error { return e.edit(carol, nil, by("1 by "+alice)) }, leaveIt, "1 by " + trent},
		"one's own name, and no edit":             {carol, func(e editedStack) error { return e.edit(carol, nil, by("1 by "+carol)) }, leaveIt, "1 by " + trent},
		"a generation that is to come":            {carol, func(e editedStack) error { return e.edit(carol, nil, by("2 by "+alice)) }, leaveIt, "1 by " + trent},
		"another's name, by an administrator":     {"root-admin", func(e editedStack) error { return e.edit("root-admin", nil, by("1 by x"), "system:masters") }, leaveIt, "1 by " + trent},
		"another's name, by the operator":         {operator, func(e editedStack) error { return e.edit(operator, nil, by("1 by x")) }, leaveIt, "1 by " + trent},
		"taking the name away":                    {carol, func(e editedStack) error { return e.edit(carol, nil, map[string]any{key: nil}) }, "", "1 by " + trent},
		"an empty name":                           {carol, func(e editedStack) error { return e.edit(carol, nil, by("")) }, leaveIt, "1 by " + trent},
		"an edit by somebody who cannot be named": {"al ice", func(e editedStack) error { return e.edit("al ice", branch("x"), nil, "system:masters") }, "", "2 by (unrecordable)"},
		"a request for a plan is no edit": {carol, func(e editedStack) error {
			return e.edit(carol, nil, map[string]any{v1alpha1.AnnotationRequestPlan: "now"})
		}, "", "1 by " + trent},
		"PUT without annotations": {carol, func(e editedStack) error {
			o := &v1alpha1.Stack{}
			if err := world.client.Get(background, client.ObjectKeyFromObject(e.stack), o); err != nil {
				return err
			}
			o.Annotations = nil
			return as(carol).Update(background, o)
		}, "", "1 by " + trent},
		"two edits": {carol, func(e editedStack) error {
			if err := e.edit(carol, branch("x"), nil); err != nil {
				return err
			}
			return e.edit(trent, branch("y"), nil)
		}, "", "3 by " + trent},
		"an edit that changes nothing but the way a number is written": {carol, func(e editedStack) error {
			if err := e.edit(trent, map[string]any{"config": map[string]any{"n": 1}}, nil); err != nil {
				return err
			}
			return as(carol).Patch(background, e.stack.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"config":{"n":1.0}}}`)))
		}, "this edit must say whose it is", "2 by " + trent},
	}
	namespace := newNamespace(t)
	number := 0
	for name, tc := range cases {
		number++
		e := editedStack{t: t, stack: builder.Stack(namespace, fmt.Sprintf("web-%d", number)).Obj()}
		t.Run(name, func(t *testing.T) {
			e.t = t
			e.stack.Annotations = map[string]string{key: "1 by " + alice}
			if err := as(trent).Create(background, e.stack); err != nil {
				t.Fatal(err)
			}
			judge(t, tc.who, "the Stack's author: "+name, tc.want, tc.try(e))
			if got := e.editedBy(); got != tc.left {
				t.Errorf("the Stack says %q, want %q", got, tc.left)
			}
		})
	}
}

// Without the policy that stamps, nobody is named; a name from before is never taken for that of a later edit; and whoever
// writes one writes his own.
func TestAttackOnTheAuthorWhereNothingStamps(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	old := editedStack{t: t, stack: builder.Stack(namespace, "old").Obj()}
	g.Expect(as(trent).Create(background, old.stack)).To(Succeed())
	takeAway(t, "admission", "stacks-stamp.yaml")
	probe := builder.Stack(namespace, "probe").Obj()
	g.Eventually(func() string {
		o := probe.DeepCopy()
		_ = as(trent).Create(background, o, client.DryRunAll)
		return o.Annotations[v1alpha1.AnnotationEditedBy]
	}).WithTimeout(20 * time.Second).Should(BeEmpty())

	fresh := editedStack{t: t, stack: builder.Stack(namespace, "fresh").Obj()}
	g.Expect(as(trent).Create(background, fresh.stack)).To(Succeed())
	g.Expect(fresh.editedBy()).To(BeEmpty(), "not known")
	judge(t, carol, "an edit where nothing stamps", "", fresh.edit(carol, map[string]any{"branch": "x"}, nil))
	judge(t, carol, "another's name where nothing stamps", "leave it to the API server", fresh.edit(carol, map[string]any{"branch": "y"}, map[string]any{v1alpha1.AnnotationEditedBy: "3 by " + trent}))
	judge(t, carol, "one's own name where nothing stamps", "", fresh.edit(carol, map[string]any{"branch": "y"}, map[string]any{v1alpha1.AnnotationEditedBy: "3 by " + carol}))
	judge(t, carol, "an edit under the name of the one before", "this edit must say whose it is", old.edit(carol, map[string]any{"branch": "x"}, nil))
	judge(t, carol, "taking the name away where nothing stamps", "leave it to the API server", old.edit(carol, nil, map[string]any{v1alpha1.AnnotationEditedBy: nil}))
	g.Expect(old.editedBy()).To(Equal("1 by " + trent))
}
