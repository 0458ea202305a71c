// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
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

// TestTheStateFileIsWhatTheCLIExports proves the short cut of reading a file backend directly.
func TestTheStateFileIsWhatTheCLIExports(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile) + "  t: {type: files:Token}\noutputs: {secret: \"${t.value}\"}\n"})
	r.mustApply(commit, r.preview(commit))
	ctx := context.Background()
	base := append(r.environ(), "PULUMI_CONFIG_PASSPHRASE=correct horse", "PULUMI_HOME="+r.file("work", "pulumi"), "HOME="+r.file("work", "home"))
	cli := pulumi.New("", base, time.Second)
	digest := func(backend string) pulumi.State {
		target := pulumi.Target{Dir: r.file("repo"), Project: "demo", Stack: "dev", Env: append(base, "PULUMI_BACKEND_URL="+backend)}
		deployment, err := cli.Export(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		state, err := pulumi.Digest(deployment)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	direct := digest("file://" + r.file("state"))
	// With a query the short cut is not taken.
	byCLI := digest("file://" + r.file("state") + "?no_tmp_dir=true")
	if diff := cmp.Diff(byCLI, direct); diff != "" || len(direct.Resources) != 4 {
		t.Errorf("Export: -CLI +file\n%s", diff)
	}
	_, err := cli.Export(ctx, pulumi.Target{Dir: r.file("repo"), Project: "demo", Stack: "none", Env: append(base, "PULUMI_BACKEND_URL=file://"+r.file("state")+"?no_tmp_dir=true")})
	if !errors.Is(err, pulumi.ErrNoStack) {
		t.Errorf("Export of an unknown stack by the CLI: %v", err)
	}
	_, err = cli.Export(ctx, pulumi.Target{Dir: r.file("repo"), Project: "demo", Stack: "none", Env: append(base, "PULUMI_BACKEND_URL=file://"+r.file("state"))})
	if !errors.Is(err, pulumi.ErrNoStack) {
		t.Errorf("Export of an unknown stack: %v", err)
	}
}

func TestTheCLIEncryptsAValueThatItGetsOverStdin(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	salt := r.preview(commit).Salt
	r.write("config.yaml", "encryptionsalt: "+salt+"\n")
	env := append(r.environ(), "PULUMI_CONFIG_PASSPHRASE=correct horse", "PULUMI_HOME="+r.file("work", "pulumi"), "PULUMI_BACKEND_URL=file://"+r.file("state"))
	cli := pulumi.New("", env, time.Second)
	target := pulumi.Target{Dir: r.file("repo"), Project: "demo", Stack: "dev", ConfigFile: r.file("config.yaml"), Env: env}
	if err := cli.Encrypt(context.Background(), target, "demo:pass.word", "--canary\nline two"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.file("config.yaml"))
	if err != nil || strings.Contains(string(text), "canary") || !strings.Contains(string(text), "demo:pass.word:") || !strings.Contains(string(text), "secure: ") {
		t.Errorf("the file: %s, %v", text, err)
	}
	if status := r.git("status", "--porcelain"); status != "" {
		t.Errorf("the checkout was touched: %s", status)
	}
}

func TestPulumiIsFoundOnThePathOfTheEnvironment(t *testing.T) {
	t.Parallel()
	_, err := pulumi.New("", []string{"PATH=/nowhere"}, time.Second).Version(context.Background())
	if err == nil || !strings.Contains(err.Error(), "pulumi") {
		t.Errorf("Version: %v", err)
	}
}
