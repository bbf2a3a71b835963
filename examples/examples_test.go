package examples_test

import (
	"bufio"
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
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/pgtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
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

// program is a process of one of them. Its output comes line by line.
type program struct {
	*testing.T
	cmd   *exec.Cmd
	lines chan string
}

func start(t *testing.T, name, redisAddr string, env ...string) *program {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	p := &program{t, exec.CommandContext(ctx, filepath.Join(programs, name)), make(chan string, 1000)}
	p.cmd.Env = append(append(os.Environ(), "REDIS="+redisAddr), env...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// says returns the next line.
func (p *program) says() string {
	p.Helper()
	select {
	case line, ok := <-p.lines:
		require.True(p, ok, "%s has ended", p.cmd.Path)
		return line
	case <-time.After(patience):
		p.Fatalf("%s says nothing", p.cmd.Path)
		return ""
	}
}

// ends waits until the program has ended by itself, or as told by a signal, and returns what else it said.
func (p *program) ends(signals ...os.Signal) (rest []string) {
	for _, s := range signals {
		require.NoError(p, p.cmd.Process.Signal(s))
	}
	for line := range p.lines {
		rest = append(rest, line)
	}
	require.NoError(p, p.cmd.Wait(), "%s: exit code", p.cmd.Path)
	return rest
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
	p := start(t, "handler", srv.Addr(), "LISTEN=127.0.0.1:0")
	addr, ok := strings.CutPrefix(p.says(), "listening on ")
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
	require.Equal(t, "charging 42", p.says())

	hold := kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "orders:42"))
	code, text = pay("42")
	require.Equal(t, http.StatusConflict, code, text)
	code, text = pay("43")
	require.Equal(t, http.StatusOK, code, text)
	code, text = pay("a}b")
	require.Equal(t, http.StatusBadRequest, code, text)
	require.NoError(t, hold.Unlock(t.Context()))

	srv.Pause() // Redis is silent: the deadline answers
	code, text = pay("42")
	srv.Resume()
	require.Equal(t, http.StatusServiceUnavailable, code, text)
	require.Equal(t, []string{"charging 43"}, p.ends(syscall.SIGTERM))
	noLocks(t, srv.Client(t), "orders:*")
}

func TestCron(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var machines []*program
	for _, name := range []string{"a", "b", "c"} {
		machines = append(machines, start(t, "cron", srv.Addr(), "PERIOD=300ms", "MACHINE="+name))
	}
	all := make(chan string, 1000)
	for _, p := range machines {
		go func() {
			for line := range p.lines {
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
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}
	require.GreaterOrEqual(t, len(reports), 5)
	for report, times := range reports {
		require.Equal(t, 1, times, report)
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.Equal(t, []string{"transfers: 24 sum: 300"}, start(t, "workers", srv.Addr()).ends())
	noLocks(t, srv.Client(t), "account:*:lock")
}

func TestLeader(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := start(t, "leader", srv.Addr(), "NAME=a")
	until(a, "leading")
	b := start(t, "leader", srv.Addr(), "NAME=b")
	until(b, "the leader is a")
	require.Equal(t, "not leading any more", last(a.ends(syscall.SIGTERM)))
	until(b, "leading")
	c := start(t, "leader", srv.Addr(), "NAME=c")
	until(c, "the leader is b")
	require.NoError(t, b.cmd.Process.Kill()) // it cannot resign: its lease has to end
	until(c, "leading")
	c.ends(syscall.SIGTERM)
}

// until reads lines until one is as wanted.
func until(p *program, want string) {
	for p.says() != want {
	}
}

func last(lines []string) string { return lines[len(lines)-1] }

func TestQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	printer := fairlock.New(kindtest.NewClient(t, srv.Client(t), nil), "printer")
	hold := kindtest.Lock(t, printer)
	var waiting []*program
	names := []string{"a", "b", "c"}
	for i, name := range names {
		waiting = append(waiting, start(t, "queue", srv.Addr(), "NAME="+name))
		require.Contains(t, waiting[i].says(), "the printer is busy")
		require.Eventually(t, func() bool {
			s, err := printer.State(t.Context())
			return err == nil && s.Waiters == i+1
		}, patience, 5*time.Millisecond, "%s waits", name)
	}
	require.NoError(t, hold.Unlock(t.Context()))
	token := ""
	for i, p := range waiting {
		lines := p.ends()
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
	require.Equal(t, []string{"taken, left: 9"}, start(t, "fenced", srv.Addr(), "POSTGRES="+dsn).ends())
	require.Equal(t, []string{"taken, left: 8", "refused: a later holder has written"},
		start(t, "fenced", srv.Addr(), "POSTGRES="+dsn, "OVERTAKEN=1").ends())
	require.Equal(t, []string{"taken, left: 7"}, start(t, "fenced", srv.Addr(), "POSTGRES="+dsn).ends())
}
