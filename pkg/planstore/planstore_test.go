// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

var (
	ctx       = context.Background()
	stackRef  = metav1.OwnerReference{APIVersion: "plangate.dev/v1alpha1", Kind: "Stack", Name: "web", UID: "stack"}
	planRef   = metav1.OwnerReference{APIVersion: "plangate.dev/v1alpha1", Kind: "UpdatePlan", Name: "web-1-a", UID: "plan-1"}
	secondRef = metav1.OwnerReference{APIVersion: "plangate.dev/v1alpha1", Kind: "UpdatePlan", Name: "web-2-b", UID: "plan-2"}
	object    = Object{Namespace: "team-a", Stack: "web", Owners: []metav1.OwnerReference{stackRef}, Labels: map[string]string{"extra": "x"}}
)

func newStore(t *testing.T) (*Store, client.Client) {
	t.Helper()
	c := fake.NewClientBuilder().Build()
	return New(c, c), c
}

// noise is data that does not compress, the same every time.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's data
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func mustPut(t *testing.T, s *Store, planFile []byte) v1alpha1.Artifact {
	t.Helper()
	a, err := s.Put(ctx, object, planFile)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func secret(t *testing.T, c client.Client, name string) *corev1.Secret {
	t.Helper()
	var s corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: "team-a", Name: name}, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestPutAndGet(t *testing.T) {
	for name, planFile := range map[string][]byte{
		"small": []byte(`{"resourcePlans":{}}`), "empty": {}, "one chunk to the byte": noise(maxChunk - 400), "three chunks": noise(2*maxChunk + 1),
		"much that is nothing": bytes.Repeat([]byte("0"), 20<<20),
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStore(t)
			a := mustPut(t, s, planFile)
			got, err := s.Get(ctx, "team-a", a)
			if err != nil || !bytes.Equal(got, planFile) {
				t.Fatalf("Get() = %d bytes, %v; want the %d that were put", len(got), err, len(planFile))
			}
			for _, chunk := range a.Chunks {
				sec := secret(t, c, chunk)
				if len(sec.Data[planKey]) > maxChunk || sec.Type != SecretType || !*sec.Immutable || sec.OwnerReferences[0].UID != "stack" {
					t.Errorf("the Secret %s has %d bytes, type %s", chunk, len(sec.Data[planKey]), sec.Type)
				}
				want := map[string]string{"extra": "x", v1alpha1.LabelStack: "web", v1alpha1.LabelComponent: v1alpha1.ComponentPlanFile}
				if diff := cmp.Diff(want, sec.Labels); diff != "" {
					t.Errorf("labels: -want +got\n%s", diff)
				}
			}
			if again := mustPut(t, s, planFile); cmp.Diff(a, again) != "" {
				t.Errorf("Put() again = %+v, first %+v", again, a)
			}
		})
	}
}

func TestPutRefusesForeignContent(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"other bytes":   func(s *corev1.Secret) { s.Data[planKey] = []byte("x") },
		"more keys":     func(s *corev1.Secret) { s.Data["more"] = []byte("x") },
		"another type":  func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"not immutable": func(s *corev1.Secret) { s.Immutable = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStore(t)
			planFile := []byte("plan")
			packed, err := pack(planFile)
			if err != nil {
				t.Fatal(err)
			}
			immutable := true
			there := &corev1.Secret{Type: SecretType, Immutable: &immutable, Data: map[string][]byte{planKey: packed}}
			there.Namespace, there.Name = "team-a", objectName("web", "plan", plans.BytesDigest(planFile), "0")
			change(there)
			if err := c.Create(ctx, there); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(ctx, object, planFile); err == nil || !strings.Contains(err.Error(), there.Name) {
				t.Errorf("Put() = %v, want an error that names the Secret", err)
			}
		})
	}
}

func TestGetFindsTampering(t *testing.T) {
	planFile := []byte(strings.Repeat("plan ", 1000))
	bomb, err := pack(bytes.Repeat([]byte("0"), 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	other, err := pack([]byte(strings.Repeat("evil ", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	data := func(b []byte) func(*v1alpha1.Artifact, *corev1.Secret) {
		return func(_ *v1alpha1.Artifact, s *corev1.Secret) { s.Data[planKey] = b }
	}
	for name, change := range map[string]func(*v1alpha1.Artifact, *corev1.Secret){
		"another file of that size": data(other),
		"a bomb":                    data(bomb),
		"no gzip":                   data([]byte("plain")),
		"nothing":                   data(nil),
		"a second stream":           func(_ *v1alpha1.Artifact, s *corev1.Secret) { s.Data[planKey] = append(s.Data[planKey], other...) },
		"garbage at the end":        func(_ *v1alpha1.Artifact, s *corev1.Secret) { s.Data[planKey] = append(s.Data[planKey], 0) },
		"cut off": func(_ *v1alpha1.Artifact, s *corev1.Secret) {
			s.Data[planKey] = s.Data[planKey][:len(s.Data[planKey])-4]
		},
		"another type":    func(_ *v1alpha1.Artifact, s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"another digest":  func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Digest = plans.Digest("x") },
		"a smaller size":  func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Size-- },
		"a larger size":   func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Size++ },
		"a negative size": func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Size = -1 },
		"an immense size": func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Size = 1 << 40 },
		"no chunks":       func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Chunks = nil },
		"a missing chunk": func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Chunks = []string{"gone"} },
		"a chunk twice":   func(a *v1alpha1.Artifact, _ *corev1.Secret) { a.Chunks = append(a.Chunks, a.Chunks[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStore(t)
			a := mustPut(t, s, planFile)
			sec := secret(t, c, a.Chunks[0])
			change(&a, sec)
			sec.ResourceVersion = ""
			replace(t, c, sec)
			got, err := s.Get(ctx, "team-a", a)
			if err == nil || !IsInvalid(fmt.Errorf("wrapped: %w", err)) {
				t.Errorf("Get() = %d bytes, %v; want an InvalidError", len(got), err)
			}
		})
	}
}

