package updateplan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/apply"
	"github.com/plangate/plangate/pkg/conditions"
	"github.com/plangate/plangate/pkg/outcome"
	"github.com/plangate/plangate/workspace"
)

// record writes down how the operation ended, and the stack's outputs.
func (r *Reconciler) record(ctx context.Context, s *scope) outcome.Outcome {
	if !s.ended() && s.result == nil {
		return outcome.Done()
	}
	if s.result != nil && s.plan.Status.Operation.Result == "" {
		if len(s.result.Outputs) > 0 || s.result.Outcome == workspace.Succeeded {
			if err := r.writeOutputs(ctx, s); err != nil {
				return outcome.Retry(v1alpha1.ReasonReconcileError, err)
			}
		}
		finish(s)
	}
	s.recorded = true
	op := s.plan.Status.Operation
	if op == nil {
		log.FromContext(ctx).Info("Ended a plan without applying it", "planDigest", s.plan.Spec.Digest)
		return outcome.Done()
	}
	log.FromContext(ctx).Info("Ended a plan", "operation", op.ID, "result", op.Result, "done", op.Done, "total", op.Total, "planDigest", s.plan.Spec.Digest)
	return outcome.Done()
}

// finish copies the agent's result into the plan's operation.
func finish(s *scope) {
	op, res := s.plan.Status.Operation, s.result
	op.Result, op.Message = ended(res)
	if !res.EndedAt.IsZero() {
		at := metav1.NewTime(res.EndedAt)
		op.EndedAt = &at
	}
	progress(op, res)
	for _, v := range res.Violations[:min(20, len(res.Violations))] {
		op.Violations = append(op.Violations, conditions.Shorten(v, 1024))
	}
	for _, m := range res.Mismatches[:min(20, len(res.Mismatches))] {
		op.Mismatches = append(op.Mismatches, v1alpha1.Mismatch{
			Field: m.Field, Was: conditions.Shorten(m.Was, 512), Is: conditions.Shorten(m.Is, 512), Detail: conditions.Shorten(m.Detail, 1024),
		})
	}
	if res.Outcome == workspace.Stale {
		op.Message = conditions.Shorten("nothing was changed: "+words(op.Mismatches), 4096)
	}
	op.Permalink, op.LogTail = conditions.Shorten(res.Permalink, 2048), conditions.Shorten(res.LogTail, 8192)
	op.Outputs = masked(res)
}

// progress copies how far the operation is.
func progress(op *v1alpha1.ApplyOperation, res *workspace.Result) {
	op.Done = int32(res.Steps.Done) //nolint:gosec // resources of one stack
	if res.Steps.Total > 0 {
		op.Total = int32(res.Steps.Total) //nolint:gosec // resources of one stack
	}
}

// ended turns an outcome into the plan's words.
func ended(res *workspace.Result) (reason, message string) {
	message = conditions.Shorten(res.Message, 4096)
	switch res.Outcome {
	case workspace.Succeeded:
		return v1alpha1.ReasonApplied, "all of the plan was applied"
	case workspace.Stale:
		return v1alpha1.ReasonStale, message
	case workspace.Violated:
		return v1alpha1.ReasonViolated, "nothing was changed: " + message
	case workspace.Partial:
		return v1alpha1.ReasonPartiallyApplied, message
	case workspace.Cancelled:
		if res.Steps.Done > 0 {
			return v1alpha1.ReasonPartiallyApplied, "it was stopped in order: " + message
		}
		return v1alpha1.ReasonApplyFailed, "it was stopped before anything was changed: " + message
	case workspace.Failed:
		return v1alpha1.ReasonApplyFailed, message
	default:
		return v1alpha1.ReasonInterrupted, message
	}
}

// allOutputs is the key with all outputs as one JSON object; an output of that very name is found only in there.
const allOutputs = "outputs.json"

// plain is an output as a program wants to read it: a string as it is, anything else as JSON.
func plain(value json.RawMessage) []byte {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []byte(text)
	}
	return value
}

// masked are the outputs as they may be shown.
func masked(res *workspace.Result) map[string]apiextensionsv1.JSON {
	out := make(map[string]apiextensionsv1.JSON, len(res.Outputs))
	for name, value := range res.Outputs {
		if slices.Contains(res.SecretOutputs, name) {
			value = json.RawMessage(`"[secret]"`)
		}
		out[name] = apiextensionsv1.JSON{Raw: value}
	}
	return out
}

// writeOutputs keeps the outputs whole, secret ones included, in the Stack's Secret.
func (r *Reconciler) writeOutputs(ctx context.Context, s *scope) error {
	ref := s.plan.Spec.StackRef
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.plan.Namespace, Name: v1alpha1.OutputsSecretName(ref.Name)}
	err := r.uncached.Get(ctx, key, secret)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Secret %q for the outputs: %w", key.Name, err)
	}
	if exists && secret.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentOutputs {
		return fmt.Errorf("keeping the outputs in Secret %q: that Secret is somebody else's; delete it, or rename the Stack", key.Name)
	}
	before := secret.DeepCopy()
	secret.Data = make(map[string][]byte, len(s.result.Outputs))
	for name, value := range s.result.Outputs {
		if len(validation.IsConfigMapKey(name)) == 0 {
			secret.Data[name] = plain(value)
		}
	}
	all, err := json.Marshal(s.result.Outputs)
	if err != nil {
		return fmt.Errorf("encoding the outputs: %w", err)
	}
	secret.Data[allOutputs] = all
	if exists {
		err = r.client.Patch(ctx, secret, client.MergeFrom(before))
	} else {
		secret.ObjectMeta = metav1.ObjectMeta{
			Name: key.Name, Namespace: key.Namespace,
			Labels: map[string]string{v1alpha1.LabelStack: ref.Name, v1alpha1.LabelComponent: v1alpha1.ComponentOutputs},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Stack", Name: ref.Name, UID: types.UID(ref.UID),
			}},
		}
		err = r.client.Create(ctx, secret)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("keeping the outputs in Secret %q: %w", key.Name, err)
	}
	return nil
}

// release lets a plan go once its operation has ended.
func (r *Reconciler) release(ctx context.Context, s *scope) outcome.Outcome {
	if s.started() && s.plan.Status.Operation.Result == "" {
		if o := r.apply(ctx, s); o.Kind == outcome.KindDone {
			if o := r.record(ctx, s); o.Kind != outcome.KindDone {
				return o
			}
		} else {
			return o
		}
	}
	if err := apply.RemoveFinalizer(ctx, r.client, s.plan, v1alpha1.Finalizer); err != nil {
		return outcome.Retry(v1alpha1.ReasonReconcileError, err)
	}
	s.gone = true
	return outcome.Done()
}
