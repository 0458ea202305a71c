// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench measures what a plan of many resources costs on its way from Pulumi's files to an UpdatePlan in a real API
// server, and back to the bytes that an apply is constrained to.
package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/plans/redact"
	"github.com/plangate/plangate/tests/golden"
)

// sizes are the counts of resources.
var sizes = []int{1, 100, 1000, 10000}

const testdata = "../testdata/plans"

// secrets are those of a Stack with some.
func secrets() []string {
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("canary-%d-hunter2", i))
	}
	return all
}

// BenchmarkPlan takes a plan of n updated resources the whole way: masked by the agent, read, summarised and stated by the
// operator, stored in the API server, read again and checked. One call is one plan. The files are grown from a golden plan of
// the real CLI; workspace/agent BenchmarkLargePlan measures the CLI itself.
func BenchmarkPlan(b *testing.B) {
	c := apiServer(b)
	for _, n := range sizes {
		b.Run(fmt.Sprintf("resources=%d", n), func(b *testing.B) {
			planFile, events := golden.Grow(b, testdata, n)
			w := &way{b: b, client: c, store: planstore.New(c, c), n: n, took: map[string]time.Duration{}}
			peak := watchHeap()
			b.ReportAllocs()
			round := 0
			for b.Loop() {
				round++
				w.run(planFile, events, round)
			}
			b.ReportMetric(float64(peak())/(1<<20), "peak-heap-MiB")
			for _, stage := range stages {
				b.ReportMetric(float64(w.took[stage].Microseconds())/1000/float64(round), stage+"-ms")
			}
			report(b, n, w, peak(), len(planFile), len(events), round)
		})
	}
}

// stages are the parts of the way.
var stages = []string{"mask", "decode", "state", "store", "read"}

// way is one plan's way.
type way struct {
	b      *testing.B
	client client.Client
	store  *planstore.Store
	n      int
	took   map[string]time.Duration
	sizes  sizesOf
}

// sizesOf are the sizes of what is stored, in bytes.
type sizesOf struct{ stored, packed, chunks, changes, object, statement int }

func (w *way) stage(name string, do func() error) {
	w.b.Helper()
	start := time.Now()
	if err := do(); err != nil {
		w.b.Fatalf("%s: %v", name, err)
	}
	w.took[name] += time.Since(start)
}

func (w *way) run(planFile, events []byte, round int) {
	w.b.Helper()
	var (
		plan   plans.Plan
		stored []byte
		up     *v1alpha1.UpdatePlan
	)
	w.stage("mask", func() error {
		events = redact.NewMask(secrets()).Events(events)
		return nil
	})
	w.stage("decode", func() (err error) {
		if stored, err = pulumiplan.Strip(planFile); err != nil {
			return err
		}
		if plan, err = pulumiplan.Decode(stored, events); err != nil {
			return err
		}
		plan = plan.Masked(secrets())
		if len(plan.Changes) < w.n {
			return fmt.Errorf("%d changes", len(plan.Changes))
		}
		return nil
	})
	// A plan of another round is another plan: the API server must store it anew.
	stored = append(stored, bytes.Repeat([]byte(" "), round)...)
	o := planstore.Object{Namespace: "default", Stack: fmt.Sprintf("web-%d-%d", w.n, round)}
	var artifact v1alpha1.Artifact
	configMap := ""
	w.stage("store", func() (err error) {
		if artifact, err = w.store.Put(w.b.Context(), o, stored); err != nil || plan.Fits() {
			return err
		}
		configMap, err = w.store.PutChanges(w.b.Context(), o, plan.Changes)
		return err
	})
	w.stage("state", func() error {
		spec, err := plans.NewSpec(specInput(plan, artifact, configMap, o))
		if err != nil {
			return err
		}
		up = &v1alpha1.UpdatePlan{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: plans.PlanName(o.Stack, spec.Sequence, spec.Digest)}, Spec: spec,
		}
		up.Status.Diff = plans.DiffLines(&spec)
		return nil
	})
	w.stage("store", func() error {
		status := up.Status.DeepCopy()
		if err := w.client.Create(w.b.Context(), up); err != nil {
			return err
		}
		up.Status = *status
		return w.client.Status().Update(w.b.Context(), up)
	})
	w.stage("read", func() error { return w.readBack(up, stored, len(plan.Changes)) })
	w.measure(up, stored)
}

