//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// endless is a shell loop that a signal ends between two of its short sleeps.
const endless = "; echo ready; while :; do sleep 0.02; done"

// hold takes the lock of a test for somebody else, until the test ends.
func hold(t *testing.T, srv *redistest.Server) *holdfast.Hold {
	t.Helper()
	return kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), t.Name()))
}

// The command runs while the lock is held, knows owner and token, reads stdin, and the lock is free afterwards.
func TestRunHoldsTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	rdb := srv.Client(t)
	ctx := context.Background()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	p := start(t, func(c *exec.Cmd) { c.Stdin = r }, "run", "--redis", "redis://"+srv.Addr(), "--name",
		t.Name(),
		"--", "sh", "-c", `echo "$HOLDFAST_NAME|$HOLDFAST_OWNER|$HOLDFAST_TOKEN|"; cat`)
	require.NoError(t, r.Close())
	p.prints(t, "|\n")

	held, err := rdb.HGetAll(ctx, t.Name()).Result()
	require.NoError(t, err)
	token, err := rdb.Get(ctx, keys.For(t.Name()).Token).Result()
	require.NoError(t, err)
	for owner, count := range held {
		client, _, _ := strings.Cut(owner, ":")
		says := func() bool {
			return regexp.MustCompile(`^.+@.+\[\d+\] sh$`).MatchString(rdb.Get(ctx, keys.Label(client)).Val())
		}
		eventually(t, says, "it says who it is")
		require.Equal(t, "1", count)
		require.Equal(t, t.Name()+"|"+owner+"|"+token+"|\n", p.stdout.String())
	}
	require.Len(t, held, 1)

	_, err = w.WriteString("from stdin\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Zero(t, p.end())
	require.Contains(t, p.stdout.String(), "from stdin")
	require.Empty(t, p.stderr.String())
	require.Zero(t, exists(t, rdb, t.Name()), "unlocked")
}

// A second run waits for the first.
func TestRunOneAtATime(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	first := command(t, srv, "run", "--name", t.Name(), "--label", "the first", "--", "sh", "-c", "trap 'exit 0' USR1"+endless)
	first.prints(t, "ready")
	eventually(t, func() bool {
		refused := command(t, srv, "run", "--name", t.Name(), "--wait", "500ms", "--", "true")
		return refused.end() == exitNotHeld && strings.Contains(refused.stderr.String(), " (the first), whose lease ha")
	}, "who waits asks who the first is")
	second := command(t, srv, "run", "--name", t.Name(), "--wait", "1m", "--", "echo", "second")
	awaitWaiter(t, srv)
	require.Empty(t, second.stdout.String())
	require.Zero(t, first.told(t, syscall.SIGUSR1))
	require.Zero(t, second.end())
	require.Equal(t, "second\n", second.stdout.String())
}

