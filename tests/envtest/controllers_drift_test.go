// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/plans/pulumiplan/live"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

// driftRig is a Stack that was applied, in a world that can drift as the golden plan "drift" has it.
type driftRig struct {
	*rig
	golden golden
	// broken makes checks and previews of the real resources fail with it.
	broken string
	now    time.Time
}

func newDriftRig(t *testing.T, settings *v1alpha1.DriftSettings) *driftRig {
	t.Helper()
	d := &driftRig{rig: newRig(t), golden: readGolden(t, "drift"), now: time.Now().Truncate(time.Second)}
	d.settings.Now = func() time.Time { return d.now }
	d.restart(d.client)
	look := d.agents.check
	d.agents.check = func(op workspace.Operation) *workspace.Result {
		switch {
		case d.broken != "":
			return &workspace.Result{Outcome: workspace.Failed, Message: d.broken}
		case d.agents.drifted == "":
			return look(op)
		}
		return &workspace.Result{Outcome: workspace.Succeeded, Plan: d.golden.plan, Events: d.golden.events}
	}
	preview, apply := d.agents.preview, d.agents.apply
	d.agents.preview = func(op workspace.Operation) *workspace.Result {
		if op.Options.Refresh && d.agents.drifted != "" {
			return &workspace.Result{Outcome: workspace.Succeeded, Plan: d.golden.plan, Events: d.golden.events}
		}
		return preview(op)
	}
	d.agents.apply = func(op workspace.Operation) *workspace.Result {
		if op.Options.Refresh || op.Type == workspace.Accept {
			d.agents.drifted = ""
		}
		return apply(op)
	}
	d.create(builder.Stack(d.namespace, "web").Config("greeting", "hello").Obj())
	d.edit(func(s *v1alpha1.Stack) { s.Spec.Drift = settings })
	d.approve(d.waiting(1))
	d.ends(1)
	return d
}

// happen lets the world drift.
func (d *driftRig) happen() {
	d.t.Helper()
	reading, err := live.Read(live.Input{Events: d.golden.events, Plan: d.golden.plan})
	d.g.Expect(err).NotTo(HaveOccurred())
	d.agents.drifted = drift.Build(reading).Bound()
}

// look asks for a check and lets it come to its end.
func (d *driftRig) look() *v1alpha1.DriftStatus {
	d.t.Helper()
	d.now = d.now.Add(time.Second) // so that "now" is another time than the last
	ran := len(d.agents.ran(workspace.DriftCheck))
	d.annotate(d.stack(), v1alpha1.AnnotationCheckDrift, v1alpha1.RequestNow)
	d.until("a check", func() bool {
		s := d.stack().Status.Drift
		return len(d.agents.ran(workspace.DriftCheck)) > ran && s != nil && s.Operation == nil
	})
	d.settle()
	return d.stack().Status.Drift
}

func drifting(action v1alpha1.DriftAction) *v1alpha1.DriftSettings {
	return &v1alpha1.DriftSettings{Action: action}
}

func TestDriftIsToldInTheStackAndBesideItAndNothingIsPlannedAboutIt(t *testing.T) {
	d := newDriftRig(t, nil)
	g := d.g
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("Unknown NotYetObserved"))
	status := d.look()
	g.Expect(status.Class).To(Equal(v1alpha1.DriftNone))
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("False None"))
	g.Expect(d.stack().Annotations[v1alpha1.AnnotationCheckDrift]).NotTo(Equal(v1alpha1.RequestNow), "the next now would not be seen")

	d.happen()
	status = d.look()
	st := d.stack()
	g.Expect(status.Class).To(Equal(v1alpha1.DriftDeleted))
	g.Expect(status.Summary).To(Equal("1 deleted, 2 changed; 1 with noise only"))
	g.Expect(status.Since).NotTo(BeNil())
	g.Expect(status.Resources).To(HaveLen(3))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("True Deleted"))
	g.Expect(line(st.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"), "a report changes nothing about the Stack")
	g.Expect(d.listPlans()).To(HaveLen(1), "nothing was asked to be planned")

	report := &corev1.ConfigMap{}
	g.Expect(d.client.Get(d.ctx, client.ObjectKey{Namespace: d.namespace, Name: status.Report}, report)).To(Succeed())
	g.Expect(report.Data["report.txt"]).To(ContainSubstring(`content was changed from "hello" to "changed by hand\n"`))
	g.Expect(report.Data["report.json"]).To(ContainSubstring(`"class": "Deleted"`))
	g.Expect(report.Data["report.txt"] + report.Data["report.json"]).NotTo(ContainSubstring("canary"))
	g.Expect(d.recorder.all()).To(ContainElement(ContainSubstring("*v1alpha1.Stack Warning Deleted: 1 deleted, 2 changed")))

	since := status.Since
	d.now = d.now.Add(time.Minute)
	g.Expect(d.look().Since).To(Equal(since), "it is the same drift")
	d.agents.drifted = ""
	status = d.look()
	g.Expect(status.Since).To(BeNil())
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("False None"))
}

