// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schema makes the two files that the provider embeds from those that
// its module has, and a `go build -overlay` file that puts them in their place,
// so that nothing is written to the checkout.
//
//	schema MODULE_DIR VERSION PROVIDER_DIR OUT_DIR
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: schema MODULE_DIR VERSION PROVIDER_DIR OUT_DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func run(module, version, provider, out string) error {
	replace := map[string]string{}
	for _, name := range []string{"schema.json", "terraform-mapping.json"} {
		content, err := os.ReadFile(filepath.Join(module, "cmd", "pulumi-resource-kubernetes", name))
		if err != nil {
			return err
		}
		if name == "schema.json" {
			if content, err = setVersion(content, version); err != nil {
				return fmt.Errorf("setting the version of the schema: %w", err)
			}
		}
		made := filepath.Join(out, name)
		if err := os.WriteFile(made, content, 0o644); err != nil {
			return err
		}
		replace[filepath.Join(provider, name)] = made
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "overlay.json"), overlay, 0o644)
}

// setVersion sets the schema's top-level version and leaves every other value
// as it was.
func setVersion(schema []byte, version string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(schema, &fields); err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(version)
	if err != nil {
		return nil, err
	}
	fields["version"] = quoted
	return json.Marshal(fields)
}
