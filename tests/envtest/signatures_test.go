// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
	"github.com/plangate/plangate/tests/builder"
)

// signable creates a plan with a real statement, in which there are all kinds of characters that a shell or a printer could
// change.
func signable(t *testing.T, namespace string) *v1alpha1.UpdatePlan {
	t.Helper()
	g := NewWithT(t)
	plan := builder.UpdatePlan(namespace, "web").Obj()
	binding := plan.Spec.Binding
	binding.PulumiVersion, binding.Directory = "v3.276.0", `infra/%s $(id) 'it' "is" \n ü`
	spec, err := plans.NewSpec(plans.SpecInput{
		Namespace: namespace, Cluster: "c1", Nonce: strings.Repeat("a", 32), Stack: plan.Spec.StackRef, Sequence: 1,
		Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRequested, Message: "<b> & \u2028 `x` \\ %d"},
		Binding: binding, Artifact: plan.Spec.Artifact, NotAfter: time.Now().Add(time.Hour), Plan: plans.New(plan.Spec.Changes, 0),
	})
	g.Expect(err).NotTo(HaveOccurred())
	plan.Spec, plan.Name = spec, plans.PlanName(spec.StackRef.Name, spec.Sequence, spec.Digest)
	g.Expect(world.client.Create(t.Context(), plan)).To(Succeed())
	return plan
}

func TestAScriptOfACIJobSignsAPlanOnTheRealAPIServer(t *testing.T) {
	g := NewWithT(t)
	scripts, err := filepath.Abs(filepath.Join("..", "..", "config", "samples", "ci"))
	g.Expect(err).NotTo(HaveOccurred())
	plan := signable(t, newNamespace(t))
	dir := t.TempDir()
	run := func(name string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, arguments...)
		command.Dir = dir
		command.Env = append(os.Environ(), "KUBECONFIG="+world.kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s %s (Debian packages: openssl openssh-client): %s", name, strings.Join(arguments, " "), output)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return string(b)
	}
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "ssh")
	run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "pem")
	run("openssl", "pkey", "-in", "pem", "-pubout", "-out", "pem.pub")
	run(filepath.Join(scripts, "sign-ssh.sh"), "-n", plan.Namespace, "-k", "ssh", plan.Name)
	run(filepath.Join(scripts, "sign-openssl.sh"), "-n", plan.Namespace, "-k", "pem", "-s", "second", "-r", plan.Name)

	signed := &v1alpha1.UpdatePlan{}
	g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(plan), signed)).To(Succeed())
	signers, err := signature.New([]v1alpha1.TrustedSigner{{Name: "a", SSH: read("ssh.pub")}, {Name: "b", PEM: read("pem.pub")}})
	g.Expect(err).NotTo(HaveOccurred())
	report := signature.VerifyAll(signature.Input{Statement: signed.Spec.Statement, Cluster: "c1", Signers: signers, Now: time.Now()}, signed.Annotations, nil)
	g.Expect(report.Refused).To(BeEmpty())
	g.Expect(report.Verified).To(HaveLen(2))
	g.Expect(report.Verified[0]).To(And(HaveField("Slot", "ci"), HaveField("Signer", "a"), HaveField("Verdict", signature.Approve), HaveField("Digest", plan.Spec.Digest)))
	g.Expect(report.Verified[1]).To(And(HaveField("Slot", "second"), HaveField("Signer", "b"), HaveField("Verdict", signature.Reject)))
}

func TestTheAPIServerTakesExactlyOneSourceOfRequiredSigners(t *testing.T) {
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		required v1alpha1.RequiredSigners
		ok       bool
	}{
		"configmap": {v1alpha1.RequiredSigners{ConfigMap: "a"}, true},
		"secret":    {v1alpha1.RequiredSigners{Secret: "a"}, true},
		"both":      {v1alpha1.RequiredSigners{ConfigMap: "a", Secret: "a"}, false},
		"neither":   {v1alpha1.RequiredSigners{}, false},
	} {
		ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.WorkspaceSpec{RequiredSigners: &tc.required}}
		if err := world.client.Create(t.Context(), ws); (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), "exactly one of configMap and secret") {
			t.Errorf("a Workspace with required signers of %s: %v", name, err)
		}
	}
}
