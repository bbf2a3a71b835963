//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestDemo runs the demo as users do: a binary that was built, without arguments, on what there is. It takes
// its time (see paceEnv), so all demos run at once.
func TestDemo(t *testing.T) {
	t.Parallel()
	redistest.Shared(t) // skips, or fails in CI, where there is none
	bin := filepath.Join(t.TempDir(), "holdfast")
	out, err := exec.Command("go", "build", raceFlag, "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, string(out))

	srv := redistest.Start(t)
	private, emulated := inEmptyDir(t, bin, "demo"), inEmptyDir(t, bin, "demo", "--emulation")
	users := start(t, bin, nil, "demo", "--redis", "redis://"+srv.Addr())
	none := start(t, bin, func(c *exec.Cmd) { c.Env = append(c.Env, "PATH=", serverEnv+"=") }, "demo")
	broken := start(t, bin, func(c *exec.Cmd) { c.Env = append(c.Env, serverEnv+"=false") }, "demo")

	requireGreen(t, private)
	require.Contains(t, private.stdout.String(), "started for this demo")
	requireGreen(t, emulated)
	requireGreen(t, users)
	require.Contains(t, users.stdout.String(), srv.Addr())
	require.Zero(t, srv.Client(t).DBSize(context.Background()).Val(), "every key is deleted")
	requireGreen(t, none)
	require.Contains(t, none.stdout.String(), "emulation of Redis (miniredis), there is no redis-server on the PATH")
	requireGreen(t, broken)
	require.Contains(t, broken.stdout.String(), "false did not start: it ended at once")
}

// requireGreen waits for the end of a demo that shows that all is well, on one page.
func requireGreen(t *testing.T, p *program) {
	t.Helper()
	require.Zero(t, p.end())
	screen := p.stdout.String()
	require.Contains(t, screen, "All 39 checks passed")
	require.Equal(t, 39, strings.Count(screen, "  ok  "))
	require.NotContains(t, screen, "FAILED")
	require.NotContains(t, screen, "\x1b", "no colours where there is no terminal")
	require.Empty(t, p.stderr.String())
	lines := strings.Split(strings.TrimSpace(screen), "\n")
	require.LessOrEqual(t, len(lines), 85)
	for _, line := range lines {
		if strings.Contains(strings.TrimSpace(line), " ") { // not an address, which is left whole
			require.LessOrEqual(t, utf8.RuneCountInString(line), columns, line)
		}
	}
}

// inEmptyDir starts a demo whose temporary files are looked for at the end of the test.
func inEmptyDir(t *testing.T, bin string, args ...string) *program {
	t.Helper()
	tmp, err := os.MkdirTemp("", "demo-") // t.TempDir can be too long a path for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(tmp)) })
	p := start(t, bin, func(c *exec.Cmd) { c.Env = append(c.Env, "TMPDIR="+tmp) }, args...)
	t.Cleanup(func() {
		if p.ProcessState == nil || p.ProcessState.ExitCode() == -1 {
			return // killed: it could not
		}
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "temporary files are left")
	})
	return p
}

// The controls: on a server that does not do what a lock needs, the demo says so and fails.
func TestDemoFailsOnABrokenServer(t *testing.T) {
	t.Parallel()
	t.Run("leases never end", func(t *testing.T) {
		m := miniredis.RunT(t) // its clock stands still
		p := start(t, os.Args[0], nil, "demo", "--redis", "redis://"+m.Addr())
		require.Equal(t, exitFailed, p.end())
		require.Contains(t, p.stdout.String(), "FAILED  the demo cannot go on")
		require.Contains(t, p.stdout.String(), "checks FAILED.")
		require.Empty(t, m.Keys(), "cleaned up all the same")
	})
	t.Run("locks are taken away", func(t *testing.T) {
		srv := redistest.Start(t)
		rdb := srv.Client(t)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if locks := rdb.Keys(ctx, "demo-lock:*").Val(); len(locks) > 0 {
					rdb.Del(ctx, locks...)
				}
			}
		}()
		p := start(t, os.Args[0], nil, "demo", "--redis", "redis://"+srv.Addr())
		code := p.end()
		cancel()
		<-done
		require.Equal(t, exitFailed, code)
		require.Contains(t, p.stdout.String(), "FAILED")
	})
	t.Run("nobody answers", func(t *testing.T) {
		srv := redistest.Start(t)
		srv.Kill()
		p := start(t, os.Args[0], nil, "demo", "--redis", "redis://:pw@"+srv.Addr())
		require.Equal(t, exitHoldfast, p.end())
		require.Contains(t, p.stderr.String(), "no answer from Redis at redis://***@"+srv.Addr())
	})
}

