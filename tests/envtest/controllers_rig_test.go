// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/admission"
	"github.com/plangate/plangate/pkg/audit"
	"github.com/plangate/plangate/pkg/controller/stack"
	"github.com/plangate/plangate/pkg/controller/updateplan"
	workspacectl "github.com/plangate/plangate/pkg/controller/workspace"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/tests/builder"
)

const (
	cluster      = "11111111-1111-4111-8111-111111111111"
	canaryOutput = "canary-output-9f2c1a7b"
	canarySecret = "canary-secret-44d0e1f3"
	podIP        = "127.0.0.1"
)

// rig is a namespace with the three controllers, driven by hand, and everything around them that is not here: the kubelet,
// the agents and the remote.
type rig struct {
	t         testing.TB
	g         Gomega
	ctx       context.Context
	namespace string
	// client is the test's own; the controllers get theirs.
	client   client.Client
	agents   *fakeAgents
	sources  *fakeSources
	recorder *fakeRecorder
	// audit is the audit log.
	audit *auditLog
	// settings and idle are what the next restart takes.
	settings   stack.Settings
	idle       time.Duration
	stateCheck time.Duration

	stacks     reconcile.Reconciler
	plans      reconcile.Reconciler
	workspaces reconcile.Reconciler
	// problems are the errors of the last round.
	problems []error
	// planClock is the clock of the plans' controller. Nil: the real one.
	planClock func() time.Time
	// noKubelet leaves pods as they are.
	noKubelet bool
}

// logs are what all controllers of this package's tests have logged.
var logs struct {
	mu   sync.Mutex
	once sync.Once
	text strings.Builder
}

// keepLogs keeps what controllers log, to be searched for what must not be in there.
func keepLogs() {
	logs.once.Do(func() {
		ctrl.SetLogger(funcr.New(func(prefix, args string) {
			logs.mu.Lock()
			defer logs.mu.Unlock()
			logs.text.WriteString(prefix + " " + args + "\n")
		}, funcr.Options{Verbosity: 10}))
	})
}

func newRig(t testing.TB) *rig {
	keepLogs()
	tt, ok := t.(*testing.T)
	if !ok {
		t.Fatal("not a test")
	}
	r := &rig{
		t: t, g: NewWithT(t), ctx: t.Context(), namespace: newNamespace(tt), client: world.client, agents: newFakeAgents(t),
		sources: &fakeSources{branches: map[string]string{"main": builder.Commit}}, recorder: &fakeRecorder{}, audit: &auditLog{},
		settings: stack.Settings{Cluster: cluster, PollInterval: time.Minute, PlanTimeToLive: time.Hour, RetryInterval: time.Second, RetryMaxInterval: 10 * time.Minute},
	}
	r.restart(world.client)
	return r
}

// restart makes new controllers, which remember nothing, and whose cache is never old.
func (r *rig) restart(c client.Client) { r.restartWith(c, c) }

// restartWith makes new controllers with a client that has a cache, and one that reads past it.
func (r *rig) restartWith(cached, c client.Client) {
	in, store := inputs.New(cached, c), planstore.New(cached, c)
	authority, err := operations.LoadAuthority(r.ctx, c, c, r.namespace, time.Hour)
	r.g.Expect(err).NotTo(HaveOccurred())
	r.workspaces = workspacectl.New(cached, c, r.agents, authority, r.recorder, workspacectl.Settings{ManagerImage: "manager", WorkspaceImage: "pulumi", IdleTimeout: r.idle})
	r.stacks = stack.New(cached, c, r.agents, r.sources, in, store, r.recorder, r.settings)
	r.plans = updateplan.New(cached, c, r.agents, r.sources, in, store, r.recorder, updateplan.Settings{
		Cluster: cluster, Now: r.planClock, StateCheckInterval: r.stateCheck, Audit: audit.New(r.audit, cluster), Admission: admission.New(cached, c, nil),
	})
}

