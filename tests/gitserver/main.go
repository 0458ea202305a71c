// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gitserver is a small git server over HTTP, for tests and the demo. It
// has no users and no access control: everybody who reaches it may push.
//
//	gitserver -addr 127.0.0.1:8080 -root /srv/git
//
//	GET  /healthz         200 once it serves
//	PUT  /NAME.git        makes an empty repository: 201, or 200 if it is there
//	     /NAME.git/…      git's own protocol; the first push makes the repository
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "`address` to listen on")
	root := flag.String("root", "", "existing `folder` of the repositories")
	flag.Parse()
	if err := run(*addr, *root); err != nil {
		fmt.Fprintln(os.Stderr, "gitserver:", err)
		os.Exit(1)
	}
}

func run(addr, root string) error {
	git, err := newServer(root)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Addr: addr, Handler: git, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	log.Printf("Serving repositories of %s on %s", root, addr)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// A push that runs may end; nobody waits longer than a pod's grace period.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
