package redistest

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// each runs a test on every server program there is.
func each(t *testing.T, test func(t *testing.T, bin Option, p Program)) {
	for _, p := range Programs(t) {
		t.Run(p.Name, func(t *testing.T) { test(t, Exec(p.Path), p) })
	}
}

func TestProgramsAreWhatTheyAreCalled(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		s := Start(t, bin)
		require.Equal(t, p.Version, s.Version())
		require.Equal(t, p.Valkey, s.IsValkey())
	})
}

func TestProgramsAreSortedAndOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	for name, says := range map[string]string{
		"a": "Valkey server v=8.1.1 sha=0", "b": "Redis server v=8.10.0 sha=0", "c": "Redis server v=8.6.3 sha=0",
		"d": "Redis server v=8.6.3 sha=0", "e": "Redis server v=6.0.16 sha=0",
	} {
		script := "#!/bin/sh\necho " + says + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name+"-server"), []byte(script), 0o700)) //nolint:gosec // it is run
	}
	t.Setenv(ServersEnv, dir)
	t.Setenv(BinaryEnv, filepath.Join(dir, "bin", "d-server"))
	var names []string
	for _, p := range Programs(t) {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"redis-6.0.16", "redis-8.6.3", "redis-8.10.0", "valkey-8.1.1"}, names)
}

func TestAClockMovesBothWaysAndTimesToLiveWithIt(t *testing.T) {
	each(t, func(t *testing.T, bin Option, _ Program) {
		s := Start(t, bin, Clock())
		rdb, ctx := s.Client(t), t.Context()
		require.NoError(t, rdb.Set(ctx, "short", "v", 100*time.Second).Err())
		require.NoError(t, rdb.Set(ctx, "long", "v", 1000*time.Second).Err())
		require.LessOrEqual(t, rdb.PTTL(ctx, "short").Val(), 100*time.Second, "control: as on the machine")
		s.MoveClock(t, -50*time.Second)
		require.Greater(t, rdb.PTTL(ctx, "short").Val(), 100*time.Second, "later by the server's clock")
		s.MoveClock(t, 160*time.Second)
		require.ErrorIs(t, rdb.Get(ctx, "short").Err(), redis.Nil, "110 s have passed on the server")
		require.Equal(t, "v", rdb.Get(ctx, "long").Val())
		ahead := time.Until(rdb.Time(ctx).Val())
		require.Greater(t, ahead, 50*time.Second)
		require.Less(t, ahead, 120*time.Second)
	})
}

func TestTLSAsksForACertificateOfTheAuthority(t *testing.T) {
	each(t, func(t *testing.T, bin Option, _ Program) {
		certs := NewCerts(t)
		s := Start(t, bin, TLS(certs))
		ping := func(conf *tls.Config) error {
			rdb := NewClient(t, s.TLSAddr(), func(o *redis.Options) { o.TLSConfig, o.MaxRetries = conf, -1 })
			return rdb.Ping(t.Context()).Err()
		}
		require.NoError(t, ping(certs.Client()))
		bare := certs.Client()
		bare.Certificates = nil
		require.Error(t, ping(bare), "no certificate")
		stranger := NewCerts(t).Client()
		require.ErrorContains(t, ping(stranger), "unknown authority")
		stranger.RootCAs = certs.Client().RootCAs
		require.Error(t, ping(stranger), "a certificate of another authority")
		require.Error(t, ping(nil), "no TLS")
	})
}
