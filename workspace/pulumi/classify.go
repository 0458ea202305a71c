// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/plangate/plangate/workspace"
)

// Verdict is a run in our words. Message and Violations may hold secrets.
type Verdict struct {
	Outcome    workspace.Outcome
	Reason     string
	Message    string
	Violations []string
}

// signs are texts of the CLI, and what they mean. The first that matches wins, so the special ones come first.
var signs = []struct {
	text   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`the stack is currently locked by|Another update is currently in progress`), workspace.ReasonLocked},
	{regexp.MustCompile(`incorrect passphrase|message authentication failed|passphrase must be set|secrets? manager|PULUMI_CONFIG_PASSPHRASE`), workspace.ReasonSecretsUnavailable},
	{regexp.MustCompile(`no Pulumi\.yaml project file found|could not (load|unmarshal|parse|validate).{0,40}Pulumi\.yaml|failed to load Pulumi project|invalid project|project.*is missing a 'name'`), workspace.ReasonProgramInvalid},
	{regexp.MustCompile(`unable to open state directory|performing HTTP request|could not (connect|query)|read "\.pulumi/|unable to (check|list|read)[^\n]*bucket|open bucket|invalid access token|PULUMI_ACCESS_TOKEN must be set|blob \(key|\[401\] Unauthorized|\[403\] Forbidden`), workspace.ReasonBackendUnavailable},
	{regexp.MustCompile(`no (resource|language|analyzer|tool|converter)? ?plugin '?[^\n]* found|could not find (latest version for|plugin)|automatic plugin (acquisition|installation)|failed to (load|download|install) plugin`), workspace.ReasonPluginUnavailable},
	{regexp.MustCompile(`could not (deserialize|read) plan|deserializing plan|reading plan|unexpected EOF|^error: EOF`), workspace.ReasonPlanInvalid},
	{regexp.MustCompile(`(missing|invalid) (required )?configuration|configuration (key|value)|validating stack config`), workspace.ReasonConfigInvalid},
}

// violation is what Pulumi says when something is not allowed by the plan.
var violation = regexp.MustCompile(`violates plan|is not allowed by the plan|resource unexpectedly not deleted|expected resource operations for|this resource is constrained to`)

// ReasonOf finds the reason in a text of the CLI.
func ReasonOf(text, otherwise string) string {
	for _, s := range signs {
		if s.text.MatchString(text) {
			return s.reason
		}
	}
	return otherwise
}

// JudgePreview turns the run of a preview into a verdict. A preview succeeds only with a saved plan.
func JudgePreview(run *Run, saved bool) Verdict {
	switch {
	case run.Interrupted:
		return Verdict{Outcome: workspace.Cancelled, Reason: workspace.ReasonCancelled, Message: "the preview was asked to stop"}
	case run.ExitCode != 0:
		text := errorText(run)
		return Verdict{Outcome: workspace.Failed, Reason: ReasonOf(text, workspace.ReasonProgramFailed), Message: text}
	case run.Tally.Phases == 0:
		return Verdict{Outcome: workspace.Failed, Reason: workspace.ReasonInternal, Message: "Pulumi sent no engine events"}
	case !saved:
		return Verdict{Outcome: workspace.Failed, Reason: workspace.ReasonInternal, Message: "Pulumi saved no plan"}
	}
	return Verdict{Outcome: workspace.Succeeded}
}

// JudgeTakeOver turns the run of a refresh into a verdict. taken counts the resources whose values went into the state.
func JudgeTakeOver(run *Run, taken int) Verdict {
	v := Verdict{Outcome: workspace.Succeeded}
	switch {
	case run.Interrupted:
		v = Verdict{Outcome: workspace.Cancelled, Reason: workspace.ReasonCancelled, Message: "it was asked to stop"}
	case run.ExitCode != 0:
		text := errorText(run)
		v = Verdict{Outcome: workspace.Failed, Reason: ReasonOf(text, workspace.ReasonProgramFailed), Message: text}
	}
	if v.Outcome != workspace.Succeeded && taken > 0 {
		v.Outcome = workspace.Partial
	}
	return v
}

// JudgeUp turns the run of a constrained update into a verdict.
func JudgeUp(run *Run) Verdict {
	if run.ExitCode == 0 {
		return Verdict{Outcome: workspace.Succeeded}
	}
	v := Verdict{Outcome: workspace.Failed, Message: errorText(run), Violations: violations(run)}
	v.Reason = ReasonOf(v.Message, workspace.ReasonProgramFailed)
	if len(v.Violations) > 0 {
		v.Outcome, v.Reason = workspace.Violated, workspace.ReasonPlanViolated
	}
	if silent(run) {
		v.Outcome, v.Reason = workspace.Violated, workspace.ReasonPlanViolated
		v.Message = "the stack's outputs are not those of the plan (Pulumi refused without an error text)"
		v.Violations = []string{v.Message}
	}
	if run.Interrupted {
		v.Outcome, v.Reason, v.Violations = workspace.Cancelled, workspace.ReasonCancelled, nil
		v.Message = fmt.Sprintf("the update was asked to stop; %d of %d steps were done", run.Tally.Done, run.Tally.Planned)
	}
	if run.Tally.Real > 0 || run.Tally.Unsure || run.ExitCode < 0 && run.Tally.Started > 0 {
		v.Outcome = workspace.Partial
	}
	return v
}

// silent is the refusal of a plan because of the stack's outputs alone: the constrained preview ends with exit code 1 and
// no word about why.
func silent(run *Run) bool {
	return run.ExitCode == 1 && !run.Interrupted && run.Tally.Phases == 1 && len(run.Tally.Errors) == 0 &&
		!strings.Contains(run.Output, "error:")
}

func violations(run *Run) []string {
	var out []string
	seen := map[string]bool{}
	for _, text := range append(append([]string(nil), run.Tally.Errors...), strings.Split(run.Output, "\n")...) {
		text = strings.TrimSpace(text)
		if !violation.MatchString(text) || seen[text] || len(out) >= 50 {
			continue
		}
		if len(run.Tally.Errors) > 0 && strings.HasPrefix(text, "error:") {
			continue // the same again, as text
		}
		seen[text] = true
		out = append(out, text)
	}
	return out
}

// errorText is what went wrong: the error diagnostics, and the CLI's last lines that say "error:".
func errorText(run *Run) string {
	lines := append([]string(nil), run.Tally.Errors...)
	rest, found := run.Output, false
	if at := strings.LastIndex(rest, "\nerror: "); at >= 0 {
		rest, found = rest[at+1:], true
	} else if strings.HasPrefix(rest, "error: ") {
		found = true
	}
	if found {
		text := strings.TrimSpace(strings.TrimPrefix(rest, "error: "))
		if !strings.Contains(strings.Join(lines, "\n"), text) {
			lines = append(lines, text)
		}
	}
	if len(lines) == 0 {
		lines = append(lines, fmt.Sprintf("Pulumi ended with exit code %d", run.ExitCode), tail(run.Output, 10))
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
