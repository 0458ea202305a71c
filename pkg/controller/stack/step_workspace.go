// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/pkg/planstate"
	"github.com/plangate/plangate/pkg/workspaces"
)

// foreignPause is how soon an object is looked at again that may be somebody else's, so that its events do not come here.
const foreignPause = 15 * time.Second

// template is what workspaceTemplate may hold.
type template struct {
	Metadata struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata,omitempty"`
	Spec v1alpha1.WorkspaceSpec `json:"spec,omitempty"`
}

// ensureWorkspace makes the Workspace what the Stack asks for and waits until its agent answers.
func (r *Reconciler) ensureWorkspace(ctx context.Context, s *scope) outcome.Outcome {
	wanted, err := renderWorkspace(s.stack)
	if err != nil {
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, err)
	}
	// An approved plan asks for the pod itself, but cannot make the Workspace.
	if s.settled() && (s.ws != nil || s.plan == nil || planstate.Of(s.plan) != planstate.Approved) {
		return outcome.Done()
	}
	if s.ws == nil {
		return r.createWorkspace(ctx, s, wanted)
	}
	if o := r.shapeWorkspace(ctx, s, wanted); o.Kind != outcome.KindDone {
		return o
	}
	if err := workspaces.Need(ctx, r.client, s.ws, s.now); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	if workspaces.IsReady(s.ws) || s.stack.Status.Operation != nil {
		return outcome.Done()
	}
	return r.notReady(s.ws)
}

// shapeWorkspace makes the existing Workspace what is wanted.
func (r *Reconciler) shapeWorkspace(ctx context.Context, s *scope, wanted *v1alpha1.Workspace) outcome.Outcome {
	if !ownership.Of(s.ws, s.stack) {
		// Nothing tells of the end of an object that is not of this Stack: it is looked for.
		err := fmt.Errorf("the Workspace %q exists and is not of this Stack: delete it, or rename the Stack", s.ws.Name)
		return outcome.RetryAfter(v1alpha1.ReasonWorkspaceFailed, err, foreignPause)
	}
	if s.stack.Status.Operation != nil {
		// The Workspace would only wait for the end of the preview.
		return outcome.Done()
	}
	err := r.updateWorkspace(ctx, s.ws, wanted)
	switch {
	case apierrors.IsInvalid(err):
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, fmt.Errorf("spec.workspaceTemplate makes no valid Workspace: %w", err))
	case err != nil:
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	default:
		return outcome.Done()
	}
}

// notReady passes on what the Workspace says of itself.
func (r *Reconciler) notReady(ws *v1alpha1.Workspace) outcome.Outcome {
	message := conditions.Message(ws.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ws.Status.ObservedGeneration != ws.Generation || message == "":
		return outcome.Wait(v1alpha1.ReasonWorkspaceStarting, fmt.Sprintf("Workspace %q is being looked at", ws.Name), 0)
	case conditions.IsTrue(ws.Status.Conditions, v1alpha1.ConditionStalled):
		return outcome.RetryAfter(v1alpha1.ReasonWorkspaceFailed, errors.New(message), r.settings.RetryMaxInterval)
	case conditions.Is(ws.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse) && !workspaces.IsIdle(ws):
		return outcome.RetryAfter(v1alpha1.ReasonWorkspaceFailed, errors.New(message), r.settings.RetryMaxInterval)
	default:
		return outcome.Wait(v1alpha1.ReasonWorkspaceStarting, message, 0)
	}
}

func (r *Reconciler) createWorkspace(ctx context.Context, s *scope, wanted *v1alpha1.Workspace) outcome.Outcome {
	wanted.Annotations[v1alpha1.AnnotationNeededAt] = s.now.UTC().Format(time.RFC3339)
	err := r.client.Create(ctx, wanted)
	if apierrors.IsInvalid(err) {
		return outcome.Stall(v1alpha1.ReasonSpecInvalid, fmt.Errorf("spec.workspaceTemplate makes no valid Workspace: %w", err))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return outcome.Retry(v1alpha1.ReasonReconcileError, fmt.Errorf("creating Workspace %q: %w", wanted.Name, err))
	}
	return outcome.Wait(v1alpha1.ReasonWorkspaceStarting, fmt.Sprintf("Workspace %q was created", wanted.Name), foreignPause)
}

func (r *Reconciler) updateWorkspace(ctx context.Context, ws, wanted *v1alpha1.Workspace) error {
	before := ws.DeepCopy()
	for key, value := range wanted.Labels {
		metav1.SetMetaDataLabel(&ws.ObjectMeta, key, value)
	}
	for key, value := range wanted.Annotations {
		metav1.SetMetaDataAnnotation(&ws.ObjectMeta, key, value)
	}
	if !sameSpec(ws.Spec, wanted.Spec) {
		ws.Spec = wanted.Spec
	}
	if equality.Semantic.DeepEqual(before, ws) {
		return nil
	}
	if err := r.client.Patch(ctx, ws, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("updating Workspace %q: %w", ws.Name, err)
	}
	return nil
}

// sameSpec compares two specs; podTemplate by its values, since the order of its keys means nothing.
func sameSpec(a, b v1alpha1.WorkspaceSpec) bool {
	rawA, rawB := raw(a.PodTemplate), raw(b.PodTemplate)
	a.PodTemplate, b.PodTemplate = nil, nil
	return reflect.DeepEqual(rawA, rawB) && equality.Semantic.DeepEqual(a, b)
}

func raw(e *runtime.RawExtension) any {
	var v any
	if e == nil || json.Unmarshal(e.Raw, &v) != nil {
		return nil
	}
	return v
}

// renderWorkspace renders the Workspace that the Stack asks for.
func renderWorkspace(stack *v1alpha1.Stack) (*v1alpha1.Workspace, error) {
	t := template{}
	if stack.Spec.WorkspaceTemplate != nil {
		decoder := json.NewDecoder(bytes.NewReader(stack.Spec.WorkspaceTemplate.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&t); err != nil {
			return nil, fmt.Errorf("spec.workspaceTemplate cannot be used: %w", err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("spec.workspaceTemplate has something behind the object")
		}
	}
	if t.Spec.ServiceAccountName == "" {
		t.Spec.ServiceAccountName = stack.Spec.ServiceAccountName
	}
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: stack.Name, Namespace: stack.Namespace, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       t.Spec,
	}
	for key, value := range t.Metadata.Labels {
		ws.Labels[key] = value
	}
	for key, value := range t.Metadata.Annotations {
		if key == v1alpha1.AnnotationNeededAt {
			return nil, fmt.Errorf("spec.workspaceTemplate.metadata.annotations sets %q, which is the operator's", key)
		}
		ws.Annotations[key] = value
	}
	ownership.Mark(ws, stack)
	return ws, nil
}
