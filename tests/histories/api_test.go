// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

// key names an object.
type key struct{ kind, name string }

// change is one write that the API server has taken. A nil object is none.
type change struct {
	key         key
	before, now client.Object
}

// api is an API server in memory, for one namespace. It keeps those promises of the real one that the controllers rely on:
// a resourceVersion for each write and a conflict for an old one, generations that move with the spec, status as a
// subresource, finalizers, plans that never change, and garbage collection by owners. It is hand-written because a real one
// cannot do ten thousand histories, and because controller-runtime's fake client keeps only some of these.
type api struct {
	now     func() time.Time
	version int64
	uids    int64
	objects map[key]client.Object
	log     []change
	// onChange sees each write before anybody else does.
	onChange func(change)
}

func newAPI(now func() time.Time) *api {
	return &api{now: now, objects: map[key]client.Object{}}
}

func kindOf(o client.Object) string {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		return m.Kind
	}
	return reflect.TypeOf(o).Elem().Name()
}

func keyOf(o client.Object) key { return key{kindOf(o), o.GetName()} }

func notFound(k key) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: k.kind}, k.name)
}

func conflict(k key) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: k.kind}, k.name, fmt.Errorf("the object has been modified"))
}

// clone is a deep copy of an object.
func clone[T client.Object](o T) T { return o.DeepCopyObject().(T) }

// into copies an object into one of the caller's.
func into(from, to client.Object) {
	if m, ok := to.(*metav1.PartialObjectMetadata); ok {
		kind := m.TypeMeta
		*m = metav1.PartialObjectMetadata{TypeMeta: kind}
		m.Name, m.Namespace, m.UID, m.ResourceVersion = from.GetName(), from.GetNamespace(), from.GetUID(), from.GetResourceVersion()
		m.Labels, m.OwnerReferences = from.GetLabels(), from.GetOwnerReferences()
		m.CreationTimestamp, m.DeletionTimestamp = from.GetCreationTimestamp(), from.GetDeletionTimestamp()
		return
	}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(clone(from)).Elem())
}

func hasStatus(o client.Object) bool {
	switch o.(type) {
	case *v1alpha1.Stack, *v1alpha1.UpdatePlan, *v1alpha1.Workspace:
		return true
	default:
		return false
	}
}

// decode reads an object as an API server does: times in whole seconds.
func decode(raw []byte, like client.Object) client.Object {
	o := reflect.New(reflect.TypeOf(like).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(raw, o); err != nil {
		panic(err)
	}
	return o
}

func encode(o any) []byte {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return raw
}

func (a *api) create(o client.Object) error {
	k := keyOf(o)
	if _, ok := a.objects[k]; ok {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: k.kind}, k.name)
	}
	made := decode(encode(o), o)
	a.uids++
	made.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", k.kind, a.uids)))
	made.SetGeneration(1)
	made.SetCreationTimestamp(metav1.NewTime(a.now().Truncate(time.Second)))
	made.SetDeletionTimestamp(nil)
	if hasStatus(made) {
		clearStatus(made)
	}
	a.put(k, nil, made)
	into(made, o)
	return nil
}

func clearStatus(o client.Object) {
	f := reflect.ValueOf(o).Elem().FieldByName("Status")
	f.Set(reflect.Zero(f.Type()))
}

// patch applies a JSON merge patch to an object, or to its status.
func (a *api) patch(o client.Object, patch []byte, status bool) error {
	k := keyOf(o)
	old, ok := a.objects[k]
	if !ok {
		return notFound(k)
	}
	var head struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &head); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if v := head.Metadata.ResourceVersion; v != "" && v != old.GetResourceVersion() {
		return conflict(k)
	}
	return a.replace(k, old, decode(encode(merge(tree(encode(old)), tree(patch))), old), o, status)
}

