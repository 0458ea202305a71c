// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/plans/pulumiplan"
	"github.com/plangate/plangate/workspace"
)

// hole is something that Pulumi's own plan lets pass, or that it should not.
type hole struct {
	// why is what Pulumi would do.
	why string
	// before is applied first, after is what the plan is of. DIR and PLUGINS are replaced.
	before, after string
	setup         func(r *rig)
	refresh       bool
	// exercise happens after the plan was approved.
	exercise func(r *rig, op *workspace.Operation)
	want     refusal
}

// refusal is how the apply must end, with nothing changed.
type refusal struct {
	outcome workspace.Outcome
	// field is the mismatch's, detail words of it, said are words of the message.
	field, detail, said string
}

// outside has a file whose content is in a file beside the repository, which no commit binds.
const outside = `
  a:
    type: files:File
    properties: {path: DIR/out/a, content: {fn::readFile: DIR/wish}}
  b:
    type: files:File
    properties: {path: DIR/out/b, content: steady}
`

func wish(text string) func(r *rig, op *workspace.Operation) {
	return func(r *rig, _ *workspace.Operation) { r.write("wish", text) }
}

// edited is a commit after the plan's; the apply still names the plan's own, or the new one.
func edited(follow bool, old, now string) func(r *rig, op *workspace.Operation) {
	return func(r *rig, op *workspace.Operation) {
		raw, err := os.ReadFile(r.file("repo", "Pulumi.yaml"))
		if err != nil {
			r.t.Fatal(err)
		}
		text := strings.Replace(string(raw), old, now, 1)
		if text == string(raw) {
			r.t.Fatalf("%q is not in the program", old)
		}
		commit := r.commit(map[string]string{"Pulumi.yaml": text})
		if follow {
			op.Source.Commit = commit
		}
	}
}

