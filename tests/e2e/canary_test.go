// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/pkg/cli"
	"github.com/plangate/plangate/pkg/planstore"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// canaries are secret values that must be found nowhere, by what they are.
type canaries map[string]string

func newCanaries(t *testing.T, names ...string) canaries {
	t.Helper()
	c := canaries{}
	for _, name := range names {
		random := make([]byte, 8)
		if _, err := rand.Read(random); err != nil {
			t.Fatal(err)
		}
		c[name] = "canary-" + name + "-" + hex.EncodeToString(random)
	}
	return c
}

// find complains of each canary in a text, in any form that a secret is masked in.
func (c canaries) find(t *testing.T, where, text string) {
	t.Helper()
	found := 0
	for name, value := range c {
		for _, form := range redact.Forms([]string{value}) {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s holds the canary %q: …%.120q…", where, name, text[max(0, i-40):])
				found++
				break
			}
		}
	}
	t.Logf("case: e2e: %s | none of %d secrets in any form | %d found in %d bytes", where, len(c), found, len(text))
}

func (c canaries) without(names ...string) canaries {
	left := canaries{}
	for name, value := range c {
		left[name] = value
	}
	for _, name := range names {
		delete(left, name)
	}
	return left
}

// canaryProgram puts secrets wherever a program can: an input from secret configuration, one that is secret in the program
// alone, secret outputs, and an input that it read from somewhere, so that Pulumi does not know that it is one.
func canaryProgram(c canaries, more string) map[string]string {
	return map[string]string{"Pulumi.yaml": fmt.Sprintf(`name: web
runtime: yaml
config:
  password: {type: string, secret: true}
resources:
  input:
    type: files:File
    properties: {path: /state/files/input, content: "${password}"}
  literal:
    type: files:File
    properties:
      path: /state/files/literal
      content: {fn::secret: %s}
  unmarked:
    type: files:File
    properties:
      path: /state/files/unmarked
      content: {fn::readFile: /state/unmarked}
%soutputs:
  password: ${password}
  secret: {fn::secret: %s}
  unmarked: ${unmarked.content}
`, c["literal"], more, c["output"])}
}

// Canary values in configuration, environment, inputs, outputs and every kind of failure: after the whole path, none of them
// is in any object, event, log, metric or line of the audit log.
func TestNoCanaryIsFoundAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newCanaries(t, "config", "env", "literal", "output")
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"password": c["config"]}})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "env"}, StringData: map[string]string{"token": c["env"]}})
	s := w.newStack()
	s.Spec.SecretsRef = map[string]v1alpha1.ResourceRef{"web:password": {Type: v1alpha1.ResourceRefSecret, SecretRef: &v1alpha1.SecretSelector{Name: "db", Key: "password"}}}
	s.Spec.EnvRefs["TOKEN"] = v1alpha1.ResourceRef{Type: v1alpha1.ResourceRefSecret, SecretRef: &v1alpha1.SecretSelector{Name: "env", Key: "token"}}

	// A program that fails and says the secret.
	files := canaryProgram(c, "")
	files["Pulumi.yaml"] = strings.ReplaceAll(files["Pulumi.yaml"], "/state/unmarked", "/no/such/"+c["env"])
	w.push(files)
	w.create(s)
	if message := w.condition(v1alpha1.ConditionPreviewed, metav1.ConditionFalse, v1alpha1.ReasonPreviewFailed); !strings.Contains(message, "/no/such/") {
		t.Errorf("the program does not fail as it should: %q", message)
	}

	// The whole path, by an apply that succeeds.
	w.inPod(fmt.Sprintf("printf 'Bearer %s' > /state/unmarked", c["env"]))
	w.push(canaryProgram(c, ""))
	first := w.applied(w.plan())
	if got := w.file("input") + w.file("literal") + w.file("unmarked"); got != c["config"]+c["literal"]+"Bearer "+c["env"] {
		t.Errorf("the secrets did not reach the program: %q", got)
	}

	// A plan that somebody rejects, and a provider that fails and says the secret: a folder cannot be made there.
	w.push(canaryProgram(c, fmt.Sprintf("  broken:\n    type: files:File\n    properties: {path: /proc/%s/x, content: x}\n", c["env"])))
	second := w.plan(first)
	w.approve(second)
	eventually(t, "the failing apply to be recorded", slow, func() error {
		if !meta.IsStatusConditionTrue(w.read(second).Status.Conditions, v1alpha1.ConditionRecorded) {
			return has(w.read(second), "recorded")
		}
		return nil
	})
	if op := w.read(second).Status.Operation; op == nil || op.Result == v1alpha1.ReasonApplied || !strings.Contains(op.Message+op.LogTail, "/proc/") {
		t.Errorf("the apply did not fail as it should: %+v", op)
	}
	third := w.plan(second)
	w.annotate(third, v1alpha1.AnnotationReject, third.Spec.Digest+" it would fail again")
	eventually(t, "the rejection to be recorded", slow, func() error {
		if !meta.IsStatusConditionTrue(w.read(third).Status.Conditions, v1alpha1.ConditionRecorded) {
			return has(w.read(third), "recorded")
		}
		return nil
	})

	w.lookAtObjects(t, c)
	w.lookAtLogs(t, c)
	w.lookAtAudit(t, c, first, second, third)
}

