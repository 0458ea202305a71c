// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/operations"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/workspaces"
	"github.com/plangate/plangate/plans/drift"
	"github.com/plangate/plangate/plans/pulumiplan/live"
	"github.com/plangate/plangate/workspace"
)

const (
	maxDriftedListed = 10
	maxRepairs       = 20
	maxRepairFields  = 20
)

// followCheck asks how the running check stands, and records its end.
func (r *Reconciler) followCheck(ctx context.Context, s *scope) outcome.Outcome {
	op := s.driftStatus().Operation
	if s.ws == nil || s.ws.Status.Pod == nil || s.ws.Status.Pod.UID != op.Pod.UID || s.ws.Status.Address == "" {
		lives, err := workspaces.PodLives(ctx, r.uncached, s.stack.Namespace, op.Pod)
		switch {
		case err != nil:
			return outcome.Retry(v1alpha1.ReasonReconcileError, err)
		case lives:
			return outcome.Done()
		default:
			return s.cutOff()
		}
	}
	target := workspaces.Target(s.ws)
	result, err := r.agents.Result(ctx, target, op.ID)
	switch {
	case operations.IsNotFound(err):
		return r.startCheck(ctx, s)
	case err != nil:
		return outcome.Done()
	case result.Outcome == workspace.Running:
		r.agents.Watch(target, op.ID, r.wake(s.key()))
		return outcome.Done()
	case result.Outcome == workspace.Cancelled, result.Outcome == workspace.Interrupted, op.InputsDigest != s.inputsDigest:
		return s.cutOff()
	}
	return r.recordCheck(ctx, s, result)
}

// recordCheck writes down what a check has found.
func (r *Reconciler) recordCheck(ctx context.Context, s *scope, result *workspace.Result) outcome.Outcome {
	in, err := r.inputs.Gather(ctx, s.stack)
	if err != nil {
		return outcome.Done()
	}
	if in.ConfigDigest != s.driftStatus().Operation.ConfigDigest {
		return s.cutOff() // the old secrets are no longer known, and cannot be masked
	}
	report, err := reportOf(result, r.upgrades(s, result))
	if err != nil {
		return r.checkFailed(s, err)
	}
	report = report.Masked(in.SecretValues())
	name, err := r.keepReport(ctx, s, report)
	if err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.driftStatus().Report = name
	r.conclude(s, report)
	checksTotal.WithLabelValues(string(report.Class)).Inc()
	log.FromContext(ctx).Info("Looked for drift", "class", report.Class, "summary", report.Summary)
	return outcome.Done()
}

// reportOf reads a check's result. It fails when the check came to no end: nothing was read.
func reportOf(result *workspace.Result, upgrades map[string]string) (drift.Report, error) {
	failure := ""
	if result.Outcome != workspace.Succeeded {
		failure = result.Message
	}
	reading, err := live.Read(live.Input{Events: result.Events, Plan: result.Plan, Failure: failure, Upgrades: upgrades})
	if err != nil {
		return drift.Report{}, err
	}
	if failure != "" && !slices.ContainsFunc(reading.Resources, func(r drift.Resource) bool { return r.Read }) &&
		!slices.ContainsFunc(reading.Obstacles, func(o drift.Obstacle) bool { return o.Reading }) {
		return drift.Report{}, errors.New(failure)
	}
	return drift.Build(reading), nil
}

// upgrades name the providers whose plugin is another one than when the Stack was last applied.
func (r *Reconciler) upgrades(s *scope, result *workspace.Result) map[string]string {
	last := s.stack.Status.LastAppliedPlan
	if last == nil || result.Facts == nil {
		return nil
	}
	at := slices.IndexFunc(s.plans, func(p v1alpha1.UpdatePlan) bool { return p.Name == last.Name })
	if at < 0 {
		return nil
	}
	out := map[string]string{}
	for _, is := range result.Facts.Plugins {
		for _, was := range s.plans[at].Spec.Binding.Plugins {
			if was.Name == is.Name && (was.Version != is.Version || was.Digest != is.Digest) {
				out[is.Name] = fmt.Sprintf("%s → %s", versionWords(was.Version), versionWords(is.Version))
			}
		}
	}
	return out
}

