// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

// The words of Result.Reason.
const (
	// ReasonSourceUnavailable: the repository cannot be reached, or has no such commit.
	ReasonSourceUnavailable = "SourceUnavailable"
	// ReasonProgramInvalid: the folder or its Pulumi.yaml is missing or wrong.
	ReasonProgramInvalid = "ProgramInvalid"
	// ReasonConfigInvalid: the committed stack file and the operation's configuration do not make a valid configuration.
	ReasonConfigInvalid = "ConfigInvalid"
	// ReasonSecretsUnavailable: the secrets provider refused, for example because of a wrong passphrase.
	ReasonSecretsUnavailable = "SecretsUnavailable"
	// ReasonBackendUnavailable: the state's backend cannot be reached, or refused.
	ReasonBackendUnavailable = "BackendUnavailable"
	// ReasonPulumiUnavailable: the CLI cannot be run.
	ReasonPulumiUnavailable = "PulumiUnavailable"
	// ReasonLocked: another update holds the stack's lock.
	ReasonLocked = "Locked"
	// ReasonPluginUnavailable: a plugin is missing, and must not be, or could not be, downloaded.
	ReasonPluginUnavailable = "PluginUnavailable"
	// ReasonProgramFailed: the program, a provider or a policy failed.
	ReasonProgramFailed = "ProgramFailed"
	// ReasonPlanViolated: the program wanted what the plan does not allow.
	ReasonPlanViolated = "PlanViolated"
	// ReasonPlanInvalid: the plan is not the one of PlanDigest, or Pulumi cannot read it.
	ReasonPlanInvalid = "PlanInvalid"
	// ReasonApprovalInvalid: what the operator says of the approval is not so, or a signature is missing that the agent requires.
	ReasonApprovalInvalid = "ApprovalInvalid"
	// ReasonExpectationsNotMet: goes with Stale.
	ReasonExpectationsNotMet = "ExpectationsNotMet"
	// ReasonTimedOut: it ran longer than it may, and was stopped.
	ReasonTimedOut = "TimedOut"
	// ReasonCancelled: it was asked to stop.
	ReasonCancelled = "Cancelled"
	// ReasonGaveWay: a DriftCheck was cut short by an operation that matters more.
	ReasonGaveWay = "GaveWay"
	// ReasonAgentDied: goes with Interrupted.
	ReasonAgentDied = "AgentDied"
	// ReasonInternal: the agent itself failed.
	ReasonInternal = "Internal"
)
