// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plangate/plangate/plans/redact"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/agentpb"
	"github.com/plangate/plangate/workspace/checkout"
	"github.com/plangate/plangate/workspace/pulumi"
	"github.com/plangate/plangate/workspace/stackconfig"
)

const (
	// lookPatience is how long a call waits for a look; it goes on beside the call.
	lookPatience = 3 * time.Second
	// lookTimeout bounds a look: the fetch of a large repository, most of all.
	lookTimeout = 10 * time.Minute
	// lookKept is how long an answer waits for somebody who asks again.
	lookKept = time.Minute
)

// looks are those that are under way, by the digest of their question.
type looks struct {
	mu    sync.Mutex
	under map[[sha256.Size]byte]*looking
}

// looking is one look.
type looking struct {
	done  chan struct{}
	sight workspace.Sight
	ended time.Time
}

// Look answers at once, or says that it is pending.
func (s *Server) Look(ctx context.Context, r *agentpb.LookRequest) (*agentpb.LookResponse, error) {
	if r.GetPodUid() != s.config.PodUID {
		return nil, refusal(codes.FailedPrecondition, ReasonWrongPod, fmt.Sprintf("this is pod %q, not %q", s.config.PodUID, r.GetPodUid()))
	}
	var look workspace.Look
	if err := json.Unmarshal(r.GetLookJson(), &look); err != nil {
		// Not the error's text: it may quote a secret.
		return nil, status.Error(codes.InvalidArgument, "the look is not valid JSON")
	}
	if err := s.mayLook(&look); err != nil {
		return nil, err
	}
	question := sha256.Sum256(r.GetLookJson())
	l := s.looking(question, &look)
	select {
	case <-l.done:
	case <-time.After(lookPatience):
		return &agentpb.LookResponse{Pending: true}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	s.looks.mu.Lock()
	delete(s.looks.under, question) // the next one who asks wants to know how it is then
	s.looks.mu.Unlock()
	raw, err := json.Marshal(l.sight)
	if err != nil {
		return nil, status.Error(codes.Internal, "the sight cannot be encoded")
	}
	return &agentpb.LookResponse{SightJson: raw}, nil
}

// mayLook refuses what makes no sense. While an operation runs the state is in between.
func (s *Server) mayLook(look *workspace.Look) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case look.Type != workspace.LookSource && look.Type != workspace.LookState:
		return status.Error(codes.InvalidArgument, fmt.Sprintf("the look %q is unknown", look.Type))
	case look.Type == workspace.LookState && !stackPattern.MatchString(look.Operation.Stack):
		return status.Error(codes.InvalidArgument, "the stack's name is missing or wrong")
	case s.stopping:
		return errStopping
	case look.Type == workspace.LookState && s.current != nil && s.current.kind != workspace.DriftCheck:
		return busyError(s.current.id)
	default:
		return nil
	}
}

// looking finds the look that is under way, or begins it. It forgets answers that nobody came back for.
func (s *Server) looking(question [sha256.Size]byte, look *workspace.Look) *looking {
	s.looks.mu.Lock()
	defer s.looks.mu.Unlock()
	for key, old := range s.looks.under {
		if !old.ended.IsZero() && s.config.Now().Sub(old.ended) > lookKept {
			delete(s.looks.under, key)
		}
	}
	if l, ok := s.looks.under[question]; ok {
		return l
	}
	l := &looking{done: make(chan struct{})}
	if s.looks.under == nil {
		s.looks.under = map[[sha256.Size]byte]*looking{}
	}
	s.looks.under[question] = l
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		sight := s.see(ctx, look)
		s.looks.mu.Lock()
		l.sight, l.ended = sight, s.config.Now()
		s.looks.mu.Unlock()
		close(l.done)
	}()
	return l
}

// see looks. Whatever happens, it returns a sight.
func (s *Server) see(ctx context.Context, look *workspace.Look) (sight workspace.Sight) {
	mask := redact.NewMask(secretsOf(&look.Operation))
	defer func() {
		if r := recover(); r != nil {
			s.config.Log.Info("A look panicked", "type", look.Type)
			sight = workspace.Sight{Reason: workspace.ReasonInternal, Message: "the agent panicked: this is a bug"}
		}
	}()
	var err error
	if look.Type == workspace.LookSource {
		sight.Tree, err = s.seeTree(ctx, look.Operation.Source)
	} else {
		err = s.seeState(ctx, &look.Operation, &sight)
	}
	if err == nil {
		return sight
	}
	sight = workspace.Sight{Reason: workspace.ReasonInternal, Message: cut(mask.Text(err.Error()), messageLimit)}
	var known *stop
	if errors.As(err, &known) {
		sight.Reason = known.reason
	}
	return sight
}

func (s *Server) seeTree(ctx context.Context, source workspace.Source) (string, error) {
	tree, err := s.checkouts.Tree(ctx, source)
	if err != nil {
		return "", sourceError(err)
	}
	return tree, nil
}

func sourceError(err error) error {
	if errors.Is(err, checkout.ErrInvalid) {
		return fail(workspace.ReasonProgramInvalid, err)
	}
	return fail(workspace.ReasonSourceUnavailable, err)
}

// seeState reads the state as an operation would, with the project's file alone and without a checkout.
func (s *Server) seeState(ctx context.Context, op *workspace.Operation, sight *workspace.Sight) error {
	x := &execution{Server: s, op: op, out: &workspace.Result{}}
	defer x.cleanUp()
	if err := x.prepare(ctx); err != nil {
		return err
	}
	source := x.projectFile
	if op.Source.URL == "" {
		source = x.standIn // as for a destroy
	}
	if err := source(ctx); err != nil {
		return err
	}
	if err := x.readState(ctx); err != nil {
		return err
	}
	state, err := pulumi.Digest(x.deployment)
	if err != nil {
		return fail(workspace.ReasonBackendUnavailable, err)
	}
	x.state, sight.StateDigest = state, state.Digest
	if op.Expect != nil && op.Expect.StateDigest != state.Digest {
		sight.Detail = cut(x.stateDetail(op.Expect.StateDigest), 1000)
	}
	return nil
}

// projectFile gets the project's file alone.
func (x *execution) projectFile(ctx context.Context) error {
	name, content, err := x.checkouts.ProjectFile(ctx, x.op.Source)
	if err != nil {
		return sourceError(err)
	}
	x.target.Dir = x.target.Scratch
	if err := os.WriteFile(filepath.Join(x.target.Dir, name), content, 0o600); err != nil {
		return fmt.Errorf("writing project: %w", err)
	}
	if x.root, err = os.OpenRoot(x.target.Dir); err != nil {
		return fmt.Errorf("opening folder: %w", err)
	}
	if x.project, err = stackconfig.LoadProject(x.root, "."); err != nil {
		return fail(workspace.ReasonProgramInvalid, err)
	}
	x.target.Project = x.project.Name
	return nil
}
