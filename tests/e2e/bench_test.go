// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// BenchmarkChange takes a change through Plangate and, in turn with it, through a bare Pulumi: the same program, the same
// state, the same pod, the same kind of change. What is measured is in docs/benchmarks.md.
func BenchmarkChange(b *testing.B) {
	defaultFlags(b)
	for _, resources := range []int{1, 50} {
		b.Run(fmt.Sprintf("resources=%d", resources), func(b *testing.B) { benchChange(b, resources) })
	}
}

// preparation readies what a bare run needs: a checkout and a home of its own, with the image's plugins in it.
const preparation = `
mkdir -p /tmp/bench/home/plugins && cd /tmp/bench
cp -r /home/pulumi/.pulumi/plugins/resource-files-* home/plugins
git clone -q %s tree
`

// bare is a change by hand: the committed configuration is edited, and what is to be done is previewed, saved and applied as
// saved. bash tells the time itself, so that neither kubectl exec nor another process is in what is measured. Microseconds.
const bare = `
cd /tmp/bench/tree
export PULUMI_HOME=/tmp/bench/home HOME=/tmp/bench/home PULUMI_BACKEND_URL=file:///state PULUMI_CONFIG_PASSPHRASE='a passphrase for %[1]s'
export PULUMI_SKIP_UPDATE_CHECK=true PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true %[3]s
salt=$(sed -n 's/^ *"salt": "\(.*\)"$/\1/p' /state/.pulumi/stacks/web/dev.json)
printf 'encryptionsalt: %%s\nconfig:\n  web:greeting: %%s\n' "$salt" '%[2]s' > Pulumi.dev.yaml
a=${EPOCHREALTIME/./}
pulumi preview --save-plan ../plan.json -s dev --non-interactive --color never > ../log 2>&1 || { cat ../log >&2; exit 1; }
b=${EPOCHREALTIME/./}
pulumi up --plan ../plan.json --yes -s dev --non-interactive --color never > ../log 2>&1 || { cat ../log >&2; exit 1; }
c=${EPOCHREALTIME/./}
echo $((b-a)) $((c-b))
`

// rounds is how many pairs of changes are measured.
func rounds() int {
	if testing.Short() {
		return 4
	}
	return 12
}

// change is one pair of measured changes.
type change struct {
	// edit: from the edit of the Stack's config until its UpdatePlan waits for approval; preview: bare preview --save-plan.
	edit, preview time.Duration
	// approve: from the approval until the plan is Applied; up: bare up --plan --yes.
	approve, up time.Duration
}

func benchChange(b *testing.B, resources int) {
	w := newWorld(b)
	files := make([]file, resources)
	for i := range files {
		files[i] = file{name: fmt.Sprintf("f%d", i), content: fmt.Sprintf("%q", fmt.Sprintf("%d ${greeting}", i))}
	}
	w.push(program(files...))
	w.create(w.newStack())
	w.applied(w.plan())
	w.inSync()
	v := w.view()
	w.inPod(fmt.Sprintf(preparation, w.url))
	w.bare("the first run is not measured", "")
	w.through(v, "nor is this one")

	var changes []change
	for n := 1; n <= rounds(); n++ {
		var c change
		byHand := func() { c.preview, c.up = w.bare(fmt.Sprintf("by hand %d", n), "") }
		byPlangate := func() { c.edit, c.approve = w.through(v, fmt.Sprintf("by Plangate %d", n)) }
		order := []func(){byPlangate, byHand}
		if n%2 == 0 {
			order = []func(){byHand, byPlangate}
		}
		for _, run := range order {
			run()
		}
		changes = append(changes, c)
		say("%s round %d: config edit → plan %s, bare preview %s; approve → applied %s, bare up %s", b.Name(), n, ms(c.edit), ms(c.preview), ms(c.approve), ms(c.up))
	}
	var empty, skipping []time.Duration
	for range 5 {
		start := time.Now()
		w.inPod("true")
		empty = append(empty, time.Since(start))
		preview, _ := w.bare(fmt.Sprintf("without checkpoints %d", len(empty)), "PULUMI_SKIP_CHECKPOINTS=true")
		skipping = append(skipping, preview)
	}
	reportChange(b, resources, changes, w.agentTimes(len(changes)), empty, skipping)
}

func reportChange(b *testing.B, resources int, changes []change, agent map[string][]time.Duration, empty, skipping []time.Duration) {
	var edit, preview, approve, up []time.Duration
	for _, c := range changes {
		edit, preview, approve, up = append(edit, c.edit), append(preview, c.preview), append(approve, c.approve), append(up, c.up)
	}
	what := fmt.Sprintf("%d file", resources)
	if resources > 1 {
		what += "s"
	}
	planRatio, applyRatio := ratio(edit, preview), ratio(approve, up)
	report("config edit → UpdatePlan waits, "+what, spread(edit))
	report("  of that, the agent's operation", spread(agent["Preview"]))
	report("  bare `pulumi preview --save-plan`", spread(preview))
	report("  ratio (aim 1.15)", planRatio.String())
	report("  the bare preview with PULUMI_SKIP_CHECKPOINTS", spread(skipping))
	report("approve → UpdatePlan Applied, "+what, spread(approve))
	report("  of that, the agent's operation", spread(agent["Apply"]))
	report("  bare `pulumi up --plan --yes`", spread(up))
	report("  ratio (aim 1.10)", applyRatio.String())
	report("  kubectl exec `true`, in none of these", spread(empty))
	b.ReportMetric(0, "ns/op") // a round is four measurements: its own time says nothing
	b.ReportMetric(planRatio.median, "plan-ratio")
	b.ReportMetric(applyRatio.median, "apply-ratio")
}

