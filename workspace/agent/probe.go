// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

// probe previews a second time, in the same world: the checkout is reset, since the program may have written to it, and the
// state must be the same before and after. What is shown and applied is the first preview's.
func (x *execution) probe(ctx context.Context) error {
	if !x.op.Probe || x.out.Outcome != workspace.Succeeded {
		return nil
	}
	x.say("Previewing a second time, to find what differs")
	if _, err := x.checkouts.Get(ctx, x.op.Source); err != nil {
		return sourceError(err)
	}
	first := x.run
	second, verdict, err := x.previewTo(ctx, filepath.Join(x.target.Scratch, "second.json"))
	if err != nil {
		return err
	}
	if verdict.Outcome != workspace.Succeeded {
		verdict.Message = "the first preview succeeded, the second of the same world did not: " + verdict.Message
		x.take(verdict)
		x.out.Plan = nil
		return nil
	}
	x.run = first
	if err := x.sameWorld(ctx); err != nil {
		x.out.Plan = nil
		return err
	}
	x.out.SecondPlan, err = pulumi.SameSecrets(x.out.Plan, second, func(ciphertexts []string) ([]string, error) {
		plain, err := x.driver.Decrypt(ctx, x.target, ciphertexts)
		if err != nil {
			x.say("The secrets of the two previews cannot be compared: " + err.Error())
		}
		return plain, err
	})
	if err != nil {
		x.out.Plan = nil
		return fail(workspace.ReasonPlanInvalid, err)
	}
	return nil
}

// sameWorld makes sure that nobody has changed the state between the two previews.
func (x *execution) sameWorld(ctx context.Context) error {
	deployment, err := x.driver.Export(ctx, x.target)
	if err != nil && !errors.Is(err, pulumi.ErrNoStack) {
		return fail(pulumi.ReasonOf(err.Error(), workspace.ReasonBackendUnavailable), err)
	}
	state, err := pulumi.Digest(deployment)
	if err != nil {
		return fail(workspace.ReasonBackendUnavailable, err)
	}
	if state.Digest != x.state.Digest {
		return fail(workspace.ReasonExpectationsNotMet, errors.New("somebody changed the state between the two previews"))
	}
	return nil
}

// previewTo runs one preview, and judges it. The plan is nil unless it succeeded.
func (x *execution) previewTo(ctx context.Context, path string) ([]byte, pulumi.Verdict, error) {
	run, err := x.driver.Preview(ctx, x.request(path))
	if err != nil {
		return nil, pulumi.Verdict{}, fail(workspace.ReasonPulumiUnavailable, fmt.Errorf("previewing: %w", err))
	}
	x.run = run
	saved, readErr := os.ReadFile(path) //nolint:gosec // G304: a file of ours
	verdict := pulumi.JudgePreview(run, readErr == nil && len(saved) > 0)
	if verdict.Outcome == workspace.Succeeded {
		verdict = x.configKept(verdict)
	}
	if verdict.Outcome != workspace.Succeeded {
		return nil, verdict, nil
	}
	return saved, verdict, nil
}
