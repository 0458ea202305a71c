// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plangate/plangate/workspace"
)

// DestroyListVersion is the first thing that a DestroyList says.
const DestroyListVersion = "plangate.dev/destroy-list/v1"

// Fates of what a destroy meets.
const (
	// FateDelete: it is deleted.
	FateDelete = "delete"
	// FateRetain: Pulumi forgets it and leaves it in the real world, because of retainOnDelete or because it was only read.
	FateRetain = "retain"
	// FateForget: it is gone already, and Pulumi forgets it.
	FateForget = "forget"
	// FateProtected: Pulumi refuses to delete it, and so the whole destroy.
	FateProtected = "protected"
	// FateUnknown: an operation on it was cut off, and nobody knows what became of it. Pulumi does not touch it.
	FateUnknown = "unknown"
)

// DestroyList is what a destroy is held to, in place of the plan file that Pulumi does not have for it: all that a state
// holds, and what becomes of it.
type DestroyList struct {
	Version string `json:"version"`
	// Project and Stack are the names of the Pulumi project and stack.
	Project string `json:"project"`
	Stack   string `json:"stack"`
	// StateDigest is that of the state that the list was read from.
	StateDigest string `json:"stateDigest"`
	// Resources are sorted. One whose replacement was cut off may be there twice.
	Resources []Doomed `json:"resources"`
}

// Doomed is a resource and what becomes of it.
type Doomed struct {
	URN  string `json:"urn"`
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Fate string `json:"fate"`
}

// ListDestroy reads from a deployment what a destroy does to each resource. The same deployment gives the same list.
func ListDestroy(deployment json.RawMessage, project, stack string) (DestroyList, error) {
	list := DestroyList{Version: DestroyListVersion, Project: project, Stack: stack, Resources: []Doomed{}}
	state, err := Digest(deployment)
	if err != nil {
		return list, err
	}
	list.StateDigest = state.Digest
	if len(bytes.TrimSpace(deployment)) == 0 {
		return list, nil
	}
	var d struct {
		Resources []stateResource `json:"resources"`
		Pending   []struct {
			Resource stateResource `json:"resource"`
			Type     string        `json:"type"`
		} `json:"pending_operations"`
	}
	if err := json.Unmarshal(deployment, &d); err != nil {
		return list, fmt.Errorf("decoding state: %w", err)
	}
	for _, r := range d.Resources {
		list.Resources = append(list.Resources, Doomed{URN: r.URN, Type: r.Type, ID: r.ID, Fate: r.fate()})
	}
	for _, p := range d.Pending {
		// What was to be made may be there and is not in the state. All else is.
		if strings.HasPrefix(p.Type, "creat") || strings.HasPrefix(p.Type, "import") {
			list.Resources = append(list.Resources, Doomed{URN: p.Resource.URN, Type: p.Resource.Type, ID: p.Resource.ID, Fate: FateUnknown})
		}
	}
	slices.SortFunc(list.Resources, func(a, b Doomed) int {
		return cmp.Or(cmp.Compare(a.URN, b.URN), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Fate, b.Fate))
	})
	return list, nil
}

// stateResource is a resource in a state, as far as its fate depends on it.
type stateResource struct {
	URN                string `json:"urn"`
	Type               string `json:"type"`
	ID                 string `json:"id"`
	External           bool   `json:"external"`
	Protect            bool   `json:"protect"`
	RetainOnDelete     bool   `json:"retainOnDelete"`
	Delete             bool   `json:"delete"`
	PendingReplacement bool   `json:"pendingReplacement"`
}

// fate follows the engine: the left-over of a replacement is not asked whether it is protected.
func (r stateResource) fate() string {
	switch {
	case r.PendingReplacement:
		return FateForget
	case r.Protect && !r.Delete:
		return FateProtected
	case r.RetainOnDelete, r.External:
		return FateRetain
	default:
		return FateDelete
	}
}

