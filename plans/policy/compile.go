// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/approval/signature"
	"github.com/plangate/plangate/plans/redact"
)

// Kinds of policies.
const (
	KindPolicy        = "ApprovalPolicy"
	KindClusterPolicy = "ClusterApprovalPolicy"
)

const (
	maxProblems = 20
	maxWords    = 1024
)

// Ref names a policy at one generation.
type Ref struct {
	// Kind is KindPolicy or KindClusterPolicy.
	Kind string
	// Namespace is empty for a ClusterApprovalPolicy.
	Namespace, Name string
	UID             string
	Generation      int64
}

// String is how messages name the policy. A namespaced one is in the plan's namespace, which need not be said.
func (r Ref) String() string { return r.Kind + " " + r.Name }

// key tells policies apart, at whatever generation.
func (r Ref) key() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// Source is a policy as it was read.
type Source struct {
	Ref Ref
	// NamespaceSelector and StackSelector are the spec's; nil selects everything.
	NamespaceSelector, StackSelector *metav1.LabelSelector
	Terms                            v1alpha1.PolicyTerms
}

// FromPolicy makes a Source of an ApprovalPolicy.
func FromPolicy(p *v1alpha1.ApprovalPolicy) Source {
	return Source{
		Ref:           Ref{Kind: KindPolicy, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Generation: p.Generation},
		StackSelector: p.Spec.StackSelector, Terms: p.Spec.PolicyTerms,
	}
}

// FromClusterPolicy makes a Source of a ClusterApprovalPolicy.
func FromClusterPolicy(p *v1alpha1.ClusterApprovalPolicy) Source {
	return Source{
		Ref:               Ref{Kind: KindClusterPolicy, Name: p.Name, UID: string(p.UID), Generation: p.Generation},
		NamespaceSelector: p.Spec.NamespaceSelector, StackSelector: p.Spec.StackSelector, Terms: p.Spec.PolicyTerms,
	}
}

// Compiled is a policy that can be evaluated, or one that says why it cannot and holds all that it selects. It never changes
// and may be used by many at once.
type Compiled struct {
	ref      Ref
	terms    v1alpha1.PolicyTerms
	rules    []rule
	windows  []window
	barred   []v1alpha1.ChangeRole
	signers  *signature.Signers
	digest   string
	problems []string

	namespaces, stacks labels.Selector
}

// rule is a rule with its program.
type rule struct {
	v1alpha1.PolicyRule
	// program is nil when the rule is about every plan.
	program cel.Program
	// timed is set when what it says depends on the time.
	timed bool
}

// Compile makes a policy ready to be evaluated. It takes milliseconds, so callers keep the result for as long as UID and
// generation stay. It does not fail: a policy that has problems selects what it did, or everything where its selector is what
// is wrong, and holds it.
func Compile(s Source) *Compiled {
	c := &Compiled{ref: s.Ref, terms: *s.Terms.DeepCopy(), digest: digestOf(s), namespaces: labels.Everything(), stacks: labels.Everything()}
	problem := func(field string, err error) {
		if err != nil {
			c.problems = append(c.problems, redact.Shorten(redact.Printable(field+": "+err.Error()), maxWords))
		}
	}
	var err error
	c.namespaces, err = selector(s.NamespaceSelector)
	problem("spec.namespaceSelector", err)
	c.stacks, err = selector(s.StackSelector)
	problem("spec.stackSelector", err)
	for _, r := range c.terms.Rules {
		compiled, err := compileRule(r)
		problem(fmt.Sprintf("spec.rules[%s]", r.Name), err)
		for _, q := range r.Require {
			problem(fmt.Sprintf("spec.rules[%s].require", r.Name), c.checkVoters(q.Of, q.Class, q.Signers))
		}
		c.rules = append(c.rules, compiled)
	}
	for _, w := range c.terms.Windows {
		compiled, err := compileWindow(w)
		if err != nil {
			problem(fmt.Sprintf("spec.windows[%s]", w.Name), err)
			continue
		}
		c.windows = append(c.windows, compiled)
	}
	for _, v := range c.terms.Vetoers {
		problem("spec.vetoers", c.checkVoters(v.Of, v.Class, v.Signers))
	}
	if c.terms.MaxAge != nil && c.terms.MaxAge.Duration <= 0 {
		problem("spec.maxAge", fmt.Errorf("%s is no age that an approval can have", c.terms.MaxAge.Duration))
	}
	c.barred, err = barred(c.terms.Separation)
	problem("spec.separation", err)
	c.signers, err = signature.New(c.terms.Signers)
	for _, fault := range each(err) {
		problem("spec.signers", fault)
	}
	if more := len(c.problems) - maxProblems; more > 0 {
		c.problems = append(c.problems[:maxProblems-1], fmt.Sprintf("and %d more", more+1))
	}
	return c
}

// each takes errors apart that were joined.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// Trusted are the signers whom the policy trusts, ready to verify with. Nil: there is none, or one of them is at fault.
func (c *Compiled) Trusted() *signature.Signers {
	if len(c.terms.Signers) == 0 {
		return nil
	}
	return c.signers
}

// Signer is a trusted signer as the policy has it; nil: it has none of that name.
func (c *Compiled) Signer(name string) *v1alpha1.TrustedSigner {
	i := slices.IndexFunc(c.terms.Signers, func(s v1alpha1.TrustedSigner) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return c.terms.Signers[i].DeepCopy()
}

// AnyRejectionEnds tells whether a rejection ends a plan whoever it is by: always, unless every policy names its vetoers.
func AnyRejectionEnds(policies []*Compiled) bool {
	return len(policies) == 0 || slices.ContainsFunc(policies, func(c *Compiled) bool { return len(c.terms.Vetoers) == 0 || len(c.problems) > 0 })
}

// selector is a label selector that, where it cannot be understood, selects everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	selects, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Everything(), err
	}
	return selects, nil
}

