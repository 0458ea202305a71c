// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/fake"
)

const clusterID = "4b7c1a52-8f1d-4b59-a4f4-9b6f4f5d2f10"

// bot has a key.
type bot struct {
	name string
	key  ed25519.PrivateKey
}

func newBot(t testing.TB, name string) bot {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return bot{name, key}
}

// trusted is the bot in the form of a policy.
func (b bot) trusted(t testing.TB, more string) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(b.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"name":%q,"pem":%s%s}`, b.name, text, more)
}

func (b bot) signs(payloadType, statement string) string {
	sig := ed25519.Sign(b.key, signature.PAE(payloadType, statement))
	return fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"sig":%q}]}`,
		payloadType, base64.StdEncoding.EncodeToString([]byte(statement)), base64.StdEncoding.EncodeToString(sig))
}

// stated is the statement of a plan that asks for what the operation asks for.
func stated(t testing.TB, op *workspace.Operation, change ...func(*plans.StatementInput)) string {
	t.Helper()
	in := plans.StatementInput{Namespace: "prod", Cluster: clusterID, Nonce: strings.Repeat("a", 32), Sequence: 1, NotAfter: time.Now().Add(time.Hour)}
	in.Operation, in.Trigger.Type, in.Summary.Brief = "Update", "SpecChanged", "+1"
	in.Stack.Name, in.Stack.UID, in.Stack.Generation, in.Stack.ResourceVersion = "web", "uid-1", 1, "4711"
	in.Artifact.Digest, in.Artifact.Size, in.Artifact.Chunks = op.PlanDigest, int64(len(op.Plan)), []string{"web-plan-0"}
	in.Changes, in.Pending = plans.StateChanges(nil, nil, ""), plans.StatePending(nil, 0)
	b := &in.Binding
	b.Repository, b.Directory, b.Revision, b.Tree = op.Source.URL, op.Source.Dir, op.Source.Commit, op.Expect.Tree
	b.ConfigDigest, b.StateDigest = "sha256:"+strings.Repeat("3", 64), op.Expect.StateDigest
	b.PulumiVersion, b.WorkspaceImage, b.Refresh = op.Expect.PulumiVersion, "pulumi", op.Options.Refresh
	for _, p := range op.Expect.Plugins {
		b.Plugins = append(b.Plugins, struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
			Digest  string `json:"digest,omitempty"`
		}(p))
	}
	for _, c := range change {
		c(&in)
	}
	s, err := plans.NewStatement(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// approve gives the operation an approval by a person and by bots.
func approve(t testing.TB, op *workspace.Operation, statement string, bots ...bot) {
	t.Helper()
	op.Approval = &workspace.Approval{Statement: statement, Cluster: clusterID, Signatures: map[string]string{}}
	digest := plans.Digest(statement)
	op.Approval.Decisions = []workspace.Decision{{By: "alice@example.com", Digest: digest, At: time.Now(), Evidence: "sha256:" + strings.Repeat("e", 64)}}
	for _, b := range bots {
		sign(t, op, b, b.signs(signature.PayloadApprove, statement), "")
	}
}

func sign(t testing.TB, op *workspace.Operation, b bot, value, more string) {
	t.Helper()
	op.Approval.Signatures["signature.plangate.dev/"+b.name] = value
	op.Approval.Decisions = append(op.Approval.Decisions, workspace.Decision{
		By: b.name, Digest: plans.Digest(op.Approval.Statement), At: time.Now(), Evidence: plans.BytesDigest([]byte(value)), Signer: json.RawMessage(b.trusted(t, more)),
	})
}

func TestAnApplyIsRefusedBeforePulumiRunsUnlessItsApprovalVerifiesAgain(t *testing.T) {
	t.Parallel()
	ci, other := newBot(t, "ci"), newBot(t, "other")
	cases := map[string]struct {
		// required is the file with required signers. Empty: there is none.
		required string
		change   func(t *testing.T, op *workspace.Operation)
		// says is in the message of the refusal. Empty: it is applied.
		says string
	}{
		"a person and a bot":        {},
		"a person alone":            {change: func(t *testing.T, op *workspace.Operation) { approve(t, op, op.Approval.Statement) }},
		"a policy that asks nobody": {change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Decisions = nil }},
		"an operator of old":        {change: func(_ *testing.T, op *workspace.Operation) { op.Approval = nil }},
		"no statement":              {change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Statement = "" }, says: "statement:"},
		"a byte in the statement": {change: func(_ *testing.T, op *workspace.Operation) {
			op.Approval.Statement = strings.Replace(op.Approval.Statement, "prod", "prof", 1)
		}, says: `decisions[0], by "alice@example.com": it approves`},
		"another cluster": {change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Cluster = "c2" }, says: "cluster"},
		"no cluster":      {change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Cluster = "" }, says: "cluster"},
		"another plan file": {change: func(_ *testing.T, op *workspace.Operation) {
			op.Plan = []byte(`{"a":1}`)
			op.PlanDigest = plans.BytesDigest(op.Plan)
		}, says: "the plan file's digest"},
		"another repository": {change: restated(ci, func(in *plans.StatementInput) { in.Binding.Repository = "https://evil.example" }), says: "binding.repository"},
		"another folder":     {change: restated(ci, func(in *plans.StatementInput) { in.Binding.Directory = "infra" }), says: "binding.directory"},
		"another commit":     {change: restated(ci, func(in *plans.StatementInput) { in.Binding.Revision = strings.Repeat("1", 40) }), says: "binding.revision"},
		"another tree":       {change: restated(ci, func(in *plans.StatementInput) { in.Binding.Tree = strings.Repeat("1", 40) }), says: "binding.tree"},
		"another state":      {change: restated(ci, func(in *plans.StatementInput) { in.Binding.StateDigest = "sha256:" + strings.Repeat("1", 64) }), says: "binding.stateDigest"},
		"another Pulumi":     {change: restated(ci, func(in *plans.StatementInput) { in.Binding.PulumiVersion = "v3.1.0" }), says: "binding.pulumiVersion"},
		"other plugins": {change: func(_ *testing.T, op *workspace.Operation) {
			f := *op.Expect
			f.Plugins = append(f.Plugins, workspace.Plugin{Name: "more"})
			op.Expect = &f
		}, says: "binding.plugins"},
		"another flag":               {change: func(_ *testing.T, op *workspace.Operation) { op.Options.Refresh = true }, says: "binding.refresh"},
		"a plan that has expired":    {change: restated(ci, func(in *plans.StatementInput) { in.NotAfter = time.Now().Add(-3 * time.Minute) }), says: "expired"},
		"a person's older approval":  {change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Decisions[0].Digest = plans.Digest("old") }, says: `by "alice@example.com": it approves`},
		"a forged decision of a bot": {change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Signatures = nil }, says: `decisions[1], by "ci": the signature`},
		"a bot's older signature": {change: func(t *testing.T, op *workspace.Operation) {
			approve(t, op, op.Approval.Statement)
			sign(t, op, ci, ci.signs(signature.PayloadApprove, stated(t, op, func(in *plans.StatementInput) { in.Nonce = strings.Repeat("b", 32) })), "")
		}, says: "signs another statement"},
		"a signature with another key": {change: func(t *testing.T, op *workspace.Operation) {
			approve(t, op, op.Approval.Statement)
			sign(t, op, ci, other.signs(signature.PayloadApprove, op.Approval.Statement), "")
		}, says: "does not verify"},
		"a rejection that was counted as an approval": {change: func(t *testing.T, op *workspace.Operation) {
			approve(t, op, op.Approval.Statement)
			sign(t, op, ci, ci.signs(signature.PayloadReject, op.Approval.Statement), "")
		}, says: "says Reject"},
		"a key that has expired": {change: func(t *testing.T, op *workspace.Operation) {
			approve(t, op, op.Approval.Statement)
			sign(t, op, ci, ci.signs(signature.PayloadApprove, op.Approval.Statement), `,"notAfter":"2020-01-01T00:00:00Z"`)
		}, says: "counted until"},
		"a key for another stack": {change: func(t *testing.T, op *workspace.Operation) {
			approve(t, op, op.Approval.Statement)
			sign(t, op, ci, ci.signs(signature.PayloadApprove, op.Approval.Statement), `,"stacks":["dev/*"]`)
		}, says: "not good for the Stack"},
		"an update's approval, for taking over what is drifted": {change: func(t *testing.T, op *workspace.Operation) {
			op.Type, op.Options.Refresh, op.Expect.DriftDigest = workspace.Accept, true, "sha256:"+strings.Repeat("d", 64)
			approve(t, op, stated(t, op, func(in *plans.StatementInput) { in.Binding.DriftDigest = op.Expect.DriftDigest }), ci)
		}, says: "operation is Update, but Accept is asked for"},
		"the approval of taking over what is drifted, for an update": {change: func(t *testing.T, op *workspace.Operation) {
			op.Options.Refresh, op.Expect.DriftDigest = true, "sha256:"+strings.Repeat("d", 64)
			approve(t, op, stated(t, op, func(in *plans.StatementInput) {
				in.Operation, in.Binding.DriftDigest = "Refresh", op.Expect.DriftDigest
			}), ci)
		}, says: "operation is Refresh, but Apply is asked for"},
		"other drift than was approved": {change: func(t *testing.T, op *workspace.Operation) {
			op.Type, op.Options.Refresh, op.Expect.DriftDigest = workspace.Accept, true, "sha256:"+strings.Repeat("d", 64)
			approve(t, op, stated(t, op, func(in *plans.StatementInput) {
				in.Operation, in.Binding.DriftDigest = "Refresh", "sha256:"+strings.Repeat("e", 64)
			}), ci)
		}, says: "binding.driftDigest"},
		"required, and drift taken over without": {required: "signers: [" + ci.trusted(t, "") + "]", change: func(_ *testing.T, op *workspace.Operation) {
			op.Type, op.Options.Refresh, op.Expect.DriftDigest, op.Approval = workspace.Accept, true, "sha256:"+strings.Repeat("d", 64), nil
		}, says: "requires a signature"},

		"required, and signed":          {required: "signers: [" + ci.trusted(t, "") + "]"},
		"required, signed, not counted": {required: "signers: [" + ci.trusted(t, "") + "]", change: func(_ *testing.T, op *workspace.Operation) { op.Approval.Decisions = op.Approval.Decisions[:1] }},
		"required, a forged status":     {required: "signers: [" + ci.trusted(t, "") + "]", change: func(t *testing.T, op *workspace.Operation) { approve(t, op, op.Approval.Statement) }, says: "0 of 1 have signed"},
		"required, a forged policy too": {required: "signers: [" + ci.trusted(t, "") + "]", change: func(t *testing.T, op *workspace.Operation) { approve(t, op, op.Approval.Statement, other) }, says: "0 of 1 have signed"},
		"required, no approval at all":  {required: "signers: [" + ci.trusted(t, "") + "]", change: func(_ *testing.T, op *workspace.Operation) { op.Approval = nil }, says: "requires a signature"},
		"required, for other stacks":    {required: "signers: [" + ci.trusted(t, `,"stacks":["dev/*"]`) + "]", says: "not good for the Stack"},
		"required, two, and one signed": {required: "count: 2\nsigners: [" + ci.trusted(t, "") + "," + other.trusted(t, "") + "]", says: "1 of 2 have signed"},
		"required, two, and two signed": {required: "count: 2\nsigners: [" + ci.trusted(t, "") + "," + other.trusted(t, "") + "]", change: func(t *testing.T, op *workspace.Operation) { approve(t, op, op.Approval.Statement, ci, other) }},
		"required, and one rejects": {required: "signers: [" + ci.trusted(t, "") + "," + other.trusted(t, "") + "]", change: func(_ *testing.T, op *workspace.Operation) {
			op.Approval.Signatures["signature.plangate.dev/x"] = other.signs(signature.PayloadReject, op.Approval.Statement)
		}, says: `"other" rejects`},
		"required, in another cluster":       {required: "cluster: c2\nsigners: [" + ci.trusted(t, "") + "]", says: "of cluster"},
		"required, a file with a typo":       {required: "signer: [" + ci.trusted(t, "") + "]", says: "required signers:"},
		"required, a file that counts none":  {required: "count: 0\nsigners: [" + ci.trusted(t, "") + "]", says: "count must be"},
		"required, a file that names nobody": {required: "signers: []", says: "count must be"},
		"required, a file that is missing":   {required: "-", says: "no such file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := &fake.Driver{State: json.RawMessage(someState), Plan: []byte("{}")}
			r := newFolders(t, driver)
			if tc.required != "" {
				r.requireSigners = r.file("required.yaml")
			}
			if tc.required != "" && tc.required != "-" {
				r.write("required.yaml", tc.required)
			}
			r.serve()
			commit := r.commit(map[string]string{"Pulumi.yaml": "name: demo\nruntime: yaml\n", "infra/Pulumi.yaml": "name: demo\nruntime: yaml\n"})
			op := r.apply(commit, r.preview(commit))
			approve(t, op, stated(t, op), ci)
			before := len(driver.Calls())
			if tc.change != nil {
				tc.change(t, op)
			}
			got := r.run(op)
			if tc.says == "" {
				if got.Outcome != workspace.Succeeded || !slices.Contains(driver.Calls(), "Up") {
					t.Fatalf("Apply: %s %s: %s", got.Outcome, got.Reason, got.Message)
				}
				return
			}
			if got.Outcome != workspace.Failed || got.Reason != workspace.ReasonApprovalInvalid || !strings.Contains(got.Message, tc.says) {
				t.Errorf("Apply: want it refused for %q, got %s %s: %s", tc.says, got.Outcome, got.Reason, got.Message)
			}
			if calls := driver.Calls()[before:]; len(calls) > 0 {
				t.Errorf("Apply: Pulumi was called before it was refused: %v", calls)
			}
		})
	}
}

