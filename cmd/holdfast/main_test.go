package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// asCommand makes the test binary the command itself, so that tests run it as a process, under the race detector as well.
const asCommand = "HOLDFAST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	_ = os.Setenv(asCommand, "1")      // for all that is started here
	_ = os.Setenv(paceEnv, "3")        // so that no lease of a demo is too short for a busy machine
	_ = flag.Set("test.parallel", "8") // they mostly wait
	// The test kit for screens listens for a signal for as long as the process lives.
	redistest.Main(m, goleak.IgnoreAnyFunction("github.com/charmbracelet/x/exp/teatest/v2.NewTestModel.func2"))
}

// patience is how long a test waits for what must come, on however slow a machine.
const patience = 2 * time.Minute

// program is a run of the command. Its outputs are pipes, so end returns only when it and its children have ended.
type program struct {
	*exec.Cmd
	stdout, stderr kindtest.Log
}

// start starts the command. It is killed if the test ends first.
func start(t *testing.T, change func(*exec.Cmd), args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*patience)
	p := &program{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	// The race detector would otherwise make each process wait for a second at its end.
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if change != nil {
		change(p.Cmd)
	}
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		cancel()
		if p.ProcessState == nil {
			_ = p.Wait()
		}
		if t.Failed() {
			t.Logf("%s\nstdout:\n%s\nstderr:\n%s", strings.Join(p.Args[1:], " "), &p.stdout, &p.stderr)
		}
	})
	return p
}

// user makes a user whom everything is permitted but what the rule takes away, and returns the server's address for it.
func user(t *testing.T, srv *redistest.Server, name, rule string) (address string) {
	t.Helper()
	acl := append([]string{"ACL", "SETUSER", name, "reset", "on", ">secret", "~*", "+@all"}, strings.Fields(rule)...)
	if srv.Major() >= 7 { // 6.0 has no permissions for channels
		acl = append(acl, "allchannels")
	}
	srv.Command(t, acl...)
	return "redis://" + name + ":secret@" + srv.Addr()
}

// command starts the command from the test binary, in front of a server's address.
func command(t *testing.T, srv *redistest.Server, args ...string) *program {
	t.Helper()
	return start(t, func(c *exec.Cmd) { c.Env = append(c.Env, redisEnv+"=redis://"+srv.Addr()) }, args...)
}

// end waits for the end of the process and its children and returns the exit code, -1 if a signal ended it.
func (p *program) end() int {
	_ = p.Wait() // the code says it all
	return p.ProcessState.ExitCode()
}

// told sends the process a signal and returns the exit code with which it ends.
func (p *program) told(t *testing.T, sig os.Signal) int {
	t.Helper()
	require.NoError(t, p.Process.Signal(sig))
	return p.end()
}

// diesBy sends the process a signal, by which it ends itself.
func (p *program) diesBy(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.Equal(t, -1, p.told(t, sig), "%s", &p.stderr)
	require.Equal(t, sig, p.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// prints waits until the process has printed a text.
func (p *program) prints(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), text) }, 4*patience,
		5*time.Millisecond, "printed "+text)
}

// says runs the command within this process.
func says(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = execute(args, &out, &errs)
	return code, out.String(), errs.String()
}

// ask is says before a server.
func ask(srv *redistest.Server, args ...string) (code int, stdout, stderr string) {
	return says(append(args, "--redis", "redis://"+srv.Addr())...)
}

// has demands of a text that all of the others are in it.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		require.Contains(t, text, part)
	}
}

func eventually(t *testing.T, cond func() bool, what string) {
	t.Helper()
	require.Eventually(t, cond, patience, 5*time.Millisecond, what)
}

// exists says how many of the keys there are.
func exists(t *testing.T, rdb *redis.Client, keys ...string) int64 {
	t.Helper()
	n, err := rdb.Exists(context.Background(), keys...).Result()
	require.NoError(t, err)
	return n
}
