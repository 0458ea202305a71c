// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/plans"
)

const (
	idleStacks = 200
	// settleTime is how long the manager is left alone after its start before anything is counted.
	settleTime = 60 * time.Second
)

// idleWindow is how long is counted: several times the default interval at which a branch is looked at.
func idleWindow() time.Duration {
	if testing.Short() {
		return time.Minute
	}
	return 3 * time.Minute
}

// idleTemplate keeps no pod: the Workspace's is idle from the beginning.
const idleTemplate = `{"spec":{"idleTimeout":"1s"}}`

// BenchmarkIdle measures what the manager costs while nothing changes: alone, and with many Stacks.
//
// The Stacks are copies of one that went the whole way, with the plan that was applied, the Workspace whose pod is gone, and the
// Secrets. They are made while the manager is away. When it comes back it finds each one with the same inputs as its last
// preview had, so that nothing is due. Then it is restarted, and what is counted is what it does after any restart.
func BenchmarkIdle(b *testing.B) {
	defaultFlags(b)
	w := newWorld(b)
	commit := w.push(program(file{name: "a", content: "${greeting}"}))
	w.create(w.newStack())
	plan := w.applied(w.plan())
	w.inSync()
	original := w.stack()
	scaleManager(b, 0)
	scaleManager(b, 1)
	alone := w.idle(b, "no Stack more than what was there")
	scaleManager(b, 0)
	w.copies(original, plan, commit)
	scaleManager(b, 1)
	w.adopted()
	scaleManager(b, 0)
	scaleManager(b, 1)
	full := w.idle(b, fmt.Sprintf("%d idle Stacks", idleStacks))
	w.checkIdle()
	reportIdle(b, alone, full)
}

func scaleManager(b *testing.B, replicas int32) {
	b.Helper()
	editManager(b, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
}

// copies makes many Stacks that look as if each had gone the way of the original.
func (w *world) copies(original *v1alpha1.Stack, plan *v1alpha1.UpdatePlan, commit string) {
	w.t.Helper()
	say("making %d Stacks", idleStacks)
	gatherer := inputs.New(cluster.client, cluster.client)
	numbers, errs := make(chan int), make(chan error, idleStacks)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for n := range numbers {
				errs <- w.copyOf(gatherer, original, plan, commit, fmt.Sprintf("idle-%03d", n))
			}
		})
	}
	for n := range idleStacks {
		numbers <- n
	}
	close(numbers)
	workers.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			w.t.Fatalf("making an idle Stack: %v", err)
		}
	}
}

func (w *world) copyOf(gatherer *inputs.Gatherer, original *v1alpha1.Stack, plan *v1alpha1.UpdatePlan, commit, name string) error {
	ctx, c := w.ctx(), cluster.client
	stack := &v1alpha1.Stack{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, Finalizers: []string{v1alpha1.Finalizer}}}
	original.Spec.DeepCopyInto(&stack.Spec)
	stack.Spec.Stack = name
	stack.Spec.WorkspaceTemplate = &runtime.RawExtension{Raw: []byte(idleTemplate)}
	if err := c.Create(ctx, stack); err != nil {
		return err
	}
	// This makes the Stack's key, too.
	in, err := gatherer.Gather(ctx, stack)
	if err != nil {
		return err
	}
	owned := *metav1.NewControllerRef(stack, v1alpha1.GroupVersion.WithKind("Stack"))
	applied, err := w.copyPlan(stack, plan, owned)
	if err != nil {
		return err
	}
	ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: w.namespace, Finalizers: []string{v1alpha1.Finalizer}, OwnerReferences: []metav1.OwnerReference{owned},
		Labels: map[string]string{v1alpha1.LabelStack: name},
	}}
	ws.Spec.ServiceAccountName, ws.Spec.IdleTimeout = stack.Spec.ServiceAccountName, &metav1.Duration{Duration: time.Second}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.OutputsSecretName(name), Namespace: w.namespace, OwnerReferences: []metav1.OwnerReference{owned},
		Labels: map[string]string{v1alpha1.LabelStack: name, v1alpha1.LabelComponent: v1alpha1.ComponentOutputs},
	}, StringData: map[string]string{"outputs.json": `{"greeting":"hello from git"}`}}
	if err := errors.Join(c.Create(ctx, ws), c.Create(ctx, secret)); err != nil {
		return err
	}
	before := stack.DeepCopy()
	original.Status.DeepCopyInto(&stack.Status)
	last := stack.Status.LastPreview
	last.Plan, last.Revision, last.Generation, last.ConfigDigest = applied.Name, commit, stack.Generation, in.ConfigDigest
	last.InputsDigest = plans.InputsDigest(stack.Generation, commit, in.ConfigDigest, "")
	stack.Status.ConfigDigest, stack.Status.ObservedGeneration = in.ConfigDigest, stack.Generation
	stack.Status.LastAppliedPlan.Name, stack.Status.LastAppliedPlan.Digest = applied.Name, applied.Spec.Digest
	stack.Status.OutputsSecret = secret.Name
	return c.Status().Patch(ctx, stack, client.MergeFrom(before))
}