func TestChecksAreDueOnScheduleAndLeaveARealChangeAlone(t *testing.T) {
	d := newDriftRig(t, &v1alpha1.DriftSettings{Interval: &metav1.Duration{Duration: 10 * time.Minute}})
	g := d.g
	d.settle()
	next := d.stack().Status.Drift.NextCheck
	g.Expect(next).NotTo(BeNil())
	g.Expect(next.Sub(d.now)).To(BeNumerically("<=", 10*time.Minute))
	d.round()
	g.Expect(d.agents.ran(workspace.DriftCheck)).To(BeEmpty(), "it is not due")

	d.now = next.Time
	d.agents.hold = true
	d.until("the check runs", func() bool { return len(d.agents.ran(workspace.DriftCheck)) == 1 })
	d.round()
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"), "a check is not work")
	d.edit(func(s *v1alpha1.Stack) { s.Spec.Config["greeting"] = builder.JSON("hi") })
	d.until("the change is previewed", func() bool { return len(d.agents.ran(workspace.Preview)) == 2 })
	d.agents.release()
	d.waiting(2)
	g.Expect(d.agents.ran(workspace.DriftCheck)).To(HaveLen(1), "while a plan waits nothing is looked at by itself")
	d.approve(d.plan(2))
	d.ends(2)
	d.now = d.now.Add(time.Minute)
	d.until("the check that was cut off is made again", func() bool { return len(d.agents.ran(workspace.DriftCheck)) == 2 })
	d.settle()
	g.Expect(d.stack().Status.Drift.Class).To(Equal(v1alpha1.DriftNone))
	g.Expect(d.stack().Status.Drift.Failures).To(BeZero())
}

