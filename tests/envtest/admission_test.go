// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/admission"
	"github.com/plangate/plangate/tests/builder"
)

// Who there is.
const (
	// operator is the service account of config/default.
	operator = "system:serviceaccount:plangate-system:plangate-manager"
	// flux is a GitOps controller, which can do everything in the cluster.
	flux = "system:serviceaccount:flux-system:kustomize-controller"
	// alice, bob and carol may approve anywhere. carol is named as an author where a test says so.
	alice = "alice@example.com"
	bob   = "bob@example.com"
	carol = "carol@example.com"
	// dave approves the plans of Stacks called "web", erin gives approvals of the class "security".
	dave = "dave@example.com"
	erin = "erin@example.com"
	// mallory may annotate and no more; sam may write plans and their status; trent edits Stacks.
	mallory = "mallory@example.com"
	sam     = "sam@example.com"
	trent   = "trent@example.com"
)

// keepAudit makes the API server write down who did what to UpdatePlans.
func keepAudit(environment *envtest.Environment, folder string) error {
	world.auditLog = filepath.Join(folder, "audit.log")
	policy := filepath.Join(folder, "audit.yaml")
	text := `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[` +
		`{"level":"Metadata","verbs":["patch","update"],"resources":[{"group":"plangate.dev","resources":["updateplans"]}]},{"level":"None"}]}`
	environment.ControlPlane.APIServer = &envtest.APIServer{}
	environment.ControlPlane.APIServer.Configure().Append("audit-policy-file", policy).Append("audit-log-path", world.auditLog)
	return os.WriteFile(policy, []byte(text), 0o600)
}

// impersonating is a way in under somebody's name.
func impersonating(user string, groups ...string) *rest.Config {
	c := rest.CopyConfig(world.admin)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return c
}

// as is what somebody has in hand.
func as(user string, groups ...string) client.Client {
	c, err := client.New(impersonating(user, groups...), client.Options{Scheme: world.scheme})
	if err != nil {
		panic(err)
	}
	return c
}

// manifestsOf reads all objects of a file below config.
func manifestsOf(path ...string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(filepath.Join(append([]string{"..", "..", "config"}, path...)...))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := d.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", filepath.Join(path...), err)
		case o.Object != nil:
			objects = append(objects, o)
		}
	}
}

// install puts the roles and the admission policies into the API server, and waits until they are in force.
func install() error {
	files := [][]string{
		{"rbac", "role.yaml"}, {"rbac", "role_binding.yaml"}, {"rbac", "aggregated_roles.yaml"}, {"samples", "rbac", "approver_of_a_class.yaml"},
		{"admission", "updateplans.yaml"}, {"admission", "updateplans-stamp.yaml"}, {"admission", "stacks-author.yaml"}, {"admission", "stacks-stamp.yaml"},
		{"admission", "stack-unlock.yaml"},
	}
	ctx := context.Background()
	for _, file := range files {
		objects, err := manifestsOf(file...)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := world.client.Create(ctx, o); err != nil {
				return fmt.Errorf("installing %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	roles := []*rbacv1.ClusterRole{
		role("approver-of-web", rule("updateplans", "get", "patch"), rbacv1.PolicyRule{APIGroups: []string{"plangate.dev"}, Resources: []string{"stacks"}, ResourceNames: []string{"web"}, Verbs: []string{"approve"}}),
		role("writer-of-plans", rule("updateplans", "get", "create", "update", "patch", "delete"), rule("updateplans/status", "get", "update", "patch")),
	}
	for _, r := range roles {
		if err := world.client.Create(ctx, r); err != nil {
			return err
		}
	}
	for user, names := range map[string][]string{
		alice: {"plangate-approver"}, bob: {"plangate-approver"}, carol: {"plangate-approver", "plangate-edit"}, dave: {"approver-of-web"},
		erin: {"plangate-approver-security"}, mallory: {"plangate-signer"}, sam: {"writer-of-plans"}, trent: {"plangate-edit", "plangate-view"}, flux: {"cluster-admin"},
	} {
		for _, name := range names {
			if err := grant(ctx, user, name); err != nil {
				return err
			}
		}
	}
	return inForce(ctx)
}

func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{Rules: rules}
	r.Name = name
	return r
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"plangate.dev"}, Resources: []string{resource}, Verbs: verbs}
}

// grant binds a ClusterRole to somebody everywhere.
func grant(ctx context.Context, user, clusterRole string) error {
	b := &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}}
	b.GenerateName = clusterRole + "-"
	b.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	if namespace, name, ok := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":"); ok && strings.HasPrefix(user, "system:serviceaccount:") {
		b.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	}
	return world.client.Create(ctx, b)
}

// inForce waits until each policy was seen to do its work: one that was just made takes about a second.
func inForce(ctx context.Context) error {
	stack, plan := builder.Stack("default", "in-force").Obj(), builder.UpdatePlan("default", "in-force").Obj()
	for _, o := range []client.Object{stack, plan} {
		// A policy that patches objects refuses them until the API server knows their schema.
		err := world.client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
		for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			err = world.client.Create(ctx, o)
		}
		if err != nil {
			return err
		}
	}
	approver, nobody := as(alice), as(mallory)
	annotate := func(o client.Object, c client.Client, key, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
		target := o.DeepCopyObject().(client.Object)
		return c.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
	checks := map[string]func() bool{
		"updateplans": func() bool {
			err := annotate(plan, world.client, v1alpha1.DomainApprove+"/x", plan.Spec.Digest+" by "+operator)
			return err != nil && strings.Contains(err.Error(), admission.Refusal)
		},
		"updateplans, for everybody": func() bool {
			err := annotate(plan, nobody, v1alpha1.DomainApprove+"/x", plan.Spec.Digest+" by "+mallory)
			return err != nil && strings.Contains(err.Error(), noVerb)
		},
		"updateplans-stamp": func() bool { return annotate(plan, approver, v1alpha1.AnnotationApprove, plan.Spec.Digest) == nil },
		"stacks-author": func() bool {
			return apierrors.IsForbidden(annotate(stack, world.client, v1alpha1.AnnotationEditedBy, "1 by x"))
		},
		"stacks-stamp": func() bool {
			o := builder.Stack("default", "in-force-2").Obj()
			return world.client.Create(ctx, o, client.DryRunAll) == nil && o.Annotations[v1alpha1.AnnotationEditedBy] != ""
		},
	}
	for name, holds := range checks {
		for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("the admission policy %s does not come into force", name)
			}
		}
	}
	return nil
}
