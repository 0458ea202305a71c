// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

// when says whether an event comes between loops or in the middle of one.
type when bool

const inLoop, between when = true, false

func sortRequests(list []request) {
	slices.SortFunc(list, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.controller, b.controller), cmp.Compare(a.name, b.name))
	})
}

// event is what people, programs and bad luck do.
func (w *world) event(at when) {
	events := []struct {
		weight int
		when   bool
		do     func()
	}{
		{4, true, w.editSpec},
		{3, true, w.push},
		{3, true, w.changeSecret},
		{28, true, func() { w.approve(w.latest()) }},
		{2, true, func() { w.approve(w.anyPlan()) }},
		{2, true, w.approveWrongly},
		{1, true, func() { w.reject(w.latest()) }},
		{1, true, w.rejectWrongly},
		{2, true, w.requestPlan},
		{2, true, w.changeState},
		{1, true, w.changePlugin},
		{1, true, w.deletePlan},
		{1, true, w.deleteChunk},
		{2, true, w.replay},
		{1, true, w.toggleSecret},
		{1, true, func() { w.noRemote = !w.noRemote; w.say("the remote answers: %t", !w.noRemote) }},
		{2, true, func() { w.say("the agent restarts"); w.restartAgent() }},
		{2, true, w.killPod},
		{1, true, w.changeImage},
		{1, true, func() { w.unguarded = !w.unguarded; w.say("the admission policies are in force: %t", !w.unguarded) }},
		{3, bool(!at), w.jump},
		{4, bool(!at), w.armDeath},
		{2, bool(!at), w.deleteStack},
		{2, true, w.askForDestroy},
		{1, true, w.orphan},
		{1, true, w.toggleDestroyOnFinalize},
		{1, true, w.toggleProtection},
		{1, bool(!at), w.toggleSuspend},
	}
	total := 0
	for _, e := range events {
		if e.when {
			total += e.weight
		}
	}
	n := w.rand.IntN(total)
	for _, e := range events {
		if !e.when {
			continue
		}
		if n -= e.weight; n < 0 {
			e.do()
			return
		}
	}
}

func (w *world) stack() *v1alpha1.Stack {
	o, ok := w.api.objects[key{"Stack", name}].(*v1alpha1.Stack)
	if !ok {
		return nil
	}
	return clone(o)
}

// change writes an object as a person does, with the newest version in hand.
func (w *world) change(o client.Object, edit func()) {
	before := clone(o)
	edit()
	w.must(w.api.replace(keyOf(o), before, o, clone(o), false))
}

func (w *world) editStack(what string, edit func(*v1alpha1.Stack)) {
	o := w.stack()
	if o == nil || !o.DeletionTimestamp.IsZero() {
		return
	}
	w.say("%s", what)
	w.change(o, func() {
		before := clone(o)
		edit(o)
		if !reflect.DeepEqual(before.Spec, o.Spec) {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationEditedBy, fmt.Sprintf("%d by %s", o.Generation+1, editors[w.rand.IntN(len(editors))]))
		}
	})
}

// editors edit Stacks, and approve now and then; the approver does nothing else.
var editors = []string{"dana", "erin"}

const approver = "alice"

func (w *world) editSpec() {
	value := w.rand.IntN(4)
	w.editStack(fmt.Sprint("edit spec: size ", value), func(o *v1alpha1.Stack) {
		o.Spec.Config["size"] = apiextensionsv1.JSON{Raw: fmt.Append(nil, value)}
	})
}

func (w *world) toggleSuspend() {
	if o := w.stack(); o != nil {
		w.say("toggle suspend")
		w.change(o, func() { o.Spec.Suspend = !o.Spec.Suspend })
	}
}

func (w *world) requestPlan() {
	value := fmt.Sprint(w.rand.IntN(1000))
	w.editStack("request a plan: "+value, func(o *v1alpha1.Stack) {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationRequestPlan, value)
	})
}

func (w *world) deleteStack() {
	if w.rand.IntN(2) == 0 {
		w.say("delete the Stack in the foreground")
		w.api.foreground(key{"Stack", name})
		return
	}
	w.say("delete the Stack")
	w.api.delete(key{"Stack", name})
}

