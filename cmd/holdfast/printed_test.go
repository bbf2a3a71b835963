package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/testkit/hostile"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

const someone = "11111111-2222-4333-8444-555555555555:h1"

// written puts what may be at a name into Redis, with somebody's text wherever there is room for one.
func written(ctx context.Context, rdb *redis.Client, text string) (names []string) {
	token, long := fmt.Sprint(time.Now().UnixMicro()), strings.Repeat(text, 1+500_000/len(text))
	said, _ := keys.Election(text + "leader")
	queue, permits := keys.For(text+"queue"), keys.ForPermits(text+"permits")
	for _, c := range [][]any{
		{"HSET", text + "held", someone, 1}, {"HSET", text + "strange", text, text}, {"HSET", text + "read", "mode", "read", someone, 1, text + ":h1", 1},
		{"SET", permits.Name, 0}, {"ZADD", permits.Ends, 1e15, text, 1e15, someone}, {"ZADD", permits.Queue, 1e15, text}, {"HSET", permits.Wants, text, text},
		{"HSET", text + "leader", someone, 1}, {"SET", said, token + " " + someone + " " + text},
		{"HSET", queue.Name, someone, 1}, {"RPUSH", queue.Queue, text, someone}, {"ZADD", queue.Deadlines, 1e15, text}, {"SET", text + "text", text},
	} {
		rdb.Do(ctx, c...)
	}
	for kind, last := range map[string]string{"held": token, "strange": text, "read": token, "permits": token, "leader": token, "queue": token, "text": long} {
		rdb.PExpire(ctx, text+kind, time.Hour)
		rdb.Set(ctx, keys.For(text+kind).Token, last, time.Hour)
		names = append(names, text+kind)
	}
	return names
}

// TestNothingHostileIsPrinted: whatever somebody writes into Redis, or gives to a command, nothing of it does anything in what
// commands, documents, the page, the log and the errors show.
func TestNothingHostileIsPrinted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	var log kindtest.Log
	page, err := holdfastweb.New(rdb, &holdfastweb.Options{Share: 1, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
		Permit: func(*http.Request, string) (string, bool) { return "me", true }})
	require.NoError(t, err)
	client, err := holdfast.New(rdb, &holdfast.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), RetryBudget: time.Second})
	require.NoError(t, err)
	check := func(args ...string) {
		t.Helper()
		_, stdout, stderr := askFirst("redis://"+srv.Addr(), args...)
		require.NotEmpty(t, stdout+stderr, "%.200q", args)
		hostile.Check(t, fmt.Sprintf("%.200q", args), stdout+stderr)
	}
	for i, text := range hostile.Texts {
		names := written(t.Context(), rdb, text)
		for j, name := range names {
			if testing.Short() && (i+j)%10 != 0 {
				continue // each text by some of the names, and each name with some of the texts
			}
			for _, command := range []string{"inspect --", "inspect --json --", "unlock --force --yes --token 7 --", "unlock --force --"} {
				check(append(strings.Fields(command), name)...)
			}
			check("run", "--name", name, "--wait", "0", "--kind", "semaphore", "--permits", "1", "/bin/false")
			check("run", "--name", name, "--wait", "0", "--kind", "multilock", "--also", "b", "--also", name+"b", "/bin/false")
			for _, err := range called(t.Context(), rdb, client, name) {
				hostile.Check(t, "an error", fmt.Sprint(err))
			}
			at := "?" + url.Values{"name": {name}, "owner": {someone}, "part": {"0:7"}, "match": {name}}.Encode()
			for _, r := range []*http.Request{httptest.NewRequest("GET", "/lock"+at, nil), httptest.NewRequest("GET", "/end"+at, nil),
				httptest.NewRequest("POST", "/end"+at, nil)} {
				w := httptest.NewRecorder()
				page.ServeHTTP(w, r)
				hostile.Check(t, r.Method+fmt.Sprintf(" of the page of %.100q", name), w.Body.String())
			}
		}
		for _, args := range [][]string{{"unlock", "--force", "--yes", "--owner", text, "--", names[0]}, {"run", "--kind", text, "--name", "n", "true"},
			{"--", text}, {"completion", "--", text}, {"ui", "--listen", text}, {"ls", "--", text, text}, {"run", "--wait", text}, {"doctor", "--prefix", text + "{"},
			{"demo", "--", text}, {"top", "--sort", text}, {"watch", "--", text + "strange"}, {"run", "--name", text}, {"run", "--name", "n", text},
			{"ls", "--tls-ca", text}} {
			check(args...)
		}
		var b bytes.Buffer
		require.NoError(t, lines(&b)(event{Event: "held", Owner: text, Leader: text}))
		hostile.Check(t, "watch", b.String())
	}
	said := answering(t, strings.Join(hostile.Texts, " "))
	for _, command := range []string{"ls", "inspect n", "doctor", "unlock --force --yes --token 7 n", "run --name n true", "top --once"} {
		_, stdout, stderr := askFirst(said, strings.Fields(command)...)
		hostile.Check(t, command, stdout+stderr)
	}
	for _, command := range []string{"ls", "ls --all --redisson", "ls --json --redisson", "top --once --rows 0 --share 100", "top --once --json --rows 0 --share 100", "doctor --deadlocks"} {
		check(strings.Fields(command)...)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	hostile.Check(t, "the page", w.Body.String())
	page.Close()
	require.NoError(t, client.Close(t.Context()))
	require.Contains(t, log.String(), "lock lost")
	hostile.Check(t, "the log", log.String())
}