// round lets each controller look at each of its objects once, and the kubelet at each pod.
func (r *rig) round() {
	r.t.Helper()
	r.problems = nil
	one := func(reconciler reconcile.Reconciler, o client.Object) {
		_, err := reconciler.Reconcile(r.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		if err != nil && !errors.Is(err, reconcile.TerminalError(nil)) {
			r.problems = append(r.problems, err)
		}
	}
	for _, o := range r.listStacks() {
		one(r.stacks, &o)
	}
	for _, o := range r.listWorkspaces() {
		one(r.workspaces, &o)
	}
	if !r.noKubelet {
		r.kubelet()
	}
	for _, o := range r.listPlans() {
		one(r.plans, &o)
	}
}

// rounds runs rounds until the condition holds.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	for range 60 {
		if holds() {
			return
		}
		r.round()
		if len(r.problems) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	r.t.Fatalf("%s: not reached; last problems: %v\n%s", what, r.problems, r.describe())
}

// settle runs rounds until nothing is written any more.
func (r *rig) settle() {
	r.t.Helper()
	versions := ""
	r.until("settling", func() bool {
		last := versions
		versions = r.versions()
		return last == versions
	})
}

func (r *rig) versions() string {
	var b strings.Builder
	for _, o := range r.listStacks() {
		fmt.Fprintln(&b, "Stack", o.Name, o.ResourceVersion)
	}
	for _, o := range r.listWorkspaces() {
		fmt.Fprintln(&b, "Workspace", o.Name, o.ResourceVersion)
	}
	for _, o := range r.listPlans() {
		fmt.Fprintln(&b, "UpdatePlan", o.Name, o.ResourceVersion)
	}
	return b.String()
}

// kubelet makes every pod that is not running, running and ready.
func (r *rig) kubelet() {
	pods := &corev1.PodList{}
	r.g.Expect(r.client.List(r.ctx, pods, client.InNamespace(r.namespace))).To(Succeed())
	for i := range pods.Items {
		runPod(r.ctx, r.client, &pods.Items[i])
	}
}

func runPod(ctx context.Context, c client.Client, pod *corev1.Pod) {
	if pod.Status.Phase != corev1.PodPending || !pod.DeletionTimestamp.IsZero() {
		return
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, podIP
	pod.Status.PodIPs = []corev1.PodIP{{IP: podIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pulumi", ImageID: builder.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	_ = c.Status().Update(ctx, pod) // a pod that went in the meantime is no loss
}

func (r *rig) create(o client.Object) {
	r.t.Helper()
	r.g.Expect(r.client.Create(r.ctx, o)).To(Succeed())
}

func (r *rig) secret(name, key, value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Data: map[string][]byte{key: []byte(value)}}
	err := r.client.Create(r.ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = r.client.Update(r.ctx, secret)
	}
	r.g.Expect(err).NotTo(HaveOccurred())
}

func (r *rig) listStacks() []v1alpha1.Stack {
	list := &v1alpha1.StackList{}
	r.g.Expect(r.client.List(r.ctx, list, client.InNamespace(r.namespace))).To(Succeed())
	return list.Items
}

func (r *rig) listWorkspaces() []v1alpha1.Workspace {
	list := &v1alpha1.WorkspaceList{}
	r.g.Expect(r.client.List(r.ctx, list, client.InNamespace(r.namespace))).To(Succeed())
	return list.Items
}

// listPlans lists the plans by their number.
func (r *rig) listPlans() []v1alpha1.UpdatePlan {
	list := &v1alpha1.UpdatePlanList{}
	r.g.Expect(r.client.List(r.ctx, list, client.InNamespace(r.namespace))).To(Succeed())
	return list.Items
}

func (r *rig) stack() *v1alpha1.Stack {
	r.t.Helper()
	o := &v1alpha1.Stack{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web"}, o)).To(Succeed())
	return o
}

func (r *rig) workspace() *v1alpha1.Workspace {
	r.t.Helper()
	o := &v1alpha1.Workspace{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web"}, o)).To(Succeed())
	return o
}

func (r *rig) pod() *corev1.Pod {
	r.t.Helper()
	o := &corev1.Pod{}
	r.g.Expect(r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: "web-workspace"}, o)).To(Succeed())
	return o
}

// plan is the plan with a number; nil when there is none.
func (r *rig) plan(sequence int64) *v1alpha1.UpdatePlan {
	for _, o := range r.listPlans() {
		if o.Spec.Sequence == sequence {
			return &o
		}
	}
	return nil
}

func (r *rig) edit(change func(*v1alpha1.Stack)) {
	r.t.Helper()
	r.g.Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o := r.stack()
		change(o)
		return r.client.Update(r.ctx, o)
	})).To(Succeed())
}

