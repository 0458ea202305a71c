// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/controller/approvalpolicy"
	"github.com/plangate/plangate/pkg/policies"
	"github.com/plangate/plangate/tests/builder"
)

// With caches and watches as in cmd/manager: what a policy's status says follows the policy and the Stacks, and the cache that
// plans are decided by follows the policies.
func TestPoliciesRunOnWatchesAlone(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	skip := true
	mgr, err := ctrl.NewManager(world.config, ctrl.Options{
		Scheme: world.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(approvalpolicy.Setup(mgr, 2)).To(Succeed())
	gatherer := policies.New(mgr.GetClient(), mgr.GetAPIReader())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { g.Expect(mgr.Start(ctx)).To(Succeed()) })
	t.Cleanup(func() { cancel(); running.Wait() })

	p := namespacedPolicy(namespace, "team", v1alpha1.PolicyRule{Name: "none", Effect: v1alpha1.EffectDeny})
	g.Expect(world.client.Create(t.Context(), p)).To(Succeed())
	status := func() v1alpha1.ApprovalPolicyStatus {
		g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(p), p)).To(Succeed())
		return p.Status
	}
	patience := 30 * time.Second
	g.Eventually(func() string { return line(status().Conditions, v1alpha1.ConditionReady) }, patience).Should(ContainSubstring("True Compiled"))
	g.Expect(world.client.Create(t.Context(), builder.Stack(namespace, "web").Obj())).To(Succeed())
	g.Eventually(func() int32 { return status().SelectedStacks }, patience).Should(BeEquivalentTo(1))

	r := policyRequest(t, namespace, examplePlans()["bucket"], nil)
	r.Fresh = false
	state := func() v1alpha1.PolicyState {
		v, err := gatherer.Decide(t.Context(), r)
		g.Expect(err).NotTo(HaveOccurred())
		return v.State
	}
	g.Eventually(state, patience).Should(Equal(v1alpha1.PolicyDenied))
	status()
	p.Spec.Rules[0].Effect = v1alpha1.EffectAutoApprove
	g.Expect(world.client.Update(t.Context(), p)).To(Succeed())
	g.Eventually(state, patience).Should(Equal(v1alpha1.PolicyAllowed))
}