// awaitWaiter waits until somebody listens for the release of the test's lock.
func awaitWaiter(t *testing.T, srv *redistest.Server) {
	t.Helper()
	rdb, channel := srv.Client(t), keys.For(t.Name()).Channel
	eventually(t, func() bool {
		n, err := rdb.PubSubNumSub(context.Background(), channel).Result()
		return err == nil && n[channel] == 1
	}, "somebody waits for the lock")
}

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("not a program\n"), 0o600))
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("\x7fELF?"), 0o700)) //nolint:gosec // it has to be executable
	for what, c := range map[string]struct {
		argv []string
		code int
		says string
	}{
		"success":        {[]string{"true"}, 0, ""},
		"failure":        {[]string{"sh", "-c", "exit 3"}, 3, ""},
		"without --":     {[]string{"sh", "-c", "exit 4"}, 4, ""},
		"killed":         {[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		"terminated":     {[]string{"sh", "-c", "kill -TERM $$"}, 143, ""},
		"not found":      {[]string{"no-such-command"}, exitNotFound, "no-such-command: command not found"},
		"no such file":   {[]string{"/no/such/file"}, exitNotFound, "/no/such/file: command not found"},
		"not executable": {[]string{plain}, exitCannot, "not executable; chmod +x it"},
		"no program":     {[]string{broken}, exitCannot, "cannot execute"},
		"a directory":    {[]string{t.TempDir()}, exitCannot, "is a directory; give the path of a program"},
		"nothing":        {[]string{""}, exitNotFound, `the command is ""`},
	} {
		t.Run(what, func(t *testing.T) {
			args := []string{"run", "--name", t.Name(), "--"}
			if what == "without --" {
				args = args[:3]
			}
			p := command(t, srv, append(args, c.argv...)...)
			require.Equal(t, c.code, p.end())
			require.Contains(t, p.stderr.String(), c.says)
			require.Equal(t, c.says == "", p.stderr.String() == "")
			require.Zero(t, exists(t, srv.Client(t), t.Name()), "unlocked")
		})
	}
}

func TestRunNotAcquired(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	h := hold(t, srv)
	for _, wait := range []string{"0", "1s"} {
		p := command(t, srv, "run", "--name", t.Name(), "--wait", wait, "--", "echo", "ran")
		require.Equal(t, exitNotHeld, p.end())
		require.Empty(t, p.stdout.String())
		require.Contains(t, p.stderr.String(), "--wait is "+strings.TrimSuffix(wait, "0")) // "0s" for "0"
		require.Contains(t, p.stderr.String(), "was not acquired: ")
		require.NotContains(t, p.stderr.String(), "as Wait allows", "the flag is --wait")
		require.Contains(t, p.stderr.String(), "held by "+h.Owner()+", whose lease ha",
			"who holds it, and for how long still")
	}
	require.NoError(t, h.Unlock(context.Background()))
	require.Zero(t, command(t, srv, "run", "--name", t.Name(), "--wait", "0", "--", "true").end())
}

// TestRunNameOfSomethingElse: the key of somebody's data is not a busy lock: a crontab that skips then would skip for ever.
func TestRunNameOfSomethingElse(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	rdb := srv.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), t.Name(), "colour", "red").Err())
	for _, wait := range []string{"0", "1h"} {
		p := command(t, srv, "run", "--name", t.Name(), "--wait", wait, "--", "echo", "ran")
		require.Equal(t, exitHoldfast, p.end())
		require.Empty(t, p.stdout.String())
		require.Contains(t, p.stderr.String(), "the key "+t.Name()+" has no time to live, and its field \"colour\" is not a lock owner")
		require.Contains(t, p.stderr.String(), "choose another name")
	}
	require.Equal(t, "red", rdb.HGet(t.Context(), t.Name(), "colour").Val())
}

// TestRunOncePerPeriod: on two machines, whose clocks are apart by more than the job takes, a job is due. One of them runs it.
// The control: without the flag both do, as the lock is free again when the second one comes.
func TestRunOncePerPeriod(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	job := func(flags ...string) (ran int) {
		for range 2 {
			args := append([]string{"run", "--name", t.Name() + strings.Join(flags, ""), "--wait", "0"}, flags...)
			p := command(t, srv, append(args, "--", "echo", "ran")...)
			if code := p.end(); code == 0 {
				ran++
			} else {
				require.Equal(t, exitNotHeld, code)
			}
			require.Equal(t, p.ProcessState.Success(), p.stdout.String() == "ran\n")
		}
		return ran
	}
	require.Equal(t, 1, job("--at-least", "10m"))
	require.Equal(t, 2, job())
	require.Contains(t, runExample, "--wait 0 --at-least 10m --", "the help's crontab has it")
}

// TestRunFailedIsNotDone: with --at-least a failed command gives the lock back for the next machine; not with --even-if-failed.
func TestRunFailedIsNotDone(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	n := 0
	codes := func(cmd []string, flags ...string) (all []int) {
		n++
		for range 2 {
			args := append([]string{"run", "--name", t.Name() + strconv.Itoa(n), "--wait", "0", "--at-least", "10m"}, flags...)
			all = append(all, command(t, srv, append(append(args, "--"), cmd...)...).end())
		}
		return all
	}
	require.Equal(t, []int{3, 3}, codes([]string{"sh", "-c", "exit 3"}))
	require.Equal(t, []int{143, 143}, codes([]string{"sh", "-c", "kill -TERM $$"}))
	require.Equal(t, []int{0, exitNotHeld}, codes([]string{"true"}))
	require.Equal(t, []int{3, exitNotHeld}, codes([]string{"sh", "-c", "exit 3"}, "--even-if-failed"))
}