// askForDestroy sets the annotation, another value of it, or takes it away.
func (w *world) askForDestroy() {
	value := []string{"", "a", "b"}[w.rand.IntN(3)]
	w.editStack("ask for a destroy: "+value, func(o *v1alpha1.Stack) {
		delete(o.Annotations, v1alpha1.AnnotationDestroy)
		if value != "" {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationDestroy, value)
		}
	})
}

// orphan lets the Stack go without a destroy, or tries to with what means nothing.
func (w *world) orphan() {
	o := w.stack()
	if o == nil {
		return
	}
	value := []string{string(o.UID), "yes", "uid-Stack-0", ""}[w.rand.IntN(4)]
	w.say("orphan: %s", value)
	w.change(o, func() { metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationOrphan, value) })
}

func (w *world) toggleDestroyOnFinalize() {
	w.editStack("toggle destroyOnFinalize", func(o *v1alpha1.Stack) { o.Spec.DestroyOnFinalize = !o.Spec.DestroyOnFinalize })
}

func (w *world) toggleProtection() {
	if !w.locked() {
		w.protected = !w.protected
		w.state++
		w.say("protected: %t", w.protected)
	}
}

func (w *world) push() {
	w.pushOf(w.rand.IntN(2) == 0)
}

// pushOf pushes a commit that touches the project, or does not.
func (w *world) pushOf(touches bool) {
	w.commits++
	tree := w.head[:20]
	if touches {
		tree = fmt.Sprintf("%020x", w.rand.IntN(1<<30))
	}
	w.head = tree + fmt.Sprintf("%020x", w.commits)
	w.heads = append(w.heads, w.head)
	w.say("push %s, which touches the project: %t", w.head, touches)
}

func (w *world) changeSecret() {
	w.secrets++
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Data: map[string][]byte{"password": fmt.Append(nil, canary, w.secrets)}}
	w.say("secret %d", w.secrets)
	if there, ok := w.api.objects[keyOf(o)].(*corev1.Secret); ok {
		there = clone(there)
		w.change(there, func() { there.Data = o.Data })
		return
	}
	w.must(w.api.create(o))
}

func (w *world) toggleSecret() {
	k := key{"Secret", "db"}
	if _, there := w.api.objects[k]; there {
		w.say("delete the secret")
		w.api.delete(k)
		return
	}
	w.changeSecret()
}

func (w *world) plans() []*v1alpha1.UpdatePlan {
	var list []*v1alpha1.UpdatePlan
	for _, k := range w.api.keys() {
		if p, ok := w.api.objects[k].(*v1alpha1.UpdatePlan); ok {
			list = append(list, clone(p))
		}
	}
	slices.SortStableFunc(list, func(a, b *v1alpha1.UpdatePlan) int { return cmp.Compare(a.Spec.Sequence, b.Spec.Sequence) })
	return list
}

