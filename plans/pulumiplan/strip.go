// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Strip returns a plan file without what an apply does not use: the proposed outputs ("state") of every resource, the
// configuration and the time. That was tried with the real CLI: see tests/testdata/plans. Everything else is kept as it is,
// numbers to the last digit and fields that this version does not know included. The same file gives the same bytes.
func Strip(planFile []byte) ([]byte, error) {
	var plan map[string]json.RawMessage
	if err := decodeOne(planFile, &plan, true); err != nil {
		return nil, fmt.Errorf("stripping the plan file: %w", err)
	}
	delete(plan, "config")
	if err := within(plan, "manifest", func(manifest map[string]json.RawMessage) error {
		delete(manifest, "time")
		return nil
	}); err != nil {
		return nil, fmt.Errorf("stripping the plan file: %w", err)
	}
	if err := within(plan, "resourcePlans", func(resources map[string]json.RawMessage) error {
		for urn := range resources {
			if err := within(resources, urn, func(r map[string]json.RawMessage) error {
				delete(r, "state")
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("stripping the plan file: %w", err)
	}
	return encode(plan)
}

// within changes a member of an object that is an object itself.
func within(object map[string]json.RawMessage, key string, change func(map[string]json.RawMessage) error) error {
	raw, ok := object[key]
	if !ok {
		return nil
	}
	var member map[string]json.RawMessage
	if err := json.Unmarshal(raw, &member); err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	if member == nil {
		return nil
	}
	if err := change(member); err != nil {
		return err
	}
	text, err := encode(member)
	object[key] = text
	return err
}

// encode writes compact JSON with sorted keys.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
