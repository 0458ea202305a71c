// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/controller/stack"
	"github.com/plangate/plangate/pkg/controller/updateplan"
	"github.com/plangate/plangate/pkg/inputs"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/pkg/source"
	"github.com/plangate/plangate/plans/approval"
	"github.com/plangate/plangate/tests/builder"
)

const (
	namespace  = "ns"
	name       = "web"
	cluster    = "11111111-1111-4111-8111-111111111111"
	canary     = "canary-value-"
	timeToLive = time.Hour
	settleTime = time.Second
	stateCheck = 10 * time.Minute
	ctrlStack  = "stack"
	ctrlPlan   = "updateplan"
)

// death is how an operator dies.
type death struct{ at string }

// request is an object that a controller is to look at.
type request struct{ controller, name string }

// world is one Stack and everything around it, in virtual time and in one thread: an API server, an operator with its queues
// and caches, the agent in the pod, the git server, the real resources, and people. All chance comes from one seed.
type world struct {
	seed   uint64
	rand   *rand.Rand
	clock  time.Time
	api    *api
	caches *informers

	controllers map[string]reconcile.Reconciler
	queue       []request
	timers      map[request]time.Time
	failures    map[request]int
	running     map[request]bool
	// faults lets things go wrong. depth counts how deep the world moves in the middle of a loop.
	faults bool
	depth  int
	// loops counts the loops of the operator; imageMoved is the one in the middle of which the image did.
	loops, imageMoved int
	// loop is the one that runs now, also when another ran in the middle of it.
	loop int
	// fatal is at which deed the operator dies, counted down; 0: it does not.
	fatal     int
	afterDeed bool

	// The world outside the cluster.
	pod  *pod
	ops  map[string]*record
	head string
	// heads are all that head ever was.
	heads []string
	// looks counts the looks at the state.
	looks         int
	real          string
	state, plugin int
	image         int
	secrets       int
	// protected says that what is there may not be deleted.
	protected bool
	commits   int
	noRemote  bool
	// unguarded is true while the admission policies are not in force. provenIn is the loop in which the operator found last
	// that they are.
	unguarded bool
	provenIn  int

	oracle
	trace []string
}

func newWorld(seed uint64) *world {
	w := &world{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), clock: builder.Epoch, faults: true, ops: map[string]*record{},
		timers: map[request]time.Time{}, running: map[request]bool{}, head: builder.Commit, heads: []string{builder.Commit}, oracle: newOracle(),
	}
	w.api = newAPI(func() time.Time { return w.clock })
	w.api.onChange = w.watchWrite
	w.restart()
	w.changeSecret()
	w.createStack()
	return w
}

func (w *world) createStack() {
	o := builder.Stack(namespace, name).Config("size", 0).SecretConfig("password", "db", "password").Obj()
	o.Spec.DestroyOnFinalize = w.rand.IntN(2) == 0
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationEditedBy, "1 by "+editors[0])
	w.must(w.api.create(o))
}

func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("seed %d: %v", w.seed, err))
	}
}

// say keeps what happened, for a history that fails.
func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, w.clock.Format("15:04:05.000 ")+strings.Repeat("  ", w.depth)+fmt.Sprintf(format, args...))
}

// chance is true once in so many times, while things may go wrong.
func (w *world) chance(in int) bool { return w.faults && w.rand.IntN(in) == 0 }

func (w *world) hiccup() bool { return w.chance(60) }

// restart makes a new operator, which remembers nothing.
func (w *world) restart() {
	w.queue, w.timers, w.failures, w.fatal = nil, map[request]time.Time{}, map[request]int{}, 0
	w.controllers = map[string]reconcile.Reconciler{}
	cached := reader{func() map[key]client.Object { return w.caches.objects }}
	uncached := uncachedReader{reader{func() map[key]client.Object { return w.api.objects }}, w}
	c := &operatorClient{reader: cached, w: w}
	in, store := inputs.New(c, uncached), planstore.New(c, uncached)
	now := func() time.Time { return w.clock }
	w.controllers[ctrlStack] = stack.New(c, uncached, agents{w, ctrlStack}, w, in, store, w, stack.Settings{
		Cluster: cluster, PollInterval: 10 * time.Minute, PlanTimeToLive: timeToLive, RetryInterval: 5 * time.Second, RetryMaxInterval: 5 * time.Minute, SettleTime: settleTime, Now: now,
	})
	w.controllers[ctrlPlan] = updateplan.New(c, uncached, agents{w, ctrlPlan}, w, in, store, w, updateplan.Settings{Cluster: cluster, StateCheckInterval: stateCheck, Now: now, Admission: w})
	w.caches = newInformers(w.api, w.watched)
}

