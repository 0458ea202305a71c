// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DriftAction is what is done about drift.
// +kubebuilder:validation:Enum=Report;Plan;Off
type DriftAction string

// What can be done about drift. None of them ever changes anything without an approval.
const (
	// DriftReport tells of drift: in the Stack's status, in a ConfigMap, as an event and a metric.
	DriftReport DriftAction = "Report"
	// DriftPlan tells of drift and publishes an UpdatePlan that would put it back.
	DriftPlan DriftAction = "Plan"
	// DriftOff does not look for drift by itself; the annotation plangate.dev/check-drift still asks for a look.
	DriftOff DriftAction = "Off"
)

// DriftSettings say how often the real resources are compared with what Pulumi left, and what is done about a difference.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.interval) && has(self.schedule))",message="set at most one of spec.drift.interval and spec.drift.schedule"
// +kubebuilder:validation:XValidation:rule="has(self.schedule) || !has(self.timeZone)",message="spec.drift.timeZone needs spec.drift.schedule"
type DriftSettings struct {
	// interval is the time between two checks, for example "1h". Each Stack has its own place in the interval, so that many
	// Stacks spread out. Absent: one hour, or what schedule says.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="interval must be at least one minute"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// schedule is when to check, in the five fields of cron: "30 6 * * 1-5". Checks of many Stacks with one schedule spread
	// over five minutes. Absent: interval counts.
	// +optional
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule,omitempty"`
	// timeZone is the time zone of schedule by its IANA name: "Europe/Berlin". Absent: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// action is what is done about drift. Absent: Report.
	// +optional
	Action DriftAction `json:"action,omitempty"`
}

// DriftClass sums up what a check found.
// +kubebuilder:validation:Enum=None;Noise;Changed;Deleted;Unreadable;Conflict
type DriftClass string

// What a check can find, from the least to the most serious; the most serious names the whole.
const (
	// DriftNone: everything is as Pulumi left it.
	DriftNone DriftClass = "None"
	// DriftNoise: only what does not count is different: fields that servers set, ignored ones, what a newer provider
	// adds, fields that nobody manages.
	DriftNoise DriftClass = "Noise"
	// DriftChanged: something that Pulumi manages was changed.
	DriftChanged DriftClass = "Changed"
	// DriftDeleted: something that Pulumi manages is gone.
	DriftDeleted DriftClass = "Deleted"
	// DriftUnreadable: something could not be read, so that nobody knows.
	DriftUnreadable DriftClass = "Unreadable"
	// DriftConflict: another manager owns a field that Pulumi manages; the cluster refuses to put it back.
	DriftConflict DriftClass = "Conflict"
)

// DriftStatus is what is known of the difference between the real resources and what Pulumi left.
type DriftStatus struct {
	// class sums up what the last check found that came to an end. Absent: none has yet.
	// +optional
	Class DriftClass `json:"class,omitempty"`
	// summary says it in a line.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// resources are the first ten resources with drift, the most serious first. The report has them all. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Resources []DriftedResource `json:"resources,omitempty"`
	// since is when drift was first seen, and not seen to be over since. Absent: there is none.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// lastChecked is when the last check that came to an end was started. Absent: none has.
	// +optional
	LastChecked *metav1.Time `json:"lastChecked,omitempty"`
	// nextCheck is when the next check is due. It waits while anything else runs or is due. Absent: none is due by itself.
	// +optional
	NextCheck *metav1.Time `json:"nextCheck,omitempty"`
	// report is the name of the ConfigMap, in this namespace, with the full report, secrets masked: "report.txt" for people,
	// "report.json" for programs. Absent: none was written yet.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Report string `json:"report,omitempty"`
	// digest identifies what is drifted, and to which values. Absent: nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`
	// checkedPlan is the name of the last plan about drift after whose end was looked. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CheckedPlan string `json:"checkedPlan,omitempty"`
	// planned is the digest of the drift that was last planned to be put back, or that a plan about waits or was rejected: it is not
	// planned again. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Planned string `json:"planned,omitempty"`
	// message says why the last check came to no end, why none is made, or why nothing is planned about the drift. Absent:
	// there is nothing to say.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// failures counts how many checks in a row came to no end. Absent: 0.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// unconfirmed says that drift was found by the first check after a long gap, or after failures: it is looked at once more
	// before it is planned to put it back. Absent: false.
	// +optional
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// operation is the check that runs. Absent: none.
	// +optional
	Operation *DriftOperation `json:"operation,omitempty"`
	// observedRequest is the value of plangate.dev/check-drift that was last acted on. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ObservedRequest string `json:"observedRequest,omitempty"`
	// observedAccept is the value of plangate.dev/accept-drift that was last acted on. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ObservedAccept string `json:"observedAccept,omitempty"`
	// repairs are the times at which drift was put back in the last 24 hours, the last 20, to notice when two sides fight over
	// a field. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Repairs []DriftRepair `json:"repairs,omitempty"`
	// loop names the fields that were put back again and again. While it is there no more plans are made to put them back,
	// until plangate.dev/repair-drift names the digest. Absent: none.
	// +optional
	Loop *DriftLoop `json:"loop,omitempty"`
}

// DriftedResource is one resource with drift.
type DriftedResource struct {
	// class is what happened to it.
	// +required
	Class DriftClass `json:"class"`
	// type is the resource's Pulumi type.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Type string `json:"type"`
	// name is the resource's name in the program.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
	// message says in words what happened to it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// DriftOperation is a check that was started in the workspace. It changes neither the world nor the state.
type DriftOperation struct {
	// id names the operation; starting it twice under one id runs it once.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// why says why it was started.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Why string `json:"why,omitempty"`
	// inputsDigest tells what the program is run with, as in lastPreview.
	// +required
	// +kubebuilder:validation:MaxLength=71
	InputsDigest string `json:"inputsDigest"`
	// configDigest is the digest of configuration, environment and options alone.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ConfigDigest string `json:"configDigest,omitempty"`
	// generation is the Stack's generation.
	// +required
	Generation int64 `json:"generation"`
	// revision is the commit.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision"`
	// plan is the name of the plan that had ended before. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plan string `json:"plan,omitempty"`
	// pod is the workspace pod that it runs in.
	// +required
	Pod PodReference `json:"pod"`
	// startedAt is when it was asked for.
	// +required
	StartedAt metav1.Time `json:"startedAt"`
}

// DriftRepair is one time at which drift was put back.
type DriftRepair struct {
	// at is when.
	// +required
	At metav1.Time `json:"at"`
	// fields are what was put back, as "type name path", at most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=512
	Fields []string `json:"fields,omitempty"`
}

// DriftLoop is a fight over fields.
type DriftLoop struct {
	// digest is the drift's digest: what plangate.dev/repair-drift must name to put it back once more.
	// +required
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest"`
	// fields are those that were put back again and again, at most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=512
	Fields []string `json:"fields,omitempty"`
	// times is how often within a day they were put back.
	// +required
	Times int32 `json:"times"`
	// writer is the other side, where the cluster's managed fields or the provider tell. Absent: not known.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Writer string `json:"writer,omitempty"`
}