// lookAtObjects looks into all objects of the namespace of all kinds, Secrets of the user and the outputs excepted.
func (w *world) lookAtObjects(t *testing.T, c canaries) {
	t.Helper()
	kinds := 0
	for kind := range strings.FieldsSeq(w.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name")) {
		text := w.kubectl("get", kind, "-o", "json")
		kinds++
		if kind != "secrets" {
			c.find(t, "a list of "+kind, text)
			continue
		}
		list := &corev1.SecretList{}
		if err := json.Unmarshal([]byte(text), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			w.lookAtSecret(t, c, &list.Items[i])
		}
	}
	if kinds < 15 {
		t.Errorf("only %d kinds were looked at", kinds)
	}
	c.find(t, "kubectl describe", w.kubectl("describe", "stacks,updateplans,workspaces,pods"))
}

func (w *world) lookAtSecret(t *testing.T, c canaries, secret *corev1.Secret) {
	t.Helper()
	switch secret.Name {
	case "db", "env", "passphrase", v1alpha1.OutputsSecretName(stackName):
		return
	}
	if secret.Type == planstore.SecretType {
		// What Pulumi does not know to be secret, since the program read it from a file, is in the plan file as it is: that is
		// what the plan file is kept in a Secret for.
		c = c.without("env")
	}
	for key, value := range secret.Data {
		where := fmt.Sprintf("Secret %s, key %s", secret.Name, key)
		if z, err := gzip.NewReader(bytes.NewReader(value)); err == nil {
			if value, err = io.ReadAll(z); err != nil {
				t.Errorf("%s: %v", where, err)
			}
		}
		c.find(t, where, string(value))
	}
	secret.Data = nil
	metadata, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	c.find(t, "Secret "+secret.Name, string(metadata))
}

// lookAtLogs looks into the logs of the manager and the workspace pod, and the manager's metrics.
func (w *world) lookAtLogs(t *testing.T, c canaries) {
	t.Helper()
	c.find(t, "the log of the workspace pod", w.kubectl("logs", w.podName(), "--all-containers", "--tail=-1"))
	pods := &corev1.PodList{}
	if err := cluster.client.List(t.Context(), pods, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/name": managerName}); err != nil || len(pods.Items) == 0 {
		t.Fatalf("finding the manager: %v", err)
	}
	for _, pod := range pods.Items {
		log := w.shell(fmt.Sprintf("kubectl -n %s logs %s --tail=-1", managerNamespace, pod.Name))
		if !strings.Contains(log, w.namespace) {
			t.Errorf("the log of the manager does not tell of %s", w.namespace)
		}
		c.find(t, "the log of the manager", log)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:8080/metrics", pod.Status.PodIP), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
		if err != nil {
			t.Fatalf("asking for the metrics: %v", err)
		}
		metrics, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !bytes.Contains(metrics, []byte("controller_runtime_reconcile_total")) {
			t.Errorf("reading the metrics: %v", err)
		}
		c.find(t, "the metrics", string(metrics))
	}
}

// lookAtAudit checks that each of the plans is one line of the audit log, that the line says what the plan says, and that the
// chain is whole.
func (w *world) lookAtAudit(t *testing.T, c canaries, ended ...*v1alpha1.UpdatePlan) {
	t.Helper()
	found := map[string]int{}
	log := w.shell(fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=%s --tail=-1", managerNamespace, managerName))
	for text := range strings.Lines(log) {
		if !strings.HasPrefix(text, `{"schema":"plangate.dev/audit/`) {
			continue
		}
		line := struct {
			Digest string          `json:"digest"`
			Record json.RawMessage `json:"record"`
		}{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("a line of the audit log: %v: %s", err, text)
			continue
		}
		if plans.BytesDigest(line.Record) != line.Digest {
			t.Errorf("a line of the audit log has another digest: %s", text)
		}
		found[line.Digest]++
		c.find(t, "the audit log", text)
	}
	for _, plan := range ended {
		record := w.read(plan).Status.Record
		if record == nil {
			t.Errorf("UpdatePlan %s has no record", plan.Name)
			continue
		}
		if found[record.Digest] == 0 {
			t.Errorf("the audit log does not have the end of UpdatePlan %s", plan.Name)
		}
	}
	var out strings.Builder
	eventually(t, "the chain to be whole", slow, func() error {
		out.Reset()
		return cli.Audit(t.Context(), cluster.client, client.ObjectKey{Namespace: w.namespace, Name: stackName}, &out)
	})
	for _, plan := range ended {
		if !strings.Contains(out.String(), plan.Name) {
			t.Errorf("the audit does not list UpdatePlan %s:\n%s", plan.Name, out.String())
		}
	}
	c.find(t, "kubectl plangate audit", out.String())
}
