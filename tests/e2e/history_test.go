// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/cli"
)

// The garbage collector of a real cluster takes the plan files of plans that were pruned.
func TestOldPlansArePrunedWithTheirPlanFilesAndTheChainHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := int32(2)
	w.push(program(file{name: "a", content: "${greeting}"}))
	s := w.newStack()
	s.Spec.Plan = &v1alpha1.PlanSettings{HistoryLimit: &limit}
	w.create(s)
	made := []*v1alpha1.UpdatePlan{w.applied(w.plan())}
	for i := range 4 {
		w.setConfig("web:greeting", fmt.Sprintf("greeting %d", i))
		made = append(made, w.plan(made[len(made)-1]))
	}
	// Of 1 (applied), 2, 3, 4 (superseded) and 5 (waiting), 2 and 3 go.
	for _, plan := range made[1:3] {
		objects := []client.Object{plan.DeepCopy()}
		for _, name := range plan.Spec.Artifact.Chunks {
			objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
		}
		eventually(t, "UpdatePlan "+plan.Name+" and its plan file to be gone", slow, func() error {
			for _, o := range objects {
				err := cluster.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
				if err == nil {
					return fmt.Errorf("%T %q is there", o, o.GetName())
				}
				if !apierrors.IsNotFound(err) {
					return err
				}
			}
			return nil
		})
	}
	w.read(made[0])
	w.read(made[3])
	w.applied(made[4])
	var out strings.Builder
	eventually(t, "the chain to be whole", slow, func() error {
		out.Reset()
		return cli.Audit(t.Context(), cluster.client, client.ObjectKey{Namespace: w.namespace, Name: stackName}, &out)
	})
	if !strings.Contains(out.String(), made[4].Name) {
		t.Errorf("the audit does not list UpdatePlan %s:\n%s", made[4].Name, out.String())
	}
}