// restated is an honest approval of a statement that binds something else than what is asked for.
func restated(b bot, change func(*plans.StatementInput)) func(*testing.T, *workspace.Operation) {
	return func(t *testing.T, op *workspace.Operation) { approve(t, op, stated(t, op, change), b) }
}

func TestTheFileOfRequiredSignersIsReadAnewForEveryApply(t *testing.T) {
	t.Parallel()
	ci, other := newBot(t, "ci"), newBot(t, "other")
	r := newFolders(t, &fake.Driver{State: json.RawMessage(someState), Plan: []byte("{}")})
	r.requireSigners = r.file("required.yaml")
	r.write("required.yaml", "signers: ["+other.trusted(t, "")+"]")
	r.serve()
	commit := r.commit(map[string]string{"Pulumi.yaml": "name: demo\nruntime: yaml\n"})
	preview := r.preview(commit)
	apply := func() *workspace.Result {
		op := r.apply(commit, preview)
		approve(t, op, stated(t, op), ci)
		return r.run(op)
	}
	if got := apply(); got.Reason != workspace.ReasonApprovalInvalid {
		t.Errorf("Apply before the key was added: %s %s: %s", got.Outcome, got.Reason, got.Message)
	}
	r.write("required.yaml", "signers: ["+ci.trusted(t, "")+"]")
	if got := apply(); got.Outcome != workspace.Succeeded {
		t.Errorf("Apply after the key was added: %s %s: %s", got.Outcome, got.Reason, got.Message)
	}
	if err := os.Remove(r.requireSigners); err != nil {
		t.Fatal(err)
	}
	if got := apply(); got.Reason != workspace.ReasonApprovalInvalid {
		t.Errorf("Apply after the file was removed: %s %s: %s", got.Outcome, got.Reason, got.Message)
	}
}

func TestTheRealPulumiAppliesWhatARequiredSignerSignedAndNothingElse(t *testing.T) {
	t.Parallel()
	ci := newBot(t, "ci")
	r := newFolders(t, nil)
	r.requireSigners = r.file("required.yaml")
	r.write("required.yaml", "signers: ["+ci.trusted(t, "")+"]")
	r.serve()
	commit := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
	preview := r.preview(commit, config("content", "signed"))
	forged := r.apply(commit, preview, config("content", "signed"))
	approve(t, forged, stated(t, forged))
	if got := r.run(forged); got.Reason != workspace.ReasonApprovalInvalid || r.content("a") != "(none)" {
		t.Errorf("Apply of a forged status: %s %s, the file is %q", got.Outcome, got.Reason, r.content("a"))
	}
	op := r.apply(commit, preview, config("content", "signed"))
	approve(t, op, stated(t, op), ci)
	if got := r.run(op); got.Outcome != workspace.Succeeded || r.content("a") != "signed" {
		t.Errorf("Apply of what was signed: %s %s: %s, the file is %q", got.Outcome, got.Reason, got.Message, r.content("a"))
	}
}