// replace puts a Secret in the place of one that cannot be changed.
func replace(t *testing.T, c client.Client, s *corev1.Secret) {
	t.Helper()
	if err := c.Delete(ctx, s.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, s); err != nil {
		t.Fatal(err)
	}
}

// unavailable is an API server that does not answer.
type unavailable struct{ client.Reader }

func (unavailable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("connection refused")
}

func TestGetTellsInvalidFromUnavailable(t *testing.T) {
	s, c := newStore(t)
	a := mustPut(t, s, []byte("plan"))
	if _, err := New(c, unavailable{}).Get(ctx, "team-a", a); err == nil || IsInvalid(err) {
		t.Errorf("Get() without an API server = %v: that is to be tried again", err)
	}
}

func TestSetOwner(t *testing.T) {
	s, c := newStore(t)
	a := mustPut(t, s, noise(maxChunk+1))
	name, err := s.PutChanges(ctx, object, manyChanges(5000))
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []metav1.OwnerReference{planRef, planRef, secondRef} {
		if err := s.SetOwner(ctx, "team-a", a, name, owner); err != nil {
			t.Fatal(err)
		}
	}
	want := []metav1.OwnerReference{planRef, secondRef}
	for _, chunk := range a.Chunks {
		if diff := cmp.Diff(want, secret(t, c, chunk).OwnerReferences); diff != "" {
			t.Errorf("owners of %s: -want +got\n%s", chunk, diff)
		}
	}
	for _, part := range []string{name, name + "-1"} {
		var cm corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: "team-a", Name: part}, &cm); err != nil || cmp.Diff(want, cm.OwnerReferences) != "" {
			t.Errorf("owners of the ConfigMap %s: %+v (%v)", part, cm.OwnerReferences, err)
		}
	}
	if _, err := s.Get(ctx, "team-a", a); err != nil {
		t.Errorf("Get() after SetOwner(): %v", err)
	}
}

// manyChanges do not compress well.
func manyChanges(n int) []v1alpha1.ResourceChange {
	var changes []v1alpha1.ResourceChange
	for i := range n {
		random := rand.New(rand.NewPCG(uint64(i), 7)) //nolint:gosec // a test's data
		value := make([]byte, 200+i%7)
		for k := range value {
			value[k] = byte(random.Uint32())
		}
		text := hex.EncodeToString(value)
		changes = append(changes, v1alpha1.ResourceChange{
			Operation: "Update", URN: fmt.Sprint(i), Properties: []v1alpha1.PropertyChange{{Path: "p", New: &text}},
		})
	}
	return changes
}

func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct{ count, parts int }{
		"none":                                {0, 1},
		"few":                                 {3, 1},
		"more than a ConfigMap holds as text": {3000, 1},
		"more than a ConfigMap holds, compressed": {5000, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStore(t)
			changes := manyChanges(tc.count)
			cm, err := s.PutChanges(ctx, object, changes)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := s.PutChanges(ctx, object, changes); err != nil || again != cm {
				t.Errorf("PutChanges() again = %q, %v", again, err)
			}
			got, err := s.readChanges(ctx, "team-a", cm)
			if diff := cmp.Diff(changes, got); err != nil || diff != "" {
				t.Errorf("readChanges(): %v, -want +got\n%s", err, diff)
			}
			var list corev1.ConfigMapList
			if err := c.List(ctx, &list); err != nil || len(list.Items) != tc.parts {
				t.Fatalf("%d ConfigMaps, want %d (%v)", len(list.Items), tc.parts, err)
			}
			for i := range list.Items {
				if part := &list.Items[i]; !isImmutable(part.Immutable) || part.Size() > 1<<20 || !HoldsChanges(part.Name, cm) {
					t.Errorf("ConfigMap %s of %d bytes: %v", part.Name, part.Size(), part.Immutable)
				}
			}
		})
	}
}

