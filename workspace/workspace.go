// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workspace and the packages below it are the hands: they get the source and run Pulumi, inside the workspace pod.
//
// This package itself holds the plain values that the operator and the agent in the pod exchange: an Operation that is
// asked for and the Result that it came to. It must never import anything of Kubernetes, and nothing below it may talk to
// the Kubernetes API: credentials reach an operation as values.
package workspace

import (
	"encoding/json"
	"time"
)

// OperationType is what an operation does.
type OperationType string

// What an operation can do. The zero value is invalid.
const (
	// Preview runs `pulumi preview --save-plan` and changes nothing.
	Preview OperationType = "Preview"
	// Apply runs `pulumi up --plan` with its constrained preview.
	Apply OperationType = "Apply"
	// DriftCheck runs a preview that reads the real resources first, and changes neither them nor the state. It gives way at
	// once to any other operation. That it failed may be what there is to know: its Events tell.
	DriftCheck OperationType = "DriftCheck"
	// Accept takes the values of real resources into the state: of those, and exactly to the values, that Plan lists
	// (drift.Acceptance). It changes nothing real.
	Accept OperationType = "Accept"
	// PreviewDestroy lists what a destroy would take away, and changes nothing. Its Plan is the list.
	PreviewDestroy OperationType = "PreviewDestroy"
	// Destroy runs `pulumi destroy`, held to the list and to the state that it was made from.
	Destroy OperationType = "Destroy"
)

// Mutates reports whether an operation of this type may change something real, or the state. It needs expectations, a plan and its
// approval.
func (t OperationType) Mutates() bool { return t == Apply || t == Destroy || t == Accept }

// Previews reports whether an operation of this type looks, and changes nothing real.
func (t OperationType) Previews() bool { return t == Preview || t == PreviewDestroy || t == DriftCheck }

// NeedsSource reports whether an operation of this type runs the program. A destroy needs the state alone.
func (t OperationType) NeedsSource() bool {
	return t == Preview || t == Apply || t == DriftCheck || t == Accept
}

// Operation is one run of Pulumi for one stack. Everything in it is used for that run alone.
type Operation struct {
	// ID names the operation. Starting an ID twice runs it once.
	ID string `json:"id"`
	// Type is what is done.
	Type OperationType `json:"type"`
	// PodUID is the UID of the pod that is meant; an agent in another pod refuses.
	PodUID string `json:"podUID"`
	// Stack is the Pulumi stack: "name", "project/name" or "organization/project/name".
	Stack string `json:"stack"`
	// Backend is the backend's URL. Empty: whatever Env says, or Pulumi Cloud.
	Backend string `json:"backend,omitempty"`
	// Project is the name of the Pulumi project, for a destroy of a stack whose own name does not give it, and for a look at the
	// state without a source. Ignored otherwise.
	Project string `json:"project,omitempty"`
	// Source is where the program comes from. Ignored for a destroy.
	Source Source `json:"source"`
	// Config is laid over the committed configuration: key → any JSON value.
	Config map[string]json.RawMessage `json:"config,omitempty"`
	// SecretConfig is laid over it too, and encrypted: key → value. Never logged, never journaled.
	SecretConfig map[string]string `json:"secretConfig,omitempty"`
	// Env is the environment of Pulumi and the program, on top of the agent's own few variables. Never logged, never journaled.
	Env map[string]string `json:"env,omitempty"`
	// PlainEnv names the variables of Env whose values are not secret. All others are masked in everything that leaves.
	PlainEnv []string `json:"plainEnv,omitempty"`
	// FallbackSalt is the "encryptionsalt" to use when neither the committed stack file nor the state has one.
	FallbackSalt string `json:"fallbackSalt,omitempty"`
	// Options are the flags of preview and apply.
	Options Options `json:"options"`
	// Expect is what an Apply, a Destroy or an Accept requires to be unchanged. Required for these, ignored for previews.
	Expect *Facts `json:"expect,omitempty"`
	// PlanDigest is "sha256:…" of Plan. Required for what Mutates.
	PlanDigest string `json:"planDigest,omitempty"`
	// Timeout is how long it may run; it is then stopped in order. Zero: as long as it takes.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Release are the locks of the stack that an Apply or a Destroy may remove if it meets them. Every other lock is left alone.
	Release []LockRelease `json:"release,omitempty"`
	// Probe runs a Preview twice, so that what differs between two previews of the same world can be named. Ignored for all others.
	Probe bool `json:"probe,omitempty"`
	// Plan is the plan file that an Apply is constrained to, or the list that a Destroy or an Accept is. Streamed, never part of the JSON form.
	Plan []byte `json:"-"`
	// Approval is what what Mutates was approved by. The agent verifies all of it again before Pulumi runs. Nil: nothing of it is
	// verified, and an agent that requires signers refuses. Ignored for Preview.
	Approval *Approval `json:"approval,omitempty"`
}

