// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans/approval"
)

// slow is how long anything may take on a loaded machine before a test gives up. No test is made to wait for it.
const slow = 2 * time.Minute

const stackName = "web"

// world is what one test has for itself.
type world struct {
	t         testing.TB
	namespace string
	// repo is a work tree; its remote is on the git server.
	repo string
	url  string
}

// newWorld makes a namespace with a volume for the state, a passphrase, rights for programs, and a git repository.
func newWorld(t testing.TB) *world {
	t.Helper()
	suffix := make([]byte, 4)
	if _, err := rand.Read(suffix); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, namespace: "e2e-" + hex.EncodeToString(suffix), repo: t.TempDir()}
	w.url = cluster.git + "/" + w.namespace + ".git"
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "plangate.dev/test": "e2e"}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace, Labels: labels}})
	t.Cleanup(w.destroy)
	w.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "state"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "passphrase"}, StringData: map[string]string{"passphrase": "a passphrase for " + w.namespace}})
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "program"}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "program"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "program", Namespace: w.namespace}},
	})
	w.git("init", "-q", "-b", "main")
	w.git("remote", "add", "origin", w.url)
	return w
}

// destroy tells the story of a failed test and removes what it made.
func (w *world) destroy() {
	if w.t.Failed() {
		w.dump()
		if os.Getenv("PLANGATE_E2E_KEEP") != "" {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	if err := cluster.client.DeleteAllOf(ctx, &v1alpha1.Stack{}, client.InNamespace(w.namespace)); err != nil {
		w.t.Errorf("deleting the Stacks: %v", err)
	}
	err := cluster.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	if client.IgnoreNotFound(err) != nil {
		w.t.Errorf("deleting namespace %q: %v", w.namespace, err)
	}
}

func (w *world) dump() {
	for _, args := range [][]string{
		{"-n", w.namespace, "get", "stacks,updateplans,workspaces,pods", "-o", "wide"},
		{"-n", w.namespace, "describe", "stacks,updateplans"},
		{"-n", w.namespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", w.namespace, "logs", "-l", v1alpha1.LabelWorkspace, "--all-containers", "--tail=40"},
	} {
		out, _ := exec.Command("kubectl", args...).CombinedOutput() //nolint:gosec // the tests' own commands
		w.t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
	logs, _ := exec.Command("kubectl", "-n", managerNamespace, "logs", "deployment/"+managerName, "--tail=2000").CombinedOutput()
	for line := range strings.Lines(string(logs)) {
		if strings.Contains(line, w.namespace) {
			w.t.Log("manager: " + strings.TrimSpace(line))
		}
	}
}

func (w *world) ctx() context.Context { return w.t.Context() }

func (w *world) create(o client.Object) {
	w.t.Helper()
	if _, ok := o.(*corev1.Namespace); !ok {
		o.SetNamespace(w.namespace)
	}
	if err := ignoreExists(cluster.client.Create(w.ctx(), o)); err != nil {
		w.t.Fatalf("creating %T: %v", o, err)
	}
}

// --- the repository ------------------------------------------------------------------------------------------------------

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx(), "git", append([]string{"-C", w.repo, "-c", "user.name=Dana", "-c", "user.email=dana@example.com"}, args...)...) //nolint:gosec // the tests' own commands
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// push writes files (name → content; "" removes one), commits and pushes them, and returns the commit.
func (w *world) push(files map[string]string) string {
	w.t.Helper()
	for name, content := range files {
		path := filepath.Join(w.repo, name)
		if content == "" {
			if err := os.Remove(path); err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a test's files
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { //nolint:gosec // a test's files
			w.t.Fatal(err)
		}
	}
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", "change")
	w.git("push", "-q", "-f", "origin", "HEAD:main")
	return w.git("rev-parse", "HEAD")
}

// --- the Stack -----------------------------------------------------------------------------------------------------------

// template gives the workspace the volume with the state, so that state and files outlive the pod.
const template = `{"spec":{"podTemplate":{"spec":{
  "containers":[{"name":"pulumi","volumeMounts":[{"name":"state","mountPath":"/state"}]}],
  "volumes":[{"name":"state","persistentVolumeClaim":{"claimName":"state"}}]}}}}`

// newStack is a Stack of the repository's branch main, not yet created.
func (w *world) newStack() *v1alpha1.Stack {
	return &v1alpha1.Stack{
		ObjectMeta: metav1.ObjectMeta{Name: stackName, Namespace: w.namespace},
		Spec: v1alpha1.StackSpec{
			Stack: "dev", Backend: "file:///state", ProjectRepo: w.url, Branch: "main", ServiceAccountName: "program",
			EnvRefs: map[string]v1alpha1.ResourceRef{"PULUMI_CONFIG_PASSPHRASE": {
				Type: v1alpha1.ResourceRefSecret, SecretRef: &v1alpha1.SecretSelector{Name: "passphrase", Key: "passphrase"},
			}},
			WorkspaceTemplate: &runtime.RawExtension{Raw: []byte(template)},
		},
	}
}

func (w *world) stack() *v1alpha1.Stack {
	w.t.Helper()
	s := &v1alpha1.Stack{}
	if err := cluster.client.Get(w.ctx(), client.ObjectKey{Namespace: w.namespace, Name: stackName}, s); err != nil {
		w.t.Fatalf("reading the Stack: %v", err)
	}
	return s
}

// edit changes the Stack's spec.
func (w *world) edit(change func(*v1alpha1.StackSpec)) {
	w.t.Helper()
	s := w.stack()
	before := s.DeepCopy()
	change(&s.Spec)
	if err := cluster.client.Patch(w.ctx(), s, client.MergeFrom(before)); err != nil {
		w.t.Fatalf("editing the Stack: %v", err)
	}
}

// setConfig sets a key of the Stack's configuration; nil removes it.
func (w *world) setConfig(key string, value any) {
	w.t.Helper()
	w.edit(func(s *v1alpha1.StackSpec) {
		if s.Config == nil {
			s.Config = map[string]apiextensionsv1.JSON{}
		}
		if value == nil {
			delete(s.Config, key)
			return
		}
		s.Config[key] = jsonValue(value)
	})
}

func jsonValue(value any) apiextensionsv1.JSON {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return apiextensionsv1.JSON{Raw: raw}
}

// --- waiting -------------------------------------------------------------------------------------------------------------

// condition waits until a condition of the Stack has a status and a reason, and returns its message.
func (w *world) condition(kind string, status metav1.ConditionStatus, reason string) string {
	w.t.Helper()
	var message string
	eventually(w.t, fmt.Sprintf("condition %s=%s (%s) of the Stack", kind, status, reason), slow, func() error {
		s := w.stack()
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason || s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("it is %+v, observed generation %d of %d", c, s.Status.ObservedGeneration, s.Generation)
		}
		message = c.Message
		return nil
	})
	return message
}

// plan waits for a waiting UpdatePlan of the Stack other than those given, and returns it.
func (w *world) plan(not ...*v1alpha1.UpdatePlan) *v1alpha1.UpdatePlan {
	w.t.Helper()
	plan := &v1alpha1.UpdatePlan{}
	eventually(w.t, "a waiting UpdatePlan", slow, func() error {
		s := w.stack()
		current := s.Status.CurrentPlan
		if current == nil {
			ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
			return fmt.Errorf("the Stack has none: %+v", ready)
		}
		for _, other := range not {
			if other.Name == current.Name {
				return fmt.Errorf("it is still %q", current.Name)
			}
		}
		if err := cluster.client.Get(w.ctx(), client.ObjectKey{Namespace: w.namespace, Name: current.Name}, plan); err != nil {
			return err
		}
		return has(plan, v1alpha1.ReasonWaitingForApproval)
	})
	return plan
}

// becomes waits until a plan's Ready condition has a reason, and returns the plan.
func (w *world) becomes(plan *v1alpha1.UpdatePlan, reason string) *v1alpha1.UpdatePlan {
	w.t.Helper()
	now := &v1alpha1.UpdatePlan{}
	eventually(w.t, fmt.Sprintf("UpdatePlan %s to be %s", plan.Name, reason), slow, func() error {
		if err := cluster.client.Get(w.ctx(), client.ObjectKeyFromObject(plan), now); err != nil {
			return err
		}
		return has(now, reason)
	})
	return now
}

func has(plan *v1alpha1.UpdatePlan, reason string) error {
	c := meta.FindStatusCondition(plan.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != reason {
		return fmt.Errorf("it is %+v", c)
	}
	return nil
}

// --- deciding ------------------------------------------------------------------------------------------------------------

func (w *world) annotate(o client.Object, key, value string) {
	w.t.Helper()
	if err := w.tryAnnotate(o, key, value); err != nil {
		w.t.Fatalf("annotating %q: %v", o.GetName(), err)
	}
}

// tryAnnotate annotates as who runs the tests, or, if that is to decide on a plan, as the approver.
func (w *world) tryAnnotate(o client.Object, key, value string) error {
	c := client.Client(cluster.client)
	if _, decides := approval.ParseKey(key); decides {
		c = cluster.approver
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	return c.Patch(w.ctx(), o, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// approve approves a plan with the very command that it prints, as the approver.
func (w *world) approve(plan *v1alpha1.UpdatePlan) {
	w.t.Helper()
	command, found := strings.CutPrefix(plan.Status.HowToApprove, "kubectl ")
	if !found {
		w.t.Fatalf("UpdatePlan %s does not say how to approve it: %q", plan.Name, plan.Status.HowToApprove)
	}
	w.shell("kubectl --as=" + approver + " " + command)
}

// applied approves a plan and waits until it is applied.
func (w *world) applied(plan *v1alpha1.UpdatePlan) *v1alpha1.UpdatePlan {
	w.t.Helper()
	w.approve(plan)
	return w.becomes(plan, v1alpha1.ReasonApplied)
}

// --- commands ------------------------------------------------------------------------------------------------------------

// tryShell runs a command where the tests run, and returns all that it printed.
func (w *world) tryShell(line string) (string, error) {
	out, err := exec.CommandContext(w.ctx(), "bash", "-c", line).CombinedOutput() //nolint:gosec // the tests' own commands
	return string(out), err
}

// shell is tryShell that may not fail.
func (w *world) shell(line string) string {
	w.t.Helper()
	out, err := w.tryShell(line)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.ctx(), "kubectl", append([]string{"-n", w.namespace}, args...)...).CombinedOutput() //nolint:gosec // the tests' own commands
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *world) podName() string { return stackName + "-workspace" }

// podUID is the UID of the workspace pod.
func (w *world) podUID() string {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := cluster.client.Get(w.ctx(), client.ObjectKey{Namespace: w.namespace, Name: w.podName()}, pod); err != nil {
		w.t.Fatalf("reading the workspace pod: %v", err)
	}
	return string(pod.UID)
}

// try runs a script in the workspace pod and returns what it printed.
func (w *world) try(script string) (string, error) {
	cmd := exec.CommandContext(w.ctx(), "kubectl", "-n", w.namespace, "exec", w.podName(), "-c", "pulumi", "--", "sh", "-euc", script) //nolint:gosec // the tests' own commands
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("in the pod: %s: %w\n%s%s", script, err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// inPod is try that may not fail.
func (w *world) inPod(script string) string {
	w.t.Helper()
	out, err := w.try(script)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// file is the content of a file that the program made; "" when there is none.
func (w *world) file(name string) string {
	w.t.Helper()
	return w.inPod(fmt.Sprintf("cat /state/files/%s 2>/dev/null || true", name))
}
