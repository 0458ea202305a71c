// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events tells transitions of an object's summary as Kubernetes events, once each.
//
// It must never be called with something that happens in every loop, and never with a secret value.
package events

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/plangate/plangate/pkg/conditions"
)

// maxNote bounds an event's note in bytes; the API server refuses more than 1024.
const maxNote = 1000

// Transition emits one event when the condition kind differs, in status or reason, between before and after. The event's
// reason is the condition's; it is a warning when isWarning says so of that reason.
func Transition(r events.EventRecorder, obj runtime.Object, kind, action string, before, after []metav1.Condition, isWarning func(reason string) bool) {
	was, is := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(after, kind)
	if is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
		return
	}
	eventType := "Normal"
	if isWarning(is.Reason) {
		eventType = "Warning"
	}
	Emit(r, obj, eventType, is.Reason, action, is.Message)
}

// Emit emits one event.
func Emit(r events.EventRecorder, obj runtime.Object, eventType, reason, action, note string) {
	r.Eventf(obj, nil, eventType, reason, action, "%s", conditions.Shorten(note, maxNote))
}