// Approval is what an Apply or a Destroy was approved by.
type Approval struct {
	// Statement is spec.statement of the UpdatePlan, as it is: the bytes that were approved.
	Statement string `json:"statement"`
	// Cluster is the id of the cluster, which the statement must name.
	Cluster string `json:"cluster"`
	// Decisions are the approvals that were counted.
	Decisions []Decision `json:"decisions,omitempty"`
	// Signatures are all annotations of the plan that hold signatures, by their whole names, as they are: those that were
	// counted, and others that an agent may require.
	Signatures map[string]string `json:"signatures,omitempty"`
}

// Decision is an approval that was counted.
type Decision struct {
	// By is who approved.
	By string `json:"by"`
	// Digest is the digest that was approved: the statement's.
	Digest string `json:"digest"`
	// At is when the operator counted it for the first time.
	At time.Time `json:"at"`
	// Evidence is "sha256:…" of the annotation's value.
	Evidence string `json:"evidence"`
	// Signer is the trusted signer that a signature was counted for, as the policy has it, in JSON. Empty: a person, for whom
	// the API server vouches, and nothing that the agent could verify.
	Signer json.RawMessage `json:"signer,omitempty"`
}

// Source is a folder of a git repository at a commit.
type Source struct {
	// URL is the repository's URL.
	URL string `json:"url"`
	// Commit is the full commit id.
	Commit string `json:"commit"`
	// Ref is the reference that the commit was resolved from, a hint for fetching. Empty: none, fetch by commit id.
	Ref string `json:"ref,omitempty"`
	// Dir is the project's folder, relative to the root. Empty: the root.
	Dir string `json:"dir,omitempty"`
	// Paths are more files and folders of the repository that belong to the project, relative to the root; "." is all of it.
	// Empty: only Dir does.
	Paths []string `json:"paths,omitempty"`
	// Auth are the credentials for URL. Nil: none. Never logged, never journaled.
	Auth *SourceAuth `json:"auth,omitempty"`
}

// SourceAuth are the credentials of a repository.
type SourceAuth struct {
	// Username and Password are for http and https. With a token as Password, an empty Username means "git".
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// SSHPrivateKey is for ssh. A key with a passphrase cannot be used.
	SSHPrivateKey string `json:"sshPrivateKey,omitempty"`
	// KnownHosts are the lines of known_hosts to trust. Empty: the host's first key is trusted and remembered.
	KnownHosts string `json:"knownHosts,omitempty"`
}

// Options are flags that must be the same for a preview and the apply of its plan.
type Options struct {
	// Refresh reads the real resources first.
	Refresh bool `json:"refresh,omitempty"`
	// Targets are the URNs that are limited to. None: all resources.
	Targets []string `json:"targets,omitempty"`
	// TargetDependents takes in what depends on the targets.
	TargetDependents bool `json:"targetDependents,omitempty"`
}

// Facts are what an operation found when it started: the part of an approval's binding that only the pod can see.
type Facts struct {
	// Commit is the commit that was checked out.
	Commit string `json:"commit"`
	// Tree is the git tree id of the project's folder; with Source.Paths a SHA-256 over it and what is at those paths.
	Tree string `json:"tree"`
	// StateDigest is "sha256:…" of the state without time stamps and encryption noise; of a state without resources it is
	// a fixed value.
	StateDigest string `json:"stateDigest"`
	// DriftDigest is "sha256:…" of how the real resources differed from the state. Empty: they were not read, because Options
	// did not ask for it, or the operation did not come so far.
	DriftDigest string `json:"driftDigest,omitempty"`
	// PulumiVersion is the CLI's version, "v3.276.0".
	PulumiVersion string `json:"pulumiVersion"`
	// Plugins are the provider plugins that state and plan need, as Pulumi finds them, sorted. Known after a preview that
	// succeeded, and before an Apply.
	Plugins []Plugin `json:"plugins,omitempty"`
}

