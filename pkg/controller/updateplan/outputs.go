// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package updateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/ownership"
	"github.com/plangate/plangate/plans/redact"
	"github.com/plangate/plangate/workspace"
)

const (
	// allOutputs is the key with all outputs as one JSON object; an output of that very name is found only in there.
	allOutputs = "outputs.json"
	// maxShown is how many bytes of outputs a status shows. An object has 1.5 MiB for everything.
	maxShown = 64 << 10
	// secretOutput is shown in place of an output that is secret, or may be.
	secretOutput = `"[secret]"`
)

// errForeign says that the Secret for the outputs is somebody else's.
var errForeign = errors.New("that Secret is somebody else's; delete it, or rename the Stack")

// keepOutputs keeps the outputs whole in the Stack's Secret and returns them as they may be shown. What cannot be kept by
// trying again is told in note: it must not hold back how the apply ended.
func (r *Reconciler) keepOutputs(ctx context.Context, s *scope) (shown map[string]apiextensionsv1.JSON, note string, err error) {
	if s.result.OutputsLost {
		return nil, "its outputs are not known, because the agent was restarted before they were read", nil
	}
	if s.result.Outcome != workspace.Succeeded && len(s.result.Outputs) == 0 {
		return nil, "", nil
	}
	shown = masked(s.result, r.knownSecrets(ctx, s))
	err = r.writeOutputs(ctx, s)
	final := errors.Is(err, errForeign) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
	if final || (err != nil && !s.plan.DeletionTimestamp.IsZero()) {
		return shown, "its outputs could not be kept: " + err.Error(), nil
	}
	return shown, "", err
}

// knownSecrets returns a func that masks the secret values that the plan was applied with; nil when they are not known: they
// cannot be read, or something was changed since, so that the old values, which an output may show, cannot be masked.
func (r *Reconciler) knownSecrets(ctx context.Context, s *scope) func(string) string {
	stack := &v1alpha1.Stack{}
	if err := r.uncached.Get(ctx, client.ObjectKey{Namespace: s.plan.Namespace, Name: s.plan.Spec.StackRef.Name}, stack); err != nil {
		return nil
	}
	in, err := r.inputs.Gather(ctx, stack)
	if err != nil || in.ConfigDigest != s.plan.Spec.Binding.ConfigDigest {
		return nil
	}
	return redact.Masker(in.SecretValues())
}

// masked are the outputs as they may be shown. A program can put a secret into an output without saying that it is one.
func masked(res *workspace.Result, mask func(string) string) map[string]apiextensionsv1.JSON {
	out, left := make(map[string]apiextensionsv1.JSON, len(res.Outputs)), maxShown
	for _, name := range slices.Sorted(maps.Keys(res.Outputs)) {
		value := res.Outputs[name]
		switch {
		case slices.Contains(res.SecretOutputs, name), mask == nil, hides(mask, string(value)):
			value = json.RawMessage(secretOutput)
		case len(value) > left:
			value = fmt.Appendf(nil, `"[%d bytes: see the Secret]"`, len(value))
		}
		left -= len(value)
		out[name] = apiextensionsv1.JSON{Raw: value}
	}
	return out
}

// hides reports whether the mask finds a secret in s.
func hides(mask func(string) string, s string) bool {
	return strings.Count(mask(s), redact.Secret) > strings.Count(s, redact.Secret)
}

// plain is an output as a program wants to read it: a string as it is, anything else as JSON.
func plain(value json.RawMessage) []byte {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []byte(text)
	}
	return value
}

// outputsData is the content of the Stack's Secret.
func outputsData(outputs map[string]json.RawMessage) (map[string][]byte, error) {
	data := make(map[string][]byte, len(outputs)+1)
	for name, value := range outputs {
		if len(validation.IsConfigMapKey(name)) == 0 {
			data[name] = plain(value)
		}
	}
	if outputs == nil {
		outputs = map[string]json.RawMessage{}
	}
	all, err := json.Marshal(outputs)
	if err != nil {
		return nil, fmt.Errorf("encoding the outputs: %w", err)
	}
	data[allOutputs] = all
	return data, nil
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
	if !exists && s.plan.Spec.Operation == v1alpha1.PlanOperationDestroy {
		return nil // there are none any more
	}
	if exists && secret.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentOutputs {
		return fmt.Errorf("keeping the outputs in Secret %q: %w", key.Name, errForeign)
	}
	before := secret.DeepCopy()
	if secret.Data, err = outputsData(s.result.Outputs); err != nil {
		return err
	}
	if exists {
		err = r.client.Patch(ctx, secret, client.MergeFrom(before))
	} else {
		secret.ObjectMeta = metav1.ObjectMeta{
			Name: key.Name, Namespace: key.Namespace,
			Labels: map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentOutputs},
		}
		ownership.MarkUID(secret, ref.Name, types.UID(ref.UID))
		err = r.client.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("keeping the outputs in Secret %q: %w", key.Name, err)
	}
	return nil
}
