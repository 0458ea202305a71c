// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/policies"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/policy"
)

// policyDay is the Tuesday of docs/policies.md.
var policyDay = time.Date(2026, time.December, 1, 10, 0, 0, 0, time.UTC)

func aChange(op v1alpha1.ChangeOperation, typ, name string, properties ...string) v1alpha1.ResourceChange {
	c := v1alpha1.ResourceChange{Operation: op, Type: typ, Name: name, URN: "urn:pulumi:prod::web::" + typ + "::" + name}
	for _, path := range properties {
		before, after := `"old"`, `"new"`
		c.Properties = append(c.Properties, v1alpha1.PropertyChange{Path: path, Old: &before, New: &after})
	}
	return c
}

// examplePlans are the plans of docs/policies.md: their changes, and how many resources stay as they are.
func examplePlans() map[string]plans.Plan {
	one := func(c v1alpha1.ResourceChange) plans.Plan { return plans.New([]v1alpha1.ResourceChange{c}, 5) }
	many := func(n int) []v1alpha1.ResourceChange {
		var all []v1alpha1.ResourceChange
		for i := range n {
			all = append(all, aChange(v1alpha1.ChangeDelete, "kubernetes:core/v1:ConfigMap", fmt.Sprintf("settings-%03d", i)))
		}
		return all
	}
	loose := aChange(v1alpha1.ChangeUpdate, "kubernetes:apps/v1:Deployment", "web", "spec.host")
	loose.Unbound = []string{"spec.host"}
	return map[string]plans.Plan{
		"bucket":   one(aChange(v1alpha1.ChangeCreate, "aws:s3/bucket:Bucket", "logs")),
		"tags":     one(aChange(v1alpha1.ChangeUpdate, "aws:s3/bucket:Bucket", "logs", "tags.team", "tagsAll.team")),
		"replicas": one(aChange(v1alpha1.ChangeUpdate, "kubernetes:apps/v1:Deployment", "web", "spec.replicas")),
		"database": one(aChange(v1alpha1.ChangeReplace, "aws:rds/instance:Instance", "orders", "engineVersion")),
		"role":     one(aChange(v1alpha1.ChangeUpdate, "aws:iam/rolePolicy:RolePolicy", "deploy", "policy")),
		"key":      one(aChange(v1alpha1.ChangeDelete, "aws:kms/key:Key", "orders")),
		"unbound":  one(loose),
		"cleanup":  plans.New(many(12), 28),
		"hidden":   plans.New(append(many(150), aChange(v1alpha1.ChangeCreate, "aws:iam/user:User", "intruder")), 1000),
	}
}

// aPlan makes an UpdatePlan of a plan, as the operator publishes it.
func aPlan(t *testing.T, namespace string, p plans.Plan) *v1alpha1.UpdatePlan {
	t.Helper()
	hex := strings.Repeat
	in := plans.SpecInput{
		Namespace: namespace, Cluster: "cluster-1", Nonce: hex("a", 32),
		Stack:    v1alpha1.StackReference{Name: "web", UID: "uid", Generation: 1, ResourceVersion: "1"},
		Sequence: 3, Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSourceChanged},
		Binding: v1alpha1.Binding{
			Revision: hex("1", 40), Repository: "https://git.example/repo", Tree: hex("2", 40), ConfigDigest: "sha256:" + hex("3", 64),
			StateDigest: "sha256:" + hex("4", 64), PulumiVersion: "v3.276.0", WorkspaceImage: "sha256:" + hex("6", 64),
		},
		Artifact: v1alpha1.Artifact{Digest: "sha256:" + hex("5", 64), Size: 1, Chunks: []string{"web-plan-0"}},
		NotAfter: policyDay.Add(60 * 24 * time.Hour), Plan: p,
	}
	if !p.Fits() {
		in.ChangesConfigMap = "web-changes"
	}
	spec, err := plans.NewSpec(in)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: plans.PlanName("web", 3, spec.Digest)}, Spec: spec}
}

