// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operations is the operator's side of the agents: it starts operations, asks for results, and wakes a controller
// when one ends.
//
// It never waits for an operation inside a call: reconcile loops start, record and are woken. It keeps no truth of its own:
// after a restart of the operator everything is asked again from the agent by the operation's id.
package operations

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/workspace"
	"github.com/plangate/plangate/workspace/agent/client"
)

const (
	// callTimeout bounds a short call.
	callTimeout = 10 * time.Second
	// transferTimeout bounds a call that moves plan files.
	transferTimeout = 2 * time.Minute
	// lostPause keeps a watch that fails at once from being tried again and again at once.
	lostPause = time.Second
	// progressEvery is how often a running operation wakes its controller at most.
	progressEvery = 2 * time.Second
)

// Target is an agent.
type Target struct {
	// Address is the host and port at which it answers.
	Address string
	// WorkspaceUID is the UID of its Workspace, which its certificate names.
	WorkspaceUID string
	// PodUID is the UID of its pod.
	PodUID string
}

// Client speaks with agents. The zero value is not usable; see New.
type Client struct {
	authority *Authority
	log       logr.Logger

	mu      sync.Mutex
	conns   map[Target]*client.Client
	watches map[string]context.CancelFunc
}

// New returns a Client that agents know by the authority's certificates.
func New(authority *Authority, log logr.Logger) *Client {
	return &Client{authority: authority, log: log, conns: map[Target]*client.Client{}, watches: map[string]context.CancelFunc{}}
}

// Info asks who the agent is and what it does.
func (c *Client) Info(ctx context.Context, t Target) (workspace.Info, error) {
	conn, err := c.conn(ctx, t)
	if err != nil {
		return workspace.Info{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return conn.Info(ctx)
}

// Start starts an operation; the same id twice starts it once.
func (c *Client) Start(ctx context.Context, t Target, op *workspace.Operation) error {
	conn, err := c.conn(ctx, t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if err := conn.Start(ctx, op); err != nil {
		return fmt.Errorf("starting operation %q: %w", op.ID, err)
	}
	return nil
}

// Result asks how an operation stands.
func (c *Client) Result(ctx context.Context, t Target, id string) (*workspace.Result, error) {
	conn, err := c.conn(ctx, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	result, err := conn.Result(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("asking for the result of operation %q: %w", id, err)
	}
	return result, nil
}

// Look looks at the source or the state without changing anything. The sight may be pending: then it is to be asked for again.
func (c *Client) Look(ctx context.Context, t Target, look *workspace.Look) (*workspace.Sight, error) {
	conn, err := c.conn(ctx, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return conn.Look(ctx, t.PodUID, look)
}

// Cancel asks an operation to stop in order.
func (c *Client) Cancel(ctx context.Context, t Target, id string) error {
	conn, err := c.conn(ctx, t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return conn.Cancel(ctx, id)
}

// IsNotFound reports whether err says that the agent does not know the operation.
func IsNotFound(err error) bool { return client.IsNotFound(err) }

// IsBusy reports whether err says that the agent runs another operation.
func IsBusy(err error) bool { return client.IsBusy(err) }

// IsWrongPod reports whether err says that the agent runs in another pod than was meant.
func IsWrongPod(err error) bool { return client.IsWrongPod(err) }

// IsUnimplemented reports whether err says that the agent is of an earlier version, which cannot do this yet.
func IsUnimplemented(err error) bool { return client.IsUnimplemented(err) }

// IsInvalid reports whether err says that the agent will never take this operation.
func IsInvalid(err error) bool { return client.IsInvalid(err) }

// IsUnavailable reports whether err says that the agent could not be reached.
func IsUnavailable(err error) bool { return client.IsUnavailable(err) }

// Watch calls wake when the operation ends, when it moved on, and when the agent can no longer be heard. It returns at
// once, and does nothing if the operation is watched already.
func (c *Client) Watch(t Target, id string, wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, watched := c.watches[id]; watched {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.watches[id] = cancel
	go c.watch(ctx, t, id, wake)
}

func (c *Client) watch(ctx context.Context, t Target, id string, wake func()) {
	defer func() {
		c.unwatch(id)
		wake()
	}()
	conn, err := c.conn(ctx, t)
	if err != nil {
		rest(ctx, lostPause)
		return
	}
	var last time.Time
	err = conn.Watch(ctx, id, 0, func(client.Event) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			wake()
		}
	})
	if err != nil && ctx.Err() == nil {
		c.log.V(1).Info("Lost sight of an operation", "operation", id, "error", err.Error())
		rest(ctx, lostPause)
	}
}

func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

func (c *Client) unwatch(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel, ok := c.watches[id]; ok {
		cancel()
		delete(c.watches, id)
	}
}

// Forget closes what is open to an agent whose pod is gone.
func (c *Client) Forget(workspaceUID, exceptPodUID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, conn := range c.conns {
		if t.WorkspaceUID == workspaceUID && t.PodUID != exceptPodUID {
			closeQuietly(conn)
			delete(c.conns, t)
		}
	}
}

// Close ends all watches and closes all connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.watches {
		cancel()
	}
	for t, conn := range c.conns {
		closeQuietly(conn)
		delete(c.conns, t)
	}
}

func closeQuietly(conn *client.Client) {
	_ = conn.Close() // nothing is lost with a connection that does not close in order
}

func (c *Client) conn(ctx context.Context, t Target) (*client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.conns[t]; ok {
		return conn, nil
	}
	conn, err := client.Dial(ctx, t.Address, c.authority.clientConfig(t.WorkspaceUID))
	if err != nil {
		return nil, fmt.Errorf("connecting to the agent at %q: %w", t.Address, err)
	}
	c.conns[t] = conn
	return conn, nil
}

// Port is the port on which agents listen.
const Port = 50051

// Address is the address of the agent in the pod with this IP.
func Address(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(Port)) }

// PodSelector selects the pods of workspaces: the only pods that the operator keeps in its cache.
func PodSelector() labels.Selector {
	exists, err := labels.NewRequirement(v1alpha1.LabelWorkspace, selection.Exists, nil)
	if err != nil {
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*exists)
}
