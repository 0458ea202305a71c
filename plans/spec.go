// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/redact"
)

// SpecInput is what an UpdatePlan's spec is made of.
type SpecInput struct {
	// Namespace is the Stack's, Cluster an id of the cluster: the UID of the namespace kube-system.
	Namespace, Cluster string
	// Nonce is Nonce's result for the preview.
	Nonce    string
	Stack    v1alpha1.StackReference
	Sequence int64
	// Operation is what is done. Empty: Update.
	Operation v1alpha1.PlanOperation
	Trigger   v1alpha1.PlanTrigger
	// Authors are the users who wrote the change. Empty: not known.
	Authors  []string
	Binding  v1alpha1.Binding
	Artifact v1alpha1.Artifact
	// Enforcement is the Stack's; empty: Strict.
	Enforcement v1alpha1.Enforcement
	// NotAfter is when the plan expires; fractions of a second are dropped.
	NotAfter time.Time
	// Plan is what the preview found.
	Plan Plan
	// ChangesConfigMap names the ConfigMap with all changes. Required unless Plan.Fits, and empty then.
	ChangesConfigMap string
}

// NewSpec returns an UpdatePlan's spec, with its statement and digest: the same one for the same input. The object's name
// is PlanName(stack, sequence, digest).
func NewSpec(in SpecInput) (v1alpha1.UpdatePlanSpec, error) {
	if in.Plan.Fits() != (in.ChangesConfigMap == "") {
		return v1alpha1.UpdatePlanSpec{}, errors.New("making the plan: a ConfigMap with all changes is named if, and only if, there are more than the plan lists")
	}
	listed := in.Plan.First(MaxListed)
	if len(listed) == 0 {
		listed = nil
	}
	in.Trigger.Message = redact.Shorten(redact.Printable(in.Trigger.Message), 1024)
	spec := v1alpha1.UpdatePlanSpec{
		StackRef:         in.Stack,
		Sequence:         in.Sequence,
		Operation:        cmp.Or(in.Operation, v1alpha1.PlanOperationUpdate),
		Trigger:          in.Trigger,
		Authors:          in.Authors,
		Binding:          in.Binding,
		Artifact:         in.Artifact,
		Enforcement:      enforcement(in.Enforcement),
		NotAfter:         metav1.NewTime(in.NotAfter.UTC().Truncate(time.Second)),
		Summary:          in.Plan.Summary,
		Changes:          listed,
		ChangesConfigMap: in.ChangesConfigMap,
		Pending:          FirstPending(in.Plan.Pending),
		PendingCount:     int32(len(in.Plan.Pending)), //nolint:gosec // resources of one stack
	}
	changes := StateChanges(in.Plan.Changes, listed, in.ChangesConfigMap)
	statement, err := NewStatement(statementInput(&spec, in.Namespace, in.Cluster, in.Nonce, changes))
	if err != nil {
		return v1alpha1.UpdatePlanSpec{}, err
	}
	spec.Statement, spec.Digest = statement, Digest(statement)
	return spec, CheckSpec(in.Namespace, &spec)
}

func statementInput(spec *v1alpha1.UpdatePlanSpec, namespace, cluster, nonce string, changes StatedChanges) StatementInput {
	return StatementInput{
		Namespace:   namespace,
		Cluster:     cluster,
		Nonce:       nonce,
		Stack:       spec.StackRef,
		Sequence:    spec.Sequence,
		Operation:   spec.Operation,
		Trigger:     spec.Trigger,
		Authors:     spec.Authors,
		Binding:     spec.Binding,
		Artifact:    spec.Artifact,
		Enforcement: spec.Enforcement,
		NotAfter:    spec.NotAfter.Time,
		Summary:     spec.Summary,
		Changes:     changes,
		Pending:     StatePending(spec.Pending, spec.PendingCount),
	}
}

// CheckSpec tells whether a spec is what its digest says: the digest is the statement's, and every other field is what the
// statement says. So an UpdatePlan that somebody forged or edited is never applied under an honest digest. It is the
// caller's work to check that the plan file and the ConfigMap with all changes are those that the statement names.
func CheckSpec(namespace string, spec *v1alpha1.UpdatePlanSpec) error {
	if d := Digest(spec.Statement); d != spec.Digest {
		return fmt.Errorf("digest: the statement's is %s, not %s", d, spec.Digest)
	}
	stated, err := Parse(spec.Statement)
	if err != nil {
		return err
	}
	p := stated.Predicate
	changes := StatedChanges{Count: p.Changes.Count, Digest: p.Changes.Digest, Listed: len(spec.Changes), ListedDigest: ChangesDigest(spec.Changes), ConfigMap: spec.ChangesConfigMap}
	if spec.ChangesConfigMap == "" {
		// Nothing else holds the full list: it must be the listed one.
		changes.Count, changes.Digest = changes.Listed, changes.ListedDigest
	}
	if !spec.NotAfter.Equal(&metav1.Time{Time: spec.NotAfter.Truncate(time.Second)}) {
		return errors.New("notAfter: not in whole seconds")
	}
	rebuilt := newStatement(statementInput(spec, namespace, p.Cluster, p.Nonce, changes))
	text, err := encode(rebuilt)
	if err != nil {
		return fmt.Errorf("comparing with the statement: %w", err)
	}
	if text != spec.Statement || spec.Artifact.Digest != "sha256:"+stated.Subject[0].Digest.SHA256 {
		return differing(stated, rebuilt)
	}
	return nil
}

// differing names the fields of a spec that are not what the statement says.
func differing(stated, spec Statement) error {
	var errs []error
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"artifact.digest", stated.Subject, spec.Subject},
		{"namespace", stated.Predicate.Namespace, spec.Predicate.Namespace},
		{"stackRef", stated.Predicate.Stack, spec.Predicate.Stack},
		{"sequence", stated.Predicate.Sequence, spec.Predicate.Sequence},
		{"operation", stated.Predicate.Operation, spec.Predicate.Operation},
		{"constraint", stated.Predicate.Constraint, spec.Predicate.Constraint},
		{"trigger", stated.Predicate.Trigger, spec.Predicate.Trigger},
		{"authors", stated.Predicate.Authors, spec.Predicate.Authors},
		{"binding", stated.Predicate.Binding, spec.Predicate.Binding},
		{"artifact", stated.Predicate.Artifact, spec.Predicate.Artifact},
		{"enforcement", stated.Predicate.Enforcement, spec.Predicate.Enforcement},
		{"summary", stated.Predicate.Summary, spec.Predicate.Summary},
		{"changes", stated.Predicate.Changes, spec.Predicate.Changes},
		{"pending", stated.Predicate.Pending, spec.Predicate.Pending},
		{"notAfter", stated.Predicate.NotAfter, spec.Predicate.NotAfter},
	} {
		was, werr := json.Marshal(f.was)
		is, ierr := json.Marshal(f.is)
		if werr != nil || ierr != nil || !bytes.Equal(was, is) {
			errs = append(errs, fmt.Errorf("%s: not what the statement says", f.name))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("the spec is not what the statement says"))
	}
	return errors.Join(errs...)
}
