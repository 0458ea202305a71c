// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// stale is how many plans ended with a field that had moved, as the manager's metrics tell.
func stale(g Gomega, field string) float64 {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range families {
		if f.GetName() != "plangate_updateplan_mismatches_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == field {
				return m.GetCounter().GetValue()
			}
		}
	}
	g.Expect(field).To(BeEmpty(), "no such field is counted")
	return 0
}

// What only the operator can see of the pod is bound too: a container that comes back with another image applies nothing.
func TestAPlanIsNotAppliedByAnotherImage(t *testing.T) {
	r := newRig(t)
	r.create(builder.Stack(r.namespace, "web").Obj())
	plan := r.waiting(1)
	r.g.Expect(plan.Spec.Binding.WorkspaceImage).To(Equal(builder.Image))
	r.g.Expect(plan.Spec.Binding.Plugins).To(ConsistOf(v1alpha1.Plugin{Name: "files", Version: "0.1.0", Digest: builder.Digest("files")}))
	pod := r.pod()
	pod.Status.ContainerStatuses[0].ImageID = "sha256:other"
	r.g.Expect(r.client.Status().Update(r.ctx, pod)).To(Succeed())
	before := stale(r.g, "workspaceImage")
	r.approve(plan)
	plan = r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Stale"))
	r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring("workspaceImage: was " + builder.Image + ", is sha256:other (the workspace runs another image)"))
	r.g.Expect(r.agents.ran(workspace.Apply)).To(BeEmpty())
	r.g.Expect(stale(r.g, "workspaceImage") - before).To(BeEquivalentTo(1))
	r.g.Expect(r.waiting(2).Spec.Binding.WorkspaceImage).To(Equal("sha256:other"))
}

// Of the configuration the very entry is named that moved, and not its value.
func TestASecretThatMovedIsNamed(t *testing.T) {
	r := newRig(t)
	r.secret("db", "password", canarySecret)
	r.create(builder.Stack(r.namespace, "web").Config("size", 1).SecretConfig("token", "db", "password").Env("REGION", "eu").Obj())
	r.g.Expect(r.waiting(1).Spec.Binding.ConfigEntries).To(HaveLen(3))
	r.secret("db", "password", "another")
	plan := r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False Superseded"))
	r.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionReady)).To(HaveSuffix("was changed: changed spec.secretsRef[token] (Secret db/password)"))
	text, err := json.Marshal(plan)
	r.g.Expect(err).NotTo(HaveOccurred())
	r.g.Expect(string(text)).NotTo(ContainSubstring(canarySecret))
}

// An output that shows a secret can be masked only as long as the secret is known that the plan was applied with.
func TestOutputsAreHiddenWhenASecretMovedDuringTheApply(t *testing.T) {
	r := newRig(t)
	r.secret("db", "password", canarySecret)
	r.create(builder.Stack(r.namespace, "web").SecretConfig("token", "db", "password").Obj())
	apply := r.agents.apply
	r.agents.apply = func(op workspace.Operation) *workspace.Result {
		result := apply(op)
		result.Outputs["leak"] = json.RawMessage(`"` + op.SecretConfig["token"] + `"`)
		return result
	}
	plan := r.waiting(1)
	r.agents.hold = true
	r.approve(plan)
	r.until("the apply runs", func() bool {
		return r.reasonOf(1) == v1alpha1.ReasonApplying && len(r.agents.ran(workspace.Apply)) == 1
	})
	r.secret("db", "password", "another")
	r.agents.hold = false
	plan = r.ends(1)
	r.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	for _, name := range []string{"leak", "url"} {
		r.g.Expect(string(plan.Status.Operation.Outputs[name].Raw)).To(Equal(`"[secret]"`), name)
	}
}
