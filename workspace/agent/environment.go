// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/pulumi"
)

// keptLogs is how long Pulumi's own logs are kept; it writes one for each call.
const keptLogs = 50

// environment makes the environments of the processes that the agent starts.
type environment struct {
	dir    string
	parent []string
}

func newEnvironment(dir string, parent []string) environment {
	var kept []string
	for _, kv := range parent {
		if !strings.HasPrefix(kv, "PLANGATE_") {
			kept = append(kept, kv)
		}
	}
	return environment{dir: dir, parent: kept}
}

func (e environment) marker() string     { return pulumi.Marker + "=" + e.dir }
func (e environment) home() string       { return filepath.Join(e.dir, "home") }
func (e environment) pulumiHome() string { return filepath.Join(e.dir, "pulumi") }
func (e environment) scratch() string    { return filepath.Join(e.dir, "operations") }

// base is for calls that are for no operation.
func (e environment) base() []string {
	return append(append([]string(nil), e.parent...), "HOME="+e.home(), "PULUMI_HOME="+e.pulumiHome(),
		"PULUMI_SKIP_UPDATE_CHECK=true", "NO_COLOR=1")
}

// of is for an operation. In a list of variables the last one wins.
func (e environment) of(op *workspace.Operation) []string {
	env := append(e.base(), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true")
	keys := make([]string, 0, len(op.Env))
	for key := range op.Env {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		env = append(env, key+"="+op.Env[key])
	}
	if op.Backend != "" {
		env = append(env, "PULUMI_BACKEND_URL="+op.Backend)
	}
	return append(env, "PULUMI_HOME="+e.pulumiHome(), e.marker())
}

// prepare makes the folders, removes what operations left, and makes the image's plugins known.
func (e environment) prepare(pluginDirs []string) error {
	if err := os.RemoveAll(e.scratch()); err != nil {
		return fmt.Errorf("removing old operations: %w", err)
	}
	plugins := filepath.Join(e.pulumiHome(), "plugins")
	for _, dir := range []string{e.home(), plugins, e.scratch()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making folder %q: %w", dir, err)
		}
	}
	for _, from := range pluginDirs {
		entries, err := os.ReadDir(from)
		if err != nil {
			continue // most images have only some of the usual folders, or none
		}
		for _, entry := range entries {
			if err := linkPlugin(filepath.Join(from, entry.Name()), filepath.Join(plugins, entry.Name())); err != nil {
				return fmt.Errorf("making plugin %q known: %w", entry.Name(), err)
			}
		}
	}
	return nil
}

// linkPlugin makes a folder of links to a plugin's files: Pulumi does not see a plugin whose folder itself is a link. Links of
// an earlier image that lead nowhere are replaced.
func linkPlugin(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return nil //nolint:nilerr // not a folder, so not a plugin
	}
	if info, err := os.Lstat(to); err == nil && !info.IsDir() {
		if err := os.Remove(to); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		link := filepath.Join(to, f.Name())
		if _, err := os.Stat(link); err == nil {
			continue
		}
		if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.Symlink(filepath.Join(from, f.Name()), link); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes all but the newest of Pulumi's own logs.
func (e environment) tidy() {
	dir := filepath.Join(e.pulumiHome(), "logs")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= keptLogs {
		return
	}
	age := func(i int) time.Time {
		info, err := entries[i].Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	sort.Slice(entries, func(a, b int) bool { return age(a).Before(age(b)) })
	for _, entry := range entries[:len(entries)-keptLogs] {
		_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
	}
}

// secretsOf are the values that must be masked.
func secretsOf(op *workspace.Operation) []string {
	plain := map[string]bool{}
	for _, name := range op.PlainEnv {
		plain[name] = true
	}
	var out []string
	for name, value := range op.Env {
		if !plain[name] {
			out = append(out, value)
		}
	}
	for _, value := range op.SecretConfig {
		out = append(out, value)
	}
	if a := op.Source.Auth; a != nil {
		out = append(out, a.Password, a.SSHPrivateKey)
	}
	if u, err := url.Parse(op.Source.URL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		out = append(out, password, u.User.Username())
	}
	return out
}

// withoutUser keeps credentials out of the journal.
func withoutUser(backend string) string {
	u, err := url.Parse(backend)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// cut keeps the beginning of a text, end keeps its end; both at whole characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

func end(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-limit:], "")
}
