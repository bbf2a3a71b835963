//go:build unix

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestRunKinds: while a command runs under a lock of some kind, another of a kind gets in, or is kept out. Each pair has its
// opposite: so a kind that excludes nobody fails, and one that lets in nobody.
func TestRunKinds(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for what, c := range map[string]struct {
		first, second string
		code          int
	}{
		"rlock":             {"--kind rlock", "--kind rlock", exitNotHeld},
		"fair":              {"--kind fair", "--kind fair", exitNotHeld},
		"another name":      {"--kind fairlock", "--kind fair", exitNotHeld},
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

// TestRunQuorum: two of three masters keep the lock. With one left it says at once that too few answer, not that it is held.
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

// severalOf are the names of a test's locks, with letters that separate names elsewhere, and the arguments that take them.
func severalOf(t *testing.T) (names, args []string) {
	names = []string{t.Name() + ":z", t.Name() + ":a, --also b", t.Name() + ":m"}
	return names, []string{"run", "--kind", "multilock", "--wait", "0", "--name", names[0], "--also", names[1], "--also=" + names[2], "--"}
}

// TestRunSeveral: the command runs while all are held, knows each one's token, and all are free afterwards.
func TestRunSeveral(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	rdb := srv.Client(t)
	names, args := severalOf(t)
	p := command(t, srv, append(args, "sh", "-c",
		`trap 'exit 0' USR1; printf '%s\n' "$HOLDFAST_NAME" "$HOLDFAST_TOKEN" "$HOLDFAST_NAME_1" "$HOLDFAST_TOKEN_1" `+
			`"$HOLDFAST_NAME_2" "$HOLDFAST_TOKEN_2" "$HOLDFAST_NAME_3" "$HOLDFAST_TOKEN_3" "$HOLDFAST_OWNER"`+endless)...)
	p.prints(t, "ready")
	said := strings.Split(p.stdout.String(), "\n")
	require.Equal(t, names[0], said[0])
	greatest := ""
	for i, name := range names {
		token, err := rdb.Get(t.Context(), keys.For(name).Token).Result()
		require.NoError(t, err)
		require.Equal(t, []string{name, token}, said[2+2*i:4+2*i])
		require.Equal(t, map[string]string{said[8]: "1"}, rdb.HGetAll(t.Context(), name).Val(), "one owner has them all")
		greatest = max(greatest, token) // of the same length
	}
	require.Equal(t, greatest, said[1])
	require.Zero(t, p.told(t, syscall.SIGUSR1), p.stderr.String())
	require.Zero(t, exists(t, rdb, names...))
}

// TestRunSeveralOrNone: the last lock is held. The command does not run, takes none, and says which. The control: it is free.
func TestRunSeveralOrNone(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	names, args := severalOf(t)
	other := command(t, srv, "run", "--name", names[2], "--", "sh", "-c", "trap 'exit 0' USR1"+endless)
	other.prints(t, "ready")
	p := command(t, srv, append(args, "echo", "ran")...)
	require.Equal(t, exitNotHeld, p.end())
	require.Empty(t, p.stdout.String())
	require.Contains(t, p.stderr.String(), `"`+names[2]+`" was not acquired`)
	require.Zero(t, exists(t, srv.Client(t), names[:2]...))
	other.told(t, syscall.SIGUSR1)
	p = command(t, srv, append(args, "echo", "ran")...)
	require.Zero(t, p.end())
	require.Equal(t, "ran\n", p.stdout.String())
}

// TestRunSeveralLost: one of them is taken from the command, which is ended; the others are given back.
func TestRunSeveralLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	names, args := severalOf(t)
	args = append([]string{args[0], "--lease", "20s"}, args[1:]...)
	p := command(t, srv, append(args, "sh", "-c", strings.TrimPrefix(endless, "; "))...)
	p.prints(t, "ready")
	require.EqualValues(t, 1, srv.Client(t).Del(t.Context(), names[1]).Val())
	require.Equal(t, exitLost, p.end())
	has(t, p.stderr.String(), `rlock "`+names[1]+`": lock lost`, "was lost while the command ran")
	require.Zero(t, exists(t, srv.Client(t), names...))
}