// Ctrl-C leaves nothing behind; that workers and server have ended is seen by the end of their
// pipes and socket.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	redistest.Shared(t)
	soon, late := inEmptyDir(t, os.Args[0], "demo"), inEmptyDir(t, os.Args[0], "demo")
	for _, p := range []*program{soon, late} {
		when := "B tries"
		if p == late {
			when = "E tries"
		}
		p.prints(t, when)
		require.NoError(t, p.Process.Signal(os.Interrupt))
		require.Equal(t, exitSignal+int(syscall.SIGINT), p.end(), when)
	}
}

// Keys on the server of a user are deleted also after Ctrl-C.
func TestDemoInterruptedDeletesItsKeys(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := start(t, os.Args[0], nil, "demo", "--redis", "redis://"+srv.Addr())
	p.prints(t, "B tries")
	require.NotZero(t, srv.Client(t).DBSize(context.Background()).Val())
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitSignal+int(syscall.SIGTERM), p.end())
	require.Zero(t, srv.Client(t).DBSize(context.Background()).Val())
}

// A demo that is killed takes its workers and its servers with it.
func TestDemoKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a signal for the death of a parent")
	}
	t.Parallel()
	redistest.Shared(t)
	soon, late := inEmptyDir(t, os.Args[0], "demo"), inEmptyDir(t, os.Args[0], "demo")
	for _, p := range []*program{soon, late} {
		when, servers := "B tries", 1
		if p == late {
			when, servers = "E tries", 4 // of the masters two may have been killed by then
		}
		p.prints(t, when)
		sockets, err := filepath.Glob(filepath.Join(tmpOf(p), "holdfast-*", "redis.sock"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(sockets), servers)
		require.NoError(t, p.Process.Kill())
		require.Equal(t, -1, p.end(), "and the workers have closed their stderr")
		for _, socket := range sockets {
			requireSilence(t, socket)
		}
	}
}

// requireSilence waits until nobody answers on a socket.
func requireSilence(t *testing.T, socket string) {
	t.Helper()
	rdb, err := connect("unix://" + socket + "?max_retries=-1")
	require.NoError(t, err)
	defer rdb.Close()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return rdb.Ping(ctx).Err() != nil
	}, "the server has ended")
}

func tmpOf(p *program) string {
	var tmp string
	for _, v := range p.Env {
		if value, ok := strings.CutPrefix(v, "TMPDIR="); ok {
			tmp = value
		}
	}
	return tmp
}

// The demo is the same behind Sentinel and on a Cluster.
func TestDemoOnOtherTopologies(t *testing.T) {
	level.ForAll(t) // the story is that of TestDemo
	t.Parallel()
	cluster, sentinel := redistest.StartCluster(t, 3, 0), redistest.StartSentinel(t)
	on := start(t, os.Args[0], nil, "demo", "--redis", "redis+cluster://"+strings.Join(cluster.Addrs(), ","))
	behind := start(t, os.Args[0], nil, "demo", "--redis",
		"redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+redistest.SentinelMaster)
	requireGreen(t, on)
	requireGreen(t, behind)
}