var holes = map[string]hole{
	"another update that ran in between": {
		why:   "the plan is applied over a state that it was not made from",
		after: program(oneFile),
		exercise: func(r *rig, op *workspace.Operation) {
			other := config("content", "elsewhere")
			r.mustApply(op.Source.Commit, r.preview(op.Source.Commit, other), other)
		},
		want: refusal{workspace.Stale, "stateDigest", "::a", "stateDigest: was"},
	},
	"the same plan a second time": {
		why:   "there is nothing to do, or it goes on with the rest",
		after: program(oneFile),
		exercise: func(r *rig, op *workspace.Operation) {
			again := *op
			again.ID = "first"
			if got := r.run(&again); got.Outcome != workspace.Succeeded {
				r.t.Fatalf("the first apply: %+v", got)
			}
		},
		want: refusal{workspace.Stale, "stateDigest", "::a", "stateDigest: was"},
	},
	"the same plan again after a part of it failed": {
		why:   "it goes on with the rest, from a state that nobody saw",
		after: program(oneFile + "  f:\n    type: files:File\n    properties: {path: DIR/out/dir/f, content: x}\n    options: {dependsOn: [\"${a}\"]}\n"),
		exercise: func(r *rig, op *workspace.Operation) {
			r.write("out/dir", "a file where a folder should be")
			again := *op
			again.ID = "first"
			if got := r.run(&again); got.Outcome != workspace.Partial {
				r.t.Fatalf("the first apply: %+v", got)
			}
			if err := os.Remove(r.file("out", "dir")); err != nil {
				r.t.Fatal(err)
			}
		},
		want: refusal{workspace.Stale, "stateDigest", "added urn:", "stateDigest: was"},
	},
	"a stack that was destroyed in between": {
		why:    "Pulumi refuses where it plans an update, and not where nothing is planned",
		before: program(oneFile),
		after:  program(oneFile + "  t: {type: files:Token}\n"),
		exercise: func(r *rig, op *workspace.Operation) {
			empty := r.commit(map[string]string{"Pulumi.yaml": program("\n  x: {type: files:Token}\n")})
			r.mustApply(empty, r.preview(empty))
		},
		want: refusal{workspace.Stale, "stateDigest", "removed urn:pulumi:dev::demo::files:index:File::a", "stateDigest: was"},
	},
	"drift of a planned resource, read before the apply": {
		why:     "it is overwritten from a state that nobody saw",
		before:  program(outside),
		after:   program(outside),
		setup:   func(r *rig) { r.write("wish", "one") },
		refresh: true,
		// The plan puts back what was seen; then it drifts on.
		exercise: func(r *rig, _ *workspace.Operation) { r.write("out/a", "drifted on, unseen") },
		want:     refusal{workspace.Stale, "driftDigest", "changed urn:pulumi:dev::demo::files:index:File::a", "driftDigest: was"},
	},
	"drift of a resource that nothing is planned for": {
		why:      "Pulumi refuses it, after it has read everything",
		before:   program(outside),
		after:    program(outside),
		setup:    func(r *rig) { r.write("wish", "one") },
		refresh:  true,
		exercise: func(r *rig, _ *workspace.Operation) { r.write("out/b", "drifted, unseen") },
		want:     refusal{workspace.Stale, "driftDigest", "added urn:pulumi:dev::demo::files:index:File::b", "driftDigest: was"},
	},
	"a repair plan that is applied without reading": {
		why:      "it does nothing and ends well, and the drift stays",
		before:   program(outside),
		after:    program(outside),
		setup:    func(r *rig) { r.write("wish", "one") },
		refresh:  true,
		exercise: func(_ *rig, op *workspace.Operation) { op.Options.Refresh = false },
		want:     refusal{workspace.Stale, "driftDigest", "would not be read", "driftDigest: was"},
	},
	"an option like retainOnDelete that was added": {
		why:      "it passes, and the resource stays when it is deleted",
		before:   program(oneFile),
		after:    program(oneFile + "  t: {type: files:Token}\n"),
		exercise: edited(true, `content: "${content}"}`, `content: "${content}"}`+"\n    options: {retainOnDelete: true}"),
		want:     refusal{workspace.Stale, "commit", "", "commit: was"},
	},
	"deletedWith that was added": {
		why:      "it passes, and the resource is given up when the other one is deleted",
		before:   program(oneFile),
		after:    program(oneFile + "  t: {type: files:Token}\n"),
		exercise: edited(true, `content: "${content}"}`, `content: "${content}"}`+"\n    options: {deletedWith: \"${t}\"}"),
		want:     refusal{workspace.Stale, "commit", "", "commit: was"},
	},
	"replaceOnChanges that was added": {
		why:      "it passes, and the next change replaces the resource",
		before:   program(oneFile),
		after:    program(oneFile + "  t: {type: files:Token}\n"),
		exercise: edited(true, `content: "${content}"}`, `content: "${content}"}`+"\n    options: {replaceOnChanges: [content]}"),
		want:     refusal{workspace.Stale, "commit", "", "commit: was"},
	},
	"an edit of the checkout that is not committed": {
		why:      "the program is what lies there",
		after:    program(oneFile),
		exercise: func(r *rig, _ *workspace.Operation) { r.spoilCheckout() },
		// Nothing is refused: the checkout is put back, and what was approved is applied.
		want: refusal{outcome: workspace.Succeeded},
	},
	"a plan file that was tampered with": {
		why:   "Pulumi checks the integrity of nothing",
		after: program(oneFile),
		exercise: func(_ *rig, op *workspace.Operation) {
			op.Plan = []byte(strings.Replace(string(op.Plan), "none", "evil", 1))
		},
		want: refusal{workspace.Failed, "", "", "its digest is"},
	},
	"a property of a resource that differs": {
		why:      "Pulumi refuses it: the second line",
		after:    program(outside),
		setup:    func(r *rig) { r.write("wish", "one") },
		exercise: wish("EVIL"),
		want:     refusal{workspace.Violated, "", "", "::a violates plan: properties changed: ++content[{one}!={EVIL}]"},
	},
	"stack outputs that differ": {
		why:      "Pulumi refuses, and says nothing at all",
		after:    program(oneFile) + "outputs: {o: {fn::readFile: DIR/wish}}\n",
		setup:    func(r *rig) { r.write("wish", "one") },
		exercise: wish("two"),
		want:     refusal{workspace.Violated, "", "", "the stack's outputs are not those of the plan"},
	},
	"a plan that is limited to targets, applied without the limit": {
		why:    "Pulumi refuses what else the program wants, one by one",
		before: program(oneFile + "  b:\n    type: files:File\n    properties: {path: DIR/out/b, content: \"${content}\"}\n"),
		after:  program(strings.ReplaceAll(oneFile, `"${content}"`, "new") + "  b:\n    type: files:File\n    properties: {path: DIR/out/b, content: new}\n"),
		exercise: func(_ *rig, op *workspace.Operation) {
			op.Options.Targets = nil
		},
		want: refusal{workspace.Violated, "", "", "violates plan"},
	},
}