func (w *world) latest() *v1alpha1.UpdatePlan {
	if all := w.plans(); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

func (w *world) anyPlan() *v1alpha1.UpdatePlan {
	if all := w.plans(); len(all) > 0 {
		return all[w.rand.IntN(len(all))]
	}
	return nil
}

func (w *world) annotate(p *v1alpha1.UpdatePlan, annotation, value string) {
	if p == nil {
		return
	}
	w.say("annotate %s %s=%.20s", p.Name, annotation, value)
	w.change(p, func() { metav1.SetMetaDataAnnotation(&p.ObjectMeta, annotation, value) })
}

func (w *world) approve(p *v1alpha1.UpdatePlan) {
	if p == nil {
		return
	}
	user := approver
	if w.chance(8) {
		user = editors[w.rand.IntN(len(editors))]
	}
	w.annotate(p, v1alpha1.DomainApprove+"/"+user, p.Spec.Digest+" by "+user+" -- chance")
}

func (w *world) approveWrongly() {
	p, other := w.latest(), w.anyPlan()
	if p == nil {
		return
	}
	d := p.Spec.Digest
	wrong := []string{d[:20] + " by alice", d[7:] + " by alice", d, d + " by alice ", builder.Digest("another") + " by alice", "yes", p.Name, ""}
	if other.Spec.Digest != d {
		wrong = append(wrong, other.Spec.Digest+" by alice", other.Spec.Digest+" by alice")
	}
	key := []string{v1alpha1.DomainApprove + "/wrong", v1alpha1.AnnotationApprove, v1alpha1.DomainApprove + "d/x"}[w.rand.IntN(3)]
	value := wrong[w.rand.IntN(len(wrong))]
	if key != v1alpha1.DomainApprove+"/wrong" {
		value = d + " by alice"
	}
	w.annotate(p, key, value)
}

func (w *world) reject(p *v1alpha1.UpdatePlan) {
	if p != nil {
		w.annotate(p, v1alpha1.DomainReject+"/bob", p.Spec.Digest+" by bob -- no")
	}
}

func (w *world) rejectWrongly() {
	w.annotate(w.latest(), v1alpha1.DomainReject+"/wrong", builder.Digest("x")+" by bob")
}

// locked reports whether an apply holds the state's lock.
func (w *world) locked() bool { return w.pod != nil && w.pod.current != nil && w.pod.current.mutates }

func (w *world) changeState() {
	if !w.locked() {
		w.say("somebody else changes the real world")
		w.move(fmt.Sprint("somebody's ", w.rand.IntN(1000)))
	}
}

func (w *world) changePlugin() {
	if w.pod == nil || w.pod.current == nil {
		w.plugin++
		w.say("plugin %d", w.plugin)
	}
}

func (w *world) deletePlan() {
	if p := w.anyPlan(); p != nil {
		w.kept = append(w.kept, p)
		w.say("delete plan %s", p.Name)
		w.api.delete(keyOf(p))
	}
}

func (w *world) deleteChunk() {
	if p := w.latest(); p != nil {
		w.say("delete the plan file of %s", p.Name)
		w.api.delete(key{"Secret", p.Spec.Artifact.Chunks[0]})
	}
}

// replay brings back a plan that was deleted, with its approval, to have it applied again; or copies one.
func (w *world) replay() {
	if p := w.anyPlan(); p != nil {
		w.kept = append(w.kept, p)
	}
	if len(w.kept) == 0 {
		return
	}
	p := w.kept[w.rand.IntN(len(w.kept))]
	if latest := w.latest(); latest != nil && w.rand.IntN(2) == 0 {
		p = latest
	}
	copied := &v1alpha1.UpdatePlan{Spec: p.Spec}
	copied.Namespace, copied.Labels, copied.OwnerReferences = namespace, p.Labels, p.OwnerReferences
	copied.Name = p.Name
	if w.rand.IntN(2) == 0 {
		copied.Name += "x"
	}
	copied.Annotations = map[string]string{v1alpha1.DomainApprove + "/" + approver: p.Spec.Digest + " by " + approver}
	if there, ok := w.api.objects[keyOf(copied)].(*v1alpha1.UpdatePlan); ok && finished(there) {
		there = clone(there)
		w.change(there, func() { there.Finalizers = nil })
		w.api.delete(keyOf(there))
	}
	if w.api.objects[keyOf(copied)] == nil {
		w.say("replay %s", copied.Name)
		w.must(w.api.create(copied))
		w.copies[copied.UID] = true
	}
}

func (w *world) killPod() {
	if w.pod == nil {
		return
	}
	w.say("pod %s dies", w.pod.uid)
	if r := w.pod.current; r != nil {
		w.cutOff(r)
		for _, wake := range r.wakes {
			wake()
		}
	}
	w.pod = nil
	w.api.delete(key{"Pod", name + "-workspace"})
}

// changeImage is a container that is restarted with what its tag names now, or a new pod with it.
func (w *world) changeImage() {
	w.image++
	if w.pod == nil || w.rand.IntN(2) == 0 {
		w.killPod()
		return
	}
	w.say("image %d", w.image)
	w.pod.image, w.imageMoved = w.imageID(), w.loops
	w.restartAgent()
	if o, ok := w.api.objects[key{"Pod", name + "-workspace"}].(*corev1.Pod); ok {
		o = clone(o)
		w.change(o, func() { o.Status.ContainerStatuses[0].ImageID = w.imageID() })
	}
}

func (w *world) jump() {
	by := []time.Duration{time.Second, time.Minute, 7 * time.Minute, 20 * time.Minute, timeToLive, -30 * time.Second, -10 * time.Minute}[w.rand.IntN(7)]
	w.clock = w.clock.Add(by)
	w.say("the clock jumps by %s", by)
}

func (w *world) armDeath() {
	w.fatal, w.afterDeed = 1+w.rand.IntN(6), w.rand.IntN(2) == 0
}

// text is an object for a message.
func text(o any) string {
	raw, _ := json.Marshal(o)
	return string(raw)
}