// Plugin is a provider plugin as Pulumi finds it.
type Plugin struct {
	// Name is the plugin's name: "kubernetes".
	Name string `json:"name"`
	// Version is the version that is found. Empty: it is found on the PATH, or by the project's own path.
	Version string `json:"version,omitempty"`
	// Digest is "sha256:…" of the binary, or of all files of a plugin without one. Empty: it is not found.
	Digest string `json:"digest,omitempty"`
}

// Outcome is how an operation stands.
type Outcome string

// How an operation can stand. The zero value is invalid.
const (
	// Running: not ended yet.
	Running Outcome = "Running"
	// Succeeded: all was done. For a Preview, a plan was saved.
	Succeeded Outcome = "Succeeded"
	// Failed: Pulumi, git or the configuration failed; for an Apply, before anything was changed.
	Failed Outcome = "Failed"
	// Stale: an Apply or Accept found its expectations not met and did not run Pulumi's update. See Mismatches.
	Stale Outcome = "Stale"
	// Violated: an Apply met something that the plan does not allow, and nothing was changed.
	Violated Outcome = "Violated"
	// Partial: an Apply changed something and then failed or met something that the plan does not allow.
	Partial Outcome = "Partial"
	// Cancelled: it was asked to stop, and stopped in order. Steps tells whether something was changed.
	Cancelled Outcome = "Cancelled"
	// Interrupted: the process that ran it died. What was done is not known for sure.
	Interrupted Outcome = "Interrupted"
)

// Result is how an operation ended, or how far it is.
type Result struct {
	// ID is the operation's.
	ID string `json:"id"`
	// Type is the operation's.
	Type OperationType `json:"type"`
	// Outcome is how it stands.
	Outcome Outcome `json:"outcome"`
	// Reason is a word for programs, for example "SourceUnavailable", "BackendUnavailable", "Locked", "ProgramFailed";
	// empty after success.
	Reason string `json:"reason,omitempty"`
	// Message says it for people, secrets masked, at most 4096 bytes; empty after success.
	Message string `json:"message,omitempty"`
	// Project is the name of the Pulumi project. Empty: it did not come so far.
	Project string `json:"project,omitempty"`
	// Facts are what was found at the start. Nil when it did not come so far.
	Facts *Facts `json:"facts,omitempty"`
	// Mismatches tell what had moved; only with Stale.
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Violations are Pulumi's words for what the plan does not allow.
	Violations []string `json:"violations,omitempty"`
	// Steps counts the resource steps that were done, and those that were planned where that is known.
	Steps Steps `json:"steps"`
	// Salt is the "encryptionsalt" that the operation used. Empty: another secrets provider.
	Salt string `json:"salt,omitempty"`
	// Outputs are the stack's outputs after an Apply, by name: the JSON value, secrets in clear. Never logged, never journaled
	// in clear: see SecretOutputs.
	Outputs map[string]json.RawMessage `json:"outputs,omitempty"`
	// OutputsLost says that the outputs of a successful Apply are not known any more, because the agent was restarted since.
	OutputsLost bool `json:"outputsLost,omitempty"`
	// SecretOutputs names the outputs that are secret.
	SecretOutputs []string `json:"secretOutputs,omitempty"`
	// Permalink is the update's address in Pulumi Cloud. Empty: none.
	Permalink string `json:"permalink,omitempty"`
	// LogTail is the end of Pulumi's output, secrets masked, at most 8192 bytes.
	LogTail string `json:"logTail,omitempty"`
	// StartedAt and EndedAt are in the pod's clock, UTC. EndedAt is zero while it runs, and when that is not known.
	StartedAt time.Time `json:"startedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Pending are the operations that the state notes as begun and not ended, as it was read at the start.
	Pending []Pending `json:"pending,omitempty"`
	// Locks are the locks that stood in the way, or, for a Preview, that were seen. Empty: none, or the backend shows none
	// before an update.
	Locks []Lock `json:"locks,omitempty"`
	// Released are the locks that an Apply removed, or began to remove when the agent died.
	Released []ReleasedLock `json:"released,omitempty"`
	// Plan is the saved plan file of a Preview, or the list of a PreviewDestroy. Streamed, never part of the JSON form.
	Plan []byte `json:"-"`
	// SecondPlan is the plan file of the second run of a Preview with Probe, to be compared with Plan and never to be applied:
	// a secret of the same value as at the same place of Plan has the same ciphertext, and one that could not be compared has
	// "plangate:uncompared" in its place. Streamed, never part of the JSON form.
	SecondPlan []byte `json:"-"`
	// Events are Pulumi's engine events, one JSON object a line (apitype.EngineEvent). Streamed, never part of the JSON form.
	Events []byte `json:"-"`
}

// Steps counts resource steps.
type Steps struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// Pending is an operation that the state notes as begun and not ended: nobody knows whether it was done.
type Pending struct {
	// Operation is Pulumi's word: "creating", "updating", "deleting", "reading", "importing".
	Operation string `json:"operation"`
	// URN is the resource's.
	URN string `json:"urn"`
}

// Lock is a lock of a stack in its backend.
type Lock struct {
	// ID names the lock: no other ever has it. Empty: the backend tells none.
	ID string `json:"id,omitempty"`
	// User, Host and PID are whose process holds it, as that process said. Empty and zero: not known.
	User string `json:"user,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// At is when it was taken, by that host's clock. Zero: not known.
	At time.Time `json:"at,omitzero"`
	// Text is what the backend says of it, where the fields above are not known.
	Text string `json:"text,omitempty"`
}

