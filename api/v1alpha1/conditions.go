// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Conditions of a Stack, in the order of the path of a change.
const (
	// ConditionSourceReady is True when spec's repository, branch or commit was resolved to a commit (named in the
	// message), False when it could not be, Unknown before the first try.
	ConditionSourceReady = "SourceReady"
	// ConditionWorkspaceReady is True when the workspace pod answered the operator, False when it cannot run, Unknown
	// while it starts or when it is not needed.
	ConditionWorkspaceReady = "WorkspaceReady"
	// ConditionPreviewed is True when the preview of the current spec, commit, configuration and state succeeded, False
	// when it failed, Unknown while it runs or is due.
	ConditionPreviewed = "Previewed"
	// ConditionDrifted is True when the last check found real resources that are not as Pulumi left them, False when it found
	// none (or only noise), Unknown when something could not be read, when checks fail, and before the first. Its reason is
	// the class of the drift.
	ConditionDrifted = "Drifted"
)

// Conditions of every kind.
const (
	// ConditionReady sums an object up; its reason is the STATUS column. For a Stack True means that the real world was
	// brought to, or found at, what the Stack asks for. For an UpdatePlan True means that it was applied. For a Workspace
	// True means that the agent in the pod answered; for a policy, that it can be evaluated.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the spec, and absent otherwise. Waiting for an
	// approval is not work.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing goes on until somebody changes something, and absent otherwise.
	ConditionStalled = "Stalled"
)

// Conditions of an UpdatePlan, in the order of its life.
const (
	// ConditionApproved is True while what was asked for is approved, False once the plan was rejected (for good), Unknown
	// while it waits. It goes back to Unknown when what vouches for the approvals is no longer in force.
	ConditionApproved = "Approved"
	// ConditionApplied is True when all of the plan was applied, False when the attempt ended in another way (the reason
	// says which), Unknown before and while it is applied.
	ConditionApplied = "Applied"
	// ConditionObsolete is True when the plan can no longer be applied because the world it was made for has moved or its
	// time is over; False otherwise.
	ConditionObsolete = "Obsolete"
	// ConditionRecorded is True when the end of the plan has its place in the Stack's chain of records and went out to the
	// audit log, and, after an apply, the stack's outputs to their Secret; Unknown before.
	ConditionRecorded = "Recorded"
)

// Reasons of a Stack's conditions.
const (
	ReasonResolved           = "Resolved"
	ReasonSourceUnavailable  = "SourceUnavailable"
	ReasonSpecInvalid        = "SpecInvalid"
	ReasonSecretUnavailable  = "SecretUnavailable"
	ReasonWorkspaceStarting  = "WorkspaceStarting"
	ReasonWorkspaceReady     = "WorkspaceReady"
	ReasonWorkspaceFailed    = "WorkspaceFailed"
	ReasonPreviewDue         = "PreviewDue"
	ReasonPreviewing         = "Previewing"
	ReasonPreviewSucceeded   = "PreviewSucceeded"
	ReasonPreviewFailed      = "PreviewFailed"
	ReasonPreviewInterrupted = "PreviewInterrupted"
	ReasonPublishFailed      = "PublishFailed"
	ReasonInSync             = "InSync"
	ReasonSuspended          = "Suspended"
	ReasonNotYetObserved     = "NotYetObserved"
	ReasonNotNeeded          = "NotNeeded"
	ReasonDeleting           = "Deleting"
	ReasonProgressing        = "Progressing"
	ReasonReconcileError     = "ReconcileError"
	// ReasonDestroyed: the annotation plangate.dev/destroy asks for a destroy, and nothing is left.
	ReasonDestroyed = "Destroyed"
	// ReasonNamespaceTerminating: the Stack's namespace is being deleted, so that nothing that a destroy needs can be made.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonOrphaned: the Stack was let go without destroying what it made, because plangate.dev/orphan says so.
	ReasonOrphaned = "Orphaned"
	// ReasonProjectUnknown: the name of the Pulumi project, without which a destroy finds no state, is written down nowhere.
	ReasonProjectUnknown = "ProjectUnknown"
)

