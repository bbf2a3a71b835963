package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// atTerminal starts "holdfast run" as "$@" of a script at a terminal of its own. What is shown there is the program's stdout.
func atTerminal(t *testing.T, srv *redistest.Server, script string, command ...string) (p *program, types func(string)) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	raw, err := keys.SyscallConn()
	require.NoError(t, err)
	var n int
	require.NoError(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	p = start(t, func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh"}, c.Args...)
		c.Env = append(c.Env, redisEnv+"=redis://"+srv.Addr())
		c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}, append([]string{"run", "--name", t.Name(), "--", "sh", "-c"}, command...)...)
	require.NoError(t, tty.Close())
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(&p.stdout, keys) // until nobody has the terminal any more
	}()
	t.Cleanup(func() { // a hang-up, for those who are left after a failure
		_ = keys.Close()
		<-shown
	})
	return p, func(text string) {
		_, err := keys.WriteString(text)
		require.NoError(t, err)
	}
}

// TestRunReadsTheTerminal: the command gets the terminal when it wants it, and whoever had it before gets it back.
func TestRunReadsTheTerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for what, script := range map[string]string{
		"in the foreground": `"$@"; read b; echo "then $b"`,
		"in a pipeline":     `"$@" | cat; read b; echo "then $b"`,
		"in the background": `set -m; "$@" & read a; fg; read b; echo "then $b"`,
	} {
		t.Run(what, func(t *testing.T) {
			p, types := atTerminal(t, srv, script, `echo ready; read a </dev/tty; echo "got $a"`)
			p.prints(t, "ready")
			if strings.HasPrefix(script, "set -m") {
				p.prints(t, "the command waits for the terminal, and keeps the lock")
				types("\n")
			}
			types("one\n")
			p.prints(t, "got one")
			types("two\n")
			p.prints(t, "then two")
			require.Zero(t, p.end())
			require.Zero(t, exists(t, srv.Client(t), t.Name()), "unlocked")
		})
	}
}

// TestRunTypedSignals: Ctrl-Z does not keep the lock from those who wait for it, and Ctrl-C ends the command and the script.
func TestRunTypedSignals(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	p, types := atTerminal(t, srv, `"$@"; echo "the script goes on"`, `echo ready; read a; echo "got $a"; read b`)
	p.prints(t, "ready")
	types("\x1a")
	p.prints(t, "it cannot be suspended while it has the lock")
	types("one\n")
	p.prints(t, "got one")
	types("\x03")
	require.Equal(t, -1, p.end(), "by the signal")
	require.NotContains(t, p.stdout.String(), "the script goes on")
	eventually(t, func() bool { return exists(t, srv.Client(t), t.Name()) == 0 }, "unlocked")
}

// TestRunInterruptedWait: Ctrl-C ends the wait for the lock, and the script as well.
func TestRunInterruptedWait(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	h := hold(t, srv)
	p, types := atTerminal(t, srv, `p=$1; shift 2; "$p" run --wait 1h "$@"; echo "the script goes on"`, `echo ran`)
	awaitWaiter(t, srv)
	p.prints(t, `holdfast: waiting for "`+t.Name()+`", held by `+h.Owner())
	types("\x03")
	require.Equal(t, -1, p.end(), "by the signal")
	require.NotContains(t, p.stdout.String(), "the script goes on")
	require.NotContains(t, p.stdout.String(), "ran\n")
	require.NoError(t, h.Unlock(t.Context()))
}

// TestRunIsStopped: a command that was stopped keeps the lock, which is said, and a signal ends it all the same.
func TestRunIsStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	p := command(t, srv, "run", "--name", t.Name(), "--", "sh", "-c", "kill -STOP $$; sleep 1000")
	eventually(t, func() bool {
		return strings.Contains(p.stderr.String(), "the command was stopped by a signal (SIGSTOP)")
	}, "said")
	require.EqualValues(t, 1, exists(t, srv.Client(t), t.Name()))
	require.Equal(t, exitSignal+int(syscall.SIGTERM), p.told(t, syscall.SIGTERM))
	require.Zero(t, exists(t, srv.Client(t), t.Name()), "unlocked")
}

// TestRunIsKilledWithAll: when holdfast is killed all of the command's group is ended, and not only the command. The
// control: without the guard those live on who ignore SIGTERM.
func TestRunIsKilledWithAll(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for what, guarded := range map[string]bool{"guarded": true, "control": false} {
		t.Run(what, func(t *testing.T) {
			p := command(t, srv, "run", "--name", t.Name(), "--grace", "0", "--", "sh", "-c",
				"echo $$; (trap '' TERM; while :; do echo beat; sleep 0.02; done) & wait")
			p.prints(t, "beat")
			group, err := strconv.Atoi(strings.Fields(p.stdout.String())[0])
			require.NoError(t, err)
			t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
			if !guarded {
				require.NoError(t, syscall.Kill(guardOf(t, group), syscall.SIGKILL))
			}
			require.NoError(t, p.Process.Kill())
			_, err = p.Process.Wait()
			require.NoError(t, err)
			beats := func() int { return strings.Count(p.stdout.String(), "beat") }
			if before := beats(); !guarded {
				eventually(t, func() bool { return beats() > before+10 }, "it goes on without the lock")
				return
			}
			empty(t, group)
		})
	}
}

// TestRunIsKilledAtOnce: all of the group is ended also when holdfast is killed as soon as the command runs. The command
// leads its group: timeout(1) and shells with job control would leave it otherwise, and no signal to it would reach them.
func TestRunIsKilledAtOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	for i := range 20 {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		p := start(t, func(c *exec.Cmd) {
			c.Env, c.Stdout = append(c.Env, redisEnv+"=redis://"+srv.Addr()), w
		}, "run", "--name", t.Name()+strconv.Itoa(i), "--grace", "0", "--", "sh", "-c",
			"trap '' TERM; echo $$; while :; do sleep 0.02; done")
		require.NoError(t, w.Close())
		var pid int
		_, err = fmt.Fscanln(r, &pid)
		require.NoError(t, err)
		group, err := syscall.Getpgid(pid)
		require.NoError(t, p.Process.Kill())
		t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
		require.NoError(t, err)
		require.Equal(t, pid, group)
		empty(t, group)
		require.NoError(t, r.Close())
	}
}

// empty waits until nobody of a group lives.
func empty(t *testing.T, group int) {
	t.Helper()
	eventually(t, func() bool {
		return syscall.Kill(-group, 0) != nil || onlyZombies(group)
	}, "nobody of the group lives")
}

// guardOf waits until a guard is a member of a group.
func guardOf(t *testing.T, group int) (pid int) {
	t.Helper()
	eventually(t, func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
			if _, of, ok := parseStat(stat); ok && of == group && strings.HasPrefix(string(args), "holdfast\x00guard\x00") {
				pid, _ = strconv.Atoi(filepath.Base(dir))
			}
		}
		return pid != 0
	}, "there is a guard")
	return pid
}
