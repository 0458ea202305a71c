// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/agentpb"
	"github.com/plangate/plangate/workspace/journal"
)

// Domain is the domain of the ErrorInfo details; the reasons tell the refusals of the agent apart.
const (
	Domain          = "agent.plangate.dev"
	ReasonBusy      = "BUSY"
	ReasonWrongPod  = "WRONG_POD"
	ReasonStopping  = "STOPPING"
	ReasonUnknownID = "UNKNOWN_ID"
)

const (
	// chunkSize is how much of a plan or of events goes into a message.
	chunkSize = 1 << 20
	// maxPlan bounds a plan that is sent.
	maxPlan = 512 << 20
)

var errStopping = refusal(codes.Unavailable, ReasonStopping, "the agent is stopping")

func busyError(id string) error {
	return refusal(codes.FailedPrecondition, ReasonBusy, fmt.Sprintf("busy with %s", id))
}

func refusal(code codes.Code, reason, text string) error {
	s := status.New(code, text)
	if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain}); err == nil {
		s = detailed
	}
	return s.Err()
}

// Info tells about the agent.
func (s *Server) Info(ctx context.Context, _ *agentpb.InfoRequest) (*agentpb.InfoResponse, error) {
	out := &agentpb.InfoResponse{PodUid: s.config.PodUID, Version: s.config.Version}
	version, err := s.driver.Version(ctx)
	if err != nil {
		out.PulumiError = cut(err.Error(), 1000)
	}
	out.PulumiVersion = version
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		out.Current = s.current.id
	}
	return out, nil
}

// Start takes an operation and runs it beside the call.
func (s *Server) Start(stream grpc.ClientStreamingServer[agentpb.StartRequest, agentpb.StartResponse]) error {
	op, err := receive(stream)
	if err != nil {
		return err
	}
	if op.PodUID != s.config.PodUID {
		return refusal(codes.FailedPrecondition, ReasonWrongPod, fmt.Sprintf("this is pod %q, not %q", s.config.PodUID, op.PodUID))
	}
	if err := validate(op); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	o, err := s.begin(stream.Context(), op)
	if _, isStatus := status.FromError(err); err != nil && !isStatus {
		return status.Error(codes.Internal, err.Error())
	}
	if err != nil {
		return err
	}
	if o != nil {
		go s.run(o.ctx, o, op)
	}
	return stream.SendAndClose(&agentpb.StartResponse{})
}

func receive(stream grpc.ClientStreamingServer[agentpb.StartRequest, agentpb.StartResponse]) (*workspace.Operation, error) {
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	header := first.GetHeader()
	if header == nil {
		return nil, status.Error(codes.InvalidArgument, "the first message is not the header")
	}
	var op workspace.Operation
	if err := json.Unmarshal(header.GetOperationJson(), &op); err != nil {
		// Not the error's text: it may quote a secret.
		return nil, status.Error(codes.InvalidArgument, "the operation is not valid JSON")
	}
	op.ID, op.Type, op.PodUID = header.GetId(), workspace.OperationType(header.GetType()), header.GetPodUid()
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		op.Plan = append(op.Plan, part.GetPlan()...)
		if len(op.Plan) > maxPlan {
			return nil, status.Error(codes.InvalidArgument, "the plan is too large")
		}
	}
	if int64(len(op.Plan)) != header.GetPlanSize() {
		return nil, status.Error(codes.InvalidArgument, "the plan is cut off")
	}
	return &op, nil
}

