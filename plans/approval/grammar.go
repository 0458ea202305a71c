// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plangate/plangate/api/v1alpha1"
)

// The grammar of the annotations by which people decide. The admission policies of config/admission hold the same one.
//
//	approve[-CLASS].plangate.dev/SLOT = DIGEST " by " USER [ " -- " REASON ]      the record
//	reject[-CLASS].plangate.dev/SLOT  = the same
//	plangate.dev/approve[-CLASS]      = DIGEST [ " " REASON ]                     what is typed, and stamped by the API server
//	plangate.dev/reject[-CLASS]       = DIGEST [ " " REASON ] | REASON
//
// DIGEST is "sha256:" and 64 lower-case hex digits; USER is 1 to 253 printable ASCII characters without blanks; REASON is 1
// to 512 printable characters that neither begin nor end with a blank. Nothing is trimmed and nothing is guessed.

const (
	maxReason = 512
	maxUser   = 253
	// maxValue is the most bytes of a value that are read.
	maxValue = 8 << 10
)

var (
	digestPattern = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)
	prefixPattern = regexp.MustCompile(`\A(?:sha256:)?[0-9a-fA-F]{4,63}\z`)
	userPattern   = regexp.MustCompile(`\A[\x21-\x7e]{1,253}\z`)
	longPattern   = regexp.MustCompile(`\A(approve|reject)(?:-([a-z0-9](?:[-a-z0-9]{0,30}[a-z0-9])?))?\.plangate\.dev/(.+)\z`)
	shortPattern  = regexp.MustCompile(`\Aplangate\.dev/(approve|reject)(?:-([a-z0-9](?:[-a-z0-9]{0,30}[a-z0-9])?))?\z`)
)

// Key is what the name of an annotation says that decides.
type Key struct {
	// Verdict is Approved or Rejected.
	Verdict v1alpha1.DecisionVerdict
	// Class is the class of people. Empty: those with the verb approve.
	Class string
	// Slot tells several of a kind apart. Empty: it is the short form.
	Slot string
}

// Short tells whether it is what people type, and not yet a record.
func (k Key) Short() bool { return k.Slot == "" }

// ParseKey reads an annotation's name. It reports false for one that decides nothing.
func ParseKey(annotation string) (Key, bool) {
	m := longPattern.FindStringSubmatch(annotation)
	if m == nil {
		if m = shortPattern.FindStringSubmatch(annotation); m == nil {
			return Key{}, false
		}
		m = append(m, "")
	}
	k := Key{Verdict: v1alpha1.DecisionApproved, Class: m[2], Slot: m[3]}
	if m[1] == "reject" {
		k.Verdict = v1alpha1.DecisionRejected
	}
	return k, true
}

// Stamp is the value of a record: what was said, and by whom.
type Stamp struct {
	Digest, User, Reason string
}

// String is the stamp as it is written.
func (s Stamp) String() string {
	text := s.Digest + " by " + s.User
	if s.Reason != "" {
		text += " -- " + s.Reason
	}
	return text
}

// ParseStamp reads a record strictly: String gives the same value again, or it is no record.
func ParseStamp(value string) (Stamp, error) {
	if len(value) > maxValue {
		return Stamp{}, fmt.Errorf("it is longer than %d bytes", maxValue)
	}
	digest, rest, _ := strings.Cut(value, " ")
	if err := checkDigest(digest); err != nil {
		return Stamp{}, err
	}
	by, found := strings.CutPrefix(rest, "by ")
	if !found {
		return Stamp{}, errors.New(`it does not say who: "by" and a user's name, between single blanks, must follow the digest`)
	}
	user, reason, hasReason := strings.Cut(by, " -- ")
	if !userPattern.MatchString(user) {
		return Stamp{}, fmt.Errorf("the user's name is not 1 to %d printable ASCII characters without blanks, followed by nothing or by a reason after \" -- \"", maxUser)
	}
	if hasReason {
		if err := checkReason(reason); err != nil {
			return Stamp{}, err
		}
	}
	return Stamp{Digest: digest, User: user, Reason: reason}, nil
}

// word is what the short form says.
type word struct {
	digest, reason string
}

// parse reads the short form's value.
func parse(value string) (word, error) {
	if len(value) > maxValue {
		return word{}, fmt.Errorf("it is longer than %d bytes", maxValue)
	}
	digest, reason, hasReason := strings.Cut(value, " ")
	if err := checkDigest(digest); err != nil {
		return word{}, err
	}
	if hasReason {
		if err := checkReason(reason); err != nil {
			return word{}, err
		}
	}
	return word{digest: digest, reason: reason}, nil
}

func checkDigest(digest string) error {
	switch {
	case digest == "":
		return errors.New("it is empty, or begins with a blank: it does not begin with a digest")
	case prefixPattern.MatchString(digest):
		return errors.New("it names only a part of a digest; the whole digest is needed")
	case !digestPattern.MatchString(digest):
		return errors.New(`it does not begin with a digest, "sha256:" and 64 lower-case hex digits, followed by nothing or one blank and more`)
	}
	return nil
}

func checkReason(reason string) error {
	switch {
	case reason == "":
		return errors.New("it ends in a blank")
	case utf8.RuneCountInString(reason) > maxReason:
		return fmt.Errorf("its reason is longer than %d characters", maxReason)
	case !utf8.ValidString(reason) || strings.TrimSpace(reason) != reason || strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("its reason begins or ends with a blank, or has characters that cannot be shown")
	}
	return nil
}

// mistyped tells whether an annotation's name looks as if it were to decide, so that one that does nothing does not do so in
// silence.
func mistyped(annotation string) bool {
	domain, name, _ := strings.Cut(strings.ToLower(annotation), "/")
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

// againCommand is the command that asks for a new plan in the place of this one.
func againCommand(plan *v1alpha1.UpdatePlan) string {
	return fmt.Sprintf("kubectl annotate stack %s -n %s %s=\"$(date)\" --overwrite", plan.Spec.StackRef.Name, plan.Namespace, v1alpha1.AnnotationRequestPlan)
}