// Eventf takes an event, which anybody in the namespace may read.
func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.checkSecrets("event "+reason, fmt.Appendf(nil, note, args...))
}

// Prove is the API server's admission, as the operator sees it. A caller who needs no fresh answer may get an old one: here it is
// the best one, which must do no harm.
func (w *world) Prove(_ context.Context, _ *v1alpha1.UpdatePlan, fresh bool) (approval.Admission, error) {
	if !fresh {
		return approval.Admission{Enforced: true}, nil
	}
	w.meanwhile()
	if w.hiccup() {
		return approval.Admission{}, errors.New("the API server does not answer")
	}
	if w.unguarded {
		return approval.Admission{Why: "the policy is gone"}, nil
	}
	w.provenIn = w.loop
	return approval.Admission{Enforced: true}, nil
}

// Resolve is the git server, as the operator sees it.
func (w *world) Resolve(_ context.Context, _, branch, _ string) (source.Revision, error) {
	w.meanwhile()
	if w.noRemote || w.hiccup() {
		return source.Revision{}, errors.New("the remote does not answer")
	}
	return source.Revision{Commit: w.head, Ref: "refs/heads/" + branch}, nil
}

// ResolveNow is the same without a memory.
func (w *world) ResolveNow(ctx context.Context, repository, branch, commit string) (source.Revision, error) {
	return w.Resolve(ctx, repository, branch, commit)
}

// deed is something that the operator does to the world. It may die before it, or after it and before it has heard of it.
func (w *world) deed(what string, do func() error) error {
	w.clock = w.clock.Add(time.Duration(1+w.rand.IntN(40)) * time.Millisecond)
	fatal := w.fatal == 1
	w.fatal = max(0, w.fatal-1)
	if fatal && !w.afterDeed {
		panic(death{"before " + what})
	}
	w.meanwhile()
	if w.hiccup() {
		return apierrors.NewInternalError(errors.New("etcd is slow"))
	}
	err := do()
	if err == nil {
		w.say("%s", what)
	}
	if fatal {
		panic(death{"after " + what})
	}
	return err
}

// meanwhile is what happens in the middle of a loop: the world moves, or another worker of the operator does.
func (w *world) meanwhile() {
	if w.depth > 0 || !w.chance(25) {
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	switch w.rand.IntN(4) {
	case 0:
		w.work()
	case 1:
		w.progress()
	default:
		w.event(inLoop)
	}
}

// watched is what the controllers' watches do with a change, in the order in which their caches take them.
func (w *world) watched(c change) {
	switch c.key.kind {
	case "Stack":
		if c.before == nil || c.now == nil || specOrAnnotations(c) {
			w.enqueue(request{ctrlStack, c.key.name})
		}
		w.openPlans()
	case "Workspace":
		w.enqueue(request{ctrlStack, c.key.name})
		w.openPlans()
	case "UpdatePlan":
		w.enqueue(request{ctrlStack, name})
		if c.before == nil || c.now == nil || specOrAnnotations(c) {
			w.enqueue(request{ctrlPlan, c.key.name})
		}
		if c.before == nil {
			w.openPlans()
		}
	case "Secret":
		if o, ok := w.caches.objects[key{"Stack", name}].(*v1alpha1.Stack); ok {
			for _, watched := range inputs.WatchedSecrets(o) {
				if watched == c.key.name {
					w.enqueue(request{ctrlStack, name})
				}
			}
		}
	}
}

func specOrAnnotations(c change) bool {
	return c.before.GetGeneration() != c.now.GetGeneration() || fmt.Sprint(c.before.GetAnnotations()) != fmt.Sprint(c.now.GetAnnotations())
}

func (w *world) openPlans() {
	for k, o := range w.caches.objects {
		if plan, ok := o.(*v1alpha1.UpdatePlan); ok && !finished(plan) {
			w.enqueue(request{ctrlPlan, k.name})
		}
	}
}

// wake is a watch of a running operation that tells that it moved on.
func (w *world) wake(controller, id string) {
	if controller == ctrlStack {
		w.enqueue(request{ctrlStack, name})
		return
	}
	for k, o := range w.api.objects {
		if plan, ok := o.(*v1alpha1.UpdatePlan); ok && plan.Status.Operation != nil && plan.Status.Operation.ID == id {
			w.enqueue(request{ctrlPlan, k.name})
		}
	}
}

func (w *world) enqueue(r request) {
	for _, q := range w.queue {
		if q == r {
			return
		}
	}
	w.queue = append(w.queue, r)
}

// next takes what a worker does next; the order is anybody's guess.
func (w *world) next() (request, bool) {
	for r, at := range w.timers {
		if !w.clock.Before(at) {
			delete(w.timers, r)
			w.enqueue(r)
		}
	}
	sortRequests(w.queue)
	for _, i := range w.rand.Perm(len(w.queue)) {
		if r := w.queue[i]; !w.running[r] {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			return r, true
		}
	}
	return request{}, false
}

// work lets a worker of the operator look at one object.
func (w *world) work() bool {
	r, ok := w.next()
	if !ok {
		return false
	}
	w.running[r] = true
	w.loops++
	outer := w.loop
	w.loop = w.loops
	defer func() { w.running[r], w.loop = false, outer }()
	result, err := w.controllers[r.controller].Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: r.name}})
	switch {
	case errors.Is(err, reconcile.TerminalError(nil)):
	case err != nil:
		w.failures[r]++
		w.later(r, time.Second<<min(w.failures[r], 8))
	default:
		w.failures[r] = 0
		if result.RequeueAfter > 0 {
			w.later(r, result.RequeueAfter)
		}
	}
	return true
}

