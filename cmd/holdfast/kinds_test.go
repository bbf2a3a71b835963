//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestRunKinds: while a command runs under a lock of some kind, another of a kind gets in, or is
// kept out. Each pair has its opposite: so a kind that excludes nobody fails, and one that lets in
// nobody.
func TestRunKinds(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for what, c := range map[string]struct {
		first, second string
		code          int
	}{
		"rlock":             {"--kind rlock", "--kind rlock", exitNotHeld},
		"fair":              {"--kind fair", "--kind fair", exitNotHeld},
		"fair and not":      {"--kind fair", "", exitNotHeld},
		"readers":           {"--kind rw-read", "--kind rw-read", 0},
		"reader and writer": {"--kind rw-read", "--kind rw-write", exitNotHeld},
		"writer and reader": {"--kind rw-write", "--kind rw-read", exitNotHeld},
		"writers":           {"--kind rw-write", "--kind rw-write", exitNotHeld},
		"permits enough":    {"--kind semaphore --permits 2", "--kind semaphore --permits 2", 0},
		"permits too few":   {"--kind semaphore --permits 1", "--kind semaphore --permits 1", exitNotHeld},
		"too many permits":  {"--kind semaphore --permits 3 --take 2", "--kind semaphore --permits 3 --take 2", exitNotHeld},
		"election":          {"--kind election --value here", "--kind election", exitNotHeld},
	} {
		t.Run(what, func(t *testing.T) {
			args := func(flags string, argv ...string) []string {
				run := []string{"run", "--redis", "redis://" + srv.Addr(), "--name", t.Name(), "--wait", "0"}
				return append(append(run, strings.Fields(flags)...), argv...)
			}
			first := start(t, nil, args(c.first, "--", "sh", "-c", `trap 'exit 0' USR1; echo "$HOLDFAST_TOKEN."`+endless)...)
			first.prints(t, "ready")
			require.NotContains(t, first.stdout.String(), "\n.\n", "it has a token")
			code, _, stderr := says(args(c.second, "--", "true")...)
			require.Equal(t, c.code, code, stderr)
			first.told(t, forwarded()[0])
			code, _, stderr = says(args(c.second, "--", "true")...)
			require.Zero(t, code, "and is let in when it is free: %s", stderr)
		})
	}
}

// TestRunQuorum: the lock of three masters is kept by two of them. With one left it is said at once
// that too few answer, and not that somebody has it.
func TestRunQuorum(t *testing.T) {
	t.Parallel()
	masters := redistest.StartMasters(t, 3)
	var addresses []string
	var clients []*holdfast.Client
	for _, m := range masters {
		addresses = append(addresses, "redis://"+m.Addr())
		clients = append(clients, kindtest.NewClient(t, m.Client(t), nil))
	}
	run := func(flags ...string) *program {
		args := append([]string{"run", "--kind", "redlock", "--name", t.Name(), "--wait", "0"}, flags...)
		return start(t, func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, redisEnv+"="+strings.Join(addresses, " "))
		}, append(args, "--", "true")...)
	}
	// A busy machine may get no answer from its masters within redlock's MasterTimeout, and says so.
	answered := func() (p *program, code int) {
		for range 20 {
			p = run()
			if code = p.end(); code != exitNoServer {
				break
			}
		}
		return p, code
	}
	mutex := redlock.New(clients, t.Name(), redlock.MasterTimeout(5*time.Second))
	hold := kindtest.Lock(t, mutex)
	p, code := answered()
	require.Equal(t, exitNotHeld, code, p.stderr.String())
	require.Contains(t, p.stderr.String(), "was not acquired")
	require.NoError(t, hold.Unlock(t.Context()))
	p, code = answered()
	require.Zero(t, code, "three spaced addresses in the environment: %s", &p.stderr)

	masters[0].Kill()
	p, code = answered()
	require.Zero(t, code, "two of three are a majority: %s", &p.stderr)
	masters[1].Kill()
	p = run("--redis", addresses[0], "--redis", addresses[1], "--redis", addresses[2])
	require.Equal(t, exitNoServer, p.end())
	require.Contains(t, p.stderr.String(),
		"2 of 3 masters do not answer, and a majority must: no answer from Redis at redis://")
}
