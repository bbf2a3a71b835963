package redistest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func TestAPausedServerIsKilledByTheCleanup(t *testing.T) {
	var s *Server
	t.Run("paused", func(t *testing.T) {
		s = Start(t)
		s.Pause()
	})
	select {
	case <-s.proc.exited:
	default:
		t.Fatal("the server outlives its test")
	}
}

func TestSharedIsOneServerAndCannotBeStopped(t *testing.T) {
	s := Shared(t)
	require.Same(t, s, Shared(t))
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	require.PanicsWithValue(t, "redistest: Kill of the shared server would hit other tests; use redistest.Start",
		s.Kill)
	require.Panics(t, s.Pause)
	require.Panics(t, s.Restart)
}

// probe records how a test ended, in place of ending it.
type probe struct {
	testing.TB
	skipped, failed string
}

func (p *probe) Helper()          {}
func (p *probe) Skip(why ...any)  { p.skipped = why[0].(string) }
func (p *probe) Fatal(why ...any) { p.failed = why[0].(string) }

// TestWithoutAServerTestsAreSkippedButFailInCI: one that a variable names and is not there is none, whatever others there are.
func TestWithoutAServerTestsAreSkippedButFailInCI(t *testing.T) {
	t.Setenv(BinaryEnv, "/nonexistent/redis-server")
	t.Setenv("CI", "")
	p := &probe{TB: t}
	binary(p)
	require.Contains(t, p.skipped, "REAL SERVER TEST NOT RUN: "+BinaryEnv+"=/nonexistent/redis-server")
	require.Empty(t, p.failed)
	t.Setenv("CI", "true")
	p = &probe{TB: t}
	binary(p)
	require.Contains(t, p.failed, "REAL SERVER TEST NOT RUN")
	require.Empty(t, p.skipped)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	s := &Server{tb: t, bin: binary(t), dir: t.TempDir(), args: []string{"--no-such-option", "1"}}
	require.ErrorContains(t, s.start(), "no-such-option")
}

func TestAStolenPortIsNoticed(t *testing.T) {
	first := Start(t)
	second := &Server{tb: t, bin: first.bin, dir: t.TempDir(), port: first.port}
	require.ErrorContains(t, second.run(), "did not start")
	require.NoError(t, second.start(), "it tries another port")
	t.Cleanup(second.proc.kill)
	require.NotEqual(t, first.port, second.port)
}

func TestNothingIsWritten(t *testing.T) {
	s := Start(t)
	require.NoError(t, s.Client(t).Set(context.Background(), "k", "v", time.Minute).Err())
	s.Kill()
	files, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "only the log")
}

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

// has waits until a client, which may still ask the server of before, has a key.
func has(t *testing.T, rdb redis.Cmdable, key string) {
	require.Eventually(t, func() bool { return rdb.Get(t.Context(), key).Val() == "v" }, 3*patience, pollEvery)
}

// TestClusterMovesSlotsAndMasters: a slot moves, then masters change in four ways, in one cluster, as it takes 2 s to start.
func TestClusterMovesSlotsAndMasters(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		c := StartCluster(t, 3, 1, bin)
		rdb, ctx := c.Client(t), t.Context()
		require.NoError(t, rdb.Set(ctx, "{k}1", "v", time.Minute).Err())
		require.NoError(t, rdb.Set(ctx, "{k}2", "v", time.Minute).Err())
		masters := c.Masters(t)
		require.Len(t, masters, 3)

		from, to := c.Master(t, "{k}"), masters[0]
		if from == to {
			to = masters[1]
		}
		m := c.BeginMove(t, "{k}", to)
		m.Key(t, "{k}1")
		_, err := from.Try("GET", "{k}1")
		require.ErrorContains(t, err, "ASK ")
		_, err = from.Try("MGET", "{k}1", "{k}2")
		if strings.HasPrefix(p.Version, "6.") {
			require.ErrorContains(t, err, "ASK ")
		} else {
			require.ErrorContains(t, err, "TRYAGAIN")
		}
		require.Equal(t, "v", from.Command(t, "GET", "{k}2"))
		has(t, rdb, "{k}1")
		m.Keys(t)
		m.Finish(t)
		require.Same(t, to, c.Master(t, "{k}"))
		_, err = from.Try("GET", "{k}2")
		require.ErrorContains(t, err, "MOVED ")
		require.Equal(t, "v", to.Command(t, "GET", "{k}2"))
		require.Greater(t, rdb.PTTL(ctx, "{k}2").Val(), 50*time.Second, "times to live move along")

		c.MoveSlot(t, "{k}", from)
		require.Same(t, from, c.Master(t, "{k}"))
		switched := c.Switch(t, "{k}")
		require.NotSame(t, from, switched)
		require.Equal(t, "v", switched.Command(t, "GET", "{k}1"), "an agreed failover loses nothing")

		c.AwaitReplicas(ctx, t, "{k}")
		killed, promoted := c.KillMaster(t, "{k}")
		require.Same(t, switched, killed)
		require.Same(t, from, promoted)
		require.Equal(t, "v", promoted.Command(t, "GET", "{k}1"))

		killed.Restart()
		awaitLink(t, killed)
		c.ReplaceSilent() // also the one that was started anew
		promoted.Pause()
		require.Same(t, killed, c.AwaitPromotion(t, "{k}", promoted))
		promoted.Resume()
		awaitLink(t, promoted)
		require.Eventually(t, func() bool { return len(c.Replicas(t, "{k}")) == 1 }, patience, pollEvery)
		require.Same(t, promoted, c.Failover(t, "{k}"))
		has(t, rdb, "{k}1")
	})
}

// TestSentinelsReplaceThePrimary when they are told to, and when it is silent.
func TestSentinelsReplaceThePrimary(t *testing.T) {
	each(t, func(t *testing.T, bin Option, p Program) {
		s := StartSentinel(t, bin)
		require.Equal(t, p.Version, s.Sentinels[0].Version())
		written := func(s *Sentinel) *redis.Client {
			rdb := s.Client(t)
			require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
			s.AwaitReplica(t.Context(), t)
			return rdb
		}
		rdb := written(s)
		require.Same(t, s.Nodes[0], s.Primary(t))
		promoted := s.Failover(t)
		require.Same(t, s.Nodes[1], promoted)
		has(t, rdb, "k")
		silent := StartSentinel(t, bin)
		rdb = written(silent)
		silent.ReplaceSilent()
		silent.Nodes[0].Kill()
		require.Same(t, silent.Nodes[1], silent.AwaitPromotion(t, silent.Nodes[0]))
		has(t, rdb, "k")
	})
}