// through takes a change of the configuration through Plangate.
func (w *world) through(v *view, value string) (edit, approve time.Duration) {
	w.t.Helper()
	start := time.Now()
	w.setConfig("web:greeting", value)
	plan, at := v.await(w.t, v1alpha1.ReasonWaitingForApproval)
	edit = at.Sub(start)
	// A person takes longer to read it than the Stack to know it.
	eventually(w.t, "the Stack to name its plan", slow, func() error {
		if current := w.stack().Status.CurrentPlan; current == nil || current.Name != plan.Name {
			return fmt.Errorf("it names %v", current)
		}
		return nil
	})
	start = time.Now()
	w.annotate(plan, v1alpha1.AnnotationApprove, plan.Spec.Digest)
	_, at = v.await(w.t, v1alpha1.ReasonApplied)
	approve = at.Sub(start)
	w.inSync()
	return edit, approve
}

func (w *world) inSync() {
	w.t.Helper()
	eventually(w.t, "the Stack to be in sync", slow, func() error {
		s := w.stack()
		c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != v1alpha1.ReasonInSync || s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// bare makes a change by hand, in the same pod.
func (w *world) bare(value, env string) (preview, up time.Duration) {
	w.t.Helper()
	// The pod's sh has no clock.
	script := strings.ReplaceAll(fmt.Sprintf(bare, w.namespace, value, env), "'", `'\''`)
	numbers := strings.Fields(w.inPod("bash -euc '" + script + "'"))
	if len(numbers) != 2 {
		w.t.Fatalf("a run by hand said %q", numbers)
	}
	for i, d := range []*time.Duration{&preview, &up} {
		us, err := strconv.ParseInt(numbers[i], 10, 64)
		if err != nil {
			w.t.Fatal(err)
		}
		*d = time.Duration(us) * time.Microsecond
	}
	return preview, up
}

// agentTimes are how long the last n operations of each type took, as the agent tells in its log.
func (w *world) agentTimes(n int) map[string][]time.Duration {
	w.t.Helper()
	times := map[string][]time.Duration{}
	for line := range strings.Lines(w.kubectl("logs", w.podName(), "-c", "pulumi")) {
		_, text, ended := strings.Cut(line, `"duration":"`)
		if !ended {
			continue
		}
		text, _, _ = strings.Cut(text, `"`)
		d, err := time.ParseDuration(text)
		if err != nil {
			w.t.Fatalf("the agent's log: %v", err)
		}
		for _, kind := range []string{"Preview", "Apply"} {
			if strings.Contains(line, `"`+kind+`"`) {
				times[kind] = append(times[kind], d)
			}
		}
	}
	for kind, all := range times {
		times[kind] = all[max(0, len(all)-n):]
	}
	return times
}

// view sees the UpdatePlans of a world by a watch, as soon as anybody can.
type view struct {
	seen chan sighting
	// done are the sightings that were awaited.
	done map[string]bool
}

type sighting struct {
	plan *v1alpha1.UpdatePlan
	at   time.Time
}

func (w *world) view() *view {
	w.t.Helper()
	list := &v1alpha1.UpdatePlanList{}
	if err := cluster.client.List(w.ctx(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatalf("listing the UpdatePlans: %v", err)
	}
	v := &view{seen: make(chan sighting, 4096), done: map[string]bool{}}
	for i := range list.Items {
		for _, reason := range []string{v1alpha1.ReasonWaitingForApproval, v1alpha1.ReasonApplied} {
			v.done[list.Items[i].Name+reason] = true
		}
	}
	from := &client.ListOptions{Namespace: w.namespace, Raw: asOf(list)}
	watching, err := cluster.client.Watch(w.ctx(), &v1alpha1.UpdatePlanList{}, from)
	if err != nil {
		w.t.Fatalf("watching the UpdatePlans: %v", err)
	}
	w.t.Cleanup(watching.Stop)
	go func() {
		defer close(v.seen)
		for e := range watching.ResultChan() {
			if plan, ok := e.Object.(*v1alpha1.UpdatePlan); ok && e.Type != watch.Deleted {
				v.seen <- sighting{plan, time.Now()}
			}
		}
	}()
	return v
}

// await waits until a plan has a reason that it was not awaited with before.
func (v *view) await(t testing.TB, reason string) (*v1alpha1.UpdatePlan, time.Time) {
	t.Helper()
	limit := time.After(slow)
	for {
		select {
		case s, open := <-v.seen:
			if !open {
				t.Fatal("the watch of the UpdatePlans ended")
			}
			if has(s.plan, reason) == nil && !v.done[s.plan.Name+reason] {
				v.done[s.plan.Name+reason] = true
				return s.plan, s.at
			}
		case <-limit:
			t.Fatalf("waited %s for an UpdatePlan to be %s", slow, reason)
		}
	}
}