// annotate writes an annotation as kubectl does: one that decides on a plan as alice, everything else as anybody who may.
func (r *rig) annotate(o client.Object, key, value string) {
	r.t.Helper()
	r.g.Expect(r.tryAnnotate(o, key, value)).To(Succeed())
}

func (r *rig) tryAnnotate(o client.Object, key, value string) error {
	r.t.Helper()
	before, ok := o.DeepCopyObject().(client.Object)
	r.g.Expect(ok).To(BeTrue())
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
	c := r.client
	if _, ok := approval.ParseKey(key); ok {
		c = as(alice)
	}
	return c.Patch(r.ctx, o, client.MergeFrom(before), client.FieldOwner("kubectl-annotate"))
}

func (r *rig) approve(plan *v1alpha1.UpdatePlan) {
	r.t.Helper()
	r.annotate(plan, v1alpha1.AnnotationApprove, plan.Spec.Digest)
}

// approveTooLate has alice approve a plan whose end is written down: the admission policy does not let it in.
func (r *rig) approveTooLate(plan *v1alpha1.UpdatePlan) {
	r.t.Helper()
	err := r.tryAnnotate(plan.DeepCopy(), v1alpha1.AnnotationApprove, plan.Spec.Digest)
	r.g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	r.g.Expect(err.Error()).To(ContainSubstring("the plan has ended"))
}

// waiting runs until the plan with a number waits for its approval, and returns it.
func (r *rig) waiting(sequence int64) *v1alpha1.UpdatePlan {
	r.t.Helper()
	r.until(fmt.Sprintf("plan %d waits", sequence), func() bool { return r.reasonOf(sequence) == v1alpha1.ReasonWaitingForApproval })
	r.settle()
	return r.plan(sequence)
}

func (r *rig) reasonOf(sequence int64) string {
	p := r.plan(sequence)
	if p == nil {
		return ""
	}
	return reason(p.Status.Conditions, v1alpha1.ConditionReady)
}

// ends runs until the plan with a number has ended, and returns it.
func (r *rig) ends(sequence int64) *v1alpha1.UpdatePlan {
	r.t.Helper()
	r.until(fmt.Sprintf("plan %d ends", sequence), func() bool {
		p := r.plan(sequence)
		return p != nil && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionRecorded)
	})
	r.settle()
	return r.plan(sequence)
}

func reason(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

func message(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// line is a condition in a line: "True InSync".
func line(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason
}

// describe tells where everything stands, for a test that failed.
func (r *rig) describe() string {
	var b strings.Builder
	tell := func(kind, name string, conditions []metav1.Condition) {
		for _, c := range conditions {
			fmt.Fprintf(&b, "%s %s: %s %s %s: %s\n", kind, name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, o := range r.listStacks() {
		tell("Stack", o.Name, o.Status.Conditions)
	}
	for _, o := range r.listWorkspaces() {
		tell("Workspace", o.Name, o.Status.Conditions)
	}
	for _, o := range r.listPlans() {
		tell("UpdatePlan", o.Name, o.Status.Conditions)
	}
	fmt.Fprintln(&b, "calls:", r.agents.calls)
	return b.String()
}

func meta1(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func request(o client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}
