// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	rpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
)

// replaceKeys are the properties whose change replaces the resource.
var replaceKeys = map[string]bool{"path": true, "length": true, "keepers": true, "name": true}

func (f *files) Check(_ context.Context, r *rpc.CheckRequest) (*rpc.CheckResponse, error) {
	news, err := unmarshal(r.GetNews())
	if err != nil {
		return nil, err
	}
	olds, err := unmarshal(r.GetOlds())
	if err != nil {
		return nil, err
	}
	urn := resource.URN(r.GetUrn())
	if _, named := news["name"]; urn.Type() == tokenType && !named {
		if news["name"], err = tokenName(olds, urn, r.GetRandomSeed()); err != nil {
			return nil, err
		}
	}
	var failures []*rpc.CheckFailure
	if p := news["path"]; urn.Type() == fileType && p.IsString() && !filepath.IsAbs(p.StringValue()) {
		failures = append(failures, &rpc.CheckFailure{Property: "path", Reason: "must be absolute"})
	}
	inputs, err := marshal(news)
	if err != nil {
		return nil, err
	}
	return &rpc.CheckResponse{Inputs: inputs, Failures: failures}, nil
}

func tokenName(olds resource.PropertyMap, urn resource.URN, seed []byte) (resource.PropertyValue, error) {
	if old, ok := olds["name"]; ok {
		return old, nil
	}
	name, err := resource.NewUniqueName(seed, urn.Name()+"-", 7, 0, nil)
	return resource.NewProperty(name), err
}

func (f *files) Diff(_ context.Context, r *rpc.DiffRequest) (*rpc.DiffResponse, error) {
	olds, err := unmarshal(r.GetOldInputs())
	if err != nil {
		return nil, err
	}
	outs, err := unmarshal(r.GetOlds())
	if err != nil {
		return nil, err
	}
	news, err := unmarshal(r.GetNews())
	if err != nil {
		return nil, err
	}
	// The old state's values of the inputs, so that drift seen by a refresh counts.
	for k := range olds {
		if out, ok := outs[k]; ok {
			olds[k] = out
		}
	}
	return response(olds.Diff(news), r.GetIgnoreChanges()), nil
}

func response(d *resource.ObjectDiff, ignore []string) *rpc.DiffResponse {
	res := &rpc.DiffResponse{Changes: rpc.DiffResponse_DIFF_NONE, HasDetailedDiff: true, DetailedDiff: map[string]*rpc.PropertyDiff{}}
	if d == nil {
		return res
	}
	ignored := map[string]bool{}
	for _, key := range ignore {
		ignored[key] = true
	}
	add := func(key string, kind, replaceKind rpc.PropertyDiff_Kind) {
		if ignored[key] {
			return
		}
		if replaceKeys[key] {
			kind = replaceKind
			res.Replaces = append(res.Replaces, key)
		}
		res.Changes = rpc.DiffResponse_DIFF_SOME
		res.Diffs = append(res.Diffs, key)
		res.DetailedDiff[key] = &rpc.PropertyDiff{Kind: kind, InputDiff: true}
	}
	for k := range d.Adds {
		add(string(k), rpc.PropertyDiff_ADD, rpc.PropertyDiff_ADD_REPLACE)
	}
	for k := range d.Deletes {
		add(string(k), rpc.PropertyDiff_DELETE, rpc.PropertyDiff_DELETE_REPLACE)
	}
	for k := range d.Updates {
		add(string(k), rpc.PropertyDiff_UPDATE, rpc.PropertyDiff_UPDATE_REPLACE)
	}
	return res
}
