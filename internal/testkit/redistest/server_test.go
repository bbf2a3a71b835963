package redistest

import (
	"context"
	"os"
	"testing"
	"time"

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

func (p *probe) Helper()         {}
func (p *probe) Skip(why ...any) { p.skipped = why[0].(string) }
func (p *probe) Fatal(why ...any) {
	p.failed = why[0].(string)
}

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
