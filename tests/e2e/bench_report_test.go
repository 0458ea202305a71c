// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// say prints what happens while it happens: a benchmark takes minutes.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// report prints a line of the table, and keeps it for the end in the file that PLANGATE_BENCH_REPORT names.
func report(what, figure string) {
	line := fmt.Sprintf("%s%s  %s", what, strings.Repeat(" ", max(0, 56-len([]rune(what)))), figure)
	say("%s", line)
	name := os.Getenv("PLANGATE_BENCH_REPORT")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the file that the caller named
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		_ = f.Close()
	}
	if err != nil {
		say("the report: %v", err)
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// quantile is the value below which a part of the samples lies.
func quantile[T ~int64 | ~float64](samples []T, part float64) T {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := part * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + T(float64(sorted[high]-sorted[low])*(at-float64(low)))
}

// spread is the median with the quartiles and the number of samples.
func spread(samples []time.Duration) string {
	return fmt.Sprintf("%s (quartiles %d–%d, n=%d)", ms(quantile(samples, 0.5)), quantile(samples, 0.25).Milliseconds(), quantile(samples, 0.75).Milliseconds(), len(samples))
}

// compared is a ratio of two series that were measured in turn.
type compared struct {
	// median is the ratio of the medians.
	median float64
	// low and high are the quartiles of the ratios within a round.
	low, high float64
	// extra is the difference of the medians.
	extra time.Duration
}

func ratio(ours, theirs []time.Duration) compared {
	var each []float64
	for i := range ours {
		each = append(each, float64(ours[i])/float64(theirs[i]))
	}
	a, b := quantile(ours, 0.5), quantile(theirs, 0.5)
	return compared{median: float64(a) / float64(b), low: quantile(each, 0.25), high: quantile(each, 0.75), extra: a - b}
}

func (c compared) String() string {
	return fmt.Sprintf("%.2f (quartiles of the rounds %.2f–%.2f; %+d ms)", c.median, c.low, c.high, c.extra.Milliseconds())
}

func asOf(list metav1.ListInterface) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
}

// defaultFlags takes the tests' flags from the manager for one benchmark: what is measured is what users have. That restarts
// it, and other tests in the same cluster would both suffer from that and be measured too: it waits until there are none.
func defaultFlags(b *testing.B) {
	b.Helper()
	eventually(b, "the cluster to be free of other tests (`kubectl delete namespaces -l plangate.dev/test=e2e` removes what killed ones left)", slow, func() error {
		list := &corev1.NamespaceList{}
		if err := cluster.client.List(b.Context(), list, client.MatchingLabels{"plangate.dev/test": "e2e"}); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("there is namespace %q", list.Items[0].Name)
		}
		return nil
	})
	editManager(b, func(d *appsv1.Deployment) {
		container := &d.Spec.Template.Spec.Containers[0]
		container.Args = slices.DeleteFunc(container.Args, func(arg string) bool { return slices.Contains(managerFlags, arg) })
	})
	b.Cleanup(func() {
		editManager(b, func(d *appsv1.Deployment) {
			container := &d.Spec.Template.Spec.Containers[0]
			container.Args = append(container.Args, managerFlags...)
		})
	})
}

// editManager changes the manager's Deployment and waits until it is as it should be, and nothing is left of before.
func editManager(b *testing.B, change func(*appsv1.Deployment)) {
	b.Helper()
	// Not the benchmark's own context, which is over when it cleans up.
	ctx := context.Background()
	d := &appsv1.Deployment{}
	if err := cluster.client.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: managerName}, d); err != nil {
		b.Fatalf("reading the manager's Deployment: %v", err)
	}
	before := d.DeepCopy()
	change(d)
	if err := cluster.client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		b.Fatalf("editing the manager's Deployment: %v", err)
	}
	eventually(b, "the manager to be as its Deployment says", slow, func() error {
		if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		want, s := *d.Spec.Replicas, d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.ReadyReplicas != want {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
}