// askFirst is says before a server, which is named in front of what may be behind "--".
func askFirst(address string, args ...string) (code int, stdout, stderr string) {
	if args[0] == "--" {
		return says(args...)
	}
	return says(append([]string{args[0], "--redis", address}, args[1:]...)...)
}

// called are the errors of calls on a name, one of which loses its lock.
func called(ctx context.Context, rdb *redis.Client, c *holdfast.Client, name string) (all []error) {
	now := holdfast.Wait(0)
	for _, l := range []holdfast.Locker{rlock.New(c, name), fairlock.New(c, name), rwlock.New(c, name), rwlock.New(c, name).RLocker(),
		semaphore.New(c, name, 1), redlock.New([]*holdfast.Client{c}, name, redlock.TrustRestarts(), redlock.MasterTimeout(5*time.Second))} {
		_, err := l.Lock(ctx, now)
		all = append(all, err)
	}
	_, err := election.New(c, name).Leader(ctx)
	_, err2 := latch.New(c, name).Count(ctx)
	_, err3 := fence.NewRedis(rdb).DoToken(ctx, 7, name, "GET")
	all = append(all, err, err2, err3)
	hold, err := rlock.New(c, name+"lost").Lock(ctx, now)
	if err != nil {
		return append(all, err)
	}
	rdb.Del(ctx, name+"lost")
	return append(all, hold.Extend(ctx, time.Minute), context.Cause(hold.Context()), hold.Unlock(ctx))
}

// answering is the address of a server that answers everything with an error in somebody's words.
func answering(t *testing.T, text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					if _, _, err := resp.ReadRequest(in); err != nil {
						return
					}
					_, _ = fmt.Fprintf(conn, "-ERR %s\r\n", strings.NewReplacer("\r", "", "\n", "").Replace(text))
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String() + "?protocol=2&max_retries=-1&read_timeout=1s"
}

