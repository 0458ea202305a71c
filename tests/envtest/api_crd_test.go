// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

// annotationLimit is how much all annotations of an object may hold together; client-side apply keeps the object in one.
const annotationLimit = 256 * 1024

// table is what `kubectl get` prints: the columns' names, and the cells of each row under them.
func table(t *testing.T, path string, wide bool) (columns []string, rows []map[string]any) {
	t.Helper()
	g := NewWithT(t)
	httpClient, err := rest.HTTPClientFor(world.config)
	g.Expect(err).NotTo(HaveOccurred())
	address, err := url.JoinPath(world.config.Host, path)
	g.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := httpClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.StatusCode).To(Equal(http.StatusOK), string(body))
	var got metav1.Table
	g.Expect(json.Unmarshal(body, &got)).To(Succeed())
	for _, column := range got.ColumnDefinitions {
		if wide || column.Priority == 0 {
			columns = append(columns, column.Name)
		}
	}
	for _, row := range got.Rows {
		cells := map[string]any{}
		for i, cell := range row.Cells {
			cells[got.ColumnDefinitions[i].Name] = cell
		}
		rows = append(rows, cells)
	}
	return columns, rows
}

func TestPrinterColumns(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	create := func(object client.Object) {
		t.Helper()
		status, ok := object.DeepCopyObject().(client.Object)
		g.Expect(ok).To(BeTrue())
		g.Expect(world.client.Create(t.Context(), object)).To(Succeed())
		status.SetResourceVersion(object.GetResourceVersion())
		g.Expect(world.client.Status().Update(t.Context(), status)).To(Succeed())
	}
	create(builder.Stack(namespace, "web").
		Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForApproval, "say yes").
		Status(func(s *v1alpha1.StackStatus) {
			s.CurrentPlan = &v1alpha1.PlanReference{Name: "web-1-01234567", Digest: builder.Digest("x")}
			s.ShortRevision = "0123456789ab"
		}).Obj())
	plan := builder.UpdatePlan(namespace, "web-1-01234567").
		Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForApproval, "say yes").
		Condition(v1alpha1.ConditionApproved, metav1.ConditionUnknown, v1alpha1.ReasonWaitingForApproval, "").
		Condition(v1alpha1.ConditionApplied, metav1.ConditionUnknown, v1alpha1.ReasonNotApplied, "").Obj()
	create(plan)
	create(builder.Workspace(namespace, "web").Image("image:1").Pod("web-pod", builder.UID(1), "10.0.0.1:1").
		Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, "it answers").
		Status(func(s *v1alpha1.WorkspaceStatus) { s.PulumiVersion = "3.276.0" }).Obj())

	cases := map[string]struct {
		columns, wide []string
		cells         map[string]any
	}{
		"stacks": {
			columns: []string{"Name", "Ready", "Status", "Plan", "Drift", "Revision", "Age"},
			wide:    []string{"Message"},
			cells: map[string]any{
				"Name": "web", "Ready": "False", "Status": "WaitingForApproval", "Plan": "web-1-01234567", "Revision": "0123456789ab", "Message": "say yes",
			},
		},
		"updateplans": {
			columns: []string{"Name", "Stack", "Status", "Changes", "Trigger", "Age"},
			wide:    []string{"Approved", "Applied", "Digest", "Message"},
			cells: map[string]any{
				"Name": "web-1-01234567", "Stack": "web", "Status": "WaitingForApproval", "Changes": "+1", "Trigger": "SpecChanged",
				"Approved": "Unknown", "Applied": "Unknown", "Digest": plan.Spec.Digest, "Message": "say yes",
			},
		},
		"workspaces": {
			columns: []string{"Name", "Ready", "Status", "Pod", "Pulumi", "Age"},
			wide:    []string{"Image", "Message"},
			cells: map[string]any{
				"Name": "web", "Ready": "True", "Status": "AgentReady", "Pod": "web-pod", "Pulumi": "3.276.0", "Image": "image:1", "Message": "it answers",
			},
		},
	}
	for resource, tc := range cases {
		t.Run(resource, func(t *testing.T) {
			g := NewWithT(t)
			path := "/apis/plangate.dev/v1alpha1/namespaces/" + namespace + "/" + resource
			columns, rows := table(t, path, false)
			g.Expect(columns).To(Equal(tc.columns))
			g.Expect(rows).To(HaveLen(1))
			for name, want := range tc.cells {
				g.Expect(rows[0]).To(HaveKeyWithValue(name, want))
			}
			columns, _ = table(t, path, true)
			g.Expect(columns).To(Equal(append(tc.columns, tc.wide...)))
		})
	}
}

func crdFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(crdFolder, "plangate.dev_*.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	return files
}

// kubectl runs the kubectl that comes with the API server, or skips the test where there is none.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	command := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if _, err := os.Stat(command); err != nil {
		t.Fatalf("no kubectl in KUBEBUILDER_ASSETS: %v", err)
	}
	arguments = append([]string{"--kubeconfig", world.kubeconfig}, arguments...)
	output, err := exec.CommandContext(t.Context(), command, arguments...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(arguments, " "), output)
	return string(output)
}

// PKO's CRDs are too large for client-side apply; ours must not grow into that.
func TestCRDsFitClientSideApply(t *testing.T) {
	for _, file := range crdFiles(t) {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "plangate.dev_"), ".yaml") + ".plangate.dev"
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kubectl(t, "apply", "--server-side=false", "-f", file)
			g.Expect(kubectl(t, "apply", "--server-side=false", "-f", file)).To(ContainSubstring("unchanged"))
			crd := &apiextensionsv1.CustomResourceDefinition{}
			g.Expect(world.client.Get(t.Context(), client.ObjectKey{Name: name}, crd)).To(Succeed())
			kept := crd.Annotations[corev1.LastAppliedConfigAnnotation]
			g.Expect(kept).NotTo(BeEmpty())
			g.Expect(len(kept)).To(BeNumerically("<", annotationLimit))
		})
	}
}

// An API server that finds fault with a schema says so in conditions, and then serves the kind half-heartedly.
func TestCRDsAreStructural(t *testing.T) {
	g := NewWithT(t)
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	g.Expect(world.client.List(t.Context(), crds)).To(Succeed())
	g.Expect(crds.Items).To(HaveLen(len(crdFiles(t))))
	for i := range crds.Items {
		for _, condition := range crds.Items[i].Status.Conditions {
			switch condition.Type {
			case apiextensionsv1.Established, apiextensionsv1.NamesAccepted:
				g.Expect(condition.Status).To(Equal(apiextensionsv1.ConditionTrue), "%s: %s", crds.Items[i].Name, condition.Message)
			case apiextensionsv1.NonStructuralSchema, apiextensionsv1.KubernetesAPIApprovalPolicyConformant:
				g.Expect(condition.Status).NotTo(Equal(apiextensionsv1.ConditionTrue), "%s: %s", crds.Items[i].Name, condition.Message)
			}
		}
	}
}

// What people type.
func TestKubectl(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	plan := builder.UpdatePlan(namespace, "web-1-01234567").StackRef("web", "4711").Obj()
	for _, object := range []client.Object{
		plan, builder.UpdatePlan(namespace, "web-2-01234567").StackRef("web", "4712").Obj(),
		builder.Stack(namespace, "web").Obj(), builder.Workspace(namespace, "web").Obj(),
	} {
		g.Expect(world.client.Create(t.Context(), object)).To(Succeed())
	}

	for _, name := range []string{"updateplans", "updateplan", "up", "uplan"} {
		g.Expect(kubectl(t, "-n", namespace, "get", name, "--field-selector", "spec.stackRef.resourceVersion=4711", "-o", "name")).
			To(Equal("updateplan.plangate.dev/web-1-01234567\n"))
	}
	g.Expect(strings.Fields(kubectl(t, "-n", namespace, "get", "plangate", "-o", "name"))).To(ConsistOf(
		"stack.plangate.dev/web", "updateplan.plangate.dev/web-1-01234567", "updateplan.plangate.dev/web-2-01234567", "workspace.plangate.dev/web"))
	g.Expect(kubectl(t, "-n", namespace, "get", "ws", "-o", "name")).To(Equal("workspace.plangate.dev/web\n"))
	g.Expect(kubectl(t, "explain", "stack.spec.repoDir")).
		To(ContainSubstring("folder of the repository"))

	kubectl(t, "-n", namespace, "annotate", "updateplan", plan.Name, v1alpha1.AnnotationApprove+"="+plan.Spec.Digest)
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(plan), plan)).To(Succeed())
	g.Expect(plan.Annotations).To(Equal(map[string]string{v1alpha1.DomainApprove + "/admin": plan.Spec.Digest + " by admin"}), "the API server says who")
}
