package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/child"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// patience is how long a test waits for what must come, on however busy a machine.
const patience = time.Minute

// programs is where they have been built.
var programs string

func TestMain(m *testing.M) { redistest.Main(built{m}) }

// built builds all programs once, before the tests.
type built struct{ m *testing.M }

// Run is called by redistest.
func (b built) Run() int {
	dir, err := os.MkdirTemp("", "examples-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	if out, err := exec.Command("go", "build", "-race", "-o", dir+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return b.m.Run()
}

// start starts one of them. Whatever is the matter, it ends in time.
func start(t *testing.T, name, redisAddr string, env ...string) *child.Process {
	return startLogging(t, os.Stderr, name, redisAddr, env...)
}

// startLogging is start with a stderr of the test's. The test reads that when the process has ended.
func startLogging(t *testing.T, stderr io.Writer, name, redisAddr string, env ...string) *child.Process {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name))
	cmd.Env, cmd.Stderr = append(append(os.Environ(), "REDIS="+redisAddr), env...), stderr
	return child.Start(t, cmd)
}

// noLocks: nothing is left of the locks but the keys that remember tokens.
func noLocks(t *testing.T, rdb *redis.Client, pattern string) {
	keys, err := rdb.Keys(t.Context(), pattern).Result()
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxy := faultproxy.New(t, srv.Addr())
	p := start(t, "handler", proxy.Addr(), "LISTEN=127.0.0.1:0")
	addr, ok := strings.CutPrefix(p.Says(), "listening on ")
	require.True(t, ok)
	web := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	pay := func(order string) (int, string) {
		resp, err := web.Post("http://"+addr+"/orders/"+order+"/pay", "", nil)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, strings.TrimSpace(string(body))
	}
	code, text := pay("42")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "paid 42", text)
	require.Equal(t, "charging 42", p.Says())

	hold := kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "orders:42"))
	code, text = pay("42")
	require.Equal(t, http.StatusConflict, code, text)
	code, text = pay("43")
	require.Equal(t, http.StatusOK, code, text)
	code, text = pay("a}b")
	require.Equal(t, http.StatusBadRequest, code, text)
	require.NoError(t, hold.Unlock(t.Context()))

	// What is charged is paid, although no unlock gets an answer: nobody is told to try again.
	lost := proxy.On(faultproxy.Script(lua.Release.Hash()), 0, faultproxy.DropRequest)
	code, text = pay("44")
	require.Equal(t, http.StatusOK, code, text)
	require.Positive(t, lost.Count())
	proxy.Clear()

	// Redis is silent: the deadline answers. (A process that had no time to ask for half of that does not know that Redis
	// is silent, so it may say 409 once or twice.)
	srv.Pause()
	require.Eventually(t, func() bool {
		code, text = pay("42")
		return code == http.StatusServiceUnavailable
	}, patience, time.Millisecond, text)
	srv.Resume()
	require.Equal(t, []string{"charging 43", "charging 44"}, p.Ends(syscall.SIGTERM))
	noLocks(t, srv.Client(t), "orders:*")
}

