// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
	"github.com/plangate/plangate/workspace"
)

const canary = "canary-value-77aa"

func TestResolveNamesWhatIsMissingAndTellsNoValue(t *testing.T) {
	down := errors.New("the API server is down")
	read := func(name string) (*corev1.Secret, error) {
		switch name {
		case "there":
			return &corev1.Secret{Data: map[string][]byte{"key": []byte(canary), "empty": nil}}, nil
		case "down":
			return nil, down
		default:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
		}
	}
	tests := map[string]struct {
		reason  string
		ref     v1alpha1.ResourceRef
		want    string
		is      func(error) bool
		mention string
	}{
		"a literal":          {reason: "it is the value", ref: builder.Literal("v"), want: "v"},
		"an empty literal":   {reason: "it may be empty", ref: builder.Literal("")},
		"a key":              {reason: "the plain case", ref: builder.FromSecret("there", "key"), want: canary},
		"an empty key":       {reason: "it is there", ref: builder.FromSecret("there", "empty")},
		"a missing key":      {reason: "it may come", ref: builder.FromSecret("there", "other"), is: IsUnavailable, mention: `key "other" of Secret "there"`},
		"a missing Secret":   {reason: "it may come", ref: builder.FromSecret("gone", "key"), is: IsUnavailable, mention: `Secret "gone"`},
		"no answer":          {reason: "it says nothing of the Secret", ref: builder.FromSecret("down", "key"), is: func(err error) bool { return errors.Is(err, down) && !IsUnavailable(err) }, mention: `Secret "down"`},
		"an unknown type":    {reason: "nothing is guessed", ref: v1alpha1.ResourceRef{Type: "Env"}, is: IsInvalid, mention: `"Env"`},
		"a type without it":  {reason: "the API server refuses it too", ref: v1alpha1.ResourceRef{Type: v1alpha1.ResourceRefSecret}, is: IsInvalid, mention: "field"},
		"another type's one": {reason: "type decides", ref: v1alpha1.ResourceRef{Type: v1alpha1.ResourceRefSecret, LiteralRef: &v1alpha1.LiteralRef{Value: "v"}}, is: IsInvalid, mention: "field"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := resolve("field", tc.ref, read)
			if tc.is == nil {
				if err != nil || got != tc.want {
					t.Errorf("resolve(): %s: %q, %v", tc.reason, got, err)
				}
				return
			}
			if err == nil || !tc.is(fmt.Errorf("wrapped: %w", err)) || !strings.Contains(err.Error(), tc.mention) || strings.Contains(err.Error(), canary) {
				t.Errorf("resolve(): %s: %v", tc.reason, err)
			}
		})
	}
}

func TestSecretNamesAreSortedAndTheKeyIsWatchedToo(t *testing.T) {
	st := builder.Stack("ns", "web").SecretConfig("a", "z", "k").SecretConfig("b", "m", "k").EnvSecret("C", "z", "k").Env("D", "literal").Obj()
	if diff := cmp.Diff([]string{"m", "z"}, SecretNames(st)); diff != "" {
		t.Errorf("SecretNames(): -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"m", "z", "web-plangate-key"}, WatchedSecrets(st)); diff != "" {
		t.Errorf("WatchedSecrets(): -want +got\n%s", diff)
	}
}

func TestAnOperationSaysWhichVariablesAreNoSecret(t *testing.T) {
	st := builder.Stack("ns", "web").Env("REGION", "eu").Env("ZONE", "a").EnvSecret("TOKEN", "token", "value").Obj()
	in := &Inputs{env: map[string]string{"REGION": "eu", "ZONE": "a", "TOKEN": canary}, secrets: map[string]string{"password": canary + "-2"}, secretEnv: []string{canary}, Salt: "salt"}
	op := &workspace.Operation{}
	in.Operation(st, op)
	if diff := cmp.Diff([]string{"REGION", "ZONE"}, op.PlainEnv); diff != "" {
		t.Errorf("PlainEnv: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{canary + "-2", canary}, in.SecretValues()); diff != "" {
		t.Errorf("SecretValues(): -want +got\n%s", diff)
	}
	if op.FallbackSalt != "salt" || op.Stack != "dev" {
		t.Errorf("the operation is %+v", op)
	}
}
