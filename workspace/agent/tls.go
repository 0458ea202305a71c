// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ManagerName is the DNS name in the certificate of the operator, the only client that an agent serves.
const ManagerName = "manager.plangate.dev"

// certificates are the files tls.crt, tls.key and ca.crt in a folder, read again when they change: Kubernetes replaces the
// files of a mounted Secret while the pod runs.
type certificates struct {
	dir string

	mu     sync.Mutex
	stamp  string
	config *tls.Config
}

// TLSConfig returns the server's configuration: TLS 1.3, and only for clients whose certificate comes from the CA and is the
// operator's.
func TLSConfig(dir string) (*tls.Config, error) {
	c := &certificates{dir: dir}
	if _, err := c.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current()
		},
	}, nil
}

func (c *certificates) current() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamp := ""
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		info, err := os.Stat(filepath.Join(c.dir, name))
		if err != nil {
			return c.last(fmt.Errorf("reading certificates: %w", err))
		}
		stamp += fmt.Sprintf("%d/%s/", info.Size(), info.ModTime().Format(time.RFC3339Nano))
	}
	if stamp == c.stamp {
		return c.config, nil
	}
	config, err := c.load()
	if err != nil {
		return c.last(err)
	}
	c.stamp, c.config = stamp, config
	return config, nil
}

// last goes on with the old certificates while the new ones are not whole.
func (c *certificates) last(err error) (*tls.Config, error) {
	if c.config != nil {
		return c.config, nil
	}
	return nil, err
}

func (c *certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.dir, "tls.crt"), filepath.Join(c.dir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(c.dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("reading certificates: ca.crt has none")
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{pair},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              pool,
		NextProtos:             []string{"h2"},
		VerifyConnection:       isManager,
		SessionTicketsDisabled: true,
	}, nil
}

// isManager runs after the chain was verified.
func isManager(state tls.ConnectionState) error {
	if len(state.VerifiedChains) == 0 {
		return errors.New("the client has no verified certificate")
	}
	if err := state.PeerCertificates[0].VerifyHostname(ManagerName); err != nil {
		return errors.New("the client is not the operator")
	}
	return nil
}