// Reasons of the condition Drifted, beside the classes of drift.
const (
	// ReasonCheckFailed: checks come to no end; the message says why.
	ReasonCheckFailed = "CheckFailed"
	// ReasonDriftLoop: the same fields were put back again and again; nothing more is planned until a person says so.
	ReasonDriftLoop = "Loop"
	// ReasonChecksOff: spec.drift.action is Off and no check was asked for.
	ReasonChecksOff = "ChecksOff"
)

// Reasons of an UpdatePlan's conditions, and of the Stack that waits for it.
const (
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonAdmissionNotEnforced: approvals by annotation do not count, since the admission policies that vouch for them
	// were not proven to be in force.
	ReasonAdmissionNotEnforced = "AdmissionNotEnforced"
	// ReasonDeniedByPolicy: a rule denies the plan, for as long as the rule matches.
	ReasonDeniedByPolicy = "DeniedByPolicy"
	// ReasonHeldByPolicy: no approval helps now: a window is closed, or a policy cannot be evaluated.
	ReasonHeldByPolicy = "HeldByPolicy"
	ReasonApproved     = "Approved"
	ReasonRejected     = "Rejected"
	ReasonApplying     = "Applying"
	ReasonApplied      = "Applied"
	ReasonNotApplied   = "NotApplied"
	// ReasonProtected: a Destroy plan that no approval can start, since Pulumi refuses to delete protected resources.
	ReasonProtected = "Protected"

	// How an attempt to apply can end other than well.

	// ReasonViolated: Pulumi's constrained preview, or a step, differed from the plan; nothing was changed.
	ReasonViolated = "Violated"
	// ReasonPartiallyApplied: some steps were done, then one failed or violated the plan.
	ReasonPartiallyApplied = "PartiallyApplied"
	// ReasonApplyFailed: Pulumi failed before it changed anything.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonInterrupted: the process or the pod ended while the plan was being applied; what was done is not known for sure.
	ReasonInterrupted = "Interrupted"

	// ReasonLocked: the plan is approved, and somebody holds the stack's lock. It is waited for.
	ReasonLocked = "Locked"

	// Why a plan can be obsolete.

	// ReasonSuperseded: the Stack, its commit or its configuration has moved on.
	ReasonSuperseded = "Superseded"
	// ReasonStale: right before applying, something that the approval is tied to was found changed.
	ReasonStale = "Stale"
	// ReasonExpired: nobody approved it in time, or the approval was not used in time.
	ReasonExpired = "Expired"
	// ReasonStackGone: the Stack was deleted.
	ReasonStackGone = "StackGone"
	// ReasonDeleted: somebody deleted the plan before it was applied.
	ReasonDeleted = "Deleted"
	// ReasonArtifactInvalid: the stored plan file is missing or is not the one that was approved.
	ReasonArtifactInvalid = "ArtifactInvalid"

	ReasonCurrent     = "Current"
	ReasonRecorded    = "Recorded"
	ReasonNotRecorded = "NotRecorded"
)

// Reasons of the condition Ready of an ApprovalPolicy and a ClusterApprovalPolicy.
const (
	// ReasonCompiled: the policy can be evaluated.
	ReasonCompiled = "Compiled"
	// ReasonPolicyInvalid: the policy cannot be evaluated, and holds every plan that it selects.
	ReasonPolicyInvalid = "PolicyInvalid"
)

// Reasons of a Workspace's conditions.
const (
	ReasonPodStarting   = "PodStarting"
	ReasonPodFailed     = "PodFailed"
	ReasonPodReplaced   = "PodReplaced"
	ReasonAgentReady    = "AgentReady"
	ReasonAgentNotReady = "AgentNotReady"
	ReasonIdle          = "Idle"
)
