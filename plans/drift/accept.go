// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Acceptance is the list of what the state is to take over from the world. Its bytes are what an approval of it is bound to.
type Acceptance struct {
	// Digest is the report's: everything that is drifted is on the list, or the list is not valid.
	Digest string `json:"digest"`
	// Resources are what is accepted.
	Resources []Accepted `json:"resources"`
}

// Accepted is one resource on the list.
type Accepted struct {
	URN string `json:"urn"`
	// Gone says that it is deleted in the world, and forgotten by the state.
	Gone bool `json:"gone,omitempty"`
	// Sum is the digest of the values that are taken over.
	Sum string `json:"sum"`
}

// Accept returns the list for a report, as bytes; the same report makes the same ones. It fails when there is nothing to accept,
// and when something could not be read: nobody can accept what nobody has seen.
func (r Report) Accept() ([]byte, error) {
	list := Acceptance{Digest: r.Digest}
	for _, f := range r.Resources {
		switch {
		case f.sum != "":
			list.Resources = append(list.Resources, Accepted{URN: f.URN, Gone: f.Class == Deleted, Sum: f.sum})
		case f.Class == Unreadable, f.Class == Conflict:
			return nil, fmt.Errorf("accepting drift: what %s %q is now could not be read: %s", f.Type, f.Name, f.Text)
		}
	}
	if r.Unseen > 0 {
		return nil, fmt.Errorf("accepting drift: %s not looked at", plural(r.Unseen, "resource was", "resources were"))
	}
	if len(list.Resources) == 0 {
		return nil, errors.New("accepting drift: nothing is drifted")
	}
	return json.Marshal(list)
}

// ParseAcceptance reads a list.
func ParseAcceptance(text []byte) (Acceptance, error) {
	var list Acceptance
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return Acceptance{}, fmt.Errorf("reading the list of what is accepted: %w", err)
	}
	if list.Digest == "" || len(list.Resources) == 0 {
		return Acceptance{}, errors.New("reading the list of what is accepted: it is empty")
	}
	return list, nil
}