// readBack is what comes before an apply: the plan file whose digest was approved, and all changes.
func (w *way) readBack(up *v1alpha1.UpdatePlan, stored []byte, changes int) error {
	there := &v1alpha1.UpdatePlan{}
	if err := w.client.Get(w.b.Context(), client.ObjectKeyFromObject(up), there); err != nil {
		return err
	}
	if err := plans.CheckSpec(there.Namespace, &there.Spec); err != nil {
		return err
	}
	got, err := w.store.Get(w.b.Context(), there.Namespace, there.Spec.Artifact)
	if err != nil {
		return err
	}
	all, err := w.store.GetChanges(w.b.Context(), there.Namespace, &there.Spec)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, stored) || len(all) != changes || len(there.Status.Diff) == 0 {
		return fmt.Errorf("%d bytes of %d, %d changes of %d", len(got), len(stored), len(all), changes)
	}
	return nil
}

func (w *way) measure(up *v1alpha1.UpdatePlan, stored []byte) {
	w.b.Helper()
	text, err := json.Marshal(up)
	if err != nil {
		w.b.Fatal(err)
	}
	w.sizes = sizesOf{stored: len(stored), chunks: len(up.Spec.Artifact.Chunks), object: len(text), statement: len(up.Spec.Statement)}
	for _, name := range up.Spec.Artifact.Chunks {
		var chunk corev1.Secret
		if err := w.client.Get(w.b.Context(), client.ObjectKey{Namespace: up.Namespace, Name: name}, &chunk); err != nil {
			w.b.Fatal(err)
		}
		for _, data := range chunk.Data {
			w.sizes.packed += len(data)
		}
	}
	if up.Spec.ChangesConfigMap == "" {
		return
	}
	var list corev1.ConfigMapList
	if err := w.client.List(w.b.Context(), &list, client.InNamespace(up.Namespace)); err != nil {
		w.b.Fatal(err)
	}
	for i := range list.Items {
		cm := &list.Items[i]
		if !strings.HasPrefix(cm.Name, up.Spec.ChangesConfigMap) {
			continue
		}
		for _, data := range cm.Data {
			w.sizes.changes += len(data)
		}
		for _, data := range cm.BinaryData {
			w.sizes.changes += len(data)
		}
	}
}

func specInput(plan plans.Plan, artifact v1alpha1.Artifact, configMap string, o planstore.Object) plans.SpecInput {
	hex := strings.Repeat
	return plans.SpecInput{
		Namespace: o.Namespace, Cluster: "4b7c1a52-8f1d-4b59-a4f4-9b6f4f5d2f10", Nonce: hex("a", 32), Sequence: 1,
		Stack:   v1alpha1.StackReference{Name: o.Stack, UID: "4b7c1a52-8f1d-4b59-a4f4-9b6f4f5d2f11", Generation: 1, ResourceVersion: "1"},
		Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerSpecChanged, Message: "generation 1"},
		Binding: v1alpha1.Binding{
			Revision: hex("1", 40), Repository: "https://git.example/repo", Tree: hex("2", 40), ConfigDigest: "sha256:" + hex("3", 64),
			StateDigest: "sha256:" + hex("4", 64), PulumiVersion: "v3.276.0", WorkspaceImage: "registry.example/pulumi@sha256:" + hex("0", 64),
		},
		Artifact: artifact, NotAfter: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC), Plan: plan, ChangesConfigMap: configMap,
	}
}

// apiServer starts a real API server with the CRDs.
func apiServer(b *testing.B) client.Client {
	b.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		b.Fatal("KUBEBUILDER_ASSETS is not set: run `make bench BENCH=Plan`, or set it to the output of hack/cache/path.sh kubernetes")
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: time.Minute}
	config, err := environment.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = environment.Stop() })
	config.QPS, config.Burst = 1000, 1000
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	return c
}
