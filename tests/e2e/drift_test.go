// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// settled brings a Stack to the point where its program is applied and a look at the real resources finds nothing.
func settled(w *world, action v1alpha1.DriftAction, files map[string]string) {
	w.t.Helper()
	w.push(files)
	s := w.newStack()
	s.Spec.Drift = &v1alpha1.DriftSettings{Action: action}
	w.create(s)
	w.applied(w.plan())
	w.look(v1alpha1.DriftNone, v1alpha1.DriftNoise) // the cluster's controllers write into what was made
}

// look asks for a look at the real resources and waits until it came to one of these.
func (w *world) look(classes ...v1alpha1.DriftClass) {
	w.t.Helper()
	word := string(uuid.NewUUID())
	w.annotate(w.stack(), v1alpha1.AnnotationCheckDrift, word)
	eventually(w.t, fmt.Sprintf("a look that finds %v", classes), slow, func() error {
		s := w.stack()
		found := s.Status.Drift
		if found == nil || found.ObservedRequest != word || found.Operation != nil || !slices.Contains(classes, found.Class) {
			return fmt.Errorf("the last look found %+v; %+v", found, meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionDrifted))
		}
		return nil
	})
}

// plans are all that there are.
func (w *world) plans() []*v1alpha1.UpdatePlan {
	w.t.Helper()
	list := &v1alpha1.UpdatePlanList{}
	if err := cluster.client.List(w.ctx(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	all := make([]*v1alpha1.UpdatePlan, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all
}

// report is the full text of what the last look found.
func (w *world) report() string {
	w.t.Helper()
	return w.kubectl("get", "configmap", w.stack().Status.Drift.Report, "-o", `jsonpath={.data.report\.txt}`)
}

func TestAFileThatIsEditedBehindPulumisBackIsToldAndPutBackOnlyAsApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settled(w, v1alpha1.DriftPlan, program(file{name: "a", content: "as approved"}, file{name: "b", content: "steady"}))
	done := w.plans()

	w.inPod("printf 'by hand' > /state/files/a")
	w.look(v1alpha1.DriftChanged)
	if text := w.report(); !strings.Contains(text, `content was changed from "as approved" to "by hand"`) {
		t.Errorf("the report does not say what was done:\n%s", text)
	}
	if c := meta.FindStatusCondition(w.stack().Status.Conditions, v1alpha1.ConditionDrifted); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("the condition is %+v", c)
	}
	plan := w.plan(done...)
	if plan.Spec.Trigger.Type != v1alpha1.TriggerDrifted {
		t.Errorf("the plan's trigger is %+v", plan.Spec.Trigger)
	}
	if got := w.file("a"); got != "by hand" {
		t.Fatalf("it was put back unasked: %q", got)
	}

	// More drift after the approval: the plan is of another world.
	w.inPod("printf 'and again' > /state/files/b")
	w.approve(plan)
	stale := w.becomes(plan, v1alpha1.ReasonStale)
	if c := meta.FindStatusCondition(stale.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message+string(mustJSON(t, stale.Status)), "File::b") {
		t.Errorf("it does not say which resource moved: %s", c.Message)
	}
	if got := w.file("a") + ", " + w.file("b"); got != "by hand, and again" {
		t.Fatalf("the stale plan was applied: %s", got)
	}

	second := w.plan(append(done, plan)...)
	w.applied(second)
	if got := w.file("a") + ", " + w.file("b"); got != "as approved, steady" {
		t.Errorf("what was approved to be put back is %s", got)
	}
	w.look(v1alpha1.DriftNone)
}

func TestDriftThatIsAcceptedGoesIntoTheStateAndTheWorldIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settled(w, v1alpha1.DriftReport, program(file{name: "a", content: "as approved"}))
	done := w.plans()
	w.inPod("printf 'by hand' > /state/files/a")
	w.look(v1alpha1.DriftChanged)
	if left := w.plans(); len(left) != len(done) {
		t.Fatalf("to report is all that was asked for, and there are %d plans", len(left))
	}
	w.annotate(w.stack(), v1alpha1.AnnotationAcceptDrift, "yes")
	plan := w.plan(done...)
	if plan.Spec.Operation != v1alpha1.PlanOperationRefresh {
		t.Fatalf("the plan's operation is %s", plan.Spec.Operation)
	}
	w.applied(plan)
	if got := w.file("a"); got != "by hand" {
		t.Errorf("the world was touched: %q", got)
	}
	// The program still says the old value: that is a plan, and no drift any more.
	next := w.plan(append(done, plan)...)
	if next.Spec.Operation != v1alpha1.PlanOperationUpdate || next.Spec.Summary.Update != 1 {
		t.Errorf("what the program wants is not planned: %s %s", next.Spec.Operation, next.Spec.Summary.Brief)
	}
	w.look(v1alpha1.DriftNone)
}

