// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	sdk "github.com/pulumi/pulumi/sdk/v3/go/common/workspace"

	"github.com/plangate/plangate/workspace"
)

const providerType = "pulumi:providers:"

// Plugins finds the provider plugins that an operation needs, without starting the CLI. The same state, plan and files give
// the same answer, so that what a preview used can be compared with what an apply would use.
type Plugins struct{ sums sums }

// need is a plugin that a provider asks for; any version will do when version is empty.
type need struct{ name, version string }

// Find tells which plugins the providers in a state and a plan need, and what Pulumi would run for them. own are those that
// the project brings.
func (p *Plugins) Find(t Target, deployment json.RawMessage, plan []byte, own []sdk.PluginOptions) []workspace.Plugin {
	seen := map[workspace.Plugin]bool{}
	for n := range needs(deployment, plan) {
		seen[p.find(t, n, own)] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b workspace.Plugin) int { return strings.Compare(PluginText(a), PluginText(b)) })
}

// PluginText shows a plugin in a line: "kubernetes v4.24.1 sha256:…".
func PluginText(p workspace.Plugin) string {
	text := p.Name
	if p.Version != "" {
		text += " v" + p.Version
	}
	if p.Digest == "" {
		return text + " (not found)"
	}
	return text + " " + p.Digest
}

// inputs are a provider's own inputs, as far as they name its plugin.
type inputs map[string]json.RawMessage

// needs lists the plugins of the providers in a state and in a plan. In a plan a provider has the difference to the state.
func needs(deployment json.RawMessage, plan []byte) map[need]bool {
	found := map[need]bool{}
	var state struct {
		Resources []struct {
			URN    string `json:"urn"`
			Type   string `json:"type"`
			Inputs inputs `json:"inputs"`
		} `json:"resources"`
	}
	_ = json.Unmarshal(deployment, &state) // Digest has read it before, and says when it cannot be read
	before := map[string]inputs{}
	for _, r := range state.Resources {
		if name, ok := strings.CutPrefix(r.Type, providerType); ok {
			before[r.URN] = r.Inputs
			r.Inputs.add(found, name)
		}
	}
	var planned struct {
		ResourcePlans map[string]struct {
			Goal struct {
				Type      string `json:"type"`
				InputDiff struct {
					Adds    inputs   `json:"adds"`
					Updates inputs   `json:"updates"`
					Deletes []string `json:"deletes"`
				} `json:"inputDiff"`
			} `json:"goal"`
		} `json:"resourcePlans"`
	}
	_ = json.Unmarshal(plan, &planned) // Pulumi says when it cannot be read
	for urn, r := range planned.ResourcePlans {
		name, ok := strings.CutPrefix(r.Goal.Type, providerType)
		if !ok {
			continue
		}
		after := inputs{}
		maps.Copy(after, before[urn])
		maps.Copy(after, r.Goal.InputDiff.Adds)
		maps.Copy(after, r.Goal.InputDiff.Updates)
		for _, key := range r.Goal.InputDiff.Deletes {
			delete(after, key)
		}
		after.add(found, name)
	}
	return found
}

// add adds the plugin of a provider. The provider of a parameterised package is another plugin than its type says.
func (in inputs) add(found map[need]bool, name string) {
	if name == "pulumi" {
		return // a part of the CLI
	}
	n := need{name: name, version: in.text("version")}
	var internal inputs
	if json.Unmarshal(in["__internal"], &internal) == nil {
		if plugin := internal.text("name"); plugin != "" {
			n.name = plugin
		}
		if len(internal["parameterization"]) > 0 {
			n.version = internal.text("version")
		}
	}
	found[n] = true
}

func (in inputs) text(key string) string {
	var text string
	_ = json.Unmarshal(in[key], &text) // anything else is none
	return text
}

// find is what Pulumi does to find a plugin: the project's own, then the PATH, then beside the CLI, then the cache.
func (p *Plugins) find(t Target, n need, own []sdk.PluginOptions) workspace.Plugin {
	out := workspace.Plugin{Name: n.name, Version: n.version}
	wanted := sdk.PluginDescriptor{Name: n.name, Kind: apitype.ResourcePlugin, Version: parse(n.version)}
	file := "pulumi-resource-" + n.name
	for _, o := range own {
		version := parse(o.Version)
		if o.Name != n.name || version != nil && wanted.Version != nil && !version.Equals(*wanted.Version) {
			continue
		}
		path := o.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(t.Dir, path)
		}
		out.Version, out.Digest = o.Version, p.digest(path, file)
		return out
	}
	if path := ambient(t.Env, file); path != "" {
		out.Version, out.Digest = "", p.sums.file(path)
		return out
	}
	match := p.cached(t, wanted)
	if match == nil {
		return out
	}
	if match.Version != nil {
		out.Version = match.Version.String()
	}
	dir := match.Path
	if _, sub := wanted.LocalName(); sub != "" {
		dir = filepath.Join(dir, sub)
	}
	out.Digest = p.digest(dir, match.Spec().File())
	return out
}

// cached picks from Pulumi's cache of plugins by Pulumi's own rules.
func (p *Plugins) cached(t Target, wanted sdk.PluginDescriptor) *sdk.PluginInfo {
	all, err := sdk.GetPluginsFromDir(filepath.Join(getenv(t.Env, "PULUMI_HOME"), "plugins"))
	if err != nil {
		return nil
	}
	switch {
	case wanted.Version == nil || getenv(t.Env, "PULUMI_ENABLE_LEGACY_PLUGIN_SEARCH") != "":
		return sdk.LegacySelectCompatiblePlugin(all, wanted)
	case len(wanted.Version.Pre) > 0 || len(wanted.Version.Build) > 0:
		return sdk.SelectPrereleasePlugin(all, wanted)
	default:
		return sdk.SelectCompatiblePlugin(all, wanted)
	}
}

// digest is that of a plugin's binary, or of the whole folder of a plugin that is run by a language host.
func (p *Plugins) digest(dir, file string) string {
	if sum := p.sums.file(filepath.Join(dir, file)); sum != "" {
		return sum
	}
	return p.sums.folder(dir)
}

func parse(version string) *semver.Version {
	if v, err := semver.ParseTolerant(version); err == nil {
		return &v
	}
	return nil
}

// ambient finds a plugin on the PATH, or beside the CLI.
func ambient(env []string, file string) string {
	dirs := filepath.SplitList(getenv(env, "PATH"))
	if ignored := getenv(env, "PULUMI_IGNORE_AMBIENT_PLUGINS"); ignored != "1" && !strings.EqualFold(ignored, "true") {
		for _, dir := range dirs {
			if path := filepath.Join(dir, file); filepath.IsAbs(path) && executable(path) {
				return path
			}
		}
	}
	if file != "pulumi-resource-pulumi-nodejs" && file != "pulumi-resource-pulumi-python" {
		return ""
	}
	for _, dir := range dirs {
		cli := filepath.Join(dir, "pulumi")
		if !executable(cli) {
			continue
		}
		target, err := filepath.EvalSymlinks(cli)
		if path := filepath.Join(filepath.Dir(target), file); err == nil && executable(path) {
			return path
		}
		return ""
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
