// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

const (
	maxWords  = 1024
	maxReason = 512
	// maxAnnotations bounds how many annotations that look like a decision are read.
	maxAnnotations = 10
)

// word is what an annotation says: value = digest [ SP reason ].
type word struct {
	digest, reason string
}

var (
	digestPattern = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)
	prefixPattern = regexp.MustCompile(`\A(?:sha256:)?[0-9a-fA-F]{4,63}\z`)
)

// parse reads an annotation's value strictly: the whole digest in lower case, and optionally one blank and a reason of
// printable characters. Nothing is trimmed and nothing is guessed.
func parse(value string) (word, error) {
	digest, reason, hasReason := strings.Cut(value, " ")
	switch {
	case value == "":
		return word{}, fmt.Errorf("it is empty")
	case prefixPattern.MatchString(digest):
		return word{}, fmt.Errorf("it names only a part of a digest; the whole digest is needed")
	case !digestPattern.MatchString(digest):
		return word{}, fmt.Errorf(`it does not begin with a digest, "sha256:" and 64 lower-case hex digits, followed by nothing or one blank and a reason`)
	case hasReason && reason == "":
		return word{}, fmt.Errorf("it ends in a blank")
	case len(reason) > maxReason:
		return word{}, fmt.Errorf("its reason is longer than %d bytes", maxReason)
	case !utf8.ValidString(reason) || strings.TrimSpace(reason) != reason || strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return word{}, fmt.Errorf("its reason begins or ends with a blank, or has characters that cannot be shown")
	}
	return word{digest: digest, reason: reason}, nil
}

// annotationDecisions reads the two annotations by which people decide, and tells those who mistyped their names.
func annotationDecisions(in Input) []v1alpha1.Decision {
	var found []v1alpha1.Decision
	keys := slices.Sorted(maps.Keys(in.Plan.Annotations))
	for _, key := range keys {
		if len(found) == maxAnnotations {
			break
		}
		switch {
		case key == v1alpha1.AnnotationApprove:
			found = append(found, decide(in, key, v1alpha1.DecisionApproved))
		case key == v1alpha1.AnnotationReject:
			found = append(found, decide(in, key, v1alpha1.DecisionRejected))
		case mistyped(key):
			found = append(found, refuse(decision(in, key), in.Plan, "no such annotation"))
		}
	}
	return found
}

// mistyped tells whether a key looks like one of the two, so that an approval that does nothing does not do so in silence.
func mistyped(key string) bool {
	domain, name, _ := strings.Cut(strings.ToLower(key), "/")
	if !strings.Contains(domain, "plangate") {
		return false
	}
	for _, part := range []string{"appr", "aprov", "reject", "deny", "decline"} {
		if strings.Contains(name, part) || strings.HasPrefix(domain, part) {
			return true
		}
	}
	return false
}

// decide says what an annotation comes to.
func decide(in Input, key string, verdict v1alpha1.DecisionVerdict) v1alpha1.Decision {
	d := decision(in, key)
	w, err := parse(in.Plan.Annotations[key])
	if err != nil {
		return refuse(d, in.Plan, err.Error())
	}
	d.Digest = w.digest
	if w.digest != in.Plan.Spec.Digest {
		return refuse(d, in.Plan, "it names another plan's digest, "+w.digest)
	}
	if verdict == v1alpha1.DecisionRejected && in.Plan.Status.Operation != nil {
		return refuse(d, in.Plan, "the plan is being applied already")
	}
	d.Verdict, d.Reason = verdict, w.reason
	return d
}

// decision is a decision that does not count, until something is known of it.
func decision(in Input, key string) v1alpha1.Decision {
	return v1alpha1.Decision{
		Verdict:    v1alpha1.DecisionRefused,
		Method:     redact.Shorten("annotation "+redact.Printable(key), 256),
		By:         redact.Shorten("unverified"+writer(in.Plan.ManagedFields, key), 512),
		ObservedAt: metav1.NewTime(in.Now),
		Evidence:   plans.BytesDigest([]byte(in.Plan.Annotations[key])),
	}
}

// refuse says why a decision does not count, on which object, and what would.
func refuse(d v1alpha1.Decision, plan *v1alpha1.UpdatePlan, why string) v1alpha1.Decision {
	command := ApproveCommand(plan)
	if strings.Contains(strings.ToLower(d.Method), "reject") {
		command = RejectCommand(plan)
	}
	d.Verdict = v1alpha1.DecisionRefused
	d.Reason = redact.Shorten(fmt.Sprintf("UpdatePlan %s/%s, %s: %s. What counts: %s --overwrite", plan.Namespace, plan.Name, d.Method, why, command), maxWords)
	return d
}

// writer names the field managers that wrote an annotation. A field manager is what the client calls itself: it helps
// people to remember, and proves nothing.
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

// ApproveCommand is the command that approves the plan.
func ApproveCommand(plan *v1alpha1.UpdatePlan) string {
	return command(plan, v1alpha1.AnnotationApprove+"="+plan.Spec.Digest)
}

// RejectCommand is the command that ends the plan.
func RejectCommand(plan *v1alpha1.UpdatePlan) string {
	return command(plan, v1alpha1.AnnotationReject+"="+plan.Spec.Digest)
}

func command(plan *v1alpha1.UpdatePlan, annotation string) string {
	return fmt.Sprintf("kubectl annotate updateplan %s -n %s %s", plan.Name, plan.Namespace, annotation)
}
