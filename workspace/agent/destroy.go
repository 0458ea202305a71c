// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
	"github.com/plangate/plangate/workspace/stackconfig"
)

// A destroy needs the state alone: neither the repository, nor a checkout, nor the configuration. It is held to a list of all
// that goes, since Pulumi has no plan file for it:
//
//	state ─ list ─┬─ PreviewDestroy: destroy --preview-only must do what is listed ─▶ the list is the plan
//	              └─ Destroy: approved? facts as approved? list as approved? destroy --preview-only as listed? state still as
//	                          approved? ─ destroy, whose own preview takes the lock: state still as approved, under the lock?

// standIn makes a project without a program in place of the checkout.
func (x *execution) standIn(context.Context) error {
	name := pulumi.ProjectOf(x.op.Stack, x.op.Project)
	if name == "" {
		return x.partly(fail(workspace.ReasonProgramInvalid, fmt.Errorf("finding the state of stack %q: the name of its project is not known", x.op.Stack)))
	}
	project, err := stackconfig.NewProject(name)
	if err != nil {
		return x.partly(fail(workspace.ReasonProgramInvalid, err))
	}
	dir := filepath.Join(x.target.Scratch, "project")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("making folder: %w", err)
	}
	content := fmt.Sprintf("name: %q\nruntime: yaml\n", project.Name)
	if err := os.WriteFile(filepath.Join(dir, "Pulumi.yaml"), []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing project: %w", err)
	}
	x.project, x.target.Dir, x.target.Project, x.out.Project = project, dir, project.Name, project.Name
	return nil
}

// listDestroy lists what the state holds.
func (x *execution) listDestroy(context.Context) error {
	list, err := pulumi.ListDestroy(x.deployment, x.project.Name, x.op.Stack)
	if err != nil {
		return fail(workspace.ReasonBackendUnavailable, err)
	}
	x.list, x.planned = list, list.Steps()
	return nil
}

// previewDestroy makes the list the plan, once Pulumi's own preview does what it says.
func (x *execution) previewDestroy(ctx context.Context) error {
	raw, err := x.list.Bytes()
	if err != nil {
		return err
	}
	x.out.Plan, x.out.Steps = raw, workspace.Steps{Total: x.planned}
	if len(x.list.Resources) == 0 {
		x.say("The state holds nothing")
		x.out.Outcome = workspace.Succeeded
		return nil
	}
	verdict, err := x.rehearse(ctx)
	if err != nil {
		return err
	}
	x.take(verdict)
	if verdict.Reason == workspace.ReasonLocked {
		x.out.Locks = pulumi.Locks(x.run.Output + "\n" + strings.Join(x.run.Tally.Errors, "\n"))
	}
	if verdict.Outcome == workspace.Violated {
		x.out.Outcome = workspace.Failed // there is no plan yet that could be violated
	}
	if verdict.Outcome != workspace.Succeeded {
		x.out.Plan = nil
		return nil
	}
	x.remember(x.state)
	return nil
}

// rehearse runs Pulumi's preview of the destroy and compares it with the list.
func (x *execution) rehearse(ctx context.Context) (pulumi.Verdict, error) {
	run, err := x.driver.PreviewDestroy(ctx, x.request(""))
	if err != nil {
		return pulumi.Verdict{}, fail(workspace.ReasonPulumiUnavailable, err)
	}
	x.run = run
	verdict := pulumi.JudgePreviewDestroy(run, x.list)
	if verdict.Outcome == workspace.Succeeded {
		verdict = x.configKept(verdict)
	}
	return verdict, nil
}

// compareList refuses to destroy anything but exactly what was approved.
func (x *execution) compareList(context.Context) error {
	raw, err := x.list.Bytes()
	if err != nil {
		return err
	}
	if !bytes.Equal(raw, x.op.Plan) {
		return &stop{workspace.Violated, workspace.ReasonPlanViolated, errors.New("what the state holds is not what was approved to go, though its digest is the same; nothing was destroyed")}
	}
	if protected := x.list.Protected(); len(protected) > 0 {
		return fail(workspace.ReasonProgramFailed, fmt.Errorf("%d resources are protected, and Pulumi refuses to delete them: %s", len(protected), strings.Join(protected[:min(3, len(protected))], ", ")))
	}
	return nil
}

// destroy rehearses once more, looks at the state for the last time, and destroys.
func (x *execution) destroy(ctx context.Context) error {
	if len(x.list.Resources) == 0 {
		x.out.Outcome = workspace.Succeeded
		return nil
	}
	if err := x.clearWay(ctx); err != nil {
		return err
	}
	return x.throughLocks(ctx, func() (pulumi.Verdict, error) {
		verdict, err := x.rehearse(ctx)
		if err != nil || verdict.Outcome != workspace.Succeeded {
			return verdict, err
		}
		x.run = nil
		if err := x.compareState(ctx); err != nil {
			return pulumi.Verdict{}, err
		}
		run, err := x.guarded(ctx, x.driver.Destroy, x.request(""))
		if err != nil {
			return pulumi.Verdict{}, err
		}
		return pulumi.JudgeDestroy(run), nil
	})
}