// TestAdviceWorks: what a command says to run is pasted into a shell, and does what it says, whatever the name is.
func TestAdviceWorks(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	srv, dir := redistest.Start(t), t.TempDir()
	rdb := srv.Client(t)
	require.NoError(t, os.Symlink(os.Args[0], filepath.Join(dir, "holdfast")))
	pasted := func(command string) string {
		cmd := exec.Command(bash, "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
		return string(out)
	}
	for i, text := range hostile.Texts {
		if strings.Contains(text, "\x00") || len(text) > 1000 {
			continue // no command line carries it, or nobody pastes it
		}
		written(t.Context(), rdb, text)
		rdb.Del(t.Context(), keys.For(text+"held").Token) // so that the owner says which hold it is
		for j, name := range []string{text + "held", text + "leader"} {
			if testing.Short() && (i+j)%2 != 0 {
				continue
			}
			_, _, missing := askFirst("redis://"+srv.Addr(), "unlock", "--force", "--", name)
			_, command, ok := strings.Cut(missing, `see "`)
			require.True(t, ok, missing)
			shown := pasted(strings.TrimSuffix(command, "\"\n"))
			_, command, ok = strings.Cut(shown, "to end it  ")
			require.True(t, ok, shown)
			pasted(strings.Replace(command, "unlock --force", "unlock --yes --force", 1))
			require.Zero(t, exists(t, rdb, name), name)
		}
	}
}

// TestRefusals: each command that asks says in one line what a server of another sort is, which user, password or
// permission is wrong, and that nobody answers, with what to do about it. It shows no password.
func TestRefusals(t *testing.T) {
	t.Parallel()
	srv, locked, gone := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	gone.Kill()
	srv.Command(t, "ACL", "SETUSER", "weak", "on", ">pw", "~*", "+ping")
	require.NoError(t, locked.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	const remedy, check = "put user and password into --redis", "check the user and the password in --redis (or HOLDFAST_REDIS)"
	for command, lacks := range map[string]string{
		"ls": "scan", "inspect n": "evalsha", "unlock --force n --token 7 --yes": "evalsha", "doctor": "", "watch n": "'type'", "top --json": "",
		"run --name n": "", "ui --listen 127.0.0.1:0": "evalsha",
	} {
		for address, want := range map[string]struct {
			code int
			says string
		}{
			"redis+sentinel://" + srv.Addr() + "/mymaster": {exitNoServer, "are these Sentinels"},
			"redis+cluster://" + srv.Addr():                {exitHoldfast, "write redis://"},
			"redis://:wrong@" + locked.Addr():              {exitHoldfast, "Redis at redis://***@" + locked.Addr() + " refuses access: WRONGPASS"},
			"redis://" + locked.Addr():                     {exitHoldfast, remedy},
			"redis://nobody:pw@" + srv.Addr():              {exitHoldfast, check},
			"redis://pw@" + locked.Addr():                  {exitHoldfast, "there is a user and no password; write redis://:password@host"},
			"redis://" + srv.Addr() + "/99":                {exitHoldfast, "Redis at redis://" + srv.Addr() + "/99 has no such database: ERR DB index is out of range; write a smaller number"},
			"redis://weak:pw@" + srv.Addr():                {exitHoldfast, lacks},
			"redis://" + gone.Addr() + "?max_retries=-1":   {exitNoServer, "no answer from Redis at redis://127.0.0.1"},
		} {
			if strings.Contains(address, "weak") && lacks == "" {
				continue
			}
			t.Run(command+" "+address, func(t *testing.T) {
				t.Parallel()
				args := append(strings.Fields(command), "--redis", address)
				if args[0] == "run" {
					args = append(args, "--", "true")
				}
				code, stdout, stderr := says(args...)
				require.Equal(t, want.code, code, stderr)
				require.Contains(t, stderr, want.says)
				require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
				require.NotContains(t, stderr, "pw")
				require.NotContains(t, stderr, ".;")
				require.NotContains(t, stderr, "options of go-redis")
				require.Empty(t, stdout)
			})
		}
	}
	for address, text := range map[string]string{"redis://:wrong@" + locked.Addr(): check, "redis://" + srv.Addr() + "/99": "no such database"} {
		t.Run("demo "+address, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := says("demo", "--redis", address)
			require.Equal(t, exitHoldfast, code, stdout)
			require.Contains(t, stderr, text)
			require.Empty(t, stdout, "nothing was started")
		})
	}
}

// TestOneMasterIsDown: what the others have is shown, whichever it is, and the code says that one is missing.
func TestOneMasterIsDown(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMasters(t, 3)
	var up []string
	for _, srv := range servers {
		up = append(up, "--redis", "redis://"+srv.Addr()+"?max_retries=-1")
		rdb := srv.Client(t)
		rdb.HSet(t.Context(), "quorum", "11111111-2222-4333-8444-555555555555:h1", 1)
		rdb.PExpire(t.Context(), "quorum", time.Minute)
		rdb.Set(t.Context(), "redisson_lock_token:{quorum}", 1764070102193847, time.Minute)
	}
	servers[0].Kill()
	for command, owners := range map[string]int{"ls": 2, "ls --json": 2, "inspect quorum --json": 2, "inspect quorum": 4,
		"top --once --every 200ms": 2, "top --once --json --every 200ms": 2} {
		code, stdout, stderr := says(append(strings.Fields(command), up...)...)
		require.Equal(t, exitNoServer, code, stderr)
		require.Equal(t, owners, strings.Count(stdout, "555555555555:h1"), stdout)
		require.Equal(t, 1, strings.Count(stderr, servers[0].Addr()), stderr)
		require.NotContains(t, stdout, "--token", "a token is not enough for several")
	}
}

// TestNoPasswordIsRepeated: a server without AUTH repeats user and password in its error, each version in its own words. No
// command, error, page or log shows them, and a command says what to do. That the server repeats them is the control.
func TestNoPasswordIsRepeated(t *testing.T) {
	t.Parallel()
	const secret = "SeKret"
	for _, p := range redistest.Programs(t) {
		srv := redistest.Start(t, redistest.Exec(p.Path), redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", ""))
		address := "redis://us%27er:Zq9t%20%27" + secret + "%60@" + srv.Addr() + "?max_retries=-1"
		for _, command := range []string{"ls", "ls --json", "inspect n", "inspect --json n", "unlock --force --token 7 --yes n", "doctor", "doctor --json",
			"doctor --deadlocks", "watch n", "watch --json n", "top --json", "top --once", "run --name n true", "run --name n --kind redlock true"} {
			at := address
			if strings.Contains(command, "redlock") {
				at += " --redis " + strings.Replace(address, "127.0.0.1", "localhost", 1) + " --redis redis://" + srv.Addr() + "/3"
			}
			args := strings.Fields(command)
			code, stdout, stderr := says(slices.Concat(args[:1], strings.Fields("--redis "+at), args[1:])...)
			require.Equal(t, exitHoldfast, code, "%s %s: %s%s", p.Name, command, stdout, stderr)
			require.NotContains(t, stdout+stderr, secret, "%s %s", p.Name, command)
			require.Contains(t, stdout+stderr, "its arguments are not shown", "%s %s", p.Name, command)
			if !strings.Contains(command, "redlock") {
				require.Contains(t, stderr, "it has no AUTH: leave user and password out", "%s %s", p.Name, command)
			}
		}
		code, stdout, stderr := says("ls", "--redis", strings.Replace(address, "redis://", "redis+sentinel://", 1)+"&dial_timeout=1s")
		require.NotZero(t, code)
		require.NotContains(t, stdout+stderr, secret)

		opts, err := redis.ParseURL(address)
		require.NoError(t, err)
		rdb := redis.NewClient(opts)
		require.ErrorContains(t, rdb.Ping(t.Context()).Err(), secret, "the control")
		var log kindtest.Log
		logger := slog.New(slog.NewJSONHandler(&log, nil))
		client, err := holdfast.New(rdb, &holdfast.Options{Logger: logger, Label: "label"})
		require.NoError(t, err)
		page, err := holdfastweb.New(rdb, &holdfastweb.Options{Logger: logger})
		require.NoError(t, err)
		for _, err := range called(t.Context(), rdb, client, "n") {
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
			var e *holdfast.Error
			require.False(t, errors.As(err, &e) && !strings.Contains(err.Error(), "arguments are not shown"), "%v", err)
		}
		for _, at := range []string{"/", "/lock?name=n", "/end?name=n&owner=o&part=0"} {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest("GET", at, nil))
			require.NotContains(t, w.Body.String(), secret)
		}
		page.Close()
		if err := client.Close(t.Context()); err != nil {
			require.NotContains(t, err.Error(), secret)
		}
		require.NotContains(t, log.String(), secret)
		require.NoError(t, rdb.Close())
	}
}
