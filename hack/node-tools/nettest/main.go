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

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch command, rest := args[0], args[1:]; {
	case command == "serve" && len(rest) == 1:
		return serve(rest[0])
	case command == "get" && len(rest) == 1:
		request, err := http.NewRequest(http.MethodGet, rest[0], nil)
		if err != nil {
			return err
		}
		return fetch(http.DefaultTransport, request)
	case command == "write" && len(rest) == 2:
		return os.WriteFile(rest[0], []byte(rest[1]+"\n"), 0o644)
	case command == "cat" && len(rest) == 1:
		text, err := os.ReadFile(rest[0])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	case command == "id":
		fmt.Printf("uid=%d gid=%d\n", os.Getuid(), os.Getgid())
		return nil
	case command == "exit" && len(rest) == 1:
		code, err := strconv.Atoi(rest[0])
		if err == nil {
			os.Exit(code)
		}
		return err
	case command == "allocate" && len(rest) == 1:
		return allocate(rest[0])
	case command == "apiserver" && len(rest) == 1:
		return apiserver(rest[0])
	}
	return errUsage
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
	request, err := http.NewRequest(http.MethodGet, "https://kubernetes.default.svc"+path, nil)
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
