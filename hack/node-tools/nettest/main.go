// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nettest is what the cluster's self-check runs in pods. It needs no
// libc and no shell.
//
//	nettest serve ADDR        answer every request with the pod's name
//	nettest get URL           print what the URL answers
//	nettest write FILE TEXT   write a file
//	nettest cat FILE          print a file
//	nettest id                print uid and gid
//	nettest exit CODE         end with this code
//	nettest allocate MIB      use that much memory, then end
//	nettest apiserver PATH    GET from the API server as the pod's service account
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

var errUsage = errors.New("usage: nettest serve ADDR | get URL | write FILE TEXT | cat FILE | id | exit CODE | allocate MIB | apiserver PATH")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nettest:", err)
		os.Exit(1)
	}
}

// commands are what it can do, by name, each with the number of its arguments.
var commands = map[string]struct {
	arguments int
	run       func([]string) error
}{
	"serve":     {1, func(a []string) error { return serve(a[0]) }},
	"get":       {1, func(a []string) error { return get(a[0]) }},
	"write":     {2, func(a []string) error { return os.WriteFile(a[0], []byte(a[1]+"\n"), 0o644) }},
	"cat":       {1, func(a []string) error { return cat(a[0]) }},
	"id":        {0, identify},
	"exit":      {1, func(a []string) error { return exit(a[0]) }},
	"allocate":  {1, func(a []string) error { return allocate(a[0]) }},
	"apiserver": {1, func(a []string) error { return apiserver(a[0]) }},
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	command, ok := commands[args[0]]
	if !ok || len(args)-1 != command.arguments {
		return errUsage
	}
	return command.run(args[1:])
}

func get(url string) error {
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	return fetch(http.DefaultTransport, request)
}

func cat(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

func identify([]string) error {
	fmt.Printf("uid=%d gid=%d\n", os.Getuid(), os.Getgid())
	return nil
}

func exit(code string) error {
	n, err := strconv.Atoi(code)
	if err == nil {
		os.Exit(n)
	}
	return err
}

func allocate(mebibytes string) error {
	count, err := strconv.Atoi(mebibytes)
	if err != nil {
		return err
	}
	var held [][]byte
	for range count {
		// Only pages that are written count.
		held = append(held, bytes.Repeat([]byte{1}, 1<<20))
	}
	fmt.Printf("allocated %d MiB\n", len(held))
	return nil
}

func serve(addr string) error {
	// As PID 1 of the container, only signals with a handler have an effect.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		os.Exit(0)
	}()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	log.Printf("Listening on %s", addr)
	server := &http.Server{Addr: addr, ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "host=%s\n", host)
	})}
	return server.ListenAndServe()
}

func apiserver(path string) error {
	ca, err := os.ReadFile(serviceAccount + "ca.crt")
	if err != nil {
		return err
	}
	token, err := os.ReadFile(serviceAccount + "token")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	request, err := http.NewRequest(http.MethodGet, "https://kubernetes.default.svc"+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	return fetch(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, request)
}

// fetch prints the status and the start of the body.
func fetch(transport http.RoundTripper, request *http.Request) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Printf("status=%d\n", response.StatusCode)
	_, err = io.Copy(os.Stdout, io.LimitReader(response.Body, 4096))
	return err
}
