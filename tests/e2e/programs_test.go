// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
)

// A resource of the file provider, as YAML of a program.
type file struct {
	name    string
	content string
	// delay is how long writing it takes; "": none.
	delay string
	// waitFor is a file that must exist before this one is written; it then has made waitFor+".reached".
	waitFor string
	// after names resources that come first.
	after []string
}

func (f file) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s:\n    type: files:File\n    properties:\n      path: /state/files/%s\n      content: %s\n", f.name, f.name, f.content)
	if f.delay != "" {
		fmt.Fprintf(&b, "      delay: %s\n", f.delay)
	}
	if f.waitFor != "" {
		fmt.Fprintf(&b, "      waitFor: %s\n", f.waitFor)
	}
	if len(f.after) > 0 {
		fmt.Fprintf(&b, "    options:\n      dependsOn:\n")
		for _, name := range f.after {
			fmt.Fprintf(&b, "        - ${%s}\n", name)
		}
	}
	return b.String()
}

// program is a Pulumi.yaml with these files, and a configuration key "greeting" with the value committed in Pulumi.dev.yaml.
func program(files ...file) map[string]string {
	var b strings.Builder
	b.WriteString("name: web\nruntime: yaml\nconfig:\n  greeting:\n    type: string\nresources:\n")
	for _, f := range files {
		b.WriteString(f.yaml())
	}
	b.WriteString("outputs:\n  greeting: ${greeting}\n")
	return map[string]string{"Pulumi.yaml": b.String(), "Pulumi.dev.yaml": "config:\n  web:greeting: hello from git\n"}
}
