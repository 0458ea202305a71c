// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/workspace"
)

// Names of the steps, in order.
const (
	stepLook      = "look"
	stepSource    = "source"
	stepInputs    = "inputs"
	stepDecide    = "decide"
	stepWorkspace = "workspace"
	stepProject   = "project"
	stepPreview   = "preview"
	stepPublish   = "publish"
	stepPrune     = "prune"
	stepDrift     = "drift"
	stepGround    = "ground"
	stepFinalize  = "finalize"
	stepSuspend   = "suspend"
	stepRelease   = "release"
)

// scope is what one loop knows about a Stack. Steps fill it in.
type scope struct {
	before *v1alpha1.Stack
	stack  *v1alpha1.Stack
	now    time.Time

	// ws is the Stack's Workspace; nil: there is none yet.
	ws *v1alpha1.Workspace
	// plan is the UpdatePlan that came of the last preview; nil: there is none, or it is gone.
	plan *v1alpha1.UpdatePlan
	// plans are all plans of the Stack. They are the cache's own: nobody may write to them.
	plans []v1alpha1.UpdatePlan
	// foreign is set when there is something that a Stack of this name left that is gone.
	foreign bool
	// turnGone is set when the plan whose record comes next is gone.
	turnGone bool

	revision     source.Revision
	configDigest string
	// configEntries name what moved in configDigest.
	configEntries []v1alpha1.ConfigEntry
	inputsDigest  string
	// inputs are read only when an operation is to be started.
	inputs *inputs.Inputs
	// trigger is why a preview is due; nil: none is.
	trigger *v1alpha1.PlanTrigger
	// result is how the preview ended; nil: none has ended in this loop.
	result *workspace.Result
	// destroyed is set when the Stack is let go because all that it made is destroyed.
	destroyed bool
	// gone is set when the finalizer was removed.
	gone bool
}

func newScope(stack *v1alpha1.Stack, now time.Time) *scope {
	return &scope{before: stack.DeepCopy(), stack: stack, now: now}
}

func (s *scope) key() types.NamespacedName { return client.ObjectKeyFromObject(s.stack) }

// settled reports whether there is nothing to preview: no preview runs and none is due.
func (s *scope) settled() bool { return s.trigger == nil && s.stack.Status.Operation == nil }

// podOffered reports whether the Workspace still names the pod that the running preview was started in.
func (s *scope) podOffered() bool {
	op := s.stack.Status.Operation
	return op != nil && s.ws != nil && s.ws.Status.Pod != nil && s.ws.Status.Pod.UID == op.Pod.UID
}

// abandoned reports whether the running preview is of inputs that are no longer asked for.
func (s *scope) abandoned() bool {
	op := s.stack.Status.Operation
	return op != nil && op.InputsDigest != s.inputsDigest
}

// object names what planstore keeps for a plan of the Stack until the plan itself owns it.
func (s *scope) object() planstore.Object {
	return planstore.Object{Namespace: s.stack.Namespace, Stack: s.stack.Name, Labels: map[string]string{v1alpha1.LabelStackUID: string(s.stack.UID)}}
}
