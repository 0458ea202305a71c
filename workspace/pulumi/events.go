// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Tally is what the engine events of a run tell.
type Tally struct {
	// Phases counts the streams of events: a preview has one, an up has two when it came to the update.
	Phases int
	// Updating says that the real update began.
	Updating bool
	// Planned counts the steps of the (constrained) preview, Done those of the real update.
	Planned, Done int
	// Real counts the steps of Done that were for resources of a provider: not the stack itself, nor components.
	Real int
	// Unsure says that a step of the real update failed in a way that may have changed something.
	Unsure bool
	// Errors are the texts of the error diagnostics, in order.
	Errors []string
	// Started counts the steps of the real update that began.
	Started int
}

// eventServer receives the CLI's engine events over a unix socket.
type eventServer struct {
	pulumirpc.UnimplementedEventsServer
	grpc    *grpc.Server
	dir     string
	socket  string
	onEvent func(int, []byte)
	// gate is the Request's, kill ends the CLI.
	gate func() bool
	kill func()
	// refreshing says that the run is a refresh and nothing else.
	refreshing bool

	mu     sync.Mutex
	events bytes.Buffer
	tally  Tally
}

func newEventServer(r *Request, kill func()) (*eventServer, error) {
	// Not in the scratch folder: a socket's path must be short.
	dir, err := os.MkdirTemp("", "plangate-")
	if err != nil {
		return nil, fmt.Errorf("making event folder: %w", err)
	}
	s := &eventServer{dir: dir, socket: filepath.Join(dir, "events"), onEvent: r.OnEvent, gate: r.Gate, kill: kill}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("listening on %q: %w", s.socket, err)
	}
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(1 << 30))
	pulumirpc.RegisterEventsServer(s.grpc, s)
	go func() { _ = s.grpc.Serve(l) }()
	return s, nil
}

// flag is the value of --event-log.
func (s *eventServer) flag() string { return "tcp://unix://" + s.socket }

// StreamEvents takes the events of one phase.
func (s *eventServer) StreamEvents(stream grpc.ClientStreamingServer[pulumirpc.EventRequest, emptypb.Empty]) error {
	s.mu.Lock()
	s.tally.Phases++
	phase := s.tally.Phases
	s.mu.Unlock()
	for {
		r, err := stream.Recv()
		if err != nil && phase == 1 && s.gate != nil && !s.gate() {
			// The CLI waits for the end of this call before it goes on to what is real: it never comes.
			s.kill()
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		if err != nil {
			return stream.SendAndClose(&emptypb.Empty{})
		}
		s.take(phase, bytes.TrimSpace([]byte(r.GetEvent())))
	}
}

// stepEnd is where the end of a step begins that says what it did.
var stepEnd = regexp.MustCompile(`("resOutputsEvent":\{"metadata":\{"op":)"(?:same|update|delete)"`)

// asRefresh makes the events of a refresh like those of a preview that refreshes: there what was read ends as "refresh", here as
// what happens to the state.
func asRefresh(event []byte) []byte {
	return stepEnd.ReplaceAll(event, []byte(`$1"refresh"`))
}

func (s *eventServer) take(phase int, raw []byte) {
	if s.refreshing {
		raw = asRefresh(raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.Write(raw)
	s.events.WriteByte('\n')
	s.tally.Take(phase, raw)
	if s.onEvent != nil {
		s.onEvent(phase, raw)
	}
}

// close stops the server and returns what came. The CLI has ended, so no more comes.
func (s *eventServer) close() ([]byte, Tally) {
	s.grpc.Stop()
	_ = os.RemoveAll(s.dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events.Bytes(), s.tally
}

// changes are the operations that change something real or in the state.
var changes = map[apitype.OpType]bool{
	apitype.OpCreate: true, apitype.OpUpdate: true, apitype.OpDelete: true, apitype.OpCreateReplacement: true,
	apitype.OpDeleteReplaced: true, apitype.OpImport: true, apitype.OpImportReplacement: true,
	apitype.OpReadReplacement: true,
}

// Changes says whether an operation changes something; same, read, refresh and the logical "replace" do not.
func Changes(op apitype.OpType) bool { return changes[op] }

// Take counts one event. An event that cannot be read counts for nothing.
func (t *Tally) Take(phase int, event []byte) {
	t.Phases = max(t.Phases, phase)
	var e apitype.EngineEvent
	if json.Unmarshal(event, &e) == nil {
		t.add(phase, &e)
	}
}

// counts says whether a step counts. Like Pulumi's own summary it leaves out default providers, which no program names.
func counts(m apitype.StepEventMetadata) bool {
	isDefault := strings.HasPrefix(m.Type, "pulumi:providers:") && strings.Contains(m.URN, "::default")
	return Changes(m.Op) && !isDefault
}

func isCustom(m apitype.StepEventMetadata) bool {
	return m.New != nil && m.New.Custom || m.Old != nil && m.Old.Custom
}

// PlannedSteps counts the steps of a plan file in the same way. Imports are not in it.
func PlannedSteps(plan []byte) int {
	var p struct {
		ResourcePlans map[string]struct {
			Steps []apitype.OpType `json:"steps"`
		} `json:"resourcePlans"`
	}
	if json.Unmarshal(plan, &p) != nil {
		return 0
	}
	n := 0
	for urn, r := range p.ResourcePlans {
		_, rest, _ := strings.Cut(urn, "::")
		_, rest, _ = strings.Cut(rest, "::")
		kind, _, _ := strings.Cut(rest, "::")
		for _, op := range r.Steps {
			if counts(apitype.StepEventMetadata{Op: op, URN: urn, Type: kind}) {
				n++
			}
		}
	}
	return n
}

func (t *Tally) add(phase int, e *apitype.EngineEvent) {
	if d := e.DiagnosticEvent; d != nil && d.Severity == "error" {
		text := d.Message
		if d.URN != "" {
			text = d.URN + ": " + text
		}
		t.Errors = append(t.Errors, text)
	}
	if phase == 1 {
		if e.ResourcePreEvent != nil && counts(e.ResourcePreEvent.Metadata) {
			t.Planned++
		}
		return
	}
	t.addUpdate(e)
}

// addUpdate counts an event of the real update.
func (t *Tally) addUpdate(e *apitype.EngineEvent) {
	switch {
	case e.PreludeEvent != nil:
		t.Updating = true
	case e.ResourcePreEvent != nil && counts(e.ResourcePreEvent.Metadata):
		t.Started++
	case e.ResOpFailedEvent != nil && e.ResOpFailedEvent.Status != 0:
		t.Unsure = true
	case e.ResOutputsEvent != nil && counts(e.ResOutputsEvent.Metadata):
		t.Done++
		if isCustom(e.ResOutputsEvent.Metadata) {
			t.Real++
		}
	}
}
