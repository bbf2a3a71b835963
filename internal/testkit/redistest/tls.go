package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Certs are an authority made for one test, a certificate for its servers and one for its clients.
type Certs struct {
	roots  *x509.CertPool
	client tls.Certificate
	dir    string // ca.pem, and server and client as .pem and .key
}

// NewCerts makes an authority and its certificates, valid for 127.0.0.1 and for an hour from now.
func NewCerts(tb testing.TB) *Certs {
	tb.Helper()
	c := &Certs{roots: x509.NewCertPool(), dir: tb.TempDir()}
	fail := func(err error) {
		if err != nil {
			tb.Fatalf("certificates: %v", err)
		}
	}
	authority, caKey, err := issue("authority", nil, nil)
	fail(err)
	server, serverKey, err := issue("server", authority, caKey)
	fail(err)
	client, clientKey, err := issue("client", authority, caKey)
	fail(err)
	c.roots.AddCert(authority)
	c.client = tls.Certificate{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey}
	der, err := x509.MarshalECPrivateKey(serverKey)
	fail(err)
	clientDER, err := x509.MarshalECPrivateKey(clientKey)
	fail(err)
	for name, block := range map[string]*pem.Block{
		"ca.pem":     {Type: "CERTIFICATE", Bytes: authority.Raw},
		"server.pem": {Type: "CERTIFICATE", Bytes: server.Raw},
		"server.key": {Type: "EC PRIVATE KEY", Bytes: der},
		"client.pem": {Type: "CERTIFICATE", Bytes: client.Raw},
		"client.key": {Type: "EC PRIVATE KEY", Bytes: clientDER},
	} {
		fail(os.WriteFile(filepath.Join(c.dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return c
}

// issue makes a key and a certificate for it, signed by the authority, or by itself if there is
// none.
func issue(name string, authority *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey,
	error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "holdfast test " + name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		BasicConstraintsValid: true,
	}
	if authority == nil {
		t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign
		authority, key = t, own
	}
	der, err := x509.CreateCertificate(rand.Reader, t, authority, own.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, own, err
}

// Client returns a client's side: it trusts the authority and shows the client's certificate. Each
// call returns a new copy, which the caller may change.
func (c *Certs) Client() *tls.Config {
	return &tls.Config{
		RootCAs: c.roots, Certificates: []tls.Certificate{c.client}, ServerName: "127.0.0.1",
		MinVersion: tls.VersionTLS12,
	}
}

// Files are what [Certs.Client] has, as files in PEM: the authority, the client's certificate, its key.
func (c *Certs) Files() (authority, certificate, key string) {
	return filepath.Join(c.dir, "ca.pem"), filepath.Join(c.dir, "client.pem"), filepath.Join(c.dir, "client.key")
}

// args make a server speak TLS on the port.
func (c *Certs) args(port int) []string {
	return []string{
		"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes", "--tls-ca-cert-file",
		filepath.Join(c.dir, "ca.pem"),
		"--tls-cert-file", filepath.Join(c.dir, "server.pem"), "--tls-key-file", filepath.Join(c.dir, "server.key"),
	}
}

// TLSAddr is the address on which a server started with [TLS] speaks it.
func (s *Server) TLSAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort)) }
