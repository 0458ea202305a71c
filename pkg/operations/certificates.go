// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// managerName is the name in the certificate that agents accept commands from.
	managerName = "manager.plangate.dev"
	caSecret    = "plangate-workspace-ca"
	caLifetime  = 10 * 365 * 24 * time.Hour
	// clockSkew lets clocks differ.
	clockSkew = 5 * time.Minute
)

// ServerName is the name in the certificate of the agent of the Workspace with this UID.
func ServerName(workspaceUID string) string { return workspaceUID + ".workspace.plangate.dev" }

// Authority issues the certificates with which the operator and the agents know each other. Its key lives in a Secret of the
// operator's namespace.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
	// lifetime is how long an issued certificate is valid; it is renewed after two thirds.
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	manager *tls.Certificate
}

// LoadAuthority reads the authority from its Secret, and makes both when there is none.
func LoadAuthority(ctx context.Context, reader client.Reader, writer client.Writer, namespace string, lifetime time.Duration) (*Authority, error) {
	a := &Authority{lifetime: lifetime, now: time.Now}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: caSecret}
	err := reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		if secret, err = a.create(namespace); err != nil {
			return nil, err
		}
		err = writer.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) {
			err = reader.Get(ctx, key, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority from Secret %q: %w", key, err)
	}
	if err := a.parse(secret); err != nil {
		return nil, fmt.Errorf("reading the certificate authority from Secret %q (delete it to get a new one): %w", key, err)
	}
	return a, nil
}

func (a *Authority) create(namespace string) (*corev1.Secret, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := a.template("plangate-workspace-ca", caLifetime)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: caSecret},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: encodeCert(der), corev1.TLSPrivateKeyKey: keyPEM},
	}, nil
}

func (a *Authority) parse(secret *corev1.Secret) error {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("the key is not an ECDSA key")
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return err
	}
	if !cert.IsCA {
		return errors.New("the certificate is not one of an authority")
	}
	if a.now().After(cert.NotAfter) {
		return fmt.Errorf("the certificate expired at %s", cert.NotAfter.Format(time.RFC3339))
	}
	a.cert, a.key, a.pem = cert, key, secret.Data[corev1.TLSCertKey]
	return nil
}

func (a *Authority) template(name string, lifetime time.Duration) *x509.Certificate {
	serial := make([]byte, 15)
	_, _ = rand.Read(serial) // it never returns an error: it ends the process instead
	now := a.now()
	return &x509.Certificate{SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime)}
}

// issue issues a certificate with one DNS name for one use.
func (a *Authority) issue(name string, usage x509.ExtKeyUsage) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := a.template(managerName, a.lifetime)
	template.Subject.CommonName = ""
	template.DNSNames, template.KeyUsage, template.ExtKeyUsage = []string{name}, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issuing a certificate for %q: %w", name, err)
	}
	keyPEM, err = encodeKey(key)
	return encodeCert(der), keyPEM, err
}

// ServerSecret is the content of the Secret that the agent of a Workspace serves with: tls.crt, tls.key and ca.crt.
func (a *Authority) ServerSecret(workspaceUID string) (map[string][]byte, error) {
	cert, key, err := a.issue(ServerName(workspaceUID), x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, "ca.crt": a.pem}, nil
}

// RenewAt is when a Secret made by ServerSecret must be made anew: after two thirds of its life, or at once when it is not
// one of this authority.
func (a *Authority) RenewAt(data map[string][]byte, workspaceUID string) time.Time {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil || !bytes.Equal(data["ca.crt"], a.pem) {
		return time.Time{}
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || cert.CheckSignatureFrom(a.cert) != nil || cert.VerifyHostname(ServerName(workspaceUID)) != nil {
		return time.Time{}
	}
	return renewAt(cert)
}

func renewAt(cert *x509.Certificate) time.Time {
	issued := cert.NotBefore.Add(clockSkew)
	return issued.Add(cert.NotAfter.Sub(issued) * 2 / 3)
}

// clientConfig is the TLS configuration with which the operator speaks to the agent of a Workspace.
func (a *Authority) clientConfig(workspaceUID string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool,
		ServerName: ServerName(workspaceUID),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return a.managerCertificate()
		},
	}
}

func (a *Authority) managerCertificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.manager != nil && a.now().Before(renewAt(a.manager.Leaf)) {
		return a.manager, nil
	}
	cert, key, err := a.issue(managerName, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	a.manager = &pair
	return a.manager, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