// TestLabelled: a refusal has the label of the owner that it names, and of no other whose name begins alike, though the first
// of the masters does not answer. The control: an owner that has nothing has no label.
func TestLabelled(t *testing.T) {
	t.Parallel()
	srv, silent := redistest.Shared(t), redistest.Start(t)
	r := &runner{rdbs: []redis.UniversalClient{silent.Client(t), srv.Client(t)}}
	silent.Pause()
	defer silent.Resume()
	c := kindtest.NewClient(t, srv.Client(t), &holdfast.Options{Label: "who"})
	var owners []string
	for range 11 {
		owners = append(owners, kindtest.Lock(t, rwlock.New(c, t.Name()).RLocker()).Owner())
	}
	eventually(t, func() bool { return exists(t, srv.Client(t), keys.Label(c.ID())) == 1 }, "the label is written")
	for _, owner := range owners {
		require.Equal(t, "held by "+owner+" (who), whose lease", r.labelled(t.Name(), errors.New("held by "+owner+", whose lease")).Error())
	}
	for _, text := range []string{"held by " + owners[0] + " (who), whose lease", "held by " + owners[0] + "00"} {
		require.Equal(t, text, r.labelled(t.Name(), errors.New(text)).Error())
	}
}

// A signal ends the wait, and nobody is left waiting.
func TestRunSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	h := hold(t, srv)
	p := command(t, srv, "run", "--name", t.Name(), "--wait", "1h", "--", "echo", "ran")
	awaitWaiter(t, srv)
	p.diesBy(t, syscall.SIGTERM)
	require.Contains(t, p.stderr.String(), "interrupted by a signal")
	require.Empty(t, p.stdout.String())
	require.NoError(t, h.Unlock(context.Background()))
	require.Zero(t, exists(t, srv.Client(t), t.Name()))
}

func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		t.Run(name, func(t *testing.T) {
			// Under nohup the signal is ignored. A command whose parent listens does not inherit that.
			heard := make(chan os.Signal, 1)
			signal.Notify(heard, sig)
			defer signal.Stop(heard)
			p := command(t, srv, "run", "--name", t.Name(), "--", "sh", "-c",
				"trap 'echo trapped; exit 9' "+name+endless)
			p.prints(t, "ready")
			require.Equal(t, 9, p.told(t, sig))
			require.Contains(t, p.stdout.String(), "trapped")
			require.Zero(t, exists(t, srv.Client(t), t.Name()), "unlocked")
		})
	}
}

// When the lock is lost the whole group of the command is ended: asked first, then killed.
func TestRunLoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for what, c := range map[string]struct {
		grace, script, prints string
		code                  string // its own
	}{
		"ends at SIGTERM":      {"1h", "sleep 1000 & echo ready; wait", "", "143"},
		"cleans up at SIGTERM": {"1h", "trap 'echo cleaned; exit 0' TERM" + endless, "cleaned", "0"},
		"fails at SIGTERM":     {"1h", "trap 'exit 7' TERM" + endless, "", "7"},
		"ignores SIGTERM":      {"100ms", "trap 'echo trapped' TERM" + endless, "", "137"}, // a busy machine may not get to its trap
		"kill at once":         {"0", "trap '' TERM" + endless, "", "137"},
		"its child ignores it": {"100ms", "(trap '' TERM; while :; do sleep 0.02; done) & echo ready; wait", "", "143"},
		"is stopped":           {"1h", "echo ready; kill -STOP $$", "", "143"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // it is noticed after a third of the lease, which is long enough for a busy machine
			rdb := srv.Client(t)
			p := command(t, srv, "run", "--name", t.Name(), "--lease", "20s", "--grace", c.grace, "--", "sh", "-c",
				c.script)
			p.prints(t, "ready")
			require.EqualValues(t, 1, rdb.Del(context.Background(), t.Name()).Val())
			require.Equal(t, exitLost, p.end(), "and end says that nobody of the group is left")
			require.Contains(t, p.stdout.String(), c.prints)
			require.Contains(t, p.stderr.String(),
				"was lost while the command ran, which ended with exit code "+c.code+"\n")
			require.Zero(t, exists(t, rdb, t.Name()), "not brought back")
		})
	}
}