func compileRule(r v1alpha1.PolicyRule) (rule, error) { //nolint:gocyclo // a list of checks, read from top to bottom
	compiled := rule{PolicyRule: r}
	switch r.Effect {
	case v1alpha1.EffectDeny, v1alpha1.EffectAutoApprove, v1alpha1.EffectWarn:
	case v1alpha1.EffectRequire:
		if len(r.Require) == 0 {
			return compiled, fmt.Errorf("the effect Require asks for nothing: say in require how many of whom")
		}
	default:
		return compiled, fmt.Errorf("the effect %q is not known", r.Effect)
	}
	if r.When == "" {
		return compiled, nil
	}
	env, err := environment()
	if err != nil {
		return compiled, fmt.Errorf("making the environment of expressions: %w: this is a bug", err)
	}
	tree, issues := env.Compile(r.When)
	if issues.Err() != nil {
		return compiled, fmt.Errorf("when: %s", oneLine(issues.Err().Error()))
	}
	if !tree.OutputType().IsExactType(types.BoolType) {
		return compiled, fmt.Errorf("when: it is %s and must be bool", tree.OutputType())
	}
	if faults := append(mistypedWords(tree.NativeRep()), refused(tree.NativeRep())...); len(faults) > 0 {
		return compiled, fmt.Errorf("when: %s", strings.Join(faults, "; "))
	}
	for _, used := range tree.NativeRep().ReferenceMap() {
		compiled.timed = compiled.timed || used.Name == "now" || used.Name == "window"
	}
	compiled.program, err = env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(turns(tree.NativeRep())))
	if err != nil {
		return compiled, fmt.Errorf("when: %w", err)
	}
	return compiled, nil
}

// checkVoters holds what the CRD cannot: whom a policy names must be in it.
func (c *Compiled) checkVoters(kind v1alpha1.VoterKind, class string, signers []string) error {
	switch kind {
	case v1alpha1.VotersPeople:
		return nil
	case v1alpha1.VotersClass:
		if class == "" {
			return fmt.Errorf("of: Class without a class")
		}
		return nil
	case v1alpha1.VotersSigners:
		if len(signers) == 0 {
			return fmt.Errorf("of: Signers without signers")
		}
		for _, name := range signers {
			if !slices.ContainsFunc(c.terms.Signers, func(s v1alpha1.TrustedSigner) bool { return s.Name == name }) {
				return fmt.Errorf("there is no signer %q in spec.signers", name)
			}
		}
		return nil
	default:
		return fmt.Errorf("of: %q is not known", kind)
	}
}

// barred lists whom a policy bars from approving.
func barred(s *v1alpha1.Separation) ([]v1alpha1.ChangeRole, error) {
	all := []v1alpha1.ChangeRole{v1alpha1.RoleSpecAuthor, v1alpha1.RoleRequester, v1alpha1.RoleCommitAuthor}
	switch {
	case s == nil:
		return nil, nil
	case s.WhenUnknown != "" && s.WhenUnknown != v1alpha1.UnknownHold && s.WhenUnknown != v1alpha1.UnknownCount:
		return all, fmt.Errorf("whenUnknown: %q is not known", s.WhenUnknown)
	case len(s.Bar) == 0:
		return all, nil
	}
	for _, role := range s.Bar {
		if !slices.Contains(all, role) {
			return all, fmt.Errorf("bar: %q is not known", role)
		}
	}
	return s.Bar, nil
}

// Ref names the policy.
func (c *Compiled) Ref() Ref { return c.ref }

// Problems are what keeps the policy from being evaluated, each with its field; at most 20. Empty: it can be.
func (c *Compiled) Problems() []string { return slices.Clone(c.problems) }

// Rules counts the policy's rules.
func (c *Compiled) Rules() int { return len(c.rules) }

// Selects tells whether the policy is about a Stack. namespaceLabels matter to a ClusterApprovalPolicy alone.
func (c *Compiled) Selects(stack Stack, namespaceLabels map[string]string) bool {
	switch c.ref.Kind {
	case KindPolicy:
		return c.ref.Namespace == stack.Namespace && c.stacks.Matches(labels.Set(stack.Labels))
	case KindClusterPolicy:
		return c.namespaces.Matches(labels.Set(namespaceLabels)) && c.stacks.Matches(labels.Set(stack.Labels))
	default:
		return true
	}
}

// SelectsAnyNamespace tells that namespaces need not be read to know what the policy selects.
func (c *Compiled) SelectsAnyNamespace() bool { return c.namespaces.Empty() }

// digestOf is the digest of all that a policy is.
func digestOf(s Source) string {
	text, err := json.Marshal(s)
	if err != nil { // there is nothing in it that JSON cannot hold
		text = []byte(s.Ref.key() + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// sorted puts policies in an order that does not depend on how they were listed.
func sorted(policies []*Compiled) []*Compiled {
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *Compiled) int { return cmp.Compare(a.ref.key(), b.ref.key()) })
	return policies
}

// oneLine makes one line of a compiler's report, which points at what it means in lines of its own.
func oneLine(report string) string {
	var kept []string
	for line := range strings.Lines(report) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "|") {
			continue
		}
		kept = append(kept, strings.TrimPrefix(line, "ERROR: <input>:"))
	}
	return strings.Join(kept, "; ")
}

// shortestAge is the shortest maxAge of policies; 0: none has one.
func shortestAge(policies []*Compiled) time.Duration {
	var shortest time.Duration
	for _, p := range policies {
		if age := p.terms.MaxAge; age != nil && (shortest == 0 || age.Duration < shortest) {
			shortest = age.Duration
		}
	}
	return shortest
}
