package agent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/plangate/plangate/workspace"
)

func TestPreviewThenApplyDoesExactlyWhatWasPlanned(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile) + `
  t: {type: files:Token}
outputs:
  secret: ${t.value}
  content: ${a.content}
`})
	preview := r.preview(commit, config("content", "hello"))
	if got := r.content("a"); got != "(none)" {
		t.Errorf("Preview wrote the file: %q", got)
	}
	if len(preview.Plan) == 0 || len(preview.Events) == 0 || preview.Facts.PulumiVersion == "" || preview.Facts.Commit != commit || preview.Salt == "" {
		t.Errorf("Preview: incomplete result: %+v", preview)
	}
	// Stack, provider, a, t: the default provider is no step of its own.
	if preview.Steps.Total != 3 {
		t.Errorf("Preview: want 3 steps, got %+v", preview.Steps)
	}
	applied := r.mustApply(commit, preview, config("content", "hello"))
	if got := r.content("a"); got != "hello" {
		t.Errorf("Apply: the file is %q", got)
	}
	if applied.Steps != (workspace.Steps{Done: 3, Total: 3}) {
		t.Errorf("Apply: steps %+v", applied.Steps)
	}
	if string(applied.Outputs["content"]) != `"hello"` || len(applied.Outputs["secret"]) < 10 || strings.Contains(string(applied.Outputs["secret"]), "secret") {
		t.Errorf("Apply: outputs %s", applied.Outputs)
	}
	if len(applied.SecretOutputs) != 1 || applied.SecretOutputs[0] != "secret" {
		t.Errorf("Apply: secret outputs %v", applied.SecretOutputs)
	}
	if applied.Salt != preview.Salt {
		t.Errorf("the salt changed from preview to apply of a new stack: %q, %q", preview.Salt, applied.Salt)
	}
	if left, _ := os.ReadDir(r.file("work", "operations")); len(left) > 0 {
		t.Errorf("files of the operations are left: %v", left)
	}
}