// copyPlan makes the ended plan of a copied Stack, and the Secrets with its plan file.
func (w *world) copyPlan(stack *v1alpha1.Stack, plan *v1alpha1.UpdatePlan, owner metav1.OwnerReference) (*v1alpha1.UpdatePlan, error) {
	ctx, c := w.ctx(), cluster.client
	up := &v1alpha1.UpdatePlan{ObjectMeta: metav1.ObjectMeta{
		Name: plans.PlanName(stack.Name, plan.Spec.Sequence, plan.Spec.Digest), Namespace: w.namespace, Finalizers: plan.Finalizers,
		Labels: maps.Clone(plan.Labels), OwnerReferences: []metav1.OwnerReference{owner},
	}}
	up.Labels[v1alpha1.LabelStack] = stack.Name
	plan.Spec.DeepCopyInto(&up.Spec)
	up.Spec.StackRef.Name, up.Spec.StackRef.UID = stack.Name, string(stack.UID)
	for i, name := range plan.Spec.Artifact.Chunks {
		chunk := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, chunk); err != nil {
			return nil, err
		}
		up.Spec.Artifact.Chunks[i] = fmt.Sprintf("%s-file-%d", stack.Name, i)
		chunk.ObjectMeta = metav1.ObjectMeta{
			Name: up.Spec.Artifact.Chunks[i], Namespace: w.namespace, Labels: chunk.Labels, Annotations: chunk.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner},
		}
		if err := c.Create(ctx, chunk); err != nil {
			return nil, err
		}
	}
	// Only the operator may do that.
	if err := cluster.operator.Create(ctx, up); err != nil {
		return nil, err
	}
	before := up.DeepCopy()
	plan.Status.DeepCopyInto(&up.Status)
	return up, cluster.operator.Status().Patch(ctx, up, client.MergeFrom(before))
}

