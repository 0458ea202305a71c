// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

const (
	maxWords = 1024
	// maxRecords bounds how many records are read; the admission policy lets no more in.
	maxRecords = 32
	// maxNoise bounds how many annotations are read that decide nothing and look as if they should.
	maxNoise = 5
)

// HasUnseenApproval tells whether the plan carries an approval by annotation that its status does not know yet. Whoever
// counts one must prove that the admission policies are in force after this was true, and not before.
func HasUnseenApproval(plan *v1alpha1.UpdatePlan) bool {
	for annotation, value := range plan.Annotations {
		k, ok := ParseKey(annotation)
		if ok && !k.Short() && k.Verdict == v1alpha1.DecisionApproved && known(plan, annotation, value) == nil {
			return true
		}
	}
	return false
}

// known is what the status has on an annotation of exactly this value. What was seen first holds.
func known(plan *v1alpha1.UpdatePlan, annotation, value string) *v1alpha1.Decision {
	evidence := plans.BytesDigest([]byte(value))
	i := slices.IndexFunc(plan.Status.Decisions, func(d v1alpha1.Decision) bool {
		return d.Method == v1alpha1.MethodAnnotation && d.Key == shownKey(annotation) && d.Evidence == evidence
	})
	if i < 0 {
		return nil
	}
	return &plan.Status.Decisions[i]
}

func shownKey(annotation string) string { return redact.Shorten(redact.Printable(annotation), 320) }

// annotationDecisions reads the annotations by which people decide, those that were seen before first, and tells those who
// mistyped their names.
func annotationDecisions(in Input) []v1alpha1.Decision {
	var old, fresh, noise []v1alpha1.Decision
	for _, annotation := range slices.Sorted(maps.Keys(in.Plan.Annotations)) {
		k, ok := ParseKey(annotation)
		was := known(in.Plan, annotation, in.Plan.Annotations[annotation])
		switch {
		case !ok && mistyped(annotation) && len(noise) < maxNoise:
			noise = append(noise, refuse(decision(in, annotation, Key{}), in.Plan, v1alpha1.RefusedUnknownAnnotation, "no such annotation"))
		case !ok:
		case was != nil:
			old = append(old, again(in, annotation, k, *was))
		case len(fresh) < maxRecords:
			fresh = append(fresh, decide(in, annotation, k, false))
		}
	}
	return append(distinct(in.Plan, append(old, fresh...)), noise...)
}

// again decides anew on an annotation that the status knows. What was refused stays refused; what was approved must still
// deserve it, so that a forged status alone approves nothing, but who wrote it was proven when it was seen first.
func again(in Input, annotation string, k Key, was v1alpha1.Decision) v1alpha1.Decision {
	if was.Verdict == v1alpha1.DecisionRefused {
		return was
	}
	d := decide(in, annotation, k, was.Verified)
	d.ObservedAt, d.Requirement = was.ObservedAt, was.Requirement
	return d
}

// distinct refuses what somebody says whom the plan has heard say so already: people are counted, not annotations.
func distinct(plan *v1alpha1.UpdatePlan, decisions []v1alpha1.Decision) []v1alpha1.Decision {
	type voice struct{ by, class string }
	heard := map[voice]bool{}
	for i, d := range decisions {
		if d.Verdict != v1alpha1.DecisionApproved {
			continue
		}
		v := voice{d.By, d.Class}
		if heard[v] {
			decisions[i] = refuse(d, plan, v1alpha1.RefusedRepeated, d.By+" has approved the plan already, and counts once")
		}
		heard[v] = true
	}
	return decisions
}

