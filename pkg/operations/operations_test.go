// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/workspace/agent/agentpb"
)

// agent is an agent that tells events until it is let go.
type agent struct {
	agentpb.UnimplementedAgentServer
	watches atomic.Int32
	events  chan *agentpb.Event
	fail    atomic.Bool
}

func (a *agent) Watch(_ *agentpb.WatchRequest, stream grpc.ServerStreamingServer[agentpb.Event]) error {
	a.watches.Add(1)
	if a.fail.Load() {
		return status.Error(codes.Internal, "no")
	}
	for {
		select {
		case e, open := <-a.events:
			if !open {
				return stream.Send(&agentpb.Event{Kind: agentpb.Event_KIND_ENDED})
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func serve(t *testing.T, a *Authority, uid string) (*agent, Target, *grpc.Server) {
	t.Helper()
	data := serverSecret(t, a, uid)
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data["ca.crt"])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})))
	out := &agent{events: make(chan *agentpb.Event)}
	agentpb.RegisterAgentServer(server, out)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return out, Target{Address: listener.Addr().String(), WorkspaceUID: uid, PodUID: "pod"}, server
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 500 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not reached", what)
}

func TestWatchWakesForProgressAndAtTheEnd(t *testing.T) {
	a := newAuthority(t, time.Hour, time.Now)
	far, target, _ := serve(t, a, "uid")
	c := New(a, logr.Discard())
	defer c.Close()
	var woken atomic.Int32
	for range 10 {
		c.Watch(target, "id", func() { woken.Add(1) })
	}
	far.events <- &agentpb.Event{Sequence: 1, Kind: agentpb.Event_KIND_PROGRESS}
	eventually(t, "woken by progress", func() bool { return woken.Load() == 1 })
	for i := range 50 {
		far.events <- &agentpb.Event{Sequence: int64(i + 2), Kind: agentpb.Event_KIND_PROGRESS}
	}
	if n := woken.Load(); n != 1 {
		t.Errorf("woken %d times within %v", n, progressEvery)
	}
	close(far.events)
	eventually(t, "woken at the end", func() bool { return woken.Load() == 2 })
	if n := far.watches.Load(); n != 1 {
		t.Errorf("one operation is watched %d times", n)
	}
	eventually(t, "the watch is forgotten", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.watches) == 0 })
}

func TestAWatchThatFailsAtOnceDoesNotSpin(t *testing.T) {
	a := newAuthority(t, time.Hour, time.Now)
	far, target, _ := serve(t, a, "uid")
	far.fail.Store(true)
	c := New(a, logr.Discard())
	defer c.Close()
	stop := time.Now().Add(1500 * time.Millisecond)
	done := make(chan struct{})
	var again func()
	again = func() {
		if time.Now().After(stop) {
			close(done)
			return
		}
		c.Watch(target, "id", again) // as a loop does that finds the operation running
	}
	again()
	<-done
	if n := far.watches.Load(); n > 3 {
		t.Errorf("%d watches in one and a half seconds", n)
	}
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	a := newAuthority(t, time.Hour, time.Now)
	before := runtime.NumGoroutine()
	_, target, server := serve(t, a, "uid")
	c := New(a, logr.Discard())
	for i := range 20 {
		c.Watch(target, string(rune('a'+i)), func() {})
	}
	time.Sleep(100 * time.Millisecond)
	c.Forget("uid", "another pod")
	server.Stop()
	c.Close()
	eventually(t, "all have ended", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestForgetClosesConnectionsToOtherPodsAlone(t *testing.T) {
	c := New(newAuthority(t, time.Hour, time.Now), logr.Discard())
	defer c.Close()
	for _, target := range []Target{{"h:1", "ws", "old"}, {"h:2", "ws", "new"}, {"h:3", "other", "old"}} {
		if _, err := c.conn(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	c.Forget("ws", "new")
	if len(c.conns) != 2 || c.conns[Target{"h:1", "ws", "old"}] != nil {
		t.Errorf("kept %d connections", len(c.conns))
	}
}

func TestAnAgentOfAnotherWorkspaceIsNotBelieved(t *testing.T) {
	a := newAuthority(t, time.Hour, time.Now)
	_, target, _ := serve(t, a, "uid")
	target.WorkspaceUID = "other"
	c := New(a, logr.Discard())
	defer c.Close()
	_, err := c.Info(t.Context(), target)
	if err == nil || !IsUnavailable(err) || IsNotFound(err) {
		t.Errorf("Info() = %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Info() does not say why: %v", err)
	}
}

func TestPodSelectorSelectsPodsOfWorkspacesAlone(t *testing.T) {
	s := PodSelector()
	if s.Empty() || !s.Matches(labels.Set{v1alpha1.LabelWorkspace: "web"}) || s.Matches(labels.Set{"app": "web"}) {
		t.Errorf("PodSelector() = %v", s)
	}
	if _, err := metav1.ParseToLabelSelector(s.String()); err != nil {
		t.Error(err)
	}
}
