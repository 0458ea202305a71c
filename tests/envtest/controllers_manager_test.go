// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/admission"
	"github.com/plangate/plangate/pkg/audit"
	"github.com/plangate/plangate/pkg/controller/stack"
	"github.com/plangate/plangate/pkg/controller/updateplan"
	workspacectl "github.com/plangate/plangate/pkg/controller/workspace"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// counter counts requests, watches aside: those are open all the time.
type counter struct {
	inner http.RoundTripper
	mu    sync.Mutex
	seen  []string
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.RawQuery, "watch=true") {
		c.mu.Lock()
		c.seen = append(c.seen, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
	}
	return c.inner.RoundTrip(r)
}

func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// managed is a rig whose controllers run in a manager, with caches and watches as in cmd/manager.
type managed struct {
	*rig
	requests *counter
}

func newManaged(t *testing.T) *managed {
	m := &managed{rig: newRig(t), requests: &counter{}}
	m.settings.PollInterval = time.Second
	g := m.g
	cfg := rest.CopyConfig(world.config)
	cfg.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		m.requests.mu.Lock()
		defer m.requests.mu.Unlock()
		if m.requests.inner == nil {
			m.requests.inner = inner
			return m.requests
		}
		return &counter{inner: inner}
	})
	skip := true
	httpClient, err := rest.HTTPClientFor(cfg)
	g.Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: world.scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{
			HTTPClient: httpClient, DefaultNamespaces: map[string]cache.Config{m.namespace: {}},
			ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: operations.PodSelector()}},
		},
		Client: client.Options{HTTPClient: httpClient, Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(cfg, client.Options{Scheme: world.scheme, HTTPClient: httpClient})
	g.Expect(err).NotTo(HaveOccurred())
	cached := mgr.GetClient()
	in, store := inputs.New(cached, c), planstore.New(cached, c)
	authority, err := operations.LoadAuthority(m.ctx, c, c, m.namespace, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(workspacectl.New(cached, c, m.agents, authority, m.recorder, workspacectl.Settings{ManagerImage: "manager", WorkspaceImage: "pulumi", IdleTimeout: m.idle}).Setup(mgr, 4)).To(Succeed())
	g.Expect(stack.New(cached, c, m.agents, m.sources, in, store, m.recorder, m.settings).Setup(m.ctx, mgr, 4)).To(Succeed())
	g.Expect(updateplan.New(cached, c, m.agents, m.sources, in, store, m.recorder, updateplan.Settings{
		Cluster: cluster, Audit: audit.New(m.audit, cluster), Admission: admission.New(cached, c, nil),
	}).Setup(m.ctx, mgr, 4)).To(Succeed())

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { g.Expect(mgr.Start(ctx)).To(Succeed()) })
	running.Go(func() { m.runPods(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return m
}

// runPods is the kubelet.
func (m *managed) runPods(ctx context.Context) {
	for ctx.Err() == nil {
		pods := &corev1.PodList{}
		if m.client.List(ctx, pods, client.InNamespace(m.namespace)) == nil {
			for i := range pods.Items {
				runPod(ctx, m.client, &pods.Items[i])
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (m *managed) eventually(what string, holds func() bool) {
	m.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: not reached\n%s", what, m.describe())
		}
		// What runs in the fake agents ends when somebody asks, and those who watch are told.
		m.agents.release()
		time.Sleep(50 * time.Millisecond)
	}
}

func (m *managed) state(name string) string {
	st := &v1alpha1.Stack{}
	if err := m.client.Get(m.ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, st); err != nil {
		return err.Error()
	}
	return line(st.Status.Conditions, v1alpha1.ConditionReady)
}

func TestTheWholePathRunsOnWatchesAlone(t *testing.T) {
	m := newManaged(t)
	m.secret("token", "value", "one")
	m.create(builder.Stack(m.namespace, "web").Commit(builder.Commit).SecretConfig("token", "token", "value").Obj())
	m.eventually("the plan waits", func() bool { return m.state("web") == "False WaitingForApproval" })
	m.approve(m.plan(1))
	m.eventually("the Stack is in sync", func() bool { return m.state("web") == "True InSync" })
	m.secret("token", "value", "two")
	m.eventually("the next plan waits", func() bool { return m.reasonOf(2) == v1alpha1.ReasonWaitingForApproval })
	m.edit(func(s *v1alpha1.Stack) { s.Spec.Refresh = true })
	m.eventually("plan 2 is superseded", func() bool { return m.reasonOf(2) == v1alpha1.ReasonSuperseded })
	m.eventually("plan 3 waits", func() bool { return m.reasonOf(3) == v1alpha1.ReasonWaitingForApproval })
	m.g.Expect(m.client.Delete(m.ctx, &corev1.Secret{ObjectMeta: meta1(m.namespace, "web-plangate-key")})).To(Succeed())
	m.eventually("plan 4 waits, with a new key", func() bool { return m.reasonOf(4) == v1alpha1.ReasonWaitingForApproval })
	m.annotate(m.plan(4), v1alpha1.AnnotationReject, m.plan(4).Spec.Digest)
	m.eventually("the Stack says so", func() bool { return m.state("web") == "False Rejected" })
	m.annotate(m.stack(), v1alpha1.AnnotationRequestPlan, "again")
	m.eventually("plan 5 waits", func() bool { return m.reasonOf(5) == v1alpha1.ReasonWaitingForApproval })
	// Before the Stack has recorded it, it would publish the very same plan again.
	m.eventually("the Stack waits for it", func() bool { return m.state("web") == "False WaitingForApproval" })
	m.g.Expect(m.client.Delete(m.ctx, m.plan(5))).To(Succeed())
	m.eventually("plan 6 waits", func() bool { return m.reasonOf(6) == v1alpha1.ReasonWaitingForApproval })
	m.g.Expect(m.agents.ran(workspace.Apply)).To(HaveLen(1))
}

// A Stack that is in sync, waits for a person, failed for good, or is suspended costs the API server nothing.
func TestStacksAtRestCostNoRequest(t *testing.T) {
	m := newManaged(t)
	broken := m.agents.preview
	m.agents.preview = func(op workspace.Operation) *workspace.Result {
		if op.Source.Dir == "broken" {
			return &workspace.Result{Outcome: workspace.Failed, Message: "syntax error"}
		}
		return broken(op)
	}
	m.secret("token", "value", canarySecret)
	want := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("web-%d", i)
		st := builder.Stack(m.namespace, name).SecretConfig("token", "token", "value").Config("i", i)
		want[name] = "False WaitingForApproval"
		switch i {
		case 1:
			want[name] = "True InSync"
		case 2:
			want[name] = "False Rejected"
		case 3:
			st.Suspend()
			want[name] = "Unknown Suspended"
		}
		m.create(st.Obj())
	}
	decided := map[string]bool{}
	m.eventually("all rest", func() bool {
		still := true
		for _, p := range m.listPlans() {
			if reason(p.Status.Conditions, v1alpha1.ConditionReady) != v1alpha1.ReasonWaitingForApproval || decided[p.Name] {
				continue
			}
			switch p.Spec.StackRef.Name {
			case "web-1":
				m.approve(&p)
			case "web-2":
				m.annotate(&p, v1alpha1.AnnotationReject, p.Spec.Digest)
			}
			decided[p.Name] = true
		}
		for name, state := range want {
			still = still && m.state(name) == state
		}
		return still
	})
	time.Sleep(3 * time.Second)
	m.requests.take()
	versions := m.versions()
	time.Sleep(4 * time.Second) // several looks at the branch, one a second
	m.g.Expect(m.requests.take()).To(BeEmpty())
	m.g.Expect(m.versions()).To(Equal(versions))
}
