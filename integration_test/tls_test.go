package integration_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// overTLS returns a client of the server's TLS port with that configuration, nil for none.
func overTLS(t *testing.T, srv *redistest.Server, conf *tls.Config) *redis.Client {
	return redistest.NewClient(t, srv.TLSAddr(), func(o *redis.Options) {
		o.TLSConfig = conf
		o.DialTimeout, o.ReadTimeout = 2*time.Second, 2*time.Second // plain text to a TLS port is answered by silence
	})
}

// needsTLS skips the test, loudly, where the program was built without TLS. Such a program does not
// know the directive; others do not like its value. Neither starts.
func needsTLS(t *testing.T, p redistest.Program) {
	t.Helper()
	out, _ := exec.Command(p.Path, "--tls-port", "none").CombinedOutput()
	if strings.Contains(string(out), "Bad directive") {
		redistest.Unavailable(t, p.Path+" was built without TLS")
	}
}

// TestStoryOverTLS: a lock's whole life, wake-ups included, over TLS with client certificates. That
// the port asks for them is the next test.
func TestStoryOverTLS(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		needsTLS(t, p)
		certs := redistest.NewCerts(t)
		srv := redistest.Start(t, redistest.Exec(p.Path), redistest.TLS(certs))
		story(t, func() redis.UniversalClient { return overTLS(t, srv, certs.Client()) }, "orders:42")
	})
}

// TestRefusedByTLS: who is not let in is told why, within the retry budget and not at the end of
// the context.
func TestRefusedByTLS(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		needsTLS(t, p)
		t.Parallel()
		certs, strangers := redistest.NewCerts(t), redistest.NewCerts(t)
		srv := redistest.Start(t, redistest.Exec(p.Path), redistest.TLS(certs))
		bare := certs.Client()
		bare.Certificates = nil
		foreign := strangers.Client()
		foreign.RootCAs = certs.Client().RootCAs
		for name, c := range map[string]struct {
			conf *tls.Config
			says string
		}{
			"no certificate":                     {bare, "certificate required"},
			"certificate of another authority":   {foreign, "unknown certificate authority"},
			"server that is not trusted":         {strangers.Client(), "certificate signed by unknown authority"},
			"plain text to a port that is TLS's": {nil, ""},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				client := newClient(t, overTLS(t, srv, c.conf), &holdfast.Options{RetryBudget: 100 * time.Millisecond})
				m := rlock.New(client, "orders:42")
				for op, try := range map[string]func() error{
					"lock":  func() error { _, err := m.Lock(ctx); return err },
					"state": func() error { _, err := m.State(ctx); return err },
				} {
					err := try()
					// The server refuses a certificate after it has called the handshake done, and
					// its reason may be overtaken by the end of the connection.
					for ctx.Err() == nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
						err = try()
					}
					require.Error(t, err)
					require.NoError(t, ctx.Err(), "%s waited for its context", op)
					require.ErrorContains(t, err, "rlock: "+op+` "orders:42": `)
					require.ErrorContains(t, err, c.says)
					t.Logf("%v", err)
				}
			})
		}
		require.Zero(t, srv.Client(t).DBSize(t.Context()).Val())
	})
}
