// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/plangate/plangate/workspace"
)

// PendingOf reads the operations that a deployment notes as begun and not ended. They are part of Digest.
func PendingOf(deployment json.RawMessage) ([]workspace.Pending, error) {
	if len(bytes.TrimSpace(deployment)) == 0 {
		return nil, nil
	}
	var d struct {
		Pending []struct {
			Type     string `json:"type"`
			Resource struct {
				URN string `json:"urn"`
			} `json:"resource"`
		} `json:"pending_operations"`
	}
	if err := json.Unmarshal(deployment, &d); err != nil {
		return nil, fmt.Errorf("decoding state: %w", err)
	}
	var out []workspace.Pending
	for _, p := range d.Pending {
		out = append(out, workspace.Pending{Operation: p.Type, URN: p.Resource.URN})
	}
	return out, nil
}