// tree reads JSON with the digits of its numbers.
func tree(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// merge is RFC 7386.
func merge(to, patch any) any {
	from, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := to.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for k, v := range from {
		if v == nil {
			delete(object, k)
			continue
		}
		object[k] = merge(object[k], v)
	}
	return object
}

// replace puts what a write may change of an object in the place of the old one.
func (a *api) replace(k key, old, wanted, result client.Object, status bool) error {
	now := clone(old)
	part := func(field string) (from, to reflect.Value) {
		return reflect.ValueOf(wanted).Elem().FieldByName(field), reflect.ValueOf(now).Elem().FieldByName(field)
	}
	switch {
	case status:
		from, to := part("Status")
		to.Set(from)
	case hasStatus(old):
		from, to := part("Spec")
		if !reflect.DeepEqual(from.Interface(), to.Interface()) {
			if k.kind == "UpdatePlan" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: k.kind}, k.name, nil)
			}
			now.SetGeneration(old.GetGeneration() + 1)
		}
		to.Set(from)
		a.meta(now, wanted)
	default:
		now = wanted
		now.SetUID(old.GetUID())
	}
	now.SetResourceVersion(old.GetResourceVersion())
	if !reflect.DeepEqual(now, old) {
		a.put(k, old, now)
	}
	into(now, result)
	return nil
}

func (a *api) meta(now, wanted client.Object) {
	now.SetAnnotations(wanted.GetAnnotations())
	now.SetLabels(wanted.GetLabels())
	now.SetFinalizers(wanted.GetFinalizers())
	now.SetOwnerReferences(wanted.GetOwnerReferences())
}

// put takes a write, and removes what nothing holds any more.
func (a *api) put(k key, old, now client.Object) {
	a.version++
	now.SetResourceVersion(strconv.FormatInt(a.version, 10))
	if !now.GetDeletionTimestamp().IsZero() && len(now.GetFinalizers()) == 0 {
		a.remove(k, old)
		return
	}
	a.objects[k] = now
	a.tell(change{k, old, now})
	a.collectOne(k, now)
}

// collectOne is the garbage collector's look at an object whose owners are all gone.
func (a *api) collectOne(k key, o client.Object) {
	for _, r := range o.GetOwnerReferences() {
		if a.lives(r.UID) {
			return
		}
	}
	if len(o.GetOwnerReferences()) > 0 {
		a.delete(k)
	}
}

// foreground deletes an object as kubectl delete --cascade=foreground does: whatever has an owner reference to it goes first.
func (a *api) foreground(k key) {
	o, ok := a.objects[k]
	if !ok {
		return
	}
	a.delete(k)
	for _, other := range a.keys() {
		if there, ok := a.objects[other]; ok {
			for _, r := range there.GetOwnerReferences() {
				if r.UID == o.GetUID() {
					a.delete(other)
					break
				}
			}
		}
	}
}

func (a *api) remove(k key, old client.Object) {
	delete(a.objects, k)
	a.tell(change{k, old, nil})
	a.collect(old.GetUID())
}

func (a *api) tell(c change) {
	if a.onChange != nil {
		a.onChange(c)
	}
	a.log = append(a.log, c)
}

// delete does what kubectl delete does, without waiting.
func (a *api) delete(k key) {
	old, ok := a.objects[k]
	if !ok || !old.GetDeletionTimestamp().IsZero() {
		return
	}
	if len(old.GetFinalizers()) == 0 {
		a.version++
		a.remove(k, old)
		return
	}
	now := clone(old)
	at := metav1.NewTime(a.now().Truncate(time.Second))
	now.SetDeletionTimestamp(&at)
	now.SetGeneration(old.GetGeneration() + 1)
	a.put(k, old, now)
}

// collect is the garbage collector, which is at once here.
func (a *api) collect(owner types.UID) {
	for _, k := range a.keys() {
		o, ok := a.objects[k]
		if !ok {
			continue
		}
		owned, left := false, 0
		for _, r := range o.GetOwnerReferences() {
			owned = owned || r.UID == owner
			if r.UID != owner && a.lives(r.UID) {
				left++
			}
		}
		if owned && left == 0 {
			a.delete(k)
		}
	}
}

func (a *api) lives(uid types.UID) bool {
	for _, o := range a.objects {
		if o.GetUID() == uid {
			return true
		}
	}
	return false
}
