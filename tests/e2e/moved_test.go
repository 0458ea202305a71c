// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/plangate/plangate/api/v1alpha1"
)

func TestANewCommitSupersedesAWaitingPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "a", content: "one"}))
	w.create(w.newStack())
	first := w.plan()

	commit := w.push(program(file{name: "a", content: "two"}))
	second := w.plan(first)
	ended := w.becomes(first, v1alpha1.ReasonSuperseded)
	if got := meta.FindStatusCondition(ended.Status.Conditions, v1alpha1.ConditionObsolete).Message; !strings.Contains(got, commit[:12]) && !strings.Contains(got, second.Name) {
		t.Errorf("the ended plan does not say what superseded it: %q", got)
	}
	if second.Spec.Trigger.Type != v1alpha1.TriggerSourceChanged || second.Spec.Binding.Revision != commit {
		t.Errorf("the new plan is of commit %s by %s", second.Spec.Binding.Revision, second.Spec.Trigger.Type)
	}
	// An approval of the old plan, however late, does nothing.
	if err := w.tryAnnotate(ended, v1alpha1.AnnotationApprove, ended.Spec.Digest); err == nil || !strings.Contains(err.Error(), "has ended: Superseded") {
		t.Errorf("approving what was superseded: %v", err)
	}
	w.applied(second)
	if got := w.file("a"); got != "two" {
		t.Errorf("the file holds %q", got)
	}
	if still := w.becomes(first, v1alpha1.ReasonSuperseded); still.Status.Operation != nil {
		t.Errorf("the superseded plan was started: %+v", still.Status.Operation)
	}
}

// foreignUp is an update by somebody else: another checkout, another home, the same state.
const foreignUp = `
rm -rf /tmp/foreign && mkdir -p /tmp/foreign/home/plugins && cd /tmp/foreign
cp -r /home/pulumi/.pulumi/plugins/resource-files-* home/plugins
git clone -q %s tree && cd tree
export PULUMI_HOME=/tmp/foreign/home PULUMI_BACKEND_URL=file:///state PULUMI_SKIP_UPDATE_CHECK=true PULUMI_CONFIG_PASSPHRASE='a passphrase for %s'
export PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER=true
pulumi up --yes --non-interactive -s dev -c web:greeting=elsewhere
`

func TestAStateThatMovedAfterThePreviewMakesThePlanStaleAndNothingIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(program(file{name: "hello", content: "${greeting}"}))
	w.create(w.newStack())
	first := w.applied(w.plan())
	w.setConfig("web:greeting", "from the Stack")
	second := w.plan(first)

	w.inPod(fmt.Sprintf(foreignUp, w.url, w.namespace))
	if got := w.file("hello"); got != "elsewhere" {
		t.Fatalf("the other update did not happen: the file holds %q", got)
	}
	w.approve(second)
	stale := w.becomes(second, v1alpha1.ReasonStale)
	if got := w.file("hello"); got != "elsewhere" {
		t.Errorf("a stale plan was applied: the file holds %q", got)
	}
	message := meta.FindStatusCondition(stale.Status.Conditions, v1alpha1.ConditionObsolete).Message
	if !strings.Contains(message, "stateDigest") {
		t.Errorf("the plan does not name what moved: %q", message)
	}
	third := w.plan(second)
	if third.Spec.Trigger.Type != v1alpha1.TriggerRetry {
		t.Errorf("the new plan's trigger is %s, want Retry", third.Spec.Trigger.Type)
	}
	w.applied(third)
	if got := w.file("hello"); got != "from the Stack" {
		t.Errorf("the file holds %q", got)
	}
}

func TestAProgramThatViolatesItsPlanIsRefusedBeforeTheFirstMutation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The program reads a file that no commit binds: it asks for something else at the apply than at the preview.
	files := program(file{name: "a", content: "steady"}, file{name: "z", content: "{fn::readFile: /state/wish}"})
	w.push(program(file{name: "a", content: "first"}))
	w.create(w.newStack())
	first := w.applied(w.plan())
	w.inPod("printf one > /state/wish")
	w.push(files)
	second := w.plan(first)

	w.inPod("printf another > /state/wish")
	w.approve(second)
	violated := w.becomes(second, v1alpha1.ReasonViolated)
	if a, z := w.file("a"), w.file("z"); a != "first" || z != "" {
		t.Errorf("something was changed: a is %q, z is %q", a, z)
	}
	if op := violated.Status.Operation; op.Done != 0 || len(op.Violations) == 0 {
		t.Errorf("the operation does not say what violated the plan: %+v", op)
	}
	third := w.plan(second)
	w.applied(third)
	if z := w.file("z"); z != "another" {
		t.Errorf("z is %q", z)
	}
}
