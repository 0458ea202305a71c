// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/plangate/plangate/api/v1alpha1"
)

// RecordVersion is the first thing that a record says. A field that is added under the same version must be omitted when it
// is empty, so that the records from before keep their bytes, and with them their digests.
const RecordVersion = "plangate.dev/record/v1alpha1"

// Record is how a plan ended, tied to the record before it. What it says is read from the plan that carries it, so that
// anybody can make it again and compare digests. It holds nothing that the plan's status does not show: no secret value.
type Record struct {
	Version string `json:"version"`
	// Index counts the records of a Stack, from 1; Previous is the digest of the one before. Empty: this is the first.
	Index    int64  `json:"index"`
	Previous string `json:"previous"`

	Namespace string         `json:"namespace"`
	Stack     RecordedObject `json:"stack"`
	Plan      RecordedPlan   `json:"plan"`

	// Outcome is Applied, or why the plan ended in another way: a reason of its conditions.
	Outcome string `json:"outcome"`
	Message string `json:"message"`
	// CreatedAt and EndedAt are RFC 3339 in UTC, whole seconds, as are all times here.
	CreatedAt string `json:"createdAt"`
	EndedAt   string `json:"endedAt"`

	Decisions []RecordedDecision `json:"decisions"`
	// Apply is the attempt to apply the plan. Null: it was never started.
	Apply *RecordedApply `json:"apply"`
	// Released are the locks that were removed so that the plan could be applied. Absent: none.
	Released []RecordedLock `json:"released,omitempty"`
}

// RecordedLock is a lock that was removed: whose it was, and why it went.
type RecordedLock struct {
	ID         string `json:"id"`
	Holder     string `json:"holder"`
	Since      string `json:"since"`
	Operation  string `json:"operation"`
	Cause      string `json:"cause"`
	By         string `json:"by"`
	ReleasedAt string `json:"releasedAt"`
}

// RecordedObject names one life of an object.
type RecordedObject struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// RecordedPlan is what the plan was. Its digest covers all of it.
type RecordedPlan struct {
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Sequence   int64  `json:"sequence"`
	Digest     string `json:"digest"`
	Operation  string `json:"operation"`
	Trigger    string `json:"trigger"`
	Why        string `json:"why"`
	Repository string `json:"repository"`
	Revision   string `json:"revision"`
	Changes    string `json:"changes"`
	// Completes names the plan whose rest this one is. Absent: it completes none.
	Completes string `json:"completes,omitempty"`
	// Authors are those who wrote the change. Absent: not known.
	Authors []string `json:"authors,omitempty"`
}

// RecordedDecision is what somebody said of the plan, and whether it counted.
type RecordedDecision struct {
	Verdict  string `json:"verdict"`
	By       string `json:"by"`
	Verified bool   `json:"verified"`
	Method   string `json:"method"`
	Digest   string `json:"digest"`
	Reason   string `json:"reason"`
	At       string `json:"at"`
	Evidence string `json:"evidence"`

	Key         string `json:"key,omitempty"`
	Class       string `json:"class,omitempty"`
	Refusal     string `json:"refusal,omitempty"`
	Requirement string `json:"requirement,omitempty"`
}

// RecordedApply is the attempt to apply the plan.
type RecordedApply struct {
	ID        string         `json:"id"`
	Pod       RecordedObject `json:"pod"`
	StartedAt string         `json:"startedAt"`
	Done      int32          `json:"done"`
	Total     int32          `json:"total"`
	Permalink string         `json:"permalink"`
}

// RecordInput is what a record is made of.
type RecordInput struct {
	// Plan has ended, and its status says so.
	Plan *v1alpha1.UpdatePlan
	// Outcome, Message and EndedAt tell how.
	Outcome, Message string
	EndedAt          time.Time
	// Index and Previous are the record's place in the chain.
	Index    int64
	Previous string
}

// NewRecord returns the record of a plan: the same one for the same input.
func NewRecord(in RecordInput) Record {
	p := in.Plan
	r := Record{
		Version: RecordVersion, Index: in.Index, Previous: in.Previous,
		Namespace: p.Namespace,
		Stack:     RecordedObject{Name: p.Spec.StackRef.Name, UID: p.Spec.StackRef.UID},
		Plan: RecordedPlan{
			Name: p.Name, UID: string(p.UID), Sequence: p.Spec.Sequence, Digest: p.Spec.Digest, Operation: string(p.Spec.Operation),
			Trigger: string(p.Spec.Trigger.Type), Why: p.Spec.Trigger.Message,
			Repository: p.Spec.Binding.Repository, Revision: p.Spec.Binding.Revision, Changes: p.Spec.Summary.Brief,
			Authors: p.Spec.Authors,
		},
		Outcome: in.Outcome, Message: in.Message, CreatedAt: stamp(p.CreationTimestamp.Time), EndedAt: stamp(in.EndedAt),
		Decisions: []RecordedDecision{},
	}
	for _, d := range p.Status.Decisions {
		r.Decisions = append(r.Decisions, RecordedDecision{
			Verdict: string(d.Verdict), By: d.By, Verified: d.Verified, Method: string(d.Method), Digest: d.Digest, Reason: d.Reason,
			At: stamp(d.ObservedAt.Time), Evidence: d.Evidence,
			Key: d.Key, Class: d.Class, Refusal: string(d.Refusal), Requirement: d.Requirement,
		})
	}
	if c := p.Spec.Trigger.Completes; c != nil {
		r.Plan.Completes = c.Name
	}
	for _, l := range p.Status.ReleasedLocks {
		recorded := RecordedLock{ID: l.ID, Holder: l.Holder, Operation: l.Ours, Cause: string(l.Cause), By: l.By, ReleasedAt: stamp(l.ReleasedAt.Time)}
		if l.Since != nil {
			recorded.Since = stamp(l.Since.Time)
		}
		r.Released = append(r.Released, recorded)
	}
	if op := p.Status.Operation; op != nil {
		r.Apply = &RecordedApply{
			ID: op.ID, Pod: RecordedObject(op.Pod), StartedAt: stamp(op.StartedAt.Time), Done: op.Done, Total: op.Total, Permalink: op.Permalink,
		}
	}
	return r
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Bytes are what the record says, in the one form of which its digest is made: JSON in a line, fields in the order of the
// struct, without white space and without HTML escapes.
func (r Record) Bytes() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		// Strings, numbers and booleans can always be encoded. No bytes are the bytes of no record.
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Digest is "sha256:" and the SHA-256 of Bytes.
func (r Record) Digest() string { return BytesDigest(r.Bytes()) }

// Stored is the record as the plan's status keeps it.
func (r Record) Stored() *v1alpha1.PlanRecord {
	return &v1alpha1.PlanRecord{Index: r.Index, Previous: r.Previous, Digest: r.Digest()}
}
