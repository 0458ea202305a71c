// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"regexp"
	"strings"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/agentpb"
	"github.com/plangate/plangate/workspace/pulumi"
)

func (x *execution) take(v pulumi.Verdict) {
	x.out.Outcome, x.out.Reason, x.out.Message, x.out.Violations = v.Outcome, v.Reason, v.Message, v.Violations
	x.out.Steps = x.count(x.run.Tally)
}

// count takes the total from the plan, when there is one: the constrained preview ends at the first violation.
func (x *execution) count(t pulumi.Tally) workspace.Steps {
	if x.op.Type == workspace.Accept && x.watched != nil {
		return workspace.Steps{Done: x.watched.count(), Total: x.planned}
	}
	return workspace.Steps{Done: t.Done, Total: max(t.Planned, x.planned)}
}

// request is a run with the operation's watchers attached.
func (x *execution) request(plan string) pulumi.Request {
	var tally pulumi.Tally
	return pulumi.Request{
		Target: x.target, PlanFile: plan, Refresh: x.refreshes(), Expendable: x.op.Type == workspace.DriftCheck,
		Targets: x.op.Options.Targets, TargetDependents: x.op.Options.TargetDependents,
		OnLine: func(line string) {
			if strings.TrimSpace(line) != "" {
				x.say(line)
			}
		},
		OnEvent: func(phase int, event []byte) {
			tally.Take(phase, event)
			x.keep(phase, event)
			x.o.progress(x.count(tally))
		},
		OnStart: func(pid int) {
			if err := x.journal.Note(x.op.ID, pid); err != nil {
				x.config.Log.Error(err, "Could not note Pulumi's process")
			}
		},
	}
}

// say tells the watchers a line, secrets masked.
func (x *execution) say(line string) {
	x.o.tell(agentpb.Event_KIND_LOG, cut(x.mask.Text(line), messageLimit))
}

var permalinkPattern = regexp.MustCompile(`(?m)^\s*View (?:Live|in Browser)[^:\n]*: (https?://\S+)`)

func permalink(output string) string {
	all := permalinkPattern.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}
