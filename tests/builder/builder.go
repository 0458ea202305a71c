// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builder makes the objects that tests are about, so that each test says only what matters to it.
//
// A builder starts from an object that the API server accepts; every method changes it and returns the builder; Obj ends
// it with a copy of its own. Only tests may import this package.
package builder

import (
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Commit and OtherCommit are two commits that do not exist anywhere.
const (
	Commit      = "0123456789abcdef0123456789abcdef01234567"
	OtherCommit = "89abcdef0123456789abcdef0123456789abcdef"
)

// Epoch is the time at which things happen in tests, unless they say another. Whole seconds: that is what an object keeps.
var Epoch = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// typeMeta is what a typed client drops and server-side apply needs.
func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// annotate sets an annotation on an object that may have none.
func annotate(object *metav1.ObjectMeta, key, value string) {
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[key] = value
}

// label sets a label on an object that may have none.
func label(object *metav1.ObjectMeta, key, value string) {
	if object.Labels == nil {
		object.Labels = map[string]string{}
	}
	object.Labels[key] = value
}

// setCondition sets a condition at Epoch, or moves it there.
func setCondition(conditions *[]metav1.Condition, generation int64, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(Epoch),
	})
}

// JSON is any value as the API keeps it. It panics on a value that JSON cannot hold: a mistake in the test.
func JSON(value any) apiextensionsv1.JSON {
	return apiextensionsv1.JSON{Raw: mustMarshal(value)}
}

// raw is any value as a schemaless field keeps it.
func raw(value any) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: mustMarshal(value)}
}

func mustMarshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("builder: %v", err))
	}
	return text
}

// UID is a UID that is told from others by a number.
func UID(number int) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", number))
}