func TestCron(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var machines []*child.Process
	for _, name := range []string{"a", "b", "c"} {
		machines = append(machines, start(t, "cron", srv.Addr(), "PERIOD=300ms", "MACHINE="+name))
	}
	all := make(chan string, 1000)
	for _, p := range machines {
		go func() {
			for line := range p.Lines {
				all <- line
			}
			all <- ""
		}()
	}
	reports := map[string]int{}
	for open := len(machines); open > 0; {
		line := <-all
		if line == "" {
			open--
			continue
		}
		_, report, ok := strings.Cut(line, ": ")
		require.True(t, ok, line)
		reports[report]++
		if len(reports) == 5 && open == len(machines) {
			for _, p := range machines {
				_ = p.Cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}
	require.GreaterOrEqual(t, len(reports), 5)
	for report, times := range reports {
		require.Equal(t, 1, times, report)
	}
}

// TestCronFails: a job that fails on one machine is done by another one in the same period.
func TestCronFails(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	broken := startLogging(t, io.Discard, "cron", srv.Addr(), "PERIOD=300ms", "MACHINE=a", "FAIL=1")
	works := start(t, "cron", srv.Addr(), "PERIOD=300ms", "MACHINE=b")
	failed, done := map[string]bool{}, map[string]bool{}
	for mended := 0; mended < 2; {
		var period string
		var one, other map[string]bool
		var ok bool
		select {
		case line := <-broken.Lines:
			period, ok = strings.CutPrefix(line, "a: no report of ")
			one, other = failed, done
		case line := <-works.Lines:
			period, ok = strings.CutPrefix(line, "b: report of ")
			one, other = done, failed
		}
		require.True(t, ok, "one of them has ended, or says something else")
		require.False(t, one[period], "twice in a period")
		if one[period] = true; other[period] {
			mended++
		}
	}
	_ = broken.Cmd.Process.Signal(syscall.SIGTERM)
	_ = works.Cmd.Process.Signal(syscall.SIGTERM)
	for range broken.Lines {
	}
	for range works.Lines {
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.Equal(t, []string{"transfers: 24 sum: 300"}, start(t, "workers", srv.Addr()).Ends())
	noLocks(t, srv.Client(t), "account:*:lock")
}

func TestLeader(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := start(t, "leader", srv.Addr(), "NAME=a")
	until(a, "leading")
	b := start(t, "leader", srv.Addr(), "NAME=b")
	until(b, "the leader is a")
	require.Equal(t, "not leading any more", last(a.Ends(syscall.SIGTERM)))
	until(b, "leading")
	c := start(t, "leader", srv.Addr(), "NAME=c")
	until(c, "the leader is b")
	require.NoError(t, b.Cmd.Process.Kill()) // it cannot resign: its lease has to end
	until(c, "leading")
	c.Ends(syscall.SIGTERM)
}

// until reads lines until one is as wanted.
func until(p *child.Process, want string) {
	for p.Says() != want {
	}
}

func last(lines []string) string { return lines[len(lines)-1] }

func TestQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	printer := fairlock.New(kindtest.NewClient(t, srv.Client(t), nil), "printer")
	hold := kindtest.Lock(t, printer)
	var waiting []*child.Process
	names := []string{"a", "b", "c"}
	for i, name := range names {
		waiting = append(waiting, start(t, "queue", srv.Addr(), "NAME="+name))
		require.Contains(t, waiting[i].Says(), "the printer is busy")
		require.Eventually(t, func() bool {
			s, err := printer.State(t.Context())
			return err == nil && s.Waiters == i+1
		}, patience, 5*time.Millisecond, "%s waits", name)
	}
	require.NoError(t, hold.Unlock(t.Context()))
	token := ""
	for i, p := range waiting {
		lines := p.Ends()
		require.Len(t, lines, 1)
		next, ok := strings.CutPrefix(lines[0], names[i]+" prints, token ")
		require.True(t, ok, lines)
		require.Greater(t, next, token, "in the order in which they came: tokens have as many digits")
		token = next
	}
}

func TestFenced(t *testing.T) {
	t.Parallel()
	srv, dsn := redistest.Start(t), pgtest.Start(t)
	require.Equal(t, []string{"taken, left: 9"}, start(t, "fenced", srv.Addr(), "POSTGRES="+dsn).Ends())
	require.Equal(t, []string{"taken, left: 8", "refused: a later holder has written"},
		start(t, "fenced", srv.Addr(), "POSTGRES="+dsn, "OVERTAKEN=1").Ends())
	require.Equal(t, []string{"taken, left: 7"}, start(t, "fenced", srv.Addr(), "POSTGRES="+dsn).Ends())
}

// An example that Redis refuses says why in a few lines. It ends, unless it serves or runs by the clock.
func TestExamplesWithoutThePassword(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.NoError(t, srv.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	names := map[string][]string{"workers": nil, "queue": nil, "handler": {"LISTEN=127.0.0.1:0"}}
	if dsn, ok := os.LookupEnv("POSTGRES"); ok {
		names["fenced"] = []string{"POSTGRES=" + dsn}
	}
	for name, env := range names {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			p := startLogging(t, &stderr, name, srv.Addr(), env...)
			for range p.Lines { // until it ends, or its time is over
			}
			var exit *exec.ExitError
			require.ErrorAs(t, p.Cmd.Wait(), &exit)
			require.Equal(t, 1, exit.ExitCode(), "it has ended by itself: %.500s", stderr.String())
			require.Contains(t, stderr.String(), map[bool]string{true: "NOAUTH", false: "set Password"}[name == "fenced"])
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "%.500s", stderr.String())
		})
	}
	for _, name := range []string{"cron", "leader"} {
		t.Run(name, func(t *testing.T) {
			out, in, err := os.Pipe()
			require.NoError(t, err)
			defer out.Close()
			p := startLogging(t, in, name, srv.Addr(), "PERIOD=1s")
			require.NoError(t, in.Close())
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), "the server wants a password") {
				require.Contains(t, lines.Text(), "next run: ")
			}
			require.Contains(t, lines.Text(), "the server wants a password")
			require.NotContains(t, p.Ends(syscall.SIGTERM), "leading")
			n := 1
			for lines.Scan() {
				n++
			}
			require.Less(t, n, 100, "two in a period of cron")
		})
	}
}

// A leader goes on when Redis was away for a while, and an outage is one line.
func TestLeaderAfterAnOutage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var stderr bytes.Buffer
	p := startLogging(t, &stderr, "leader", srv.Addr(), "NAME=a")
	until(p, "leading")
	srv.Kill()
	until(p, "not leading any more") // its lease is over
	srv.Restart()
	until(p, "leading")
	p.Ends(syscall.SIGTERM)
	require.LessOrEqual(t, strings.Count(stderr.String(), "\n"), 2, stderr.String())
	require.NotContains(t, stderr.String(), "redis: ", "of go-redis itself")
}