// decide says what an annotation comes to. proven: it was seen while the admission policies were in force.
func decide(in Input, annotation string, k Key, proven bool) v1alpha1.Decision { //nolint:gocyclo // a list of checks, read from top to bottom
	d := decision(in, annotation, k)
	stamp, err := read(in.Plan, annotation, k)
	if err != nil {
		return refuse(d, in.Plan, v1alpha1.RefusedMalformed, err.Error())
	}
	d.Digest = stamp.Digest
	d.Verified = !k.Short() && (proven || in.Admission.Enforced && in.Plan.Status.UnguardedSince == nil)
	if stamp.User != "" {
		d.By = stamp.User
	}
	if !d.Verified {
		d.By = unverified(in.Plan.ManagedFields, annotation, stamp.User)
	}
	switch {
	case stamp.Digest != in.Plan.Spec.Digest:
		return refuse(d, in.Plan, v1alpha1.RefusedOtherDigest, "it names another plan's digest, "+stamp.Digest)
	case k.Verdict == v1alpha1.DecisionRejected && in.Plan.Status.Operation != nil:
		return refuse(d, in.Plan, v1alpha1.RefusedTooLate, "the plan is being applied already")
	case k.Verdict == v1alpha1.DecisionRejected:
		// It opens nothing, so that it counts whoever wrote it.
	case k.Short():
		return refuse(d, in.Plan, v1alpha1.RefusedNotStamped, "the API server did not say who wrote it: the short form needs the MutatingAdmissionPolicy of Plangate")
	case !d.Verified && !in.Admission.Enforced:
		return refuse(d, in.Plan, v1alpha1.RefusedNotEnforced, "nothing vouches for who wrote it: "+in.Admission.words())
	case !d.Verified:
		return refuse(d, in.Plan, v1alpha1.RefusedNotEnforced, "an approval appeared on this plan while the admission policies were not in force, so that none counts that came after")
	case slices.Contains(in.Plan.Spec.Authors, stamp.User):
		return refuse(d, in.Plan, v1alpha1.RefusedAuthor, stamp.User+" is an author of the change: somebody else must approve it")
	}
	d.Verdict, d.Reason = k.Verdict, redact.Shorten(stamp.Reason, maxWords)
	return d
}

// read takes an annotation's value apart. A rejection in the short form may leave out the digest.
func read(plan *v1alpha1.UpdatePlan, annotation string, k Key) (Stamp, error) {
	value := plan.Annotations[annotation]
	if !k.Short() {
		return ParseStamp(value)
	}
	if k.Verdict == v1alpha1.DecisionRejected && value != "" && !strings.HasPrefix(value, "sha256:") {
		return Stamp{Digest: plan.Spec.Digest, Reason: value}, checkReason(value)
	}
	w, err := parse(value)
	return Stamp{Digest: w.digest, Reason: w.reason}, err
}

// decision is a decision that does not count, until something is known of it.
func decision(in Input, annotation string, k Key) v1alpha1.Decision {
	return v1alpha1.Decision{
		Verdict:    v1alpha1.DecisionRefused,
		Method:     v1alpha1.MethodAnnotation,
		Key:        shownKey(annotation),
		Class:      k.Class,
		By:         unverified(in.Plan.ManagedFields, annotation, ""),
		ObservedAt: metav1.NewTime(in.Now),
		Evidence:   plans.BytesDigest([]byte(in.Plan.Annotations[annotation])),
	}
}

// refuse says why a decision does not count, on which object, and what would.
func refuse(d v1alpha1.Decision, plan *v1alpha1.UpdatePlan, refusal v1alpha1.Refusal, why string) v1alpha1.Decision {
	command := ApproveCommand(plan)
	switch {
	case refusal == v1alpha1.RefusedNotEnforced:
		command = "an approval of a new plan, once they are: " + againCommand(plan)
	case strings.Contains(strings.ToLower(d.Key), "reject"):
		command = RejectCommand(plan)
	}
	d.Verdict, d.Refusal = v1alpha1.DecisionRefused, refusal
	d.Reason = redact.Shorten(fmt.Sprintf("UpdatePlan %s/%s, annotation %s: %s. What counts: %s --overwrite", plan.Namespace, plan.Name, d.Key, why, strings.TrimSuffix(command, " --overwrite")), maxWords)
	return d
}

// unverified names who an annotation says wrote it, and the field managers that did. A field manager is what the client calls
// itself: it helps people to remember, and proves nothing.
func unverified(entries []metav1.ManagedFieldsEntry, annotation, user string) string {
	text := "unverified"
	if user != "" {
		text += " (it says " + user + ")"
	}
	return redact.Shorten(text+writer(entries, annotation), 512)
}

func writer(entries []metav1.ManagedFieldsEntry, key string) string {
	var names []string
	for _, e := range entries {
		if e.FieldsV1 == nil || !owns(e.FieldsV1.GetRawBytes(), key) {
			continue
		}
		if name := redact.Printable(e.Manager); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " (field manager " + strings.Join(names, ", ") + ")"
}

// owns tells whether a managed fields entry covers an annotation.
func owns(raw []byte, key string) bool {
	var fields struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return false
	}
	_, ok := fields.Metadata.Annotations["f:"+key]
	return ok
}
