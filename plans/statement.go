// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/plangate/plangate/api/v1alpha1"
)

// What a statement says of itself.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://plangate.dev/UpdatePlan/v1alpha1"
	// SubjectName is the subject of an Update: Pulumi's plan file; DestroySubjectName is that of a Destroy: the list of all
	// that goes.
	SubjectName        = "pulumi-plan"
	DestroySubjectName = "destroy-list"
	// RefreshSubjectName is the subject of a Refresh: the list of what the state takes over from the world.
	RefreshSubjectName = "accept-list"

	// DestroyConstraint is what a Destroy is held to, in words, since Pulumi has no plan file for it.
	DestroyConstraint = "only what the destroy-list names is deleted, and only while the state has binding.stateDigest; Pulumi has no plan file for a destroy"

	// MaxStatement is the most bytes that a statement may have.
	MaxStatement = 64 << 10
)

// Statement is an in-toto Statement v1. Its exact bytes are kept as a string, approved by their digest and signed as they
// are; nobody encodes them again, except to find out whether they are what Encode would have written.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is what the statement is about: the stored plan file.
type Subject struct {
	Name   string        `json:"name"`
	Digest SubjectDigest `json:"digest"`
}

// SubjectDigest is the plan file's digest, in hex.
type SubjectDigest struct {
	SHA256 string `json:"sha256"`
}

// Predicate is everything that an approval is tied to beside the plan file. No field of it may be omitted when it is
// empty, with the exception of those of API types that are.
type Predicate struct {
	Namespace string                  `json:"namespace"`
	Cluster   string                  `json:"cluster"`
	Stack     v1alpha1.StackReference `json:"stack"`
	Sequence  int64                   `json:"sequence"`
	Operation v1alpha1.PlanOperation  `json:"operation"`
	// Constraint is DestroyConstraint with a Destroy, and is omitted with an Update, which Pulumi's plan file constrains.
	Constraint string               `json:"constraint,omitempty"`
	Trigger    v1alpha1.PlanTrigger `json:"trigger"`
	// Authors are omitted when they are not known.
	Authors  []string         `json:"authors,omitempty"`
	Binding  v1alpha1.Binding `json:"binding"`
	Artifact StatedArtifact   `json:"artifact"`
	// Enforcement is never empty.
	Enforcement v1alpha1.Enforcement `json:"enforcement"`
	Summary     v1alpha1.PlanSummary `json:"summary"`
	Changes     StatedChanges        `json:"changes"`
	Pending     StatedPending        `json:"pending"`
	// NotAfter is RFC 3339 in UTC, whole seconds.
	NotAfter string `json:"notAfter"`
	// Nonce is 128 bits in hex that an author cannot foresee.
	Nonce string `json:"nonce"`
}

// StatedArtifact tells where the plan file is kept. Its digest is the statement's subject.
type StatedArtifact struct {
	Size   int64    `json:"size"`
	Chunks []string `json:"chunks"`
}

// StatedChanges ties the lists of changes that an approver reads to the approval.
type StatedChanges struct {
	// Count and Digest are those of the full list.
	Count  int    `json:"count"`
	Digest string `json:"digest"`
	// Listed and ListedDigest are those of the list in the UpdatePlan itself.
	Listed       int    `json:"listed"`
	ListedDigest string `json:"listedDigest"`
	// ConfigMap holds the full list. Empty: the UpdatePlan does.
	ConfigMap string `json:"configMap"`
}

// StatedPending ties the operations that were cut off before, and what an approver reads of them, to the approval.
type StatedPending struct {
	// Count is how many there are.
	Count int32 `json:"count"`
	// Listed and ListedDigest are those of the list in the UpdatePlan.
	Listed       int    `json:"listed"`
	ListedDigest string `json:"listedDigest"`
}

