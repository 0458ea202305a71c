// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	rpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	fileType  = "files:index:File"
	tokenType = "files:index:Token"
)

type files struct {
	rpc.UnimplementedResourceProviderServer
	delay  time.Duration
	cancel chan struct{}
}

func newFiles() *files { return &files{cancel: make(chan struct{})} }

func unmarshal(s *structpb.Struct) (resource.PropertyMap, error) {
	m, err := plugin.UnmarshalProperties(s, plugin.MarshalOptions{KeepUnknowns: true, SkipNulls: true})
	if m == nil {
		m = resource.PropertyMap{}
	}
	return m, err
}

func marshal(m resource.PropertyMap) (*structpb.Struct, error) {
	return plugin.MarshalProperties(m, plugin.MarshalOptions{KeepUnknowns: true, SkipNulls: true})
}

func (f *files) Attach(context.Context, *rpc.PluginAttach) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// Cancel ends all waiting, so that a first interrupt of Pulumi ends soon and in order.
func (f *files) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	select {
	case <-f.cancel:
	default:
		close(f.cancel)
	}
	return &emptypb.Empty{}, nil
}

func (f *files) GetPluginInfo(context.Context, *emptypb.Empty) (*rpc.PluginInfo, error) {
	return &rpc.PluginInfo{Version: version}, nil
}

func (f *files) GetSchema(context.Context, *rpc.GetSchemaRequest) (*rpc.GetSchemaResponse, error) {
	return &rpc.GetSchemaResponse{Schema: strings.Replace(schema, `"version": "0.1.0"`, `"version": "`+version+`"`, 1)}, nil
}

func (f *files) CheckConfig(_ context.Context, r *rpc.CheckRequest) (*rpc.CheckResponse, error) {
	return &rpc.CheckResponse{Inputs: r.GetNews()}, nil
}

func (f *files) DiffConfig(context.Context, *rpc.DiffRequest) (*rpc.DiffResponse, error) {
	return &rpc.DiffResponse{}, nil
}

func (f *files) Configure(_ context.Context, r *rpc.ConfigureRequest) (*rpc.ConfigureResponse, error) {
	if d := r.GetArgs().GetFields()["delay"].GetStringValue(); d != "" {
		f.delay, _ = time.ParseDuration(d)
	}
	return &rpc.ConfigureResponse{SupportsPreview: true, AcceptResources: true}, nil
}

func typeOf(urn string) string { return string(resource.URN(urn).Type()) }

// outputs adds a File's computed properties to its inputs.
func outputs(in resource.PropertyMap) resource.PropertyMap {
	out := in.Copy()
	content, ok := in["content"]
	if !ok || !content.IsString() {
		out["sha256"] = resource.MakeComputed(resource.NewProperty(""))
		out["size"] = resource.MakeComputed(resource.NewProperty(""))
		return out
	}
	sum := sha256.Sum256([]byte(content.StringValue()))
	out["sha256"] = resource.NewProperty(hex.EncodeToString(sum[:]))
	out["size"] = resource.NewProperty(float64(len(content.StringValue())))
	return out
}

