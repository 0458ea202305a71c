// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plangate/plangate/api/v1alpha1"
)

// Facts are what an operation found in the workspace pod. The fields are those of workspace.Facts.
type Facts struct {
	Commit        string
	Tree          string
	StateDigest   string
	DriftDigest   string
	PulumiVersion string
	Plugins       []v1alpha1.Plugin
}

// BindingInput is what a Binding is made of.
type BindingInput struct {
	// Operation is the plan's. A Destroy is tied to no source.
	Operation v1alpha1.PlanOperation
	// Repository and Directory are where the program lies.
	Repository, Directory string
	// ConfigDigest is ConfigDigest's result for the same preview, ConfigEntries ConfigEntries'.
	ConfigDigest  string
	ConfigEntries []v1alpha1.ConfigEntry
	// WorkspaceImage is the id of the image that Pulumi ran from.
	WorkspaceImage string
	// Refresh is the flag of preview and apply.
	Refresh bool
	// Targets and TargetDependents are flags of preview and apply, too.
	Targets          []string
	TargetDependents bool
	// Facts are what the preview found in the pod.
	Facts Facts
}

var (
	digestPattern = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)
	objectPattern = regexp.MustCompile(`\A(?:[0-9a-f]{40}|[0-9a-f]{64})\z`)
	entryPattern  = regexp.MustCompile(`\A[0-9a-f]{16}\z`)
)

const (
	// MaxPlugins is the most plugins that a Binding may name.
	MaxPlugins = 100
	// MaxTargets is the most targets that it may name.
	MaxTargets = 50
	maxTarget  = 512
)

// NewBinding returns everything, beside the plan file, that an approval is tied to. It fails when a fact is missing or is
// not what it should be: an approval must not be tied to nothing.
func NewBinding(in BindingInput) (v1alpha1.Binding, error) {
	b := v1alpha1.Binding{
		Revision:       in.Facts.Commit,
		Repository:     in.Repository,
		Directory:      in.Directory,
		Tree:           in.Facts.Tree,
		ConfigDigest:   in.ConfigDigest,
		StateDigest:    in.Facts.StateDigest,
		DriftDigest:    in.Facts.DriftDigest,
		Refresh:        in.Refresh,
		Targets:        in.Targets,
		ConfigEntries:  in.ConfigEntries,
		PulumiVersion:  in.Facts.PulumiVersion,
		Plugins:        in.Facts.Plugins,
		WorkspaceImage: in.WorkspaceImage,

		TargetDependents: in.TargetDependents,
	}
	if in.Operation == v1alpha1.PlanOperationDestroy {
		b.Revision, b.Repository, b.Directory, b.Tree = "", "", "", ""
		b.Refresh, b.DriftDigest, b.Targets, b.TargetDependents = false, "", nil, false
	}
	return b, checkBinding(in.Operation, b)
}

// checkSourceless refuses what a Destroy is not tied to.
func checkSourceless(b v1alpha1.Binding) error {
	var named []string
	for name, is := range map[string]bool{
		"revision": b.Revision != "", "repository": b.Repository != "", "directory": b.Directory != "", "tree": b.Tree != "",
		"refresh": b.Refresh, "driftDigest": b.DriftDigest != "", "targets": len(b.Targets) > 0, "targetDependents": b.TargetDependents,
	} {
		if is {
			named = append(named, name)
		}
	}
	if len(named) == 0 {
		return nil
	}
	slices.Sort(named)
	return fmt.Errorf("binding: a destroy takes all from the state, and is not tied to: %s", strings.Join(named, ", "))
}

// checkBinding tells what is missing in a binding for an operation. A Destroy is tied to no source: one that names a source
// says something that nobody would compare.
func checkBinding(operation v1alpha1.PlanOperation, b v1alpha1.Binding) error {
	var errs []error
	require := func(field, value string, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("binding: %s is missing or malformed: %q", field, value))
		}
	}
	if operation == v1alpha1.PlanOperationDestroy {
		errs = append(errs, checkSourceless(b))
	} else {
		require("revision", b.Revision, objectPattern.MatchString(b.Revision))
		require("repository", b.Repository, b.Repository != "" && utf8.ValidString(b.Repository))
		require("directory", b.Directory, utf8.ValidString(b.Directory))
		require("tree", b.Tree, objectPattern.MatchString(b.Tree))
	}
	require("configDigest", b.ConfigDigest, digestPattern.MatchString(b.ConfigDigest))
	require("stateDigest", b.StateDigest, digestPattern.MatchString(b.StateDigest))
	require("driftDigest", b.DriftDigest, validDrift(operation, b))
	require("pulumiVersion", b.PulumiVersion, b.PulumiVersion != "" && len(b.PulumiVersion) <= 64)
	require("workspaceImage", b.WorkspaceImage, b.WorkspaceImage != "" && len(b.WorkspaceImage) <= 1024 && utf8.ValidString(b.WorkspaceImage))
	return errors.Join(append(errs, checkLists(b))...)
}

// validDrift tells whether the drift is bound as the operation needs it: what is taken over from the world must have been seen.
func validDrift(operation v1alpha1.PlanOperation, b v1alpha1.Binding) bool {
	if operation == v1alpha1.PlanOperationRefresh && !b.Refresh {
		return false
	}
	return digestPattern.MatchString(b.DriftDigest) || b.DriftDigest == "" && operation != v1alpha1.PlanOperationRefresh
}

func checkLists(b v1alpha1.Binding) error {
	for _, e := range b.ConfigEntries {
		if e.Name == "" || !utf8.ValidString(e.Name) || !entryPattern.MatchString(e.Digest) {
			return fmt.Errorf("binding: configEntries: malformed: %q", e.Name)
		}
	}
	for _, p := range b.Plugins {
		if p.Name == "" || !utf8.ValidString(p.Name+p.Version) || p.Digest != "" && !digestPattern.MatchString(p.Digest) {
			return fmt.Errorf("binding: plugins: malformed: %q", PluginText(p))
		}
	}
	if len(b.Plugins) > MaxPlugins || len(b.ConfigEntries) > MaxConfigEntries {
		return fmt.Errorf("binding: %d plugins and %d entries of the configuration are too many", len(b.Plugins), len(b.ConfigEntries))
	}
	return checkTargets(b)
}

func checkTargets(b v1alpha1.Binding) error {
	for _, t := range b.Targets {
		if t == "" || len(t) > maxTarget || !utf8.ValidString(t) {
			return fmt.Errorf("binding: targets: malformed: %q", t)
		}
	}
	if len(b.Targets) > MaxTargets {
		return fmt.Errorf("binding: %d targets are too many", len(b.Targets))
	}
	return nil
}