func TestWhatIsDeletedAndWhatCannotBeReadIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settled(w, v1alpha1.DriftReport, program(file{name: "a", content: "x"}, file{name: "b", content: "y"}))
	w.inPod("rm /state/files/a")
	w.look(v1alpha1.DriftDeleted)
	w.inPod("rm /state/files/b; mkdir /state/files/b")
	w.look(v1alpha1.DriftUnreadable)
	if c := meta.FindStatusCondition(w.stack().Status.Conditions, v1alpha1.ConditionDrifted); c == nil || c.Status != metav1.ConditionUnknown {
		t.Errorf("what cannot be read is not known: %+v", c)
	}
}

// inCluster is a program of the kubernetes provider, in the world's namespace.
func (w *world) inCluster() map[string]string {
	return map[string]string{"Pulumi.yaml": strings.ReplaceAll(`name: web
runtime: yaml
resources:
  settings:
    type: kubernetes:core/v1:ConfigMap
    properties:
      metadata: {name: settings, namespace: NAMESPACE, labels: {team: a}}
      data: {greeting: hello}
  idle:
    type: kubernetes:apps/v1:Deployment
    properties:
      metadata:
        name: idle
        namespace: NAMESPACE
        annotations: {pulumi.com/skipAwait: "true"}
      spec:
        replicas: 1
        selector: {matchLabels: {app: idle}}
        template:
          metadata: {labels: {app: idle}}
          spec:
            securityContext: {runAsNonRoot: true, runAsUser: 65535, seccompProfile: {type: RuntimeDefault}}
            terminationGracePeriodSeconds: 1
            containers:
              - name: idle
                image: localhost/plangate/pause:dev
                securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, "NAMESPACE", w.namespace)}
}

// What people do to real objects with kubectl is told as what they did, and what they only look like is no drift.
func TestWhatPeopleDoToRealObjectsIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settled(w, v1alpha1.DriftReport, w.inCluster())

	w.kubectl("patch", "configmap", "settings", "--type=merge", "-p", `{"metadata":{"annotations":{"example.com/seen":"yes"}}}`)
	w.look(v1alpha1.DriftNoise)

	w.kubectl("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"greeting":"by hand"}}`)
	w.looksLike("settings", "greeting", "by hand")
	w.kubectl("delete", "configmap", "settings")
	w.look(v1alpha1.DriftDeleted)
	w.kubectl("scale", "deployment", "idle", "--replicas=2")
	w.looksLike("idle", "replicas")
}

// looksLike asks for a look that finds something, whatever its class, and wants these words in the report.
func (w *world) looksLike(words ...string) {
	w.t.Helper()
	word := string(uuid.NewUUID())
	w.annotate(w.stack(), v1alpha1.AnnotationCheckDrift, word)
	eventually(w.t, "a look that tells of "+strings.Join(words, ", "), slow, func() error {
		d := w.stack().Status.Drift
		if d.ObservedRequest != word || d.Operation != nil {
			return fmt.Errorf("the last look found %+v", d)
		}
		text := w.report()
		for _, want := range words {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the report does not say %q:\n%s", want, text)
			}
		}
		return nil
	})
}

// For PLANGATE_UNTOUCHED (a duration; absent: 45s) nobody but the cluster's own controllers touches what Pulumi made.
func TestWhatOnlyItsControllersTouchShowsNoDrift(t *testing.T) {
	t.Parallel()
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("PLANGATE_UNTOUCHED"), "45s"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	settled(w, v1alpha1.DriftPlan, w.inCluster())
	w.kubectl("wait", "--for=condition=Available", "--timeout=2m", "deployment/idle")
	count := 0
	for end := time.Now().Add(duration); time.Now().Before(end); count++ {
		w.look(v1alpha1.DriftNone, v1alpha1.DriftNoise)
		w.kubectl("delete", "pod", "-l", "app=idle", "--wait=false") // its controllers have something to do
	}
	if left := w.plans(); len(left) != 1 {
		t.Errorf("after %d looks there are %d plans, want the first alone", count, len(left))
	}
}
