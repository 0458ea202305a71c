// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

// told is what became of each attack, for `make attacks` to show.
var told []string

// tell writes down what an attack came to.
func tell(who, what, answer, words string) {
	if i := strings.Index(words, "denied request: "); i >= 0 {
		words = words[i+len("denied request: "):]
	}
	words = strings.Join(strings.Fields(words), " ")
	told = append(told, strings.Join([]string{who, what, answer, words}, "\t"))
}

// tellAttacks writes the table to the file that PLANGATE_ATTACKS names, if it does.
func tellAttacks() error {
	file := os.Getenv("PLANGATE_ATTACKS")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Join(told, "\n") + "\n"); err != nil {
		return err
	}
	return f.Close()
}

// attack is somebody who tries something on a plan that waits, and what the API server must say to it.
type attack struct {
	who string
	try func(v victim) error
	// want is a part of the answer. Empty: it must be let through, since it does no harm or is right.
	want string
}

// victim is a plan, with who attacks it.
type victim struct {
	t    *testing.T
	plan *v1alpha1.UpdatePlan
	// mine is the attacker's client, user the attacker's name.
	mine client.Client
	user string
}

// by is what an honest approval by the attacker says.
func (v victim) by() string { return v.plan.Spec.Digest + " by " + v.user }

// annotate writes an annotation; a nil value takes it away.
func (v victim) annotate(pairs ...any) error {
	annotations := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		annotations[pairs[i].(string)] = pairs[i+1]
	}
	return v.merge(map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

func (v victim) merge(patch map[string]any) error {
	return patchAs(v.mine, v.plan, patch)
}

func patchAs(c client.Client, o client.Object, patch map[string]any) error {
	return c.Patch(background, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, mustJSON(patch)), client.FieldOwner("attack"))
}

// honest approves the plan as somebody who may.
func (v victim) honest(user, slot string) {
	v.t.Helper()
	err := patchAs(as(user), v.plan, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.DomainApprove + "/" + slot: v.plan.Spec.Digest + " by " + user}}})
	if err != nil {
		v.t.Fatalf("%s cannot approve: %v", user, err)
	}
}

// now reads the plan.
func (v victim) now() *v1alpha1.UpdatePlan {
	v.t.Helper()
	p := &v1alpha1.UpdatePlan{}
	if err := world.client.Get(background, client.ObjectKeyFromObject(v.plan), p); err != nil {
		v.t.Fatal(err)
	}
	return p
}

// testAttacks lets each attack happen to a plan of its own: of the Stack "web" and written by carol.
func testAttacks(t *testing.T, attacks map[string]attack) {
	namespace := newNamespace(t)
	sequence := 0
	for name, a := range attacks {
		sequence++
		number := int64(sequence)
		t.Run(name, func(t *testing.T) {
			plan := builder.UpdatePlan(namespace, fmt.Sprintf("web-%d-01234567", number)).Sequence(number).
				Spec(func(s *v1alpha1.UpdatePlanSpec) { s.Authors = []string{carol} }).Obj()
			if err := world.client.Create(background, plan); err != nil {
				t.Fatal(err)
			}
			user, groups, _ := strings.Cut(a.who, " of ")
			v := victim{t: t, plan: plan, user: user, mine: as(user)}
			if groups != "" {
				v.mine = as(user, groups)
			}
			judge(t, a.who, name, a.want, a.try(v))
		})
	}
}

// judge compares an answer with what it must be, and writes it down.
func judge(t *testing.T, who, what, want string, err error) {
	t.Helper()
	switch {
	case want == "" && err == nil:
		tell(who, what, "let through", "")
	case want == "":
		tell(who, what, "REFUSED, AND SHOULD NOT BE", err.Error())
		t.Errorf("%s is refused: %v", who, err)
	case err == nil:
		tell(who, what, "LET THROUGH, AND SHOULD NOT BE", "")
		t.Errorf("%s is let through; want %q", who, want)
	case !strings.Contains(err.Error(), want):
		tell(who, what, "refused in other words", err.Error())
		t.Errorf("%s is refused otherwise than %q: %v", who, want, err)
	default:
		tell(who, what, "refused: "+string(apierrors.ReasonForError(err)), err.Error())
	}
}