// The control: while nobody takes the lock away, it is renewed and the command goes on.
func TestRunRenews(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	p := command(t, srv, "run", "--name", t.Name(), "--lease", "15s", "--", "sh", "-c", "trap 'exit 5' USR1"+endless)
	p.prints(t, "ready")
	rdb, last := srv.Client(t), time.Hour
	eventually(t, func() bool {
		before := last
		last = rdb.PTTL(t.Context(), t.Name()).Val()
		return last > before
	}, "it has longer to live than before")
	require.Equal(t, 5, p.told(t, syscall.SIGUSR1))
}

// A Redis that dies ends the command by the local clock.
func TestRunRedisDies(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := command(t, srv, "run", "--name", t.Name(), "--lease", "10s", "--", "sh", "-c", ":"+endless)
	p.prints(t, "ready")
	srv.Kill()
	require.Equal(t, exitLost, p.end())
}

// A Redis that is not there, or that answers a greeting and nothing else, is not a lock that is taken, however short the wait.
func TestRunRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	gone, silent := redistest.Start(t), redistest.Start(t)
	gone.Kill()
	require.NoError(t, silent.Client(t).Do(t.Context(), "client", "pause", "60000", "write").Err())
	for text, srv := range map[string]*redistest.Server{
		"no answer from Redis at redis://" + gone.Addr(): gone, "unavailable: waited as long as --wait allows: no answer": silent,
	} {
		p := command(t, srv, "run", "--name", t.Name(), "--wait", "100ms", "--", "echo", "ran")
		require.Equal(t, exitNoServer, p.end())
		require.Contains(t, p.stderr.String(), text)
		require.Empty(t, p.stdout.String())
	}
}

// TestRunInACrontab: the idiom of the help swallows that somebody else has the lock, and nothing else.
func TestRunInACrontab(t *testing.T) {
	t.Parallel()
	const idiom = `"$@" || [ $? -eq 75 ]`
	require.Contains(t, runExample, strings.TrimPrefix(idiom, `"$@" `))
	srv := redistest.Start(t)
	run := func(wait string) *exec.Cmd {
		return start(t, func(c *exec.Cmd) {
			c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", idiom, "sh"}, c.Args...)
		}, "run", "--redis", "redis://"+srv.Addr(), "--name", t.Name(), "--wait", wait, "--", "true").Cmd
	}
	h := hold(t, srv)
	require.NoError(t, run("0").Wait())
	require.NoError(t, h.Unlock(t.Context()))
	srv.Kill()
	require.Error(t, run("0").Wait())
}

// When holdfast is killed the command gets SIGTERM, and the lock ends with its lease.
func TestRunIsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a signal for the death of a parent")
	}
	srv := redistest.Shared(t)
	p := command(t, srv, "run", "--name", t.Name(), "--lease", "10s", "--", "sh", "-c",
		"trap 'echo trapped; exit' TERM"+endless)
	p.prints(t, "ready")
	require.NoError(t, p.Process.Kill())
	require.Equal(t, -1, p.end())
	require.Contains(t, p.stdout.String(), "trapped")
	eventually(t, func() bool { return exists(t, srv.Client(t), t.Name()) == 0 }, "the lease has ended")
}

// Ctrl-Z must not stop holdfast, which has a lock to renew.
func TestRunIsNotStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	p := command(t, srv, "run", "--name", t.Name(), "--", "sh", "-c", "trap 'exit 5' USR1"+endless)
	p.prints(t, "ready")
	require.NoError(t, p.Process.Signal(syscall.SIGTSTP))
	require.Equal(t, 5, p.told(t, syscall.SIGUSR1),
		"it is not stopped: else it is killed when the test has waited for long enough")
}