// Bytes are the list as it is stored and approved: the same ones for the same list.
func (l DestroyList) Bytes() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		return nil, fmt.Errorf("encoding the list of what goes: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Protected are the URNs that make the destroy impossible.
func (l DestroyList) Protected() []string {
	var found []string
	for _, r := range l.Resources {
		if r.Fate == FateProtected {
			found = append(found, r.URN)
		}
	}
	return found
}

// Steps counts what of the list is counted as a step.
func (l DestroyList) Steps() int {
	n := 0
	for _, r := range l.Resources {
		op := apitype.OpDelete
		if r.Fate == FateForget || r.Fate == FateUnknown {
			op = apitype.OpSame
		}
		if counts(apitype.StepEventMetadata{Op: op, URN: r.URN, Type: r.Type}) {
			n++
		}
	}
	return n
}

// Deviations compares the events of a preview of the destroy with the list, and says in words what Pulumi would do that the list
// does not name, and what it would leave. None: it would do exactly what is listed.
func (l DestroyList) Deviations(events []byte) []string {
	var found []string
	wanted, met := l.wanted(), map[string]bool{}
	for line := range bytes.SplitSeq(events, []byte("\n")) {
		var e apitype.EngineEvent
		if json.Unmarshal(line, &e) != nil || e.ResourcePreEvent == nil {
			continue
		}
		m := e.ResourcePreEvent.Metadata
		switch {
		case m.Op == apitype.OpSame:
		case !removes(m.Op):
			found = append(found, fmt.Sprintf("%s of %s", m.Op, m.URN))
		case !wanted[m.URN] && !met[m.URN]:
			found = append(found, fmt.Sprintf("%s of %s, which is not listed", m.Op, m.URN))
			met[m.URN] = true
		default:
			met[m.URN] = true
		}
	}
	for _, r := range l.Resources {
		if wanted[r.URN] && !met[r.URN] {
			found = append(found, fmt.Sprintf("nothing is done to %s, which is listed", r.URN))
			met[r.URN] = true
		}
	}
	return found
}

// wanted are the resources that Pulumi must do something to.
func (l DestroyList) wanted() map[string]bool {
	wanted := map[string]bool{}
	for _, r := range l.Resources {
		if r.Fate != FateUnknown {
			wanted[r.URN] = true
		}
	}
	return wanted
}

// removes tells whether a step takes a resource out of the state.
func removes(op apitype.OpType) bool {
	switch op {
	case apitype.OpDelete, apitype.OpDeleteReplaced, apitype.OpReadDiscard, apitype.OpDiscardReplaced, apitype.OpRemovePendingReplace:
		return true
	default:
		return false
	}
}

// destroyFlags keep the environment from widening a destroy: neither is the program run, nor are protected resources deleted.
var destroyFlags = []string{"--run-program=false", "--ignore-protect=false"}

// PreviewDestroy shows what a destroy would do.
func (c *CLI) PreviewDestroy(ctx context.Context, r Request) (*Run, error) {
	return c.engine(ctx, whole(r), append([]string{"destroy", "--preview-only"}, destroyFlags...))
}

// Destroy destroys, after Pulumi's own preview, which takes the lock first: never with --skip-preview.
func (c *CLI) Destroy(ctx context.Context, r Request) (*Run, error) {
	return c.engine(ctx, whole(r), append([]string{"destroy", "--yes"}, destroyFlags...))
}

// whole takes the flags away that limit a run, or make it read the real resources first: a destroy is of all that the state holds.
func whole(r Request) Request {
	r.Refresh, r.Targets, r.TargetDependents = false, nil, false
	return r
}

// JudgeDestroy turns the run of a destroy into a verdict.
func JudgeDestroy(run *Run) Verdict {
	if run.ExitCode == 0 {
		return Verdict{Outcome: workspace.Succeeded}
	}
	v := Verdict{Outcome: workspace.Failed, Message: errorText(run)}
	v.Reason = ReasonOf(v.Message, workspace.ReasonProgramFailed)
	if run.Interrupted {
		v.Outcome, v.Reason = workspace.Cancelled, workspace.ReasonCancelled
		v.Message = fmt.Sprintf("the destroy was asked to stop; %d steps were done", run.Tally.Done)
	}
	if run.Tally.Real > 0 || run.Tally.Unsure || run.ExitCode < 0 && run.Tally.Started > 0 {
		v.Outcome = workspace.Partial
	}
	return v
}

// JudgePreviewDestroy turns the preview of a destroy into a verdict. One that Pulumi refuses because of protected resources,
// and for nothing else, has succeeded: the list says so.
func JudgePreviewDestroy(run *Run, list DestroyList) Verdict {
	switch {
	case run.Interrupted:
		return Verdict{Outcome: workspace.Cancelled, Reason: workspace.ReasonCancelled, Message: "the preview was asked to stop"}
	case run.ExitCode != 0 && len(list.Protected()) > 0 && onlyProtected(run):
		return Verdict{Outcome: workspace.Succeeded}
	case run.ExitCode != 0:
		text := errorText(run)
		return Verdict{Outcome: workspace.Failed, Reason: ReasonOf(text, workspace.ReasonProgramFailed), Message: text}
	case run.Tally.Phases == 0:
		return Verdict{Outcome: workspace.Failed, Reason: workspace.ReasonInternal, Message: "Pulumi sent no engine events"}
	}
	if len(list.Protected()) > 0 {
		return Verdict{Outcome: workspace.Failed, Reason: workspace.ReasonInternal, Message: "Pulumi does not refuse to delete protected resources: this version of it is not known"}
	}
	if more := list.Deviations(run.Events); len(more) > 0 {
		return Verdict{
			Outcome: workspace.Violated, Reason: workspace.ReasonPlanViolated, Violations: more[:min(50, len(more))],
			Message: "Pulumi would do something else than what the state lists: " + strings.Join(more[:min(5, len(more))], "; "),
		}
	}
	return Verdict{Outcome: workspace.Succeeded}
}

// onlyProtected tells whether every error of a run is the refusal to delete a protected resource.
func onlyProtected(run *Run) bool {
	refusals := 0
	for _, text := range run.Tally.Errors {
		if !strings.Contains(text, "because it is protected") {
			if !strings.Contains(text, "preview failed") {
				return false
			}
			continue
		}
		refusals++
	}
	return refusals > 0
}
