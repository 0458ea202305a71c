// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package stackconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/encoding"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	pulumi "github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

// ErrNoProject is wrapped when the folder has no valid Pulumi.yaml.
var ErrNoProject = errors.New("no valid Pulumi project")

// maxFile bounds the files that are read from a checkout.
const maxFile = 4 << 20

// Project is a Pulumi project in a checkout.
type Project struct {
	// Name is the project's name.
	Name string
	root *os.Root
	dir  string
	ext  string
	file *pulumi.Project
}

// LoadProject reads Pulumi.yaml in dir, which is relative to the checkout's root. Symbolic links that lead out of the
// checkout are refused.
func LoadProject(root *os.Root, dir string) (*Project, error) {
	for _, name := range []string{"Pulumi.yaml", "Pulumi.yml", "Pulumi.json"} {
		path := filepath.Join(dir, name)
		raw, err := readFile(root, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading project %q: %w: %w", path, ErrNoProject, err)
		}
		project, err := pulumi.LoadProjectBytes(raw, filepath.Join("/", path), marshaller(name))
		if err != nil {
			return nil, fmt.Errorf("reading project %q: %w: %w", path, ErrNoProject, err)
		}
		return &Project{Name: project.Name.String(), root: root, dir: dir, ext: filepath.Ext(name), file: project}, nil
	}
	return nil, fmt.Errorf("reading project %q: %w: there is no Pulumi.yaml", dir, ErrNoProject)
}

// NewProject is a project without a program and without committed files, for what needs the state alone.
func NewProject(name string) (*Project, error) {
	raw := []byte("name: " + strconv.Quote(name) + "\nruntime: yaml\n")
	project, err := pulumi.LoadProjectBytes(raw, "/Pulumi.yaml", marshaller("Pulumi.yaml"))
	if err != nil {
		return nil, fmt.Errorf("making project %q: %w: %w", name, ErrNoProject, err)
	}
	return &Project{Name: project.Name.String(), ext: ".yaml", file: project}, nil
}

// Providers are the provider plugins that the project brings.
func (p *Project) Providers() []pulumi.PluginOptions {
	if p == nil || p.file.Plugins == nil {
		return nil
	}
	return p.file.Plugins.Providers
}

// committed reads the committed stack file. There may be none.
func (p *Project) committed(stack string) (*pulumi.ProjectStack, error) {
	if p.root == nil {
		return &pulumi.ProjectStack{Config: config.Map{}}, nil
	}
	path := filepath.Join(p.dir, p.file.StackConfigDir, "Pulumi."+stack+p.ext)
	raw, err := readFile(p.root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return &pulumi.ProjectStack{Config: config.Map{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading stack file %q: %w: %w", path, ErrInvalid, err)
	}
	out, err := pulumi.LoadProjectStackBytes(nil, p.file, raw, path, marshaller(path))
	if err != nil {
		return nil, fmt.Errorf("reading stack file %q: %w: %w", path, ErrInvalid, err)
	}
	return out, nil
}

// key parses a key; without a namespace it is the project's. Dots and brackets are a part of the name.
func (p *Project) key(name string) (config.Key, error) {
	full := name
	if !strings.Contains(name, ":") {
		full = p.Name + ":" + name
	}
	key, err := config.ParseKey(full)
	if err != nil || name == "" || key.Name() == "" || key.Namespace() == "" {
		return config.Key{}, fmt.Errorf("reading configuration %q: %w: it is no key", name, ErrInvalid)
	}
	return key, nil
}

func marshaller(name string) encoding.Marshaler {
	if filepath.Ext(name) == ".json" {
		return encoding.JSON
	}
	return encoding.YAML
}

func readFile(root *os.Root, path string) ([]byte, error) {
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, errors.New("it is no regular file of a sensible size")
	}
	raw, err := root.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimPrefix(string(raw), "\ufeff")), nil
}

// number keeps a whole number whole.
func number(raw string) (config.Value, error) {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil && n >= math.MinInt && n <= math.MaxInt {
		return config.NewTypedValue(raw, config.TypeInt), nil
	}
	return config.NewTypedValue(raw, config.TypeFloat), nil
}
