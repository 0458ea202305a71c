// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func newAuthority(t testing.TB, lifetime time.Duration, now func() time.Time) *Authority {
	t.Helper()
	a := &Authority{lifetime: lifetime, now: now}
	secret, err := a.create("ns")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.parse(secret); err != nil {
		t.Fatal(err)
	}
	return a
}

func serverSecret(t testing.TB, a *Authority, uid string) map[string][]byte {
	t.Helper()
	data, err := a.ServerSecret(uid)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestACertificateIsRenewedInTime(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for _, lifetime := range []time.Duration{time.Minute, time.Hour, 30 * 24 * time.Hour} {
		a := newAuthority(t, lifetime, func() time.Time { return start })
		got := a.RenewAt(serverSecret(t, a, "uid"), "uid").Sub(start)
		if got < lifetime/2 || got > lifetime*3/4 {
			t.Errorf("a certificate for %v is renewed after %v", lifetime, got)
		}
	}
}

func TestACertificateThatCannotServeIsRenewedAtOnce(t *testing.T) {
	a, other := newAuthority(t, time.Hour, time.Now), newAuthority(t, time.Hour, time.Now)
	good := serverSecret(t, a, "uid")
	with := func(key string, value []byte) map[string][]byte {
		data := maps.Clone(good)
		data[key] = value
		return data
	}
	tests := map[string]struct {
		reason string
		data   map[string][]byte
		uid    string
	}{
		"nothing":                     {reason: "there is none", data: nil, uid: "uid"},
		"no certificate":              {reason: "the agent cannot serve", data: with(corev1.TLSCertKey, []byte("x")), uid: "uid"},
		"no key":                      {reason: "the agent cannot serve", data: with(corev1.TLSPrivateKeyKey, nil), uid: "uid"},
		"somebody else's key":         {reason: "it does not fit", data: with(corev1.TLSPrivateKeyKey, serverSecret(t, a, "uid")[corev1.TLSPrivateKeyKey]), uid: "uid"},
		"another Workspace's":         {reason: "the operator would refuse it", data: good, uid: "other"},
		"another authority's":         {reason: "the operator would refuse it", data: serverSecret(t, other, "uid"), uid: "uid"},
		"another authority to trust":  {reason: "the agent would refuse the operator", data: with("ca.crt", other.pem), uid: "uid"},
		"another's, under our own CA": {reason: "the operator would refuse it", data: map[string][]byte{corev1.TLSCertKey: serverSecret(t, other, "uid")[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: good[corev1.TLSPrivateKeyKey], "ca.crt": a.pem}, uid: "uid"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := a.RenewAt(tc.data, tc.uid); time.Now().Before(got) {
				t.Errorf("RenewAt(): %s: not before %v", tc.reason, got)
			}
		})
	}
}

func TestParseRefusesWhatIsNoAuthority(t *testing.T) {
	a := newAuthority(t, time.Hour, time.Now)
	leaf := serverSecret(t, a, "uid")
	secret, err := a.create("ns")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		data map[string][]byte
		at   time.Time
		says string
	}{
		"nothing":             {data: nil, at: time.Now(), says: "PEM"},
		"a leaf":              {data: leaf, at: time.Now(), says: "not one of an authority"},
		"one that is expired": {data: secret.Data, at: time.Now().Add(caLifetime + time.Hour), says: "expired"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := (&Authority{now: func() time.Time { return tc.at }}).parse(&corev1.Secret{Data: tc.data})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("parse() = %v, want %q", err, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Errorf("parse() tells a key: %v", err)
			}
		})
	}
}

// shake tries a TLS handshake between an agent that serves with data and trusts data's CA, and an operator.
func shake(t *testing.T, data map[string][]byte, config *tls.Config) error {
	t.Helper()
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
	defer func() { _ = listener.Close() }()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		defer func() { _ = conn.Close() }()
		served <- tls.Server(conn, &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		}).HandshakeContext(t.Context())
	}()
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	called := tls.Client(conn, config).HandshakeContext(t.Context())
	if called != nil {
		_ = conn.Close()
	}
	// In TLS 1.3 the operator hears of a refusal only with the first answer: the agent knows first.
	return errors.Join(called, <-served)
}

func TestOperatorAndAgentKnowEachOther(t *testing.T) {
	a, other := newAuthority(t, time.Hour, time.Now), newAuthority(t, time.Hour, time.Now)
	mixed := maps.Clone(serverSecret(t, a, "uid"))
	mixed["ca.crt"] = other.pem
	old := newAuthority(t, time.Minute, func() time.Time { return time.Now().Add(-time.Hour) })
	tests := map[string]struct {
		data   map[string][]byte
		config *tls.Config
		good   bool
	}{
		"each other":                       {data: serverSecret(t, a, "uid"), config: a.clientConfig("uid"), good: true},
		"the agent of another":             {data: serverSecret(t, a, "uid"), config: a.clientConfig("other")},
		"an agent of another authority":    {data: serverSecret(t, other, "uid"), config: a.clientConfig("uid")},
		"an operator of another authority": {data: mixed, config: a.clientConfig("uid")},
		"an operator without a certificate": {data: serverSecret(t, a, "uid"), config: func() *tls.Config {
			c := a.clientConfig("uid")
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
			return c
		}()},
		"an expired certificate": {data: serverSecret(t, old, "uid"), config: old.clientConfig("uid")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := shake(t, tc.data, tc.config); (err == nil) != tc.good {
				t.Errorf("handshake: %v", err)
			}
		})
	}
}

func TestTheOperatorsCertificateIsRenewedWithoutANewConnection(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, time.Hour, func() time.Time { return now })
	config := a.clientConfig("uid")
	get := func() *tls.Certificate {
		c, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	if get() != first {
		t.Error("a certificate is issued for each connection")
	}
	now = now.Add(45 * time.Minute)
	if get() == first {
		t.Error("the certificate is not renewed after two thirds of its life")
	}
}

func TestALeafCannotIssue(t *testing.T) {
	a := newAuthority(t, time.Hour, time.Now)
	block, _ := pem.Decode(serverSecret(t, a, "uid")[corev1.TLSCertKey])
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign != 0 || len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("the agent's certificate is good for more than to serve: %+v", cert.ExtKeyUsage)
	}
}
