// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations that people and tools set.
const (
	// AnnotationApprove on an UpdatePlan approves it, as people type it. Its value is the plan's whole digest ("sha256:" and
	// 64 lower-case hex digits), optionally followed by a blank and a reason. Prefixes and other digests are refused. The API
	// server turns it into a record under DomainApprove; where it cannot (before Kubernetes 1.36), it refuses it.
	AnnotationApprove = "plangate.dev/approve"
	// AnnotationReject on an UpdatePlan ends it for good, as people type it. Its value is a reason, or the plan's whole
	// digest, optionally followed by a blank and a reason.
	AnnotationReject = "plangate.dev/reject"
	// DomainApprove and DomainReject, followed by a slash and a name of any kind, hold the records of decisions:
	// "<digest> by <user>[ -- <reason>]". The API server lets nobody write one but under his own name, and only those who
	// have the verb approve on the plan, or on stacks of the Stack's name. Records never change. "approve-<class>" and
	// "reject-<class>" are those of a class of people, with a verb of that name.
	DomainApprove = "approve.plangate.dev"
	DomainReject  = "reject.plangate.dev"
	// AnnotationRequestPlan on a Stack asks for a new preview, and a new plan if there is something to change. Any value
	// that differs from the last one is a new request; a time stamp is customary.
	AnnotationRequestPlan = "plangate.dev/request-plan"
	// AnnotationCheckDrift on a Stack asks for a look at the real resources. Any value that differs from the last one is a new
	// request; "now" always is one, and the operator replaces it by the time.
	AnnotationCheckDrift = "plangate.dev/check-drift"
	// AnnotationAcceptDrift on a Stack asks for an UpdatePlan by which Pulumi's state takes the values of the real resources, as
	// far as they differ. Values are as for AnnotationCheckDrift.
	AnnotationAcceptDrift = "plangate.dev/accept-drift"
	// AnnotationRepairDrift on a Stack lets drift be planned to be put back once more that was held because the same fields were
	// put back again and again. Its value is status.drift.loop.digest.
	AnnotationRepairDrift = "plangate.dev/repair-drift"
	// RequestNow is a value that is always a new request.
	RequestNow = "now"
	// AnnotationDestroy on a Stack says that all of its resources shall go, while the Stack itself stays. As long as it is
	// there, only Destroy plans are made, and what was destroyed is not made again; when it is removed, the Stack's spec is
	// what is wanted again. Its value is any word that is not empty; another one asks for a new Destroy plan.
	AnnotationDestroy = "plangate.dev/destroy"
	// AnnotationOrphan on a Stack that is being deleted lets it go without destroying what it made, for good. Its value is the
	// Stack's UID, so that it means nothing on any other Stack. To set it takes the verb "orphan" on the Stack
	// (config/admission/stack-orphan.yaml).
	AnnotationOrphan = "plangate.dev/orphan"
	// AnnotationUnlock on a Stack allows the operator to release a lock of somebody else. Its value is the lock's whole id, as
	// status.locks shows it; another lock is never released by it. It takes the verb "unlock" on the Stack.
	AnnotationUnlock = "plangate.dev/unlock"
)

// Annotations and labels that the operator sets.
const (
	// AnnotationEditedBy on a Stack says who wrote its spec last: "<generation> by <user>". The API server writes it from
	// Kubernetes 1.36 on, and lets nobody write anything else. Absent, or of another generation than the Stack's: not known.
	AnnotationEditedBy = "plangate.dev/edited-by"
	// AnnotationNeededAt on a Workspace is the time (RFC 3339) at which the operator last needed its pod. The pod is
	// removed once this lies further back than the Workspace's idleTimeout.
	AnnotationNeededAt = "plangate.dev/needed-at"

	// LabelStack holds the name of the Stack that an object belongs to; names over 63 characters are shortened and end
	// in a hash.
	LabelStack = "plangate.dev/stack"
	// LabelStackUID holds the UID of the Stack that an object belongs to. It stands in for an owner reference, which would let
	// the garbage collector take the object from under a destroy when the Stack is deleted in the foreground. The object gets
	// its owner reference when the Stack is let go.
	LabelStackUID = "plangate.dev/stack-uid"
	// LabelStackResourceVersion on an UpdatePlan holds spec.stackRef.resourceVersion.
	LabelStackResourceVersion = "plangate.dev/stack-resource-version"
	// LabelOperation on an UpdatePlan holds the id of the preview operation that made it.
	LabelOperation = "plangate.dev/operation"
	// LabelWorkspace on a Pod holds the name of the Workspace that it runs for.
	LabelWorkspace = "plangate.dev/workspace"
	// LabelWorkspaceUID on a Pod holds the UID of that Workspace. It stands in for an owner reference, which would let the
	// garbage collector take the pod from under a running operation when the Stack is deleted in the foreground.
	LabelWorkspaceUID = "plangate.dev/workspace-uid"
	// LabelComponent tells what a Secret or ConfigMap of the operator is: one of the Component constants.
	LabelComponent = "plangate.dev/component"
)

// Values of LabelComponent.
const (
	ComponentPlanFile    = "plan-file"
	ComponentPlanChanges = "plan-changes"
	ComponentPlanSteps   = "plan-steps"
	ComponentStackKey    = "stack-key"
	ComponentOutputs     = "outputs"
	ComponentTLS         = "workspace-tls"
	ComponentDriftReport = "drift-report"
)

// Finalizer keeps an object until no operation of its Stack runs any more.
const Finalizer = "plangate.dev/operation"

// DriftReportName is the name of the ConfigMap that holds the report of a Stack's last drift check.
func DriftReportName(stack string) string { return stack + "-plangate-drift" }

// OutputsSecretName is the name of the Secret that holds a Stack's outputs whole.
func OutputsSecretName(stack string) string { return stack + "-plangate-outputs" }