// TestChangesInPartsAreWholeOrInvalid: each part is needed, and as it was.
func TestChangesInPartsAreWholeOrInvalid(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, c client.Client, first string){
		"a part is missing": func(t *testing.T, c client.Client, first string) {
			mustDelete(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: first + "-1"}})
		},
		"the count is no count": func(t *testing.T, c client.Client, first string) {
			recount(t, c, first, "many")
		},
		"there should be one more": func(t *testing.T, c client.Client, first string) {
			recount(t, c, first, "3")
		},
		"there should be a thousand": func(t *testing.T, c client.Client, first string) {
			recount(t, c, first, "1000")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newStore(t)
			first, err := s.PutChanges(ctx, object, manyChanges(5000))
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, c, first)
			if _, err := s.readChanges(ctx, "team-a", first); !IsInvalid(err) {
				t.Errorf("readChanges() = %v", err)
			}
		})
	}
}

func TestHoldsChanges(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "a-1": true, "a-15": true, "a-0": false, "a-01": false, "a-16": false, "a-x": false, "a-": false, "ab": false, "b": false, "": false} {
		if got := HoldsChanges(name, "a"); got != want {
			t.Errorf("HoldsChanges(%q, a) = %t", name, got)
		}
	}
	if HoldsChanges("a", "") || HoldsChanges("", "") {
		t.Error("HoldsChanges() of a plan that names none")
	}
}

func mustDelete(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Delete(ctx, o); err != nil {
		t.Fatal(err)
	}
}

func recount(t *testing.T, c client.Client, name, count string) {
	t.Helper()
	var cm corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: "team-a", Name: name}, &cm); err != nil {
		t.Fatal(err)
	}
	cm.Data[changesPartsKey] = count
	if err := c.Update(ctx, &cm); err != nil {
		t.Fatal(err)
	}
}

func TestGetChangesChecks(t *testing.T) {
	s, c := newStore(t)
	var changes []v1alpha1.ResourceChange
	for i := range 150 {
		changes = append(changes, v1alpha1.ResourceChange{Operation: "Create", Type: "t", Name: "n", URN: fmt.Sprintf("%03d", i)})
	}
	cm, err := s.PutChanges(ctx, object, changes)
	if err != nil {
		t.Fatal(err)
	}
	spec := specWith(t, changes, cm)
	got, err := s.GetChanges(ctx, "team-a", &spec)
	if diff := cmp.Diff(changes, got); err != nil || diff != "" {
		t.Fatalf("GetChanges(): %v, -want +got\n%s", err, diff)
	}
	if err := c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: cm}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetChanges(ctx, "team-a", &spec); !IsInvalid(err) {
		t.Errorf("GetChanges() without the ConfigMap = %v", err)
	}
	forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: cm}, Data: map[string]string{changesKey: "[]"}}
	if err := c.Create(ctx, forged); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetChanges(ctx, "team-a", &spec); !IsInvalid(err) {
		t.Errorf("GetChanges() of a forged list = %v", err)
	}
	if _, err := s.PutChanges(ctx, object, changes); err == nil {
		t.Error("PutChanges() takes a forged list for its own")
	}
}

func specWith(t *testing.T, changes []v1alpha1.ResourceChange, configMap string) v1alpha1.UpdatePlanSpec {
	t.Helper()
	hexes := strings.Repeat
	spec, err := plans.NewSpec(plans.SpecInput{
		Namespace: "team-a", Cluster: "c", Nonce: hexes("a", 32),
		Stack:    v1alpha1.StackReference{Name: "web", UID: "uid", Generation: 1, ResourceVersion: "1"},
		Sequence: 1, Trigger: v1alpha1.PlanTrigger{Type: v1alpha1.TriggerRequested},
		Binding: v1alpha1.Binding{
			Revision: hexes("1", 40), Repository: "r", Tree: hexes("2", 40), PulumiVersion: "v3", WorkspaceImage: "image",
			ConfigDigest: "sha256:" + hexes("3", 64), StateDigest: "sha256:" + hexes("4", 64),
		},
		Artifact: v1alpha1.Artifact{Digest: "sha256:" + hexes("5", 64), Chunks: []string{"x"}},
		Plan:     plans.New(changes, 0), ChangesConfigMap: configMap,
	})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 300)
	a, b := objectName(long+"a", "plan", plans.Digest("x"), "63"), objectName(long+"b", "plan", plans.Digest("x"), "63")
	if len(a) > 253 || a == b {
		t.Errorf("objectName() = %q (%d bytes), %q", a, len(a), b)
	}
	if got := objectName("web", "plan", "sha256:"+strings.Repeat("0123456789abcdef", 4), "0"); got != "web-plan-0123456789ab-0" {
		t.Errorf("objectName() = %q", got)
	}
	if got := LabelValue(long); len(got) > 63 || got == LabelValue(long+"x") {
		t.Errorf("LabelValue() = %q", got)
	}
	if got := LabelValue("web"); got != "web" {
		t.Errorf("LabelValue() = %q", got)
	}
}
