package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestTLS: a server that asks for a certificate of its authority lets in who shows one, by flags and
// by the environment, and whoever lacks a file is told which flag it is.
func TestTLS(t *testing.T) {
	t.Parallel()
	certs := redistest.NewCerts(t)
	srv := redistest.Start(t, redistest.TLS(certs))
	ca, cert, key := certs.Files()
	stranger, strangersKey := strangers(t)
	for what, c := range map[string]struct {
		address string
		flags   []string
		env     []string
		code    int
		says    string
	}{
		"all of them": {"rediss://" + srv.TLSAddr(), []string{"--tls-ca", ca, "--tls-cert", cert, "--tls-key", key},
			nil, 0, ""},
		"from environment": {"rediss://" + srv.TLSAddr(), nil, []string{"HOLDFAST_TLS_CA=" + ca, "HOLDFAST_TLS_CERT=" +
			cert, "HOLDFAST_TLS_KEY=" + key}, 0, ""},
		"no authority": {"rediss://" + srv.TLSAddr(), []string{"--tls-cert", cert, "--tls-key", key}, nil, exitNoServer,
			"give the certificate of its authority as --tls-ca"},
		"no certificate": {"rediss://" + srv.TLSAddr(), []string{"--tls-ca", ca}, nil, exitNoServer,
			"as --tls-cert and --tls-key"},
		"a stranger's": {"rediss://" + srv.TLSAddr(), []string{"--tls-ca", ca, "--tls-cert", stranger, "--tls-key",
			strangersKey}, nil, exitNoServer, "as --tls-cert and --tls-key"},
		"plain client": {"redis://" + srv.TLSAddr(), nil, nil, exitNoServer, "write rediss://"},
	} {
		t.Run(what, func(t *testing.T) {
			args := append([]string{"run", "--name", t.Name(), "--redis", c.address}, c.flags...)
			p := start(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, c.env...) }, append(args, "--", "true")...)
			require.Equal(t, c.code, p.end(), p.stderr.String())
			require.Contains(t, p.stderr.String(), c.says)
		})
	}
}

// TestHungUpOn: the server's alert may be lost to a reset, and what remains is a connection that was closed.
func TestHungUpOn(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF} {
		says := newAddress("rediss://h:1").unanswered(fmt.Errorf("write tcp: %w", err))
		require.Contains(t, says, "as --tls-cert and --tls-key", err)
	}
	require.NotContains(t, newAddress("rediss://h:1").unanswered(syscall.ECONNREFUSED), "--tls-cert")
}

// strangers are a certificate and its key, of another authority.
func strangers(t *testing.T) (cert, key string) {
	_, cert, key = redistest.NewCerts(t).Files()
	return cert, key
}

// TestTLSFiles: a mistake in the files is found before anything is sent, for every form of an
// address: nothing listens at this one.
func TestTLSFiles(t *testing.T) {
	ca, cert, key := redistest.NewCerts(t).Files()
	_, other := strangers(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for what, c := range map[string]struct {
		args []string
		says []string
	}{
		"no such file": {[]string{"--tls-ca", "/no/ca.pem"}, []string{"--tls-ca", "/no/ca.pem", "no such file",
			"in PEM"}},
		"no certificate in it": {[]string{"--tls-ca", empty}, []string{"--tls-ca", empty, "BEGIN CERTIFICATE"}},
		"no key":               {[]string{"--tls-cert", cert}, []string{cert, "--tls-key is missing"}},
		"no certificate":       {[]string{"--tls-key", key}, []string{key, "--tls-cert is missing"}},
		"another's key": {[]string{"--tls-cert", cert, "--tls-key", other}, []string{"does not match",
			"give a certificate and its key"}},
		"without TLS": {[]string{"--redis", "redis://:pw@h", "--tls-ca", ca}, []string{"redis://***@h",
			"without TLS", "write rediss://"}},
		"a cluster without": {[]string{"--redis", "h1,h2", "--tls-ca", ca}, []string{"h1,h2", "without TLS",
			"write rediss://"}},
		"a Sentinel without": {[]string{"--redis", "redis+sentinel://h/m", "--tls-ca", ca}, []string{"without TLS",
			"write rediss://"}},
	} {
		t.Run(what, func(t *testing.T) {
			args := append([]string{"run", "--name", "n", "--redis", "rediss://127.0.0.1:1"}, c.args...)
			if len(c.args) == 4 && c.args[0] == "--redis" {
				args = append([]string{"run", "--name", "n"}, c.args...)
			}
			code, _, stderr := says(append(args, "--", "true")...)
			require.Equal(t, exitUsage, code, stderr)
			for _, text := range c.says {
				require.Contains(t, stderr, text)
			}
			require.NotContains(t, stderr, "pw")
		})
	}
}
