// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pulumiplan reads what a preview leaves behind, Pulumi's plan file and its engine events, into a plans.Plan. It is
// the only package that knows their formats, and the only one of the core that imports Pulumi's modules.
//
// Both are needed. The plan file is what an apply is held to, but it tells no old values, no imports and no reads. The
// events tell those, but an apply does not look at them. So what a person is shown is made from the events and checked
// against the plan: a step that the plan holds is always shown, whether or not the events tell of it.
//
//	events ──read──▶ one record per URN ◀──merge── plan file
//	                        │
//	        classify (steps → operation) ── describe (old → new, masked) ──▶ plans.New
package pulumiplan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pulumi/pulumi/pkg/v3/resource/stack"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
)

// Decode reads a plan file and the events (apitype.EngineEvent, one JSON object a line) of the preview that saved it. It
// fails when either cannot be read, when the events are not those of a whole preview that succeeded, or when the two
// contradict each other. It never panics.
func Decode(planFile, events []byte) (plan plans.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			// Pulumi's own decoders assert on malformed input.
			plan, err = plans.Plan{}, fmt.Errorf("reading the plan: malformed: %v", r)
		}
	}()
	saved, err := readPlan(planFile)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("reading the plan file: %w", err)
	}
	records, err := readEvents(events)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("reading the events: %w", err)
	}
	for urn, p := range saved.ResourcePlans {
		if err := records.of(string(urn)).merge(p); err != nil {
			return plans.Plan{}, fmt.Errorf("comparing the plan file with the events: %w", err)
		}
	}
	var changes []v1alpha1.ResourceChange
	same := 0
	for _, urn := range records.urns() {
		records[urn].with = records.replacedWith(records[urn])
		found, unchanged := records[urn].changes()
		changes = append(changes, found...)
		same += unchanged
	}
	return plans.New(changes, same), nil
}

// readPlan reads a plan file twice: with Pulumi's own reader, so that what cannot be applied is refused now, and with the
// digits of numbers kept, to be shown.
func readPlan(planFile []byte) (*apitype.DeploymentPlanV1, error) {
	var strict apitype.DeploymentPlanV1
	if err := decodeOne(planFile, &strict, false); err != nil {
		return nil, err
	}
	if strict.Manifest.Version == "" && len(strict.ResourcePlans) == 0 {
		return nil, errors.New("it is not a plan of Pulumi")
	}
	if _, err := stack.DeserializePlan(strict, blind{}); err != nil {
		return nil, err
	}
	var shown apitype.DeploymentPlanV1
	if err := decodeOne(planFile, &shown, true); err != nil {
		return nil, err
	}
	return &shown, nil
}

func decodeOne(b []byte, into any, numbers bool) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if numbers {
		d.UseNumber()
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is data after its end")
	}
	return nil
}

// blind decrypts nothing: every secret is the text "[secret]".
type blind struct{}

var _ config.Decrypter = blind{}

// DecryptValue implements config.Decrypter. A plaintext is JSON.
func (blind) DecryptValue(context.Context, string) (string, error) { return `"[secret]"`, nil }

// BatchDecrypt implements config.Decrypter.
func (blind) BatchDecrypt(_ context.Context, ciphertexts []string) ([]string, error) {
	return slices.Repeat([]string{`"[secret]"`}, len(ciphertexts)), nil
}