// StatementInput is what a statement is made of.
type StatementInput struct {
	Namespace, Cluster string
	Nonce              string
	Stack              v1alpha1.StackReference
	Sequence           int64
	Operation          v1alpha1.PlanOperation
	Trigger            v1alpha1.PlanTrigger
	Authors            []string
	Binding            v1alpha1.Binding
	Artifact           v1alpha1.Artifact
	Enforcement        v1alpha1.Enforcement
	NotAfter           time.Time
	Summary            v1alpha1.PlanSummary
	Changes            StatedChanges
	Pending            StatedPending
}

// StateChanges describes the lists of changes for a statement.
func StateChanges(all, listed []v1alpha1.ResourceChange, configMap string) StatedChanges {
	return StatedChanges{
		Count: len(all), Digest: ChangesDigest(all),
		Listed: len(listed), ListedDigest: ChangesDigest(listed),
		ConfigMap: configMap,
	}
}

// NewStatement returns the bytes that are approved: the same ones for the same input.
func NewStatement(in StatementInput) (string, error) {
	s := newStatement(in)
	if err := s.check(); err != nil {
		return "", fmt.Errorf("making the statement: %w", err)
	}
	text, err := encode(s)
	if err != nil {
		return "", fmt.Errorf("making the statement: %w", err)
	}
	if _, err := Parse(text); err != nil {
		return "", fmt.Errorf("making the statement: %w", err)
	}
	return text, nil
}

func newStatement(in StatementInput) Statement {
	return Statement{
		Type:          StatementType,
		Subject:       []Subject{{Name: subjectOf(in.Operation), Digest: SubjectDigest{SHA256: strings.TrimPrefix(in.Artifact.Digest, "sha256:")}}},
		PredicateType: PredicateType,
		Predicate: Predicate{
			Namespace:   in.Namespace,
			Cluster:     in.Cluster,
			Stack:       in.Stack,
			Sequence:    in.Sequence,
			Operation:   in.Operation,
			Constraint:  constraintOf(in.Operation),
			Trigger:     in.Trigger,
			Authors:     in.Authors,
			Binding:     in.Binding,
			Artifact:    StatedArtifact{Size: in.Artifact.Size, Chunks: in.Artifact.Chunks},
			Enforcement: enforcement(in.Enforcement),
			Summary:     in.Summary,
			Changes:     in.Changes,
			Pending:     in.Pending,
			NotAfter:    in.NotAfter.UTC().Format(time.RFC3339),
			Nonce:       in.Nonce,
		},
	}
}

// subjectOf is the name of what an operation's artifact is; "" for an operation that is not known.
func subjectOf(operation v1alpha1.PlanOperation) string {
	switch operation {
	case v1alpha1.PlanOperationUpdate:
		return SubjectName
	case v1alpha1.PlanOperationDestroy:
		return DestroySubjectName
	case v1alpha1.PlanOperationRefresh:
		return RefreshSubjectName
	default:
		return ""
	}
}

func constraintOf(operation v1alpha1.PlanOperation) string {
	if operation == v1alpha1.PlanOperationDestroy {
		return DestroyConstraint
	}
	return ""
}

// enforcement is what an absent one means.
func enforcement(e v1alpha1.Enforcement) v1alpha1.Enforcement {
	if e == "" {
		return v1alpha1.EnforcementStrict
	}
	return e
}

