// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations that people and tools set.
const (
	// AnnotationApprove on an UpdatePlan approves it. Its value is the plan's whole digest ("sha256:" and 64 lower-case
	// hex digits), optionally followed by a blank and a reason. Prefixes and other digests are refused.
	AnnotationApprove = "plangate.dev/approve"
	// AnnotationReject on an UpdatePlan ends it for good. Its value is the plan's whole digest, optionally followed by a
	// blank and a reason.
	AnnotationReject = "plangate.dev/reject"
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
)

// Annotations and labels that the operator sets.
const (
	// AnnotationNeededAt on a Workspace is the time (RFC 3339) at which the operator last needed its pod. The pod is
	// removed once this lies further back than the Workspace's idleTimeout.
	AnnotationNeededAt = "plangate.dev/needed-at"

	// LabelStack holds the name of the Stack that an object belongs to; names over 63 characters are shortened and end
	// in a hash.
	LabelStack = "plangate.dev/stack"
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
