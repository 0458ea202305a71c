// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

func (a *api) keys() []key {
	keys := make([]key, 0, len(a.objects))
	for k := range a.objects {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

func compareKeys(x, y key) int {
	return strings.Compare(x.kind+"/"+x.name, y.kind+"/"+y.name)
}

// informers are the caches of an operator: each kind's is as old as it happens to be, and tells of changes when it takes them.
type informers struct {
	api     *api
	objects map[key]client.Object
	// taken is how much of the log each kind's cache has taken.
	taken map[string]int
	tell  func(change)
}

var kinds = []string{"Stack", "UpdatePlan", "Workspace", "Secret", "Pod", "ConfigMap"}

// newInformers are those of an operator that has just started: they list everything, and tell of it.
func newInformers(a *api, tell func(change)) *informers {
	i := &informers{api: a, objects: map[key]client.Object{}, taken: map[string]int{}, tell: tell}
	for _, kind := range kinds {
		i.taken[kind] = len(a.log)
	}
	for _, k := range a.keys() {
		i.objects[k] = a.objects[k]
		tell(change{k, nil, a.objects[k]})
	}
	return i
}

// late reports whether a kind's cache has not taken everything.
func (i *informers) late(kind string) bool {
	return slices.ContainsFunc(i.api.log[i.taken[kind]:], func(c change) bool { return c.key.kind == kind })
}

// take lets a kind's cache take the next change.
func (i *informers) take(kind string) {
	for n := i.taken[kind]; n < len(i.api.log); n++ {
		c := i.api.log[n]
		i.taken[kind] = n + 1
		if c.key.kind != kind {
			continue
		}
		if c.now == nil {
			delete(i.objects, c.key)
		} else {
			i.objects[c.key] = c.now
		}
		i.tell(c)
		return
	}
}

// reader reads from a set of objects.
type reader struct{ objects func() map[key]client.Object }

func (r reader) Get(_ context.Context, k client.ObjectKey, to client.Object, _ ...client.GetOption) error {
	name := key{kindOf(to), k.Name}
	o, ok := r.objects()[name]
	if !ok {
		return notFound(name)
	}
	into(o, to)
	return nil
}

func (r reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	kind := items.Type().Elem().Name()
	partial, isPartial := list.(*metav1.PartialObjectMetadataList)
	if isPartial {
		kind = strings.TrimSuffix(partial.Kind, "List")
	}
	all := r.objects()
	var keys []key
	for k := range all {
		if k.kind == kind && selected(all[k], o) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	out := reflect.MakeSlice(items.Type(), 0, len(keys))
	for _, k := range keys {
		if isPartial {
			m := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}}
			into(all[k], &m)
			out = reflect.Append(out, reflect.ValueOf(*m.DeepCopy()))
			continue
		}
		out = reflect.Append(out, reflect.ValueOf(clone(all[k])).Elem())
	}
	items.Set(out)
	return nil
}

func selected(o client.Object, opts *client.ListOptions) bool {
	if opts.LabelSelector != nil && !opts.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if opts.FieldSelector == nil {
		return true
	}
	plan, ok := o.(*v1alpha1.UpdatePlan)
	value, exact := opts.FieldSelector.RequiresExactMatch("spec.stackRef.name")
	if !ok || !exact {
		panic("a selector that this API server does not know: " + opts.FieldSelector.String())
	}
	return plan.Spec.StackRef.Name == value
}

// operatorClient is what an operator has: it reads its caches and writes to the API server, and it may die at any write.
type operatorClient struct {
	client.Client
	reader
	w *world
}

func (c *operatorClient) Get(ctx context.Context, k client.ObjectKey, to client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, k, to, opts...)
}

func (c *operatorClient) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, l, opts...)
}

func (c *operatorClient) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	c.w.checkOwn(o)
	return c.w.deed("create "+kindOf(o), func() error { return c.w.api.create(o) })
}

func (c *operatorClient) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.w.deed("patch "+kindOf(o), func() error { return c.patch(o, p, false) })
}

// Delete deletes an object as it was seen.
func (c *operatorClient) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := &client.DeleteOptions{}
	options.ApplyOptions(opts)
	return c.w.deed("delete "+kindOf(o), func() error {
		k := keyOf(o)
		old, ok := c.w.api.objects[k]
		if !ok {
			return notFound(k)
		}
		if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion()) {
			return conflict(k)
		}
		c.w.api.delete(k)
		return nil
	})
}

func (c *operatorClient) patch(o client.Object, p client.Patch, status bool) error {
	c.w.checkOwn(o)
	// With the lock nobody else's change can be in between, so that the difference need not be made to know what comes out.
	_, partial := o.(*metav1.PartialObjectMetadata)
	if !partial && reflect.ValueOf(p).Elem().FieldByName("opts").FieldByName("OptimisticLock").Bool() {
		k := keyOf(o)
		old, ok := c.w.api.objects[k]
		if !ok {
			return notFound(k)
		}
		if old.GetResourceVersion() != o.GetResourceVersion() {
			return conflict(k)
		}
		return c.w.api.replace(k, old, decode(encode(o), o), o, status)
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	return c.w.api.patch(o, data, status)
}

func (c *operatorClient) Status() client.SubResourceWriter { return statusWriter{c: c} }

type statusWriter struct {
	client.SubResourceWriter
	c *operatorClient
}

func (s statusWriter) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.w.deed("patch status of "+kindOf(o), func() error { return s.c.patch(o, p, true) })
}

// uncachedReader reads past the caches; between two reads the world may move.
type uncachedReader struct {
	reader
	w *world
}

func (u uncachedReader) Get(ctx context.Context, k client.ObjectKey, to client.Object, opts ...client.GetOption) error {
	u.w.meanwhile()
	if u.w.hiccup() {
		return apierrors.NewInternalError(errors.New("etcd is slow"))
	}
	return u.reader.Get(ctx, k, to, opts...)
}
