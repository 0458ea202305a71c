// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plangate/plangate/api/v1alpha1"
)

// A copy has all that the original has, and shares nothing with it: caches hand out objects that nobody may change.
func TestDeepCopy(t *testing.T) {
	for _, object := range []runtime.Object{
		&v1alpha1.Stack{}, &v1alpha1.StackList{},
		&v1alpha1.UpdatePlan{}, &v1alpha1.UpdatePlanList{},
		&v1alpha1.Workspace{}, &v1alpha1.WorkspaceList{},
		&v1alpha1.ApprovalPolicy{}, &v1alpha1.ApprovalPolicyList{},
		&v1alpha1.ClusterApprovalPolicy{}, &v1alpha1.ClusterApprovalPolicyList{},
	} {
		t.Run(reflect.TypeOf(object).Elem().Name(), func(t *testing.T) {
			g := NewWithT(t)
			fill(reflect.ValueOf(object).Elem())
			before := text(t, object)

			dup := object.DeepCopyObject()
			g.Expect(text(t, dup)).To(Equal(before))
			scramble(reflect.ValueOf(dup).Elem())
			g.Expect(text(t, dup)).NotTo(Equal(before))
			g.Expect(text(t, object)).To(Equal(before), "the copy shares memory with the original")

			decoded, ok := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
			g.Expect(ok).To(BeTrue())
			g.Expect(json.Unmarshal([]byte(before), decoded)).To(Succeed())
			g.Expect(text(t, decoded)).To(Equal(before), "what is written can be read")
		})
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	marshaled, err := json.Marshal(value)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(marshaled)
}

// opaque values have insides that are not ours to walk.
func opaque(value reflect.Value, moment time.Time, number string) bool {
	switch pointer := value.Addr().Interface().(type) {
	case *metav1.Time:
		*pointer = metav1.NewTime(moment)
	case *metav1.MicroTime:
		*pointer = metav1.NewMicroTime(moment)
	case *metav1.Duration:
		pointer.Duration = time.Duration(moment.Unix())
	case *resource.Quantity:
		*pointer = resource.MustParse(number)
	case *metav1.FieldsV1:
		*pointer = *metav1.NewFieldsV1(`{"f:a":` + number + `}`)
	default:
		return false
	}
	return true
}

// fill puts something into every field, list and map, at every depth.
func fill(value reflect.Value) {
	if opaque(value, time.Unix(1, 0).UTC(), "1") {
		return
	}
	switch pointer := value.Addr().Interface().(type) {
	case *runtime.RawExtension:
		pointer.Raw = []byte(`{"a":1}`)
		return
	case *apiextensionsv1.JSON:
		pointer.Raw = []byte(`{"a":1}`)
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("a")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		value.SetInt(1)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0))
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key)
		fill(item)
		value.SetMapIndex(key, item)
	case reflect.Struct:
		for i := range value.NumField() {
			fill(value.Field(i))
		}
	}
}

// scramble changes what is reachable in place, so that whoever shares the memory sees it.
func scramble(value reflect.Value) {
	if opaque(value, time.Unix(2, 0).UTC(), "2") {
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("b")
	case reflect.Int32, reflect.Int64, reflect.Int:
		value.SetInt(2)
	case reflect.Uint8:
		// The digit of {"a":1} becomes another; the rest must stay JSON.
		if value.Uint() == '1' {
			value.SetUint('2')
		}
	case reflect.Pointer:
		scramble(value.Elem())
	case reflect.Slice:
		for i := range value.Len() {
			scramble(value.Index(i))
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			item := reflect.New(value.Type().Elem()).Elem()
			item.Set(value.MapIndex(key))
			scramble(item)
			value.SetMapIndex(key, item)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).Type != reflect.TypeFor[runtime.Object]() {
				scramble(value.Field(i))
			}
		}
	}
}