func (f *files) write(ctx context.Context, in resource.PropertyMap) error {
	if err := f.wait(ctx, in); err != nil {
		return err
	}
	content, path := in["content"].StringValue(), in["path"].StringValue()
	if content == "CRASH" {
		os.Exit(3) // as a provider that panics, in the middle of a step
	}
	if content == "FAIL" {
		return errors.New("files: told to fail")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: a test's files
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// wait is the delay of the file or the provider, and then the wait for a file.
func (f *files) wait(ctx context.Context, in resource.PropertyMap) error {
	delay := f.delay
	if d := in["delay"]; d.IsString() {
		var err error
		if delay, err = time.ParseDuration(d.StringValue()); err != nil {
			return err
		}
	}
	if err := f.sleep(ctx, delay); err != nil {
		return err
	}
	w := in["waitFor"]
	if !w.IsString() || w.StringValue() == "" {
		return nil
	}
	if err := os.WriteFile(w.StringValue()+".reached", nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(w.StringValue()); err == nil {
			return nil
		}
		if err := f.sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (f *files) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-f.cancel:
		return errors.New("files: cancelled")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *files) Create(ctx context.Context, r *rpc.CreateRequest) (*rpc.CreateResponse, error) {
	in, err := unmarshal(r.GetProperties())
	if err != nil {
		return nil, err
	}
	if typeOf(r.GetUrn()) == tokenType {
		return createToken(in, r.GetPreview())
	}
	id := ""
	if !r.GetPreview() {
		if err := f.write(ctx, in); err != nil {
			return nil, err
		}
		id = in["path"].StringValue()
	}
	properties, err := marshal(outputs(in))
	return &rpc.CreateResponse{Id: id, Properties: properties}, err
}

func createToken(in resource.PropertyMap, preview bool) (*rpc.CreateResponse, error) {
	out := in.Copy()
	if preview {
		out["value"] = resource.MakeComputed(resource.NewProperty(""))
		properties, err := marshal(out)
		return &rpc.CreateResponse{Properties: properties}, err
	}
	length := 8
	if l := in["length"]; l.IsNumber() {
		length = int(l.NumberValue())
	}
	value := make([]byte, length)
	_, _ = rand.Read(value)
	out["value"] = resource.NewProperty(hex.EncodeToString(value))
	properties, err := marshal(out)
	return &rpc.CreateResponse{Id: in["name"].StringValue(), Properties: properties}, err
}

func (f *files) Update(ctx context.Context, r *rpc.UpdateRequest) (*rpc.UpdateResponse, error) {
	in, err := unmarshal(r.GetNews())
	if err != nil {
		return nil, err
	}
	out := in
	if typeOf(r.GetUrn()) == fileType {
		out = outputs(in)
		if !r.GetPreview() {
			err = f.write(ctx, in)
		}
	}
	if err != nil {
		return nil, err
	}
	properties, err := marshal(out)
	return &rpc.UpdateResponse{Properties: properties}, err
}

// hold makes the reading of a file wait for as long as <file>.hold exists; <file>.hold.reached tells that it waits.
func (f *files) hold(ctx context.Context, path string) error {
	hold := path + ".hold"
	for {
		if _, err := os.Stat(hold); err != nil {
			return nil //nolint:nilerr // nothing holds it, or not any more
		}
		if err := os.WriteFile(hold+".reached", nil, 0o600); err != nil {
			return err
		}
		if err := f.sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (f *files) Read(ctx context.Context, r *rpc.ReadRequest) (*rpc.ReadResponse, error) {
	if typeOf(r.GetUrn()) != fileType {
		return &rpc.ReadResponse{Id: r.GetId(), Properties: r.GetProperties(), Inputs: r.GetInputs()}, nil
	}
	if err := f.hold(ctx, r.GetId()); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(r.GetId())
	if errors.Is(err, os.ErrNotExist) {
		return &rpc.ReadResponse{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading file: %w", err)
	}
	state, err := unmarshal(r.GetProperties())
	if err != nil {
		return nil, err
	}
	inputs, err := unmarshal(r.GetInputs())
	if err != nil {
		return nil, err
	}
	inputs["path"], inputs["content"] = resource.NewProperty(r.GetId()), resource.NewProperty(string(content))
	for k, v := range outputs(inputs) {
		state[k] = v
	}
	properties, err := marshal(state)
	if err != nil {
		return nil, err
	}
	ins, err := marshal(inputs)
	return &rpc.ReadResponse{Id: r.GetId(), Properties: properties, Inputs: ins}, err
}

func (f *files) Delete(ctx context.Context, r *rpc.DeleteRequest) (*emptypb.Empty, error) {
	if typeOf(r.GetUrn()) != fileType {
		return &emptypb.Empty{}, nil
	}
	if err := f.sleep(ctx, f.delay); err != nil {
		return nil, err
	}
	if err := os.Remove(r.GetId()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}