// encode writes a statement in the one form that Parse takes.
func encode(s Statement) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Parse reads a statement strictly: it takes what encode writes and nothing else. Unknown, missing and repeated fields,
// other spellings of names, white space, trailing data and invalid UTF-8 all give other bytes, and so are refused.
func Parse(statement string) (Statement, error) {
	if len(statement) > MaxStatement {
		return Statement{}, fmt.Errorf("statement: %d bytes are more than %d", len(statement), MaxStatement)
	}
	if !utf8.ValidString(statement) {
		return Statement{}, errors.New("statement: not UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(statement))
	d.DisallowUnknownFields()
	var s Statement
	if err := d.Decode(&s); err != nil {
		return Statement{}, fmt.Errorf("statement: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Statement{}, errors.New("statement: data after its end")
	}
	again, err := encode(s)
	if err != nil {
		return Statement{}, fmt.Errorf("statement: %w", err)
	}
	if again != statement {
		return Statement{}, errors.New("statement: not in the form that it is written in (repeated or missing fields, white space)")
	}
	return s, s.check()
}

var (
	hexPattern   = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	noncePattern = regexp.MustCompile(`\A[0-9a-f]{32}\z`)
)

func (s Statement) check() error {
	if s.Type != StatementType {
		return fmt.Errorf("statement: _type is %q, not %q", s.Type, StatementType)
	}
	if s.PredicateType != PredicateType {
		return fmt.Errorf("statement: predicateType is %q, not %q", s.PredicateType, PredicateType)
	}
	operation := s.Predicate.Operation
	if subjectOf(operation) == "" {
		return fmt.Errorf("statement: operation %q is not known", operation)
	}
	if len(s.Subject) != 1 || s.Subject[0].Name != subjectOf(operation) || !hexPattern.MatchString(s.Subject[0].Digest.SHA256) {
		return fmt.Errorf("statement: subject is not one %s with its sha256", subjectOf(operation))
	}
	return s.Predicate.check()
}

func (p Predicate) check() error {
	for _, f := range []struct{ name, value string }{
		{"namespace", p.Namespace},
		{"cluster", p.Cluster},
		{"stack.name", p.Stack.Name},
		{"stack.uid", p.Stack.UID},
		{"stack.resourceVersion", p.Stack.ResourceVersion},
		{"trigger.type", string(p.Trigger.Type)},
		{"summary.brief", p.Summary.Brief},
	} {
		if f.value == "" {
			return fmt.Errorf("statement: %s is empty", f.name)
		}
	}
	return errors.Join(p.checkWords(), p.checkDigests(), checkBinding(p.Operation, p.Binding))
}

// checkWords looks at what must be one of a few words, or a number.
func (p Predicate) checkWords() error {
	if p.Constraint != constraintOf(p.Operation) {
		return fmt.Errorf("statement: constraint is %q, not %q", p.Constraint, constraintOf(p.Operation))
	}
	if p.Enforcement != v1alpha1.EnforcementStrict && p.Enforcement != v1alpha1.EnforcementProbe {
		return fmt.Errorf("statement: enforcement %q is not known", p.Enforcement)
	}
	if p.Sequence < 1 || p.Artifact.Size < 0 || len(p.Artifact.Chunks) == 0 {
		return errors.New("statement: sequence, or the artifact's size or chunks, are missing")
	}
	if t, err := time.Parse(time.RFC3339, p.NotAfter); err != nil || t.UTC().Format(time.RFC3339) != p.NotAfter {
		return fmt.Errorf("statement: notAfter %q is not RFC 3339 in UTC", p.NotAfter)
	}
	return nil
}

func (p Predicate) checkDigests() error {
	if !digestPattern.MatchString(p.Changes.Digest) || !digestPattern.MatchString(p.Changes.ListedDigest) {
		return errors.New("statement: the digests of the changes are missing")
	}
	if !digestPattern.MatchString(p.Pending.ListedDigest) || int(p.Pending.Count) < p.Pending.Listed {
		return errors.New("statement: the digest or the count of the pending operations is missing")
	}
	if !noncePattern.MatchString(p.Nonce) {
		return errors.New("statement: nonce is not 128 bits in lower-case hex")
	}
	return nil
}

// PlanName returns an UpdatePlan's name: "<stack>-<sequence>-<first 8 hex digits of the digest>".
func PlanName(stack string, sequence int64, digest string) string {
	short := strings.TrimPrefix(digest, "sha256:")
	return stack + "-" + strconv.FormatInt(sequence, 10) + "-" + short[:min(8, len(short))]
}