// TestHoles approves a plan, exercises a hole, and expects the apply to be refused, the hole to be named, and nothing to be
// changed. docs/holes.md lists them all, and those that are held elsewhere.
func TestHoles(t *testing.T) {
	t.Parallel()
	for name, h := range holes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			if h.setup != nil {
				h.setup(r)
			}
			if h.before != "" {
				commit := r.commit(map[string]string{"Pulumi.yaml": h.before})
				r.mustApply(commit, r.preview(commit))
			}
			if h.refresh {
				r.write("out/a", "drifted, and seen")
			}
			options := func(op *workspace.Operation) {
				op.Options.Refresh = h.refresh
				if strings.Contains(name, "targets") {
					op.Options.Targets = []string{"urn:pulumi:dev::demo::files:index:File::a"}
				}
			}
			commit := r.commit(map[string]string{"Pulumi.yaml": h.after})
			op := r.apply(commit, r.preview(commit, options), options)
			h.exercise(r, op)
			before := r.outFiles()
			got := r.run(op)
			words, _, _ := strings.Cut(got.Message, "\n")
			t.Logf("case: %s: %s", got.Outcome, words)
			if got.Outcome != h.want.outcome || !strings.Contains(got.Message, h.want.said) {
				t.Fatalf("Apply: want %s with %q, got %s: %s\n(without Plangate: %s)\n%s", h.want.outcome, h.want.said, got.Outcome, got.Message, h.why, got.LogTail)
			}
			if got.Outcome == workspace.Succeeded {
				return
			}
			if diff := cmp.Diff(before, r.outFiles()); diff != "" {
				t.Errorf("something was changed: -before +after\n%s", diff)
			}
			if h.want.field != "" {
				h.want.named(t, got.Mismatches)
			}
		})
	}
}

// named expects the mismatch, with what was and what is.
func (w refusal) named(t *testing.T, got []workspace.Mismatch) {
	t.Helper()
	i := slices.IndexFunc(got, func(m workspace.Mismatch) bool { return m.Field == w.field })
	if i < 0 {
		t.Fatalf("mismatches %+v, want one of %s", got, w.field)
	}
	if m := got[i]; m.Was == m.Is || m.Was == "" || !strings.Contains(m.Detail, w.detail) {
		t.Errorf("mismatch %+v, want it to say %q", m, w.detail)
	}
}

// TestWhatCannotBeRefusedIsShown: an input that is unknown at the preview is whatever it becomes. The approver sees which.
func TestWhatCannotBeRefusedIsShown(t *testing.T) {
	t.Parallel()
	t.Run("an input that is unknown at the preview", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		commit := r.commit(map[string]string{"Pulumi.yaml": program("\n  t: {type: files:Token}\n  a:\n    type: files:File\n    properties: {path: DIR/out/a, content: \"token ${t.value}\"}\n")})
		preview := r.preview(commit)
		r.unbound(preview, "content")
		r.mustApply(commit, preview)
		if got := r.content("a"); !strings.HasPrefix(got, "token ") {
			t.Errorf("the file holds %q", got)
		}
	})
	t.Run("a narrower operation: a planned update turns out to be none", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		// The token is made anew under its old name, which is known only then.
		text := func(keeper string) string {
			return program("\n  t: {type: files:Token, properties: {name: fixed, keepers: {v: " + keeper + "}}}\n  a:\n    type: files:File\n    properties: {path: DIR/out/a, content: \"id ${t.id}\"}\n")
		}
		first := r.commit(map[string]string{"Pulumi.yaml": text("one")})
		r.mustApply(first, r.preview(first))
		second := r.commit(map[string]string{"Pulumi.yaml": text("two")})
		preview := r.preview(second)
		r.unbound(preview, "content")
		if applied := r.mustApply(second, preview); applied.Steps.Done >= applied.Steps.Total {
			t.Errorf("less should be done than was planned: %+v", applied.Steps)
		}
		if got := r.content("a"); got != "id fixed" {
			t.Errorf("the file holds %q", got)
		}
	})
	t.Run("drift that nobody reads", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		first := r.commit(map[string]string{"Pulumi.yaml": program(oneFile)})
		r.mustApply(first, r.preview(first))
		preview := r.preview(first, config("content", "planned"))
		r.write("out/a", "drifted")
		got := r.mustApply(first, preview, config("content", "planned"))
		if got.Facts.DriftDigest != "" || preview.Facts.DriftDigest != "" || r.content("a") != "planned" {
			t.Errorf("without refresh the real resources are not read: %+v, the file holds %q", got.Facts, r.content("a"))
		}
	})
}

// unbound expects the plan to name an input that any value passes for.
func (r *rig) unbound(preview *workspace.Result, path string) {
	r.t.Helper()
	plan, err := pulumiplan.Decode(preview.Plan, preview.Events)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range plan.Changes {
		if slices.Contains(c.Unbound, path) && plan.Summary.Unbound > 0 {
			return
		}
	}
	shown, _ := json.Marshal(plan)
	r.t.Errorf("no change has the unbound input %q: %s", path, shown)
}

// spoilCheckout edits the program in the agent's own checkout.
func (r *rig) spoilCheckout() {
	r.t.Helper()
	found := r.find(r.file("work", "sources"), "Pulumi.yaml")
	if found == "" {
		r.t.Fatal("there is no checkout")
	}
	raw, err := os.ReadFile(found)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(found, []byte(strings.ReplaceAll(string(raw), "${content}", "evil")), 0o600); err != nil {
		r.t.Fatal(err)
	}
}
