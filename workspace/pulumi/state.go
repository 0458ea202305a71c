// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

var errNotAFile = errors.New("not a plain file backend")

// ShortName is the last part of a stack's name.
func ShortName(stack string) string { return stack[strings.LastIndex(stack, "/")+1:] }

// ProjectOf is the project that a stack's name gives, or else the given one.
func ProjectOf(stack, project string) string {
	parts := strings.Split(stack, "/")
	if len(parts) > 1 {
		return parts[len(parts)-2]
	}
	return project
}

func getenv(env []string, key string) string {
	value := ""
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			value = v // the last one wins, as in exec
		}
	}
	return value
}

// exportFile reads the deployment of a stack in a file backend of today's layout: version 1, plain JSON, one file a stack.
func exportFile(t Target) (json.RawMessage, error) {
	root, project, err := fileLayout(t)
	if err != nil {
		return nil, err
	}
	base := filepath.Join(root, ".pulumi", "stacks", project, ShortName(t.Stack)+".json")
	for _, compressed := range []string{".gz", ".zst"} {
		if _, err := os.Lstat(base + compressed); err == nil {
			return nil, errNotAFile
		}
	}
	return readCheckpoint(base)
}

// fileLayout finds the folder of a file backend of today's layout, and the stack's project in it.
func fileLayout(t Target) (root, project string, err error) {
	if root, err = fileBackend(getenv(t.Env, "PULUMI_BACKEND_URL")); err != nil {
		return "", "", err
	}
	meta, err := os.ReadFile(filepath.Join(root, ".pulumi", "meta.yaml")) //nolint:gosec // G304: the backend that the operation names
	if err != nil {
		return "", "", errNotAFile
	}
	var layout struct {
		Version int `json:"version"`
	}
	if yaml.Unmarshal(meta, &layout) != nil || layout.Version != 1 {
		return "", "", errNotAFile
	}
	project = ProjectOf(t.Stack, t.Project)
	if project == "" || !filepath.IsLocal(project) || !filepath.IsLocal(ShortName(t.Stack)) {
		return "", "", errNotAFile
	}
	return root, project, nil
}

func readCheckpoint(path string) (json.RawMessage, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // G304: below the backend's folder
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoStack
	}
	if err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	var file struct {
		Version    int      `json:"version"`
		Features   []string `json:"features"`
		Checkpoint struct {
			Latest json.RawMessage `json:"latest"`
		} `json:"checkpoint"`
	}
	if json.Unmarshal(raw, &file) != nil || file.Version != 3 || len(file.Features) > 0 {
		return nil, errNotAFile
	}
	if len(file.Checkpoint.Latest) == 0 {
		return json.RawMessage("{}"), nil
	}
	return file.Checkpoint.Latest, nil
}

func fileBackend(backend string) (string, error) {
	rest, ok := strings.CutPrefix(backend, "file://")
	if !ok {
		return "", errNotAFile
	}
	path, err := url.PathUnescape(rest)
	if err != nil || !filepath.IsAbs(path) || strings.Contains(rest, "?") {
		return "", errNotAFile
	}
	return path, nil
}

// rootOutputs reads the stack's outputs out of its deployment, as `pulumi stack output --json` prints them, except for secret
// ones: these are ciphertexts.
func rootOutputs(deployment json.RawMessage) (outputs map[string]json.RawMessage, secret bool, err error) {
	var d struct {
		Resources []struct {
			Type    string                     `json:"type"`
			Outputs map[string]json.RawMessage `json:"outputs"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(deployment, &d); err != nil {
		return nil, false, fmt.Errorf("decoding state: %w", err)
	}
	outputs = map[string]json.RawMessage{}
	for _, r := range d.Resources {
		if r.Type != "pulumi:pulumi:Stack" {
			continue
		}
		for name, value := range r.Outputs {
			outputs[name] = plainJSON(value)
			secret = secret || bytes.Contains(value, []byte(secretSignature))
		}
	}
	return outputs, secret, nil
}

// plainJSON writes a value the one way in which values can be compared and searched: compact, and no character escaped that
// need not be.
func plainJSON(value json.RawMessage) json.RawMessage {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return value
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil {
		return value
	}
	return bytes.TrimSpace(out.Bytes())
}