// example is a policy of the page, and what it is to come to.
type example struct {
	title, text string
	rows        [][]string
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```\n\n(\\|.*?)\n\n")

func workedPolicies(t *testing.T) []example {
	t.Helper()
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "policies.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(page), "\n## Ten policies\n")
	g.Expect(found).To(BeTrue())
	rest, _, _ = strings.Cut(rest, "\n## ")
	var all []example
	for _, section := range strings.Split(rest, "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		parts := fence.FindStringSubmatch(body + "\n\n")
		g.Expect(parts).NotTo(BeNil(), "%s has no policy with a table below it", title)
		e := example{title: title, text: parts[1]}
		for _, line := range strings.Split(parts[2], "\n") {
			cells := strings.Split(strings.Trim(line, "| "), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			e.rows = append(e.rows, cells)
		}
		all = append(all, e)
	}
	return all
}

var voter = regexp.MustCompile(`^(\w+)(?: \((\w+)\))?( rejects)?$`)

// votesOf reads who approved: "alice, sam (security), ci (signature), bob rejects".
func votesOf(t *testing.T, cell string, of policy.Ref) []policy.Vote {
	t.Helper()
	var votes []policy.Vote
	for _, word := range strings.Split(cell, ", ") {
		if word == "nobody" {
			continue
		}
		parts := voter.FindStringSubmatch(word)
		NewWithT(t).Expect(parts).NotTo(BeNil(), "%q is nobody's approval", word)
		v := policy.Vote{Verdict: v1alpha1.DecisionApproved, Kind: policy.VotePerson, Identity: parts[1], Verified: true, Class: parts[2], At: policyDay}
		if parts[2] == "signature" {
			v.Kind, v.Class = policy.VoteSigner, ""
			v.Signers = []policy.SignerName{{Policy: of, Name: parts[1]}}
		}
		if parts[3] != "" {
			v.Verdict = v1alpha1.DecisionRejected
		}
		votes = append(votes, v)
	}
	return votes
}

// parsePolicy reads a policy, and puts it into a namespace if it is of one.
func parsePolicy(t *testing.T, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), &object.Object)).To(Succeed())
	if object.GetKind() == policy.KindPolicy {
		object.SetNamespace(namespace)
	}
	return object
}

// createText tries to make a policy.
func createText(t *testing.T, namespace, text string) error {
	t.Helper()
	return world.client.Create(t.Context(), parsePolicy(t, namespace, text))
}

// applyPolicy makes a policy in a namespace, and names it. It goes with the test.
func applyPolicy(t *testing.T, namespace, text string) policy.Ref {
	t.Helper()
	object := parsePolicy(t, namespace, text)
	NewWithT(t).Expect(world.client.Create(t.Context(), object)).To(Succeed(), text)
	t.Cleanup(func() { _ = world.client.Delete(context.WithoutCancel(t.Context()), object) })
	return policy.Ref{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()), Generation: object.GetGeneration()}
}

func labelNamespace(t *testing.T, name, key, value string) {
	t.Helper()
	g := NewWithT(t)
	namespace := &corev1.Namespace{}
	g.Expect(world.client.Get(t.Context(), client.ObjectKey{Name: name}, namespace)).To(Succeed())
	namespace.Labels[key] = value
	g.Expect(world.client.Update(t.Context(), namespace)).To(Succeed())
}

// policyRequest asks for a decision on an example plan.
func policyRequest(t *testing.T, namespace string, p plans.Plan, votes []policy.Vote) policies.Request {
	t.Helper()
	return policies.Request{
		Plan:    aPlan(t, namespace, p),
		Stack:   &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID("uid")}},
		Changes: p.Changes, Votes: votes, Now: policyDay, Fresh: true,
		Origin: policy.Origin{SpecAuthor: "carol", CommitAuthors: []string{"carol@example.com"}},
	}
}

func TestTheWorkedPoliciesDoWhatTheirPageSays(t *testing.T) {
	examples, known := workedPolicies(t), examplePlans()
	NewWithT(t).Expect(examples).To(HaveLen(10))
	gatherer := policies.New(world.client, world.client)
	for _, e := range examples {
		t.Run(e.title, func(t *testing.T) {
			g := NewWithT(t)
			namespace := newNamespace(t)
			labelNamespace(t, namespace, "env", "prod")
			ref := applyPolicy(t, namespace, e.text)
			g.Expect(reconcilePolicy(t, ref).Problems).To(BeEmpty())
			head := e.rows[0]
			g.Expect(len(e.rows)).To(BeNumerically(">", 3), "%s: too few examples", e.title)
			for _, row := range e.rows[2:] {
				g.Expect(known).To(HaveKey(row[0]))
				r := policyRequest(t, namespace, known[row[0]], votesOf(t, row[1], ref))
				if head[2] == "at" {
					at, err := time.Parse("2006-01-02 15:04", row[2])
					g.Expect(err).NotTo(HaveOccurred())
					r.Now = at
				}
				v, err := gatherer.Decide(t.Context(), r)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(v.Policies).To(HaveLen(1), "the policy does not select the Stack")
				said := string(v.State)
				if v.State == v1alpha1.PolicyHeld && v.HeldUntil != nil {
					said += " until " + v.HeldUntil.UTC().Format("2006-01-02 15:04")
				}
				g.Expect(said).To(Equal(row[len(row)-1]), "%v: %s", row, v.Message)
				g.Expect(v.Allows()).To(Equal(said == "Allowed"))
			}
		})
	}
}
