// Command embed makes the two files that the provider's main package embeds
// but its module does not contain (upstream's Makefile generates them), and a
// `go build -overlay` file that puts them in their place.
//
//	embed MODULE_DIR VERSION OUT_DIR
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: embed MODULE_DIR VERSION OUT_DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(module, version, out string) error {
	mainPkg := filepath.Join(module, "cmd", "pulumi-resource-kubernetes")
	replace := map[string]string{}
	for _, name := range []string{"schema", "terraform-mapping"} {
		raw, err := os.ReadFile(filepath.Join(mainPkg, name+".json"))
		if err != nil {
			return err
		}
		if name == "schema" {
			if raw, err = setVersion(raw, version); err != nil {
				return fmt.Errorf("setting the version of the schema: %w", err)
			}
		}
		made := filepath.Join(out, name+"-embed.json")
		if err := os.WriteFile(made, raw, 0o644); err != nil {
			return err
		}
		replace[filepath.Join(mainPkg, name+"-embed.json")] = made
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "overlay.json"), overlay, 0o644)
}

// setVersion sets the schema's top-level version and leaves every other value
// byte for byte as it was.
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