func versionWords(version string) string {
	if version == "" {
		return "another build"
	}
	return "v" + version
}

// checkFailed records a check that came to no end. It is made again after a pause that doubles, up to the usual one.
func (r *Reconciler) checkFailed(s *scope, err error) outcome.Outcome {
	status := s.driftStatus()
	status.CheckedPlan, status.Operation = status.Operation.Plan, nil
	status.Failures++
	status.Message = conditions.Shorten("the last check came to no end: "+err.Error(), 4096)
	pause := r.settings.RetryInterval
	for i := int32(1); i < status.Failures && pause < r.settings.RetryMaxInterval; i++ {
		pause *= 2
	}
	schedule, bad := scheduleOf(s.stack.Spec.Drift)
	next := s.now.Add(max(min(pause, r.settings.RetryMaxInterval), cutOffPause))
	if bad == nil && status.Failures > failuresTold {
		// It will not pass by itself: the usual pace is enough.
		if usual := schedule.Next(string(s.stack.UID), s.now); !usual.IsZero() {
			next = usual
		}
	}
	at := whole(next)
	status.NextCheck = &at
	checksTotal.WithLabelValues("Failed").Inc()
	return outcome.Done()
}

// conclude writes a report into the status.
func (r *Reconciler) conclude(s *scope, report drift.Report) {
	status := s.driftStatus()
	op := status.Operation
	status.CheckedPlan, status.Operation = op.Plan, nil
	schedule, err := scheduleOf(s.stack.Spec.Drift)
	confirmed := drift.Confirmed(timeOf(status.LastChecked), op.StartedAt.Time, schedule.Typical(s.now), int(status.Failures)) ||
		status.Unconfirmed && status.Digest == report.Digest
	status.Unconfirmed = report.Class.Drifted() && !confirmed
	switch {
	case !report.Class.Drifted():
		status.Since = nil
	case status.Since == nil || !drifted(status):
		status.Since = &op.StartedAt
	}
	if !s.keptBack(report.Digest) {
		status.Planned = ""
	}
	status.Class, status.Summary, status.Digest = v1alpha1.DriftClass(report.Class), conditions.Shorten(report.Summary, 1024), report.Digest
	status.Resources = listed(report)
	status.LastChecked, status.Failures, status.NextCheck = &op.StartedAt, 0, nil
	status.Message = remarks(s.stack, report, status.Unconfirmed)
	status.Loop = loopOf(status, report, s.now)
	if err == nil {
		s.appoint(schedule)
	}
}