// LockCause is why a lock may be removed.
type LockCause string

// Why a lock may be removed. The zero value is invalid.
const (
	// LockOwnDead: an operation of ours that is proven dead holds it.
	LockOwnDead LockCause = "OwnDead"
	// LockRequested: somebody who may asked for it by its id.
	LockRequested LockCause = "Requested"
)

// LockRelease is a lock that may be removed: the one of an id, or all of a host that is proven gone and whose name no other
// has. Exactly one of ID and Host is set; of none, nothing is removed.
type LockRelease struct {
	ID   string `json:"id,omitempty"`
	Host string `json:"host,omitempty"`
	// Operation is the dead operation's id, when the lock is known to be ours.
	Operation string    `json:"operation,omitempty"`
	Cause     LockCause `json:"cause"`
	// By tells who asked for it, or what proves it dead.
	By string `json:"by,omitempty"`
}

// ReleasedLock is a lock that was removed.
type ReleasedLock struct {
	Lock
	// Operation, Cause and By are those of the LockRelease that allowed it.
	Operation string    `json:"operation,omitempty"`
	Cause     LockCause `json:"cause"`
	By        string    `json:"by,omitempty"`
	// ReleasedAt is when, in the pod's clock.
	ReleasedAt time.Time `json:"releasedAt"`
}

// Mismatch is an expectation that was not met.
type Mismatch struct {
	// Field names a field of Facts: "stateDigest".
	Field string `json:"field"`
	// Was is what was expected, Is what was found.
	Was string `json:"was"`
	Is  string `json:"is"`
	// Detail says more in words: which resource was changed, when it is known.
	Detail string `json:"detail,omitempty"`
}

// LookType is what is looked at.
type LookType string

// What can be looked at. The zero value is invalid.
const (
	// LookSource finds the tree of the project at a commit: Operation.Source.
	LookSource LookType = "Source"
	// LookState reads the state and finds its digest: Operation's stack, backend and environment. Operation.Source is where
	// the project's name comes from, and Operation.Expect.StateDigest the digest to compare with.
	LookState LookType = "State"
)

// Look is a question about the world. To ask it changes nothing, and needs no lock.
type Look struct {
	// Type is what is looked at.
	Type LookType `json:"type"`
	// Operation says where. What the type does not need is ignored.
	Operation Operation `json:"operation"`
}

// Sight is what a Look found.
type Sight struct {
	// Pending says that it takes longer than a call may take: ask again for the same.
	Pending bool `json:"-"`
	// Reason is why it could not be found, a word as of Result.Reason; empty: it was. Message says it for people, secrets masked.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Tree is what Facts.Tree would be; of LookSource.
	Tree string `json:"tree,omitempty"`
	// StateDigest is what Facts.StateDigest would be, and Detail which resources differ from the state that was expected, when
	// that is remembered; of LookState.
	StateDigest string `json:"stateDigest,omitempty"`
	Detail      string `json:"detail,omitempty"`
}

// Info tells about an agent.
type Info struct {
	// PodUID is the UID of the pod that it runs in.
	PodUID string `json:"podUID"`
	// Version is the agent's version.
	Version string `json:"version"`
	// PulumiVersion is the CLI's version. Empty: it cannot be run; PulumiError says why.
	PulumiVersion string `json:"pulumiVersion,omitempty"`
	PulumiError   string `json:"pulumiError,omitempty"`
	// Current is the ID of the operation that runs. Empty: none.
	Current string `json:"current,omitempty"`
}
