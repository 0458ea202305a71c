// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission proves that the admission policies are in force that make an approval by annotation worth something.
//
//	is the policy what we know? ─▶ is it bound? ─▶ does it refuse a forgery, in its own words? ─▶ approval.Admission
//
// Neither is enough alone. Whoever may edit the policy can loosen it, so it is compared with the copy in this binary; but what
// can be read is not yet in force in the API server that takes the writes, so the operator tries to approve a plan itself, as
// a dry run, and nothing but a refusal by the policy counts. Policies do not guard themselves, hence this package.
//
// It must never say that they are in force without having seen it. What it cannot find out is an error.
package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	manifests "github.com/plangate/plangate/config/admission"
	"github.com/plangate/plangate/plans/approval"
)

const (
	// PolicyName is the name of the policy of UpdatePlans, and of its binding.
	PolicyName = "updateplans.plangate.dev"
	// Refusal is what the policy says to an operator that approves.
	Refusal = "the operator never approves or rejects: the admission policy of Plangate is in force"

	// probeKey is the annotation of the forgery. It is never written: it is tried as a dry run.
	probeKey = v1alpha1.DomainApprove + "/plangate-probe"
	// operatorVariable is the policy's variable with the name of the operator.
	operatorVariable = "operator"
	// proofLasts is how long a proof is good for what is not decided on. That there is none is asked anew each time.
	proofLasts = 30 * time.Second
	// wayOut is what helps.
	wayOut = "install config/default of this version of Plangate anew (kubectl apply --server-side -k config/default)"
)

// Guard proves that the policies are in force.
type Guard struct {
	client   client.Client
	uncached client.Reader
	now      func() time.Time

	mu sync.Mutex
	// wanted is what must be installed. Nil: it was not asked yet who the operator is.
	wanted *wanted
	last   approval.Admission
	lastAt time.Time
}

// wanted is what must be installed for an operator of this name.
type wanted struct {
	user    string
	policy  admissionregistrationv1.ValidatingAdmissionPolicySpec
	binding admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec
}

// New returns a Guard. c is the operator's own client; uncached reads past every cache. now is the clock. Nil: time.Now.
func New(c client.Client, uncached client.Reader, now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	return &Guard{client: c, uncached: uncached, now: now}
}

// want reads the policy and binding in this binary, and puts the operator's name into them as config/default does.
func want(user string) (*wanted, error) {
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests.UpdatePlans), 4096)
	for _, o := range []client.Object{policy, binding} {
		if err := d.Decode(o); err != nil {
			return nil, fmt.Errorf("reading the admission policy in this binary: %w", err)
		}
	}
	expression := fmt.Sprintf("'%s'", user)
	if parts := strings.Split(user, ":"); len(parts) == 4 && strings.HasPrefix(user, "system:serviceaccount:") {
		expression = fmt.Sprintf("'system:serviceaccount:' + '%s' + ':' + '%s'", parts[2], parts[3])
	}
	i := slices.IndexFunc(policy.Spec.Variables, func(v admissionregistrationv1.Variable) bool { return v.Name == operatorVariable })
	if i < 0 || policy.Name != PolicyName || binding.Name != PolicyName {
		return nil, fmt.Errorf("reading the admission policy in this binary: it is not the policy %q with a variable %q, and its binding", PolicyName, operatorVariable)
	}
	policy.Spec.Variables[i].Expression = expression
	return &wanted{user: user, policy: policy.Spec, binding: binding.Spec}, nil
}

// expect tells what must be installed; the first time it asks the API server under which user's name it knows the operator.
func (g *Guard) expect(ctx context.Context) (*wanted, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wanted != nil {
		return g.wanted, nil
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := g.client.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking the API server who the operator is: %w", err)
	}
	w, err := want(review.Status.UserInfo.Username)
	if err == nil {
		g.wanted = w
	}
	return w, err
}

