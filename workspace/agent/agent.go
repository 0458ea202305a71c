// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is the server in the workspace pod: it runs one operation at a time, writes each into a journal, and never
// needs the operator to stay connected.
//
//	Start ─▶ journal: begin ─▶ check out ─ render configuration ─ read state ─┬─ Preview: preview --save-plan ───────────┬─▶ journal: end
//	                                                                          ├─ DriftCheck: preview --refresh ──────────┤
//	                                                                          ├─ Apply: compare (look), then up --plan ──┤
//	                                                                          └─ Accept: compare, look, then refresh ────┘
//
// A DriftCheck is expendable: it is killed when another operation wants to start.
//
// An operation lives in this process alone. When the process dies, Pulumi is killed with it; the next start finds the
// beginning without an end and says Interrupted. Nothing is ever run again by itself.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/agentpb"
	"github.com/plangate/plangate/workspace/checkout"
	"github.com/plangate/plangate/workspace/journal"
	"github.com/plangate/plangate/workspace/pulumi"
	"github.com/plangate/plangate/workspace/stackconfig"
)

// Config is what an agent needs.
type Config struct {
	// PodUID is the UID of the pod.
	PodUID string
	// Version is the agent's version.
	Version string
	// WorkDir is the folder for everything that is written. One agent uses it at a time.
	WorkDir string
	// Driver drives Pulumi. Nil: the `pulumi` on the PATH.
	Driver pulumi.Driver
	// Environ is the environment that Pulumi and git inherit. Nil: the process's own.
	Environ []string
	// Grace is how long a stopped Pulumi may take to end in order. Zero: 60 seconds.
	Grace time.Duration
	// PluginDirs are folders with Pulumi plugins that came with the image.
	PluginDirs []string
	// RequireSigners is a file with trusted signers, one of whom must have signed whatever is applied, whatever the operator
	// says; it is read for every Apply. See required. Empty: none is required.
	RequireSigners string
	// AllowFileSources allows file:// repositories; for tests.
	AllowFileSources bool
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets what operators of the cluster want to know. Never secrets.
	Log logr.Logger
}

const (
	// keptOperations is how many ended operations the journal keeps.
	keptOperations = 20
	keptStates     = 40 // of states and of drift
)

// Server is the agent.
type Server struct {
	agentpb.UnimplementedAgentServer

	config    Config
	env       environment
	driver    pulumi.Driver
	journal   *journal.Journal
	states    journal.States
	checkouts *checkout.Checkouts
	configs   *stackconfig.Renderer
	plugins   pulumi.Plugins
	looks     looks
	host      string
	started   time.Time
	// lock is held as long as the process lives.
	lock *os.File

	mu sync.Mutex
	// current is the operation that runs. Nil: none.
	current *operation
	// recent are operations whose events and outputs are still in memory, the oldest first.
	recent   []*operation
	stopping bool
}

// New opens the work folder, ends what a dead agent left, and returns a server that is ready to register.
func New(config Config) (*Server, error) {
	if config.Environ == nil {
		config.Environ = os.Environ()
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Grace == 0 {
		config.Grace = time.Minute
	}
	env := newEnvironment(config.WorkDir, config.Environ)
	lock, err := lockFolder(config.WorkDir)
	if err != nil {
		return nil, err
	}
	if n := pulumi.KillMarked(env.marker()); n > 0 {
		config.Log.Info("Killed processes that a dead agent left", "count", n)
	}
	if err := env.prepare(config.PluginDirs); err != nil {
		return nil, err
	}
	now := config.Now().UTC()
	log, problems, err := journal.Open(filepath.Join(config.WorkDir, "journal"), keptOperations, now)
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		config.Log.Error(problem, "Found a damaged journal entry")
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading host name: %w", err)
	}
	s := &Server{
		config: config, env: env, driver: config.Driver, journal: log, host: host, started: now, lock: lock,
		states:  journal.States{Dir: filepath.Join(config.WorkDir, "states"), Limit: keptStates},
		configs: stackconfig.New(),
	}
	var options []checkout.Option
	if config.AllowFileSources {
		options = append(options, checkout.AllowFiles())
	}
	s.checkouts = checkout.New(filepath.Join(config.WorkDir, "sources"), env.base(), options...)
	if s.driver == nil {
		s.driver = pulumi.New("", env.base(), config.Grace)
	}
	return s, nil
}

// lockFolder keeps a second agent out, which could share the folder on a volume of many pods: both would end the other's
// operations as interrupted. A file system without locks goes without.
func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making folder %q: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: the work folder
	if err != nil {
		return nil, fmt.Errorf("locking folder %q: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, fmt.Errorf("locking folder %q: another agent uses it", dir)
	}
	return f, nil
}

// Shutdown refuses new operations, asks the current one to stop in order, and waits for its end.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	current := s.current
	s.mu.Unlock()
	if current == nil {
		return nil
	}
	s.config.Log.Info("Stopping the operation", "operation", current.id)
	current.cancel()
	select {
	case <-current.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping operation %q: %w", current.id, ctx.Err())
	}
}

// begin makes the operation the current one, or says why not. A nil operation without an error: it was started before. A drift
// check that runs makes room.
func (s *Server) begin(ctx context.Context, op *workspace.Operation) (*operation, error) {
	for {
		o, inTheWay, err := s.tryBegin(op)
		if inTheWay == nil {
			return o, err
		}
		inTheWay.giveWay()
		select {
		case <-inTheWay.done:
		case <-ctx.Done():
			return nil, busyError(inTheWay.id)
		}
	}
}

func (s *Server) tryBegin(op *workspace.Operation) (o, inTheWay *operation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.journal.Get(op.ID); err == nil {
		return nil, nil, nil
	}
	if s.stopping {
		return nil, nil, errStopping
	}
	if s.current != nil {
		if s.current.kind == workspace.DriftCheck && op.Type != workspace.DriftCheck {
			return nil, s.current, nil
		}
		return nil, nil, busyError(s.current.id)
	}
	now := s.config.Now().UTC()
	entry := journal.Entry{ID: op.ID, Type: op.Type, Stack: op.Stack, Backend: withoutUser(op.Backend), Host: s.host, StartedAt: now}
	if err := s.journal.Begin(entry); err != nil {
		return nil, nil, fmt.Errorf("starting operation %q: %w", op.ID, err)
	}
	s.current = newOperation(op, now)
	s.recent = append(s.recent, s.current)
	if len(s.recent) > keptOperations {
		s.recent = s.recent[1:]
	}
	return s.current, nil, nil
}

// run executes the operation and writes its end.
func (s *Server) run(ctx context.Context, o *operation, op *workspace.Operation) {
	log := s.config.Log.WithValues("operation", o.id, "type", op.Type, "stack", op.Stack)
	log.Info("Starting the operation")
	result := s.execute(ctx, o, op)
	if err := s.journal.End(result); err != nil {
		log.Error(err, "Could not write the end of the operation")
		o.keep(result)
	}
	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	o.end(result)
	log.Info("The operation ended", "outcome", result.Outcome, "reason", result.Reason,
		"stepsDone", result.Steps.Done, "duration", result.EndedAt.Sub(result.StartedAt).String())
}

// find returns the operation if it is still in memory.
func (s *Server) find(id string) *operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.recent {
		if o.id == id {
			return o
		}
	}
	return nil
}