// keptBack tells whether the drift that was found is the one that a plan is about which waits, or was rejected: it is not planned
// again.
func (s *scope) keptBack(digest string) bool {
	status := s.driftStatus()
	if status.Planned == "" || status.Planned != digest || s.plan == nil {
		return false
	}
	state := planstate.Of(s.plan)
	return state == planstate.Rejected || !planstate.Ended(s.plan)
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// remarks say what is to be known beside the summary.
func remarks(stack *v1alpha1.Stack, report drift.Report, unconfirmed bool) string {
	var words []string
	for _, o := range report.Obstacles {
		words = append(words, o.Text+" — "+o.Suggestion())
	}
	if unconfirmed && driftAction(stack) == v1alpha1.DriftPlan {
		words = append(words, "this was the first look after a long gap or after failures: it is looked at once more before anything is planned")
	}
	return conditions.Shorten(strings.Join(words, "\n"), 4096)
}

// listed are the first resources with drift.
func listed(report drift.Report) []v1alpha1.DriftedResource {
	var out []v1alpha1.DriftedResource
	for _, f := range report.Resources {
		if f.Class == drift.Noise || len(out) == maxDriftedListed {
			continue
		}
		out = append(out, v1alpha1.DriftedResource{
			Class: v1alpha1.DriftClass(f.Class), Type: conditions.Shorten(f.Type, 512), Name: conditions.Shorten(f.Name, 512),
			Message: conditions.Shorten(f.Words(), 512),
		})
	}
	return out
}

// keepReport writes the report beside the Stack.
func (r *Reconciler) keepReport(ctx context.Context, s *scope, report drift.Report) (string, error) {
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return "", fmt.Errorf("encoding the report on drift: %w", err)
	}
	head := fmt.Sprintf("Stack %s/%s, looked at %s at commit %.12s because %s\n", s.stack.Namespace, s.stack.Name,
		s.driftStatus().Operation.StartedAt.UTC().Format(time.RFC3339), s.driftStatus().Operation.Revision, s.driftStatus().Operation.Why)
	lines := head + strings.Join(report.Lines(), "\n") + "\n"
	return r.store.PutReport(ctx, s.object(), v1alpha1.DriftReportName(s.stack.Name), planstore.Report{Text: lines, JSON: text})
}

// noteRepair writes down that a plan has put drift back, once.
func (r *Reconciler) noteRepair(s *scope) {
	status := s.driftStatus()
	kept := slices.DeleteFunc(slices.Clone(status.Repairs), func(d v1alpha1.DriftRepair) bool {
		return len(drift.Recent(repairs([]v1alpha1.DriftRepair{d}), s.now)) == 0
	})
	if len(kept) != len(status.Repairs) {
		status.Repairs = kept
	}
	if s.plan == nil || s.plan.Spec.Operation != v1alpha1.PlanOperationUpdate || planstate.Of(s.plan) != planstate.Applied {
		return
	}
	at := metav1.NewTime(planstate.EndedAt(s.plan).UTC().Truncate(time.Second))
	known := func(d v1alpha1.DriftRepair) bool { return d.At.Equal(&at) }
	fields := repaired(&s.plan.Spec)
	if len(fields) == 0 || slices.ContainsFunc(status.Repairs, known) || len(drift.Recent([]drift.Repair{{At: at.Time}}, s.now)) == 0 {
		return
	}
	status.Repairs = append(status.Repairs, v1alpha1.DriftRepair{At: at, Fields: fields})
	status.Repairs = status.Repairs[max(0, len(status.Repairs)-maxRepairs):]
}

// repaired names what a plan has put back, as drift.Report.Fields does.
func repaired(spec *v1alpha1.UpdatePlanSpec) []string {
	var fields []string
	for _, c := range spec.Changes {
		if c.Operation != v1alpha1.ChangeRefresh {
			continue
		}
		for _, p := range c.Properties {
			fields = append(fields, drift.Field(c.Type, c.Name, strings.TrimPrefix(p.Path, "(exists)")))
		}
	}
	return fields[:min(len(fields), maxRepairFields)]
}

func repairs(list []v1alpha1.DriftRepair) []drift.Repair {
	out := make([]drift.Repair, 0, len(list))
	for _, d := range list {
		out = append(out, drift.Repair{At: d.At.Time, Fields: d.Fields})
	}
	return out
}

// loopOf says whether putting this drift back would be a fight.
func loopOf(status *v1alpha1.DriftStatus, report drift.Report, now time.Time) *v1alpha1.DriftLoop {
	loop := drift.FindLoop(repairs(status.Repairs), report, now)
	if loop == nil {
		return nil
	}
	return &v1alpha1.DriftLoop{
		Digest: report.Digest, Fields: loop.Fields[:min(len(loop.Fields), maxRepairFields)],
		Times: int32(loop.Times), Writer: conditions.Shorten(loop.Writer, 256), //nolint:gosec // G115: at most the length of a list
	}
}
