// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client is the operator's side of the agent's API: plain values in and out, errors with predicates.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/agentpb"
)

const (
	chunkSize = 1 << 20
	// domain and the reasons are those of the server's refusals.
	domain         = "agent.plangate.dev"
	reasonBusy     = "BUSY"
	reasonWrongPod = "WRONG_POD"
)

// Kind is what an Event tells.
type Kind string

// The kinds of events.
const (
	// Progress: steps were done.
	Progress Kind = "Progress"
	// Log: a line for people.
	Log Kind = "Log"
	// Ended: it ended. Text is the outcome, where that is known.
	Ended Kind = "Ended"
)

// Event is a thing that an operation told.
type Event struct {
	Sequence int64
	Kind     Kind
	Text     string
	Steps    workspace.Steps
}

// Client talks to one agent. It is safe for concurrent use.
type Client struct {
	conn *grpc.ClientConn
	rpc  agentpb.AgentClient
}

// Dial prepares a connection to an agent; it connects with the first call, and again when it was lost. The configuration
// needs the operator's certificate, the CA as RootCAs, and the agent's name as ServerName.
func Dial(_ context.Context, address string, config *tls.Config) (*Client, error) {
	if config == nil || config.ServerName == "" || config.InsecureSkipVerify {
		return nil, fmt.Errorf("dialing agent %q: the agent's name is required, and it is verified", address)
	}
	config = config.Clone()
	config.MinVersion = tls.VersionTLS13
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, fmt.Errorf("dialing agent %q: %w", address, err)
	}
	return &Client{conn: conn, rpc: agentpb.NewAgentClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Info tells about the agent.
func (c *Client) Info(ctx context.Context) (workspace.Info, error) {
	r, err := c.rpc.Info(ctx, &agentpb.InfoRequest{})
	if err != nil {
		return workspace.Info{}, fmt.Errorf("asking agent: %w", err)
	}
	return workspace.Info{
		PodUID: r.GetPodUid(), Version: r.GetVersion(), PulumiVersion: r.GetPulumiVersion(),
		PulumiError: r.GetPulumiError(), Current: r.GetCurrent(),
	}, nil
}

// Start starts an operation. To start an id twice does nothing, also when the operation has ended.
func (c *Client) Start(ctx context.Context, op *workspace.Operation) error {
	if err := c.start(ctx, op); err != nil {
		return fmt.Errorf("starting operation %q: %w", op.ID, err)
	}
	return nil
}

func (c *Client) start(ctx context.Context, op *workspace.Operation) error {
	raw, err := json.Marshal(op)
	if err != nil {
		return err
	}
	stream, err := c.rpc.Start(ctx)
	if err != nil {
		return err
	}
	header := &agentpb.StartHeader{
		Id: op.ID, Type: string(op.Type), PodUid: op.PodUID, OperationJson: raw, PlanSize: int64(len(op.Plan)),
	}
	err = stream.Send(&agentpb.StartRequest{Part: &agentpb.StartRequest_Header{Header: header}})
	for rest := op.Plan; len(rest) > 0 && err == nil; {
		n := min(chunkSize, len(rest))
		err = stream.Send(&agentpb.StartRequest{Part: &agentpb.StartRequest_Plan{Plan: rest[:n]}})
		rest = rest[n:]
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// After an EOF the reason comes here.
	_, err = stream.CloseAndRecv()
	return err
}

var kinds = map[agentpb.Event_Kind]Kind{
	agentpb.Event_KIND_PROGRESS: Progress, agentpb.Event_KIND_LOG: Log, agentpb.Event_KIND_ENDED: Ended,
}

// Watch calls back for each event from a sequence number on. It returns nil after the event Ended.
func (c *Client) Watch(ctx context.Context, id string, from int64, on func(Event)) error {
	stream, err := c.rpc.Watch(ctx, &agentpb.WatchRequest{Id: id, FromSequence: from})
	if err != nil {
		return fmt.Errorf("watching operation %q: %w", id, err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("watching operation %q: %w", id, err)
		}
		on(Event{
			Sequence: e.GetSequence(), Kind: kinds[e.GetKind()], Text: e.GetText(),
			Steps: workspace.Steps{Done: int(e.GetStepsDone()), Total: int(e.GetStepsTotal())},
		})
		if e.GetKind() == agentpb.Event_KIND_ENDED {
			return nil
		}
	}
}

// Result returns how an operation stands: with Outcome Running when it has not ended.
func (c *Client) Result(ctx context.Context, id string) (*workspace.Result, error) {
	out, err := c.result(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("reading result of operation %q: %w", id, err)
	}
	return out, nil
}

func (c *Client) result(ctx context.Context, id string) (*workspace.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.rpc.Result(ctx, &agentpb.ResultRequest{Id: id})
	if err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	header := first.GetHeader()
	var out workspace.Result
	if err := json.Unmarshal(header.GetResultJson(), &out); err != nil {
		return nil, errors.New("the result is not valid JSON")
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		out.Plan = append(out.Plan, part.GetPlan()...)
		out.Events = append(out.Events, part.GetEvents()...)
		out.SecondPlan = append(out.SecondPlan, part.GetSecondPlan()...)
	}
	if int64(len(out.Plan)) != header.GetPlanSize() || int64(len(out.Events)) != header.GetEventsSize() || int64(len(out.SecondPlan)) != header.GetSecondPlanSize() {
		return nil, io.ErrUnexpectedEOF
	}
	return &out, nil
}

// Cancel asks an operation to stop in order, and does not wait for that.
func (c *Client) Cancel(ctx context.Context, id string) error {
	if _, err := c.rpc.Cancel(ctx, &agentpb.CancelRequest{Id: id}); err != nil {
		return fmt.Errorf("cancelling operation %q: %w", id, err)
	}
	return nil
}

// Look looks at the world. The sight may be pending: then the same is to be asked again, after a while.
func (c *Client) Look(ctx context.Context, podUID string, look *workspace.Look) (*workspace.Sight, error) {
	raw, err := json.Marshal(look)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", look.Type, err)
	}
	r, err := c.rpc.Look(ctx, &agentpb.LookRequest{PodUid: podUID, LookJson: raw})
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", look.Type, err)
	}
	if r.GetPending() {
		return &workspace.Sight{Pending: true}, nil
	}
	var sight workspace.Sight
	if err := json.Unmarshal(r.GetSightJson(), &sight); err != nil {
		return nil, fmt.Errorf("looking at %s: the answer is not valid JSON", look.Type)
	}
	return &sight, nil
}

// IsNotFound says that the agent knows no operation of that id.
func IsNotFound(err error) bool { return code(err) == codes.NotFound }

// IsBusy says that another operation runs.
func IsBusy(err error) bool { return reason(err) == reasonBusy }

// IsWrongPod says that the agent runs in another pod than the operation is meant for.
func IsWrongPod(err error) bool { return reason(err) == reasonWrongPod }

// IsUnavailable says that the agent cannot be reached now, or is stopping.
func IsUnavailable(err error) bool {
	return code(err) == codes.Unavailable || errors.Is(err, io.ErrUnexpectedEOF)
}

// IsUnimplemented says that the agent is of an earlier version, which cannot do this yet.
func IsUnimplemented(err error) bool { return code(err) == codes.Unimplemented }

// IsInvalid says that the agent will never take this operation.
func IsInvalid(err error) bool { return code(err) == codes.InvalidArgument }

func code(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	return status.Code(err)
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return info.GetReason()
		}
	}
	return ""
}