func (w *world) later(r request, after time.Duration) {
	at := w.clock.Add(after)
	if there, ok := w.timers[r]; !ok || at.Before(there) {
		w.timers[r] = at
	}
}

// attempt does something with the operator, and makes a new one when it dies.
func (w *world) attempt(do func()) {
	defer func() {
		w.running, w.depth = map[request]bool{}, 0
		if d := recover(); d != nil {
			death, ok := d.(death)
			if !ok {
				panic(d)
			}
			w.say("the operator dies %s", death.at)
			w.down()
			w.restart()
		}
	}()
	do()
}

// down is the time without an operator: a moment, or hours in which the world moves and nobody sees it.
func (w *world) down() {
	if w.rand.IntN(3) > 0 {
		return
	}
	w.depth = 1
	for range w.rand.IntN(4) {
		w.event(inLoop)
		w.finish()
	}
	w.clock = w.clock.Add(time.Duration(w.rand.Int64N(int64(2 * timeToLive))))
	w.depth = 0
	w.say("it comes back")
}

// progress is what the rest of the world does by itself: caches take changes, operations end, the kubelet runs pods.
func (w *world) progress() {
	switch n := w.rand.IntN(8); n {
	case 0:
		w.finish()
	case 1:
		w.kubelet()
	default:
		kind := kinds[n-2]
		for range 1 + w.rand.IntN(4) {
			w.caches.take(kind)
		}
	}
}

// kubelet stands for the workspace controller too: it runs the pod that a Workspace is for.
func (w *world) kubelet() {
	k := key{"Workspace", name}
	ws, ok := w.api.objects[k].(*v1alpha1.Workspace)
	if !ok {
		if w.pod != nil && w.pod.current == nil {
			w.killPod()
		}
		return
	}
	ws = clone(ws)
	before := clone(ws)
	if w.pod == nil {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-workspace"}}
		o.Status.Phase = corev1.PodRunning
		o.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pulumi", ImageID: w.imageID()}}
		w.must(w.api.create(o))
		w.pod = &pod{uid: string(o.UID), image: w.imageID(), journal: map[string]*record{}}
		w.say("pod %s runs", w.pod.uid)
	}
	ws.Status.Pod = &v1alpha1.PodReference{Name: name + "-workspace", UID: w.pod.uid}
	ws.Status.Address, ws.Status.ObservedGeneration = "10.0.0.1:7443", ws.Generation
	ws.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAgentReady, Message: "it answers"}}
	w.must(w.api.replace(k, before, ws, clone(ws), true))
}

func (w *world) imageID() string { return builder.Image + fmt.Sprint(w.image) }
