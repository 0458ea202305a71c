// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plangate/plangate/workspace"
)

// copyPlugin copies the test provider's binary, so that a test may spoil it.
func (r *rig) copyPlugin(dir string) string {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.tools.plugins, "pulumi-resource-files"))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(dir, "pulumi-resource-files")
	if err := os.WriteFile(path, raw, 0o700); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// grow makes another binary of a plugin that does the same.
func (r *rig) grow(path string) {
	r.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = os.Remove(path)
	if err := os.WriteFile(path, append(raw, "another build"...), 0o700); err != nil {
		r.t.Fatal(err)
	}
}

func only(t *testing.T, result *workspace.Result) workspace.Plugin {
	t.Helper()
	if result.Facts == nil || len(result.Facts.Plugins) != 1 || !strings.HasPrefix(result.Facts.Plugins[0].Digest, "sha256:") {
		t.Fatalf("want the one plugin with its digest, got %+v", result.Facts)
	}
	return result.Facts.Plugins[0]
}

// checkStale expects an Apply that found another plugin, named it, and changed nothing.
func checkStale(t *testing.T, got *workspace.Result, was, is string) {
	t.Helper()
	if got.Outcome != workspace.Stale || len(got.Mismatches) != 1 {
		t.Fatalf("want Stale for the plugins, got %s: %s", got.Outcome, got.Message)
	}
	m := got.Mismatches[0]
	if m.Field != "plugins" || !strings.HasPrefix(m.Was, was) || !strings.HasPrefix(m.Is, is) || m.Was == m.Is || !strings.Contains(got.Message, m.Is) {
		t.Errorf("mismatch %+v, message %q", m, got.Message)
	}
}

// TestAReplacedProviderIsNotRun: Pulumi's own plan lets another binary of a provider pass in silence.
func TestAReplacedProviderIsNotRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// where the provider lies, below the rig's folder, and the project's lines about it.
		dir, plugins string
	}{
		"of the project's own path": {dir: "mine", plugins: "plugins:\n  providers:\n  - {name: files, path: DIR/mine}\n"},
		"of Pulumi's cache":         {dir: "work/pulumi/plugins/resource-files-v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			binary := r.copyPlugin(r.file(tc.dir))
			text := strings.Replace(program(oneFile), "plugins:\n  providers:\n  - name: files\n    path: PLUGINS\n", tc.plugins, 1)
			commit := r.commit(map[string]string{"Pulumi.yaml": text})
			hello := config("content", "hello")
			preview := r.preview(commit, hello)
			plugin := only(t, preview)
			if plugin.Name != "files" || (plugin.Version == "0.1.0") != (tc.plugins == "") {
				t.Errorf("plugin %+v", plugin)
			}
			r.grow(binary)
			checkStale(t, r.run(r.apply(commit, preview, hello)), "files", "files")
			if got := r.content("a"); got != "(none)" {
				t.Fatalf("it was applied: %q", got)
			}
			again := r.preview(commit, hello)
			if only(t, again).Digest == plugin.Digest {
				t.Error("the other binary has the same digest")
			}
			applied := r.mustApply(commit, again, hello)
			if only(t, applied) != only(t, again) {
				t.Errorf("the apply found %+v, the preview %+v", applied.Facts.Plugins, again.Facts.Plugins)
			}
			// From here on the provider is in the state, and an unchanged plan names the same.
			if only(t, r.preview(commit, hello)) != only(t, again) {
				t.Error("the state's provider is another than the plan's")
			}
		})
	}
}

// TestANewerProviderIsNotRun: a program that pins no version gets the newest plugin there is.
func TestANewerProviderIsNotRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.copyPlugin(r.file("work/pulumi/plugins/resource-files-v0.1.0"))
	commit := r.commit(map[string]string{"Pulumi.yaml": "name: demo\nruntime: yaml\nresources:" + strings.ReplaceAll(oneFile, "${content}", "x")})
	preview := r.preview(commit)
	r.copyPlugin(r.file("work/pulumi/plugins/resource-files-v0.2.0"))
	checkStale(t, r.run(r.apply(commit, preview)), "files v0.1.0 sha256:", "files v0.2.0 sha256:")
}
