package integration_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// workerEnv makes the test binary a worker process: "<address> <rounds>". It locks and unlocks that
// often and prints each token; 0 rounds: it locks once, prints the token and holds until it is
// killed.
const workerEnv = "HOLDFAST_TEST_WORKER"

const workerLock = "processes"

func TestMain(m *testing.M) {
	for env, work := range map[string]func(string) error{workerEnv: work, chainEnv: handOn, fairEnv: lockFairly,
		waitersEnv: waitFairly} {
		if job := os.Getenv(env); job != "" {
			if err := work(job); err != nil {
				fmt.Println("error:", err)
				os.Exit(1)
			}
			return
		}
	}
	// More at once than there are cores: the tests that run in parallel mostly wait, for a lease or
	// for an election.
	_ = flag.Set("test.parallel", "8")
	redistest.Main(m)
}

func work(job string) error {
	addr, count, _ := strings.Cut(job, " ")
	rounds, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	opts := &holdfast.Options{}
	if rounds == 0 {
		opts.Lease = 2 * time.Second
	}
	c, err := holdfast.New(rdb, opts)
	if err != nil {
		return err
	}
	m := rlock.New(c, workerLock)
	for i := 0; i < max(rounds, 1); i++ {
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		fmt.Println(h.Token())
		if rounds == 0 {
			<-ctx.Done()
		}
		if err := h.Unlock(ctx); err != nil {
			return err
		}
	}
	return c.Close(ctx)
}

// startProcess starts the test binary as one of the processes of [TestMain], killed at the end of the test if it still
// runs. in is what it reads, and lines are what it prints.
func startProcess(t *testing.T, env string, job ...any) (cmd *exec.Cmd, in io.Writer, lines *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+strings.TrimSpace(fmt.Sprintln(job...)))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, in, bufio.NewScanner(out)
}

// TestTwoProcesses: two processes hand a lock with a lease of 30 s to and fro, 200 times each. None
// waits for the lease or for a tick, or it would not be done in time.
func TestTwoProcesses(t *testing.T) {
	const rounds = 200
	srv := redistest.Start(t)
	var cmds [2]*exec.Cmd
	var lines [2]*bufio.Scanner
	for i := range cmds {
		cmds[i], _, lines[i] = startProcess(t, workerEnv, srv.Addr(), rounds)
	}
	seen := map[string]bool{}
	for i := range cmds {
		last := ""
		for lines[i].Scan() {
			token := lines[i].Text()
			require.Greater(t, token, last, "tokens of one process grow")
			require.False(t, seen[token], "no token is granted twice")
			seen[token], last = true, token
		}
		require.NoError(t, cmds[i].Wait())
	}
	require.Len(t, seen, 2*rounds)
	calls := srv.CommandCalls(t)
	require.LessOrEqual(t, calls["evalsha"]+calls["eval"], int64(2*rounds*4),
		"two scripts a turn and two lost attempts: %v", calls)
}

// TestHolderKilled: a process that holds the lock is killed with SIGKILL. The waiter gets it when
// its lease has ended, with a greater token.
func TestHolderKilled(t *testing.T) {
	srv := redistest.Start(t)
	cmd, _, lines := startProcess(t, workerEnv, srv.Addr(), 0)
	require.True(t, lines.Scan())
	first, err := strconv.ParseUint(lines.Text(), 10, 64)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // "signal: killed"

	h, err := rlock.New(newClient(t, srv.Client(t), nil), workerLock).Lock(t.Context(), holdfast.Wait(patience))
	require.NoError(t, err)
	require.Greater(t, h.Token(), first)
	require.NoError(t, h.Unlock(t.Context()))
}
