package redistest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func TestStartAnswersAndNamesItself(t *testing.T) {
	s := Start(t)
	rdb := s.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
	require.Equal(t, "v", rdb.Get(t.Context(), "k").Val())
	require.NotEmpty(t, s.Version())
	require.GreaterOrEqual(t, s.Major(), 6)
	info := rdb.Info(t.Context(), "server").Val()
	require.Equal(t, strings.Contains(info, "valkey_version"), s.IsValkey())
}

func TestTwoServersAreTwo(t *testing.T) {
	a, b := Start(t), Start(t)
	require.NotEqual(t, a.Addr(), b.Addr())
	require.NoError(t, a.Client(t).Set(t.Context(), "k", "v", time.Minute).Err())
	require.ErrorIs(t, b.Client(t).Get(t.Context(), "k").Err(), redis.Nil)
}

func TestArgsReachTheServer(t *testing.T) {
	s := Start(t, Args("--maxclients", "77"))
	require.Equal(t, "77", s.Client(t).ConfigGet(t.Context(), "maxclients").Val()["maxclients"])
	require.Equal(t, "10000", Start(t).Client(t).ConfigGet(t.Context(), "maxclients").Val()["maxclients"])
}

func TestPauseHoldsAnswersBackUntilResume(t *testing.T) {
	s := Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 100*time.Millisecond, -1 })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	s.Pause()
	require.ErrorContains(t, rdb.Incr(t.Context(), "n").Err(), "i/o timeout")
	s.Resume()
	require.Eventually(t, func() bool { return rdb.Get(t.Context(), "n").Val() == "1" }, 5*time.Second,
		5*time.Millisecond,
		"a command that timed out in a paused server runs when it goes on")
}

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

func TestRestartKeepsThePortAndLosesTheData(t *testing.T) {
	s := Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	require.NoError(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
	addr := s.Addr()
	s.Kill()
	require.Error(t, rdb.Ping(t.Context()).Err())
	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.Eventually(t, func() bool { return errors.Is(rdb.Get(t.Context(), "k").Err(), redis.Nil) }, 5*time.Second,
		5*time.Millisecond)
}

func TestCommandCallsCountsWhatTheClientSent(t *testing.T) {
	s := Start(t)
	rdb := s.Client(t)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	s.ResetStats(t)
	require.Empty(t, s.CommandCalls(t))
	for range 3 {
		rdb.Incr(t.Context(), "n")
	}
	require.Equal(t, map[string]int64{"incr": 3}, s.CommandCalls(t))
	rdb.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"n"})
	require.Equal(t, map[string]int64{"incr": 4, "eval": 1}, s.CommandCalls(t))
	s.ResetStats(t)
	require.Empty(t, s.CommandCalls(t))
}

func TestAFreshClientSendsOnlyHello(t *testing.T) {
	s := Start(t)
	s.ResetStats(t)
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
	calls := s.CommandCalls(t)
	delete(calls, "hello")
	require.Equal(t, map[string]int64{"ping": 1}, calls)
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

func TestBinaryDoesNotFallBackFromAWrongVariable(t *testing.T) {
	t.Setenv(BinaryEnv, "/nonexistent/redis-server")
	_, ok := Binary()
	require.False(t, ok)
	require.Contains(t, missing(), "/nonexistent/redis-server")
}

// probe records how a test ended, in place of ending it.
type probe struct {
	testing.TB
	skipped, failed string
}

func (p *probe) Helper()         {}
func (p *probe) Skip(why ...any) { p.skipped = why[0].(string) }
func (p *probe) Fatal(why ...any) {
	p.failed = why[0].(string)
}

func TestWithoutAServerTestsAreSkippedButFailInCI(t *testing.T) {
	t.Setenv(BinaryEnv, "/nonexistent/redis-server")
	t.Setenv("CI", "")
	p := &probe{TB: t}
	binary(p)
	require.Contains(t, p.skipped, "REAL SERVER TEST NOT RUN")
	require.Empty(t, p.failed)
	t.Setenv("CI", "true")
	p = &probe{TB: t}
	binary(p)
	require.Contains(t, p.failed, "REAL SERVER TEST NOT RUN")
	require.Empty(t, p.skipped)
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	if _, ok := Binary(); !ok {
		Unavailable(t, missing())
	}
	bin, _ := Binary()
	s := &Server{tb: t, bin: bin, dir: t.TempDir(), args: []string{"--no-such-option", "1"}}
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