// stackPattern is up to three names with slashes between them.
var stackPattern = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*(/[A-Za-z0-9_.][A-Za-z0-9_.-]*){0,2}$`)

func validate(op *workspace.Operation) error {
	switch {
	case op.ID == "" || len(op.ID) > 256:
		return errors.New("the id is empty or too long")
	case !op.Type.Mutates() && !op.Type.Previews():
		return fmt.Errorf("the type %q is unknown", op.Type)
	case !stackPattern.MatchString(op.Stack):
		return errors.New("the stack's name is missing or wrong")
	case op.Type.Mutates():
		return validateChange(op)
	}
	return nil
}

func validateChange(op *workspace.Operation) error {
	switch {
	case op.Expect == nil || op.PlanDigest == "" || len(op.Plan) == 0:
		return fmt.Errorf("an operation of type %s needs expectations, a plan and its digest", op.Type)
	case op.Type == workspace.Accept && (op.Expect.DriftDigest == "" || !op.Options.Refresh):
		return errors.New("an Accept needs to know what was found in the world, and to look at it")
	default:
		return nil
	}
}

// Watch sends events until the operation ends.
func (s *Server) Watch(r *agentpb.WatchRequest, stream grpc.ServerStreamingServer[agentpb.Event]) error {
	o := s.find(r.GetId())
	if o == nil {
		record, err := s.record(r.GetId())
		if err != nil {
			return err
		}
		return stream.Send(&agentpb.Event{
			Sequence: max(r.GetFromSequence(), 1), Kind: agentpb.Event_KIND_ENDED, Text: string(record.Result.Outcome),
		})
	}
	from := r.GetFromSequence()
	for {
		events, more := o.since(from)
		for _, e := range events {
			if err := stream.Send(e); err != nil {
				return err
			}
			if e.GetKind() == agentpb.Event_KIND_ENDED {
				return nil
			}
			from = e.GetSequence() + 1
		}
		select {
		case <-more:
		case <-o.done:
			if events, _ := o.since(from); len(events) == 0 {
				// It asked for what is after the end.
				return stream.Send(&agentpb.Event{Sequence: max(from, 1), Kind: agentpb.Event_KIND_ENDED})
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *Server) record(id string) (*journal.Record, error) {
	record, err := s.journal.Get(id)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, refusal(codes.NotFound, ReasonUnknownID, fmt.Sprintf("there is no operation %q", id))
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return record, nil
}

// Result sends how an operation stands.
func (s *Server) Result(r *agentpb.ResultRequest, stream grpc.ServerStreamingServer[agentpb.ResultResponse]) error {
	record, err := s.record(r.GetId())
	if err != nil {
		return err
	}
	o := s.find(r.GetId())
	result := record.Result
	if result == nil {
		if o == nil {
			return status.Error(codes.Internal, "the operation neither runs nor has ended")
		}
		result = o.running()
	}
	if o != nil && result.OutputsLost {
		<-o.done // a moment: the journal has the end already
		result.Outputs, result.OutputsLost = o.outputs, false
	}
	return sendResult(result, stream)
}

func sendResult(result *workspace.Result, stream grpc.ServerStreamingServer[agentpb.ResultResponse]) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return status.Error(codes.Internal, "the result cannot be encoded")
	}
	header := &agentpb.ResultHeader{
		ResultJson: raw, PlanSize: int64(len(result.Plan)), EventsSize: int64(len(result.Events)), SecondPlanSize: int64(len(result.SecondPlan)),
	}
	if err := stream.Send(&agentpb.ResultResponse{Part: &agentpb.ResultResponse_Header{Header: header}}); err != nil {
		return err
	}
	for _, part := range []struct {
		data []byte
		as   func([]byte) *agentpb.ResultResponse
	}{
		{result.Plan, func(b []byte) *agentpb.ResultResponse {
			return &agentpb.ResultResponse{Part: &agentpb.ResultResponse_Plan{Plan: b}}
		}},
		{result.Events, func(b []byte) *agentpb.ResultResponse {
			return &agentpb.ResultResponse{Part: &agentpb.ResultResponse_Events{Events: b}}
		}},
		{result.SecondPlan, func(b []byte) *agentpb.ResultResponse {
			return &agentpb.ResultResponse{Part: &agentpb.ResultResponse_SecondPlan{SecondPlan: b}}
		}},
	} {
		for rest := part.data; len(rest) > 0; {
			n := min(chunkSize, len(rest))
			if err := stream.Send(part.as(rest[:n])); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	return nil
}

// Cancel asks an operation to stop.
func (s *Server) Cancel(_ context.Context, r *agentpb.CancelRequest) (*agentpb.CancelResponse, error) {
	if _, err := s.record(r.GetId()); err != nil {
		return nil, err
	}
	if o := s.find(r.GetId()); o != nil {
		o.cancel()
	}
	return &agentpb.CancelResponse{}, nil
}