func TestDriftIsPlannedOnlyAfterASecondLookAndPutBackOnlyAsApproved(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	g := d.g
	d.happen()
	status := d.look()
	g.Expect(status.Unconfirmed).To(BeTrue(), "it was the first look ever")
	g.Expect(d.listPlans()).To(HaveLen(1))
	g.Expect(status.NextCheck.Sub(d.now)).To(BeNumerically("<=", time.Minute))
	d.look()
	plan := d.waiting(2)
	g.Expect(plan.Spec.Trigger.Type).To(Equal(v1alpha1.TriggerDrifted))
	g.Expect(plan.Spec.Trigger.Message).To(ContainSubstring("1 deleted, 2 changed"))
	g.Expect(plan.Spec.Binding.Refresh).To(BeTrue())
	g.Expect(plan.Spec.Binding.DriftDigest).To(Equal(d.agents.drifted))
	g.Expect(plan.Status.Diff[0]).To(HavePrefix("What moved in the world"))
	g.Expect(strings.Join(plan.Status.Diff, "\n")).To(ContainSubstring("What applying would do"))
	g.Expect(d.agents.ran(workspace.Apply)).To(HaveLen(1), "nothing is put back unasked")

	d.approve(plan)
	g.Expect(line(d.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	applies := d.agents.ran(workspace.Apply)
	g.Expect(applies[1].Options.Refresh).To(BeTrue(), "without, Pulumi would do nothing and say that it is done")
	g.Expect(applies[1].Expect.DriftDigest).To(Equal(plan.Spec.Binding.DriftDigest))
	d.now = d.now.Add(time.Minute)
	d.until("it is looked at again by itself", func() bool { return d.stack().Status.Drift.Class == v1alpha1.DriftNone })
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
	g.Expect(d.stack().Status.Drift.Repairs).To(HaveLen(1))
	g.Expect(d.stack().Status.Drift.Repairs[0].Fields).To(ContainElement("files:index:File one content"))
}

func TestFurtherDriftMakesTheApprovedPlanStaleAndIsPlannedAnew(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	d.happen()
	d.look()
	d.look()
	plan := d.waiting(2)
	d.agents.drifted = builder.Digest("more drift")
	d.approve(plan)
	plan = d.ends(2)
	d.g.Expect(line(plan.Status.Conditions, v1alpha1.ConditionObsolete)).To(Equal("True Stale"))
	d.g.Expect(message(plan.Status.Conditions, v1alpha1.ConditionObsolete)).To(And(ContainSubstring("driftDigest"), ContainSubstring("changed again: one")))
	d.now = d.now.Add(2 * time.Minute)
	d.until("a new plan", func() bool { return d.plan(3) != nil })
	d.g.Expect(d.waiting(3).Spec.Trigger.Type).To(Equal(v1alpha1.TriggerDrifted))
}

func TestARejectedRepairIsNotPlannedAgainAndAgain(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	d.happen()
	d.look()
	d.look()
	plan := d.waiting(2)
	d.annotate(plan, v1alpha1.AnnotationReject, plan.Spec.Digest+" it is meant to be so")
	d.ends(2)
	d.look()
	d.look()
	d.g.Expect(d.listPlans()).To(HaveLen(2))
	d.g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("True Deleted"), "it is there all the same")
}

func TestTheStateTakesOverWhatIsDriftedOnlyAsApproved(t *testing.T) {
	d := newDriftRig(t, nil)
	g := d.g
	d.happen()
	d.annotate(d.stack(), v1alpha1.AnnotationAcceptDrift, v1alpha1.RequestNow)
	plan := d.waiting(2)
	g.Expect(plan.Spec.Operation).To(Equal(v1alpha1.PlanOperationRefresh))
	g.Expect(plan.Spec.Binding.DriftDigest).To(Equal(d.agents.drifted))
	g.Expect(plan.Spec.Summary.Brief).To(ContainSubstring("drifted"))
	g.Expect(strings.Join(plan.Status.Diff, "\n")).To(And(ContainSubstring("nothing real is changed"), ContainSubstring(`content: "hello" → "changed by hand\n"`), Not(ContainSubstring("canary"))))
	g.Expect(d.agents.ran(workspace.Accept)).To(BeEmpty())

	d.approve(plan)
	g.Expect(line(d.ends(2).Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True Applied"))
	accepts := d.agents.ran(workspace.Accept)
	g.Expect(accepts).To(HaveLen(1))
	list, err := drift.ParseAcceptance(accepts[0].Plan)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Resources).To(HaveLen(3), "what is noise is not on the list")
	d.settle()
	g.Expect(d.stack().Status.LastPreview.Trigger.Message).To(ContainSubstring("what the program wants is looked at anew"))
	g.Expect(d.listPlans()).To(HaveLen(2), "the request is done with")
	g.Expect(d.look().Class).To(Equal(v1alpha1.DriftNone))
}

func TestAThirdRepairInADayIsHeldAsALoopUntilAPersonSaysSo(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	g := d.g
	for n := int64(2); n <= 3; n++ {
		d.happen()
		d.until("a plan", func() bool { d.look(); return d.plan(n) != nil })
		d.approve(d.waiting(n))
		d.ends(n)
		d.now = d.now.Add(10 * time.Minute)
		d.until("it is clean again", func() bool { return d.stack().Status.Drift.Class == v1alpha1.DriftNone })
		d.settle()
	}
	d.happen()
	d.look()
	status := d.look()
	g.Expect(status.Loop).NotTo(BeNil())
	g.Expect(status.Loop.Times).To(BeEquivalentTo(3))
	g.Expect(d.plan(4)).To(BeNil())
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("True Loop"))
	g.Expect(message(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(And(ContainSubstring("third time in a day"), ContainSubstring(status.Loop.Digest)))
	d.annotate(d.stack(), v1alpha1.AnnotationRepairDrift, status.Loop.Digest)
	g.Expect(d.waiting(4).Spec.Trigger.Type).To(Equal(v1alpha1.TriggerDrifted))
}

func TestChecksThatFailAreAnOutcomeWithItsTextAndNoEndlessRetry(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	g := d.g
	d.broken = "the provider does not answer"
	status := d.look()
	g.Expect(status.Failures).To(BeEquivalentTo(1))
	g.Expect(status.Message).To(ContainSubstring("the provider does not answer"))
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"))
	g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("Unknown CheckFailed"))
	for range 5 {
		d.now = d.stack().Status.Drift.NextCheck.Time
		failures := d.stack().Status.Drift.Failures
		d.until("another try", func() bool { return d.stack().Status.Drift.Failures > failures })
	}
	g.Expect(d.stack().Status.Drift.NextCheck.Sub(d.now)).To(BeNumerically(">", time.Minute), "it goes on at the usual pace")
	d.broken = ""
	d.happen()
	status = d.look()
	g.Expect(status.Unconfirmed).To(BeTrue(), "after a failed series one look is not enough")
	g.Expect(d.listPlans()).To(HaveLen(1))
}

func TestAConflictIsNamedWithAWayOutAndNotPlanned(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	conflict := `Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas`
	urn := "urn:pulumi:s1::demo::files:index:File::one"
	events := fmt.Sprintf(`%s
{"diagnosticEvent":{"urn":%q,"message":%q,"severity":"error"}}
`, strings.Join(strings.SplitAfter(string(d.golden.events), "\n")[:16], ""), urn, conflict)
	d.agents.check = func(workspace.Operation) *workspace.Result {
		return &workspace.Result{Outcome: workspace.Failed, Message: conflict, Events: []byte(events)}
	}
	d.look()
	status := d.look()
	d.g.Expect(status.Class).To(Equal(v1alpha1.DriftConflict))
	d.g.Expect(status.Message).To(And(ContainSubstring(".spec.replicas"), ContainSubstring("ignoreChanges")))
	d.g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionDrifted)).To(Equal("True Conflict"))
	d.g.Expect(d.listPlans()).To(HaveLen(1))
	d.g.Expect(d.agents.ran(workspace.Preview)).To(HaveLen(1), "what cannot be previewed is not tried")
}

