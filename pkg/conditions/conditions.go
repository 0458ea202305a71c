// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions sets and reads metav1.Conditions in the way every kind here needs it.
//
// It must never decide what a condition should say: that is computed by each controller's status.go.
package conditions

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage bounds a condition's message in bytes; the API server refuses more than 32768.
const maxMessage = 2048

// Setter sets conditions of one object for one generation.
type Setter struct {
	Conditions *[]metav1.Condition
	Generation int64
	Now        metav1.Time
}

// Set sets a condition; its transition time moves only when its status does.
func (s Setter) Set(kind string, status metav1.ConditionStatus, reason, message string) {
	c := metav1.Condition{Type: kind, Status: status, Reason: reason, Message: Shorten(message, maxMessage), ObservedGeneration: s.Generation, LastTransitionTime: s.Now}
	meta.SetStatusCondition(s.Conditions, c)
}

// True sets a condition to True.
func (s Setter) True(kind, reason, message string) {
	s.Set(kind, metav1.ConditionTrue, reason, message)
}

// False sets a condition to False.
func (s Setter) False(kind, reason, message string) {
	s.Set(kind, metav1.ConditionFalse, reason, message)
}

// Unknown sets a condition to Unknown.
func (s Setter) Unknown(kind, reason, message string) {
	s.Set(kind, metav1.ConditionUnknown, reason, message)
}

// Remove removes a condition.
func (s Setter) Remove(kind string) { meta.RemoveStatusCondition(s.Conditions, kind) }

// Renew removes conditions that are present only while they are True, and returns a func that is to be called when those
// that still are have been set again: it gives them their old transition time back. Without that an object would be
// written in each loop.
func (s Setter) Renew(kinds ...string) func() {
	var was []metav1.Condition
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(*s.Conditions, kind); c != nil {
			was = append(was, *c)
		}
		s.Remove(kind)
	}
	return func() {
		for _, old := range was {
			if c := meta.FindStatusCondition(*s.Conditions, old.Type); c != nil && c.Status == old.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
}

// Keep leaves a condition as it is if it was observed for this generation, and otherwise sets it to Unknown.
func (s Setter) Keep(kind, reason, message string) {
	c := meta.FindStatusCondition(*s.Conditions, kind)
	if c != nil && c.ObservedGeneration == s.Generation {
		return
	}
	s.Unknown(kind, reason, message)
}

// Is reports whether a condition has a status.
func Is(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	return meta.IsStatusConditionPresentAndEqual(conditions, kind, status)
}

// IsTrue reports whether a condition is True.
func IsTrue(conditions []metav1.Condition, kind string) bool {
	return Is(conditions, kind, metav1.ConditionTrue)
}

// Reason returns a condition's reason; "" when there is no such condition.
func Reason(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// Message returns a condition's message; "" when there is no such condition.
func Message(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// Shorten cuts s to at most limit bytes, at the border of a character, and says so with an ellipsis.
func Shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