// Prove tells whether the policies are in force for a plan that is open. fresh asks now; it is for what is about to be counted
// or applied. Otherwise an answer of the last half minute will do. An error means that it is not known, which is to be tried
// again and counts for nothing.
func (g *Guard) Prove(ctx context.Context, plan *v1alpha1.UpdatePlan, fresh bool) (approval.Admission, error) {
	if last, ok := g.remembered(); ok && !fresh {
		return last, nil
	}
	why, err := g.prove(ctx, plan)
	if err != nil {
		enforced.Set(0)
		return approval.Admission{}, fmt.Errorf("proving that the admission policy %q is in force: %w", PolicyName, err)
	}
	found := approval.Admission{Enforced: why == "", Why: why}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.lastAt = found, g.now()
	enforced.Set(map[bool]float64{true: 1}[found.Enforced])
	return found, nil
}

func (g *Guard) remembered() (approval.Admission, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	age := g.now().Sub(g.lastAt)
	return g.last, g.last.Enforced && age >= 0 && age < proofLasts
}

// dense is a policy without empty lines in its expressions, where they mean nothing: what installs manifests may add some, as
// kustomize does to folded text.
func dense(spec admissionregistrationv1.ValidatingAdmissionPolicySpec) admissionregistrationv1.ValidatingAdmissionPolicySpec {
	spec = *spec.DeepCopy()
	squeeze := func(text *string) { *text = emptyLines.ReplaceAllString(*text, "\n") }
	for i := range spec.Variables {
		squeeze(&spec.Variables[i].Expression)
	}
	for i := range spec.Validations {
		squeeze(&spec.Validations[i].Expression)
		squeeze(&spec.Validations[i].MessageExpression)
	}
	for i := range spec.AuditAnnotations {
		squeeze(&spec.AuditAnnotations[i].ValueExpression)
	}
	for i := range spec.MatchConditions {
		squeeze(&spec.MatchConditions[i].Expression)
	}
	return spec
}

var emptyLines = regexp.MustCompile(`\n\n+`)

// prove says what is wrong, or nothing.
func (g *Guard) prove(ctx context.Context, plan *v1alpha1.UpdatePlan) (why string, err error) {
	w, err := g.expect(ctx)
	if err != nil {
		return "", err
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if why, err := g.read(ctx, policy, "ValidatingAdmissionPolicy"); why != "" || err != nil {
		return why, err
	}
	if !equality.Semantic.DeepEqual(dense(policy.Spec), dense(w.policy)) {
		return fmt.Sprintf("the ValidatingAdmissionPolicy %q is not the one that this operator, %s, knows: %s", PolicyName, w.user, wayOut), nil
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if why, err := g.read(ctx, binding, "ValidatingAdmissionPolicyBinding"); why != "" || err != nil {
		return why, err
	}
	if !equality.Semantic.DeepEqual(binding.Spec, w.binding) {
		return fmt.Sprintf("the ValidatingAdmissionPolicyBinding %q is not the one that this operator knows: %s", PolicyName, wayOut), nil
	}
	return g.forge(ctx, plan, w.user)
}

func (g *Guard) read(ctx context.Context, o client.Object, kind string) (why string, err error) {
	err = g.uncached.Get(ctx, client.ObjectKey{Name: PolicyName}, o)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("there is no %s %q: %s", kind, PolicyName, wayOut), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the operator may not read the %s %q: %s", kind, PolicyName, wayOut), nil
	}
	return "", err
}

// forge approves the plan in the operator's own name, as a dry run, which must be refused, and by the policy.
func (g *Guard) forge(ctx context.Context, plan *v1alpha1.UpdatePlan, user string) (why string, err error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		probeKey: approval.Stamp{Digest: plan.Spec.Digest, User: user}.String(),
	}}})
	if err != nil {
		return "", err
	}
	// A copy without anything in it: the answer is not to be taken for what was read.
	target := &v1alpha1.UpdatePlan{}
	target.Namespace, target.Name = plan.Namespace, plan.Name
	err = g.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
	switch {
	case err == nil:
		return fmt.Sprintf("the API server would have taken a forged approval: the ValidatingAdmissionPolicy %q is there and not in force. If that does not pass within seconds, its admission plugin is off, or the binding leaves this namespace out", PolicyName), nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), PolicyName) && strings.Contains(err.Error(), Refusal):
		return "", nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return "the API server refused a forged approval for another reason than the policy of Plangate: " + err.Error(), nil
	}
	return "", err
}