func TestASpecChangeWhileDriftIsKnownMakesOnePlanThatTellsThemApart(t *testing.T) {
	d := newDriftRig(t, drifting(v1alpha1.DriftPlan))
	d.happen()
	d.look() // once: known, and not planned yet
	d.edit(func(s *v1alpha1.Stack) { s.Spec.Config["greeting"] = builder.JSON("hi") })
	plan := d.waiting(2)
	d.g.Expect(plan.Spec.Trigger.Type).To(BeElementOf(v1alpha1.TriggerSpecChanged, v1alpha1.TriggerConfigChanged))
	d.g.Expect(plan.Spec.Binding.Refresh).To(BeTrue())
	d.g.Expect(plan.Status.Diff[0]).To(HavePrefix("What moved in the world"))
}

func TestASpecOfDriftThatCannotBeMeantIsRefusedOrNamed(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		drift v1alpha1.DriftSettings
		want  string
	}{
		"both":      {v1alpha1.DriftSettings{Interval: &metav1.Duration{Duration: time.Hour}, Schedule: "0 6 * * *"}, "at most one"},
		"zone":      {v1alpha1.DriftSettings{TimeZone: "Europe/Berlin"}, "needs spec.drift.schedule"},
		"too often": {v1alpha1.DriftSettings{Interval: &metav1.Duration{Duration: time.Second}}, "at least one minute"},
		"action":    {v1alpha1.DriftSettings{Action: "Repair"}, "Unsupported value"},
	} {
		stack := builder.Stack(namespace, "web").Obj()
		stack.Spec.Drift = &tc.drift
		err := world.client.Create(t.Context(), stack)
		g.Expect(err).To(MatchError(ContainSubstring(tc.want)), name)
	}
	d := newDriftRig(t, &v1alpha1.DriftSettings{Schedule: "0 25 * * *"})
	d.settle()
	d.g.Expect(d.stack().Status.Drift.Message).To(ContainSubstring(`spec.drift.schedule: the schedule "0 25 * * *": hour: "25" is not from 0 to 23`))
	d.g.Expect(line(d.stack().Status.Conditions, v1alpha1.ConditionReady)).To(Equal("True InSync"), "it costs nothing else")
}
