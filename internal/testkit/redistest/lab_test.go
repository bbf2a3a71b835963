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
		require.NoError(t, rdb.Set(ctx, "short", "v", 10*time.Second).Err())
		require.NoError(t, rdb.Set(ctx, "long", "v", time.Minute).Err())
		s.MoveClock(t, -5*time.Second)
		require.Greater(t, rdb.PTTL(ctx, "short").Val(), 10*time.Second, "later by the server's clock")
		s.MoveClock(t, 16*time.Second)
		require.ErrorIs(t, rdb.Get(ctx, "short").Err(), redis.Nil, "11 s have passed on the server")
		require.Equal(t, "v", rdb.Get(ctx, "long").Val())
		ahead := time.Until(rdb.Time(ctx).Val())
		require.Greater(t, ahead, 5*time.Second)
		require.Less(t, ahead, 12*time.Second)
	})
}

// The control of the test above: without a move the key stays.
func TestAClockThatIsNotMovedIsTheMachines(t *testing.T) {
	s := Start(t, Clock())
	rdb := s.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "short", "v", 10*time.Second).Err())
	require.Equal(t, "v", rdb.Get(t.Context(), "short").Val())
	require.LessOrEqual(t, rdb.PTTL(t.Context(), "short").Val(), 10*time.Second)
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

func TestCommandReachesTheServer(t *testing.T) {
	each(t, func(t *testing.T, bin Option, _ Program) {
		s := Start(t, bin, Debug())
		require.Equal(t, "OK", s.Command(t, "CONFIG", "SET", "maxclients", "77"))
		require.Equal(t, []any{"maxclients", "77"}, s.Command(t, "CONFIG", "GET", "maxclients"))
		require.Equal(t, "OK", s.Command(t, "DEBUG", "SLEEP", "0"))
		require.Equal(t, "OK", s.Command(t, "ACL", "SETUSER", "x", "on", "nopass", "+ping"))
		_, err := s.Try("GET")
		require.ErrorContains(t, err, "wrong number")
		require.Equal(t, "master", s.Field(t, "replication", "role"))
	})
}

func TestMastersAreIndependent(t *testing.T) {
	masters := StartMasters(t, 3)
	masters[0].Command(t, "SET", "k", "v")
	require.Equal(t, "v", masters[0].Command(t, "GET", "k"))
	require.Nil(t, masters[1].Command(t, "GET", "k"))
	require.Nil(t, masters[2].Command(t, "GET", "k"))
}

func TestReplicatedKeepsWhatWasReplicatedAndLosesTheRest(t *testing.T) {
	each(t, func(t *testing.T, bin Option, _ Program) {
		r := StartReplicated(t, 2, bin)
		rdb, ctx := r.Client(t), t.Context()
		old := r.Primary()
		require.NoError(t, rdb.Set(ctx, "kept", "v", time.Minute).Err())
		r.AwaitReplicas(ctx, t)
		for _, s := range r.Replicas() {
			r.Detach(t, s)
		}
		require.NoError(t, rdb.Set(ctx, "lost", "v", time.Minute).Err())
		promoted := r.Failover(t)
		require.Same(t, r.Nodes[1], promoted)
		require.Same(t, promoted, r.Primary())
		require.Eventually(t, func() bool { return rdb.Set(ctx, "new", "v", time.Minute).Err() == nil }, 5*time.Second,
			2*time.Millisecond, "READONLY turns the client to the new primary")
		require.Equal(t, "v", rdb.Get(ctx, "kept").Val())
		require.ErrorIs(t, rdb.Get(ctx, "lost").Err(), redis.Nil)
		require.Equal(t, "v", promoted.Command(t, "GET", "new"))
		r.Rejoin(t, old)
		require.Nil(t, old.Command(t, "GET", "lost"), "the old primary forgets, too")
		r.AwaitReplicas(ctx, t)
	})
}

// The control of the test above: with the links in place nothing is lost.
func TestReplicatedLosesNothingThatReplicasHave(t *testing.T) {
	r := StartReplicated(t, 1)
	rdb := r.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
	r.AwaitReplicas(t.Context(), t)
	r.Primary().Kill()
	promoted := r.Failover(t)
	require.Equal(t, "v", promoted.Command(t, "GET", "k"))
	require.Eventually(t, func() bool { return rdb.Get(t.Context(), "k").Val() == "v" }, 5*time.Second,
		2*time.Millisecond)
}