// adopted waits until the manager has seen all copies and made what it makes itself: certificates, and what a Workspace says.
func (w *world) adopted() {
	w.t.Helper()
	eventually(w.t, "all Workspaces to be idle", slow, func() error {
		list := &v1alpha1.WorkspaceList{}
		if err := cluster.client.List(w.ctx(), list, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		idle := 0
		for i := range list.Items {
			if c := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonIdle {
				idle++
			}
		}
		if idle < idleStacks {
			return fmt.Errorf("%d are", idle)
		}
		return nil
	})
}

// checkIdle makes sure that what was measured is what is said: all Stacks in sync, no pods, no new plans.
func (w *world) checkIdle() {
	w.t.Helper()
	stacks, up, pods := &v1alpha1.StackList{}, &v1alpha1.UpdatePlanList{}, &corev1.PodList{}
	here := client.InNamespace(w.namespace)
	if err := errors.Join(cluster.client.List(w.ctx(), stacks, here), cluster.client.List(w.ctx(), up, here), cluster.client.List(w.ctx(), pods, here)); err != nil {
		w.t.Fatal(err)
	}
	for i := range stacks.Items {
		if !meta.IsStatusConditionTrue(stacks.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			w.t.Fatalf("Stack %q is not in sync: %+v", stacks.Items[i].Name, stacks.Items[i].Status.Conditions)
		}
	}
	if len(stacks.Items) != idleStacks+1 || len(up.Items) != idleStacks+1 || len(pods.Items) > 1 {
		w.t.Fatalf("the Stacks were not idle: %d Stacks, %d UpdatePlans, %d pods", len(stacks.Items), len(up.Items), len(pods.Items))
	}
}

// idleCost is what the manager is and does while nothing changes.
type idleCost struct {
	rss, heap float64
	// cpu is seconds of CPU per minute.
	cpu float64
	// requests are the requests per minute that the manager sent, by verb; start those from its start until it was left alone.
	requests, start map[string]float64
	// served are the requests per minute to the API server for Plangate's own kinds, by verb and kind.
	served map[string]float64
}

// idle leaves the manager alone until it has settled, and then counts.
func (w *world) idle(b *testing.B, what string) idleCost {
	b.Helper()
	say("%s: waiting %s for the manager to settle, counting for %s", what, settleTime, idleWindow())
	pod := managerPod(b)
	rest(b.Context(), settleTime)
	served := metrics(b, "/metrics", "apiserver_request_total")
	before, start := metrics(b, pod+"/proxy/metrics", ""), time.Now()
	rest(b.Context(), idleWindow())
	after, minutes := metrics(b, pod+"/proxy/metrics", ""), time.Since(start).Minutes()
	servedAfter := metrics(b, "/metrics", "apiserver_request_total")
	c := idleCost{
		rss: after["process_resident_memory_bytes"], heap: after["go_memstats_heap_inuse_bytes"],
		cpu:      (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / minutes,
		requests: map[string]float64{}, start: map[string]float64{}, served: map[string]float64{},
	}
	for name, value := range after {
		if strings.HasPrefix(name, "rest_client_requests_total{") {
			c.requests[label(name, "method")] += (value - before[name]) / minutes
			c.start[label(name, "method")] += before[name]
		}
	}
	for name, value := range servedAfter {
		if delta := value - served[name]; label(name, "group") == v1alpha1.GroupVersion.Group && delta > 0 {
			c.served[label(name, "verb")+" "+label(name, "resource")] += delta / minutes
		}
	}
	say("%s: %s RSS, %s heap, %.2f s CPU/min, requests/min %s; served for plangate.dev/min %s; from its start until then %s",
		what, mib(c.rss), mib(c.heap), c.cpu, verbs(c.requests), verbs(c.served), verbs(c.start))
	return c
}

func reportIdle(b *testing.B, alone, full idleCost) {
	report(fmt.Sprintf("manager with %d idle Stacks: RSS", idleStacks), fmt.Sprintf("%s (without them %s)", mib(full.rss), mib(alone.rss)))
	report("  Go heap in use", fmt.Sprintf("%s (%s)", mib(full.heap), mib(alone.heap)))
	report("  CPU seconds per minute", fmt.Sprintf("%.2f (%.2f)", full.cpu, alone.cpu))
	report("  API requests per minute", fmt.Sprintf("%s (%s)", verbs(full.requests), verbs(alone.requests)))
	report("  of these for Plangate's own kinds, at the API server", verbs(full.served))
	report("  API requests of a restart, until it has settled", fmt.Sprintf("%s (%s)", verbs(full.start), verbs(alone.start)))
	b.ReportMetric(0, "ns/op") // it waits: its own time says nothing
	b.ReportMetric(full.rss/(1<<20), "RSS-MiB")
	b.ReportMetric(full.heap/(1<<20), "heap-MiB")
	b.ReportMetric(sum(full.requests), "requests/min")
}

func managerPod(b *testing.B) string {
	b.Helper()
	pods := &corev1.PodList{}
	selector := client.MatchingLabels{"app.kubernetes.io/name": managerName}
	if err := cluster.client.List(b.Context(), pods, client.InNamespace(managerNamespace), selector); err != nil || len(pods.Items) != 1 {
		b.Fatalf("there is not one manager pod but %d: %v", len(pods.Items), err)
	}
	name := types.NamespacedName{Namespace: managerNamespace, Name: pods.Items[0].Name}
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:8080", name.Namespace, name.Name)
}

// metrics reads metrics through the API server, so that no pod network is needed; those of a family, or all.
func metrics(b *testing.B, path, family string) map[string]float64 {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "kubectl", "get", "--raw", path).Output() //nolint:gosec // a path of ours
	if err != nil {
		b.Fatalf("reading the metrics at %s: %v", path, err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		at := strings.LastIndex(line, " ")
		if strings.HasPrefix(line, "#") || at < 0 || !strings.HasPrefix(line, family) {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
			all[line[:at]] = value
		}
	}
	return all
}

// label is the value of a label in the name of a series.
func label(series, name string) string {
	for _, before := range []string{"{", ","} {
		if _, rest, found := strings.Cut(series, before+name+`="`); found {
			value, _, _ := strings.Cut(rest, `"`)
			return value
		}
	}
	return ""
}

func verbs(counts map[string]float64) string {
	var words []string
	for _, verb := range slices.Sorted(maps.Keys(counts)) {
		if counts[verb] > 0 {
			words = append(words, fmt.Sprintf("%s %.1f", verb, counts[verb]))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func sum(counts map[string]float64) float64 {
	total := 0.0
	for _, n := range counts {
		total += n
	}
	return total
}

func mib(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }

func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
