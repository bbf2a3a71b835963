package main

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastweb"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestRefusals: each command that asks says in one line what a server of another sort is, which user, password or
// permission is wrong, and that nobody answers, with what to do about it. It shows no password.
func TestRefusals(t *testing.T) {
	t.Parallel()
	srv, locked, gone := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	gone.Kill()
	srv.Command(t, "ACL", "SETUSER", "weak", "on", ">pw", "~*", "+ping")
	require.NoError(t, locked.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	const remedy = "put user and password into --redis"
	for command, lacks := range map[string]string{
		"ls": "scan", "inspect n": "evalsha", "unlock --force n --token 7 --yes": "evalsha", "doctor": "", "watch n": "'type'", "top --json": "",
		"run --name n": "",
	} {
		for address, want := range map[string]struct {
			code int
			says string
		}{
			"redis+sentinel://" + srv.Addr() + "/mymaster": {exitNoServer, "are these Sentinels"},
			"redis+cluster://" + srv.Addr():                {exitHoldfast, "write redis://"},
			"redis://:wrong@" + locked.Addr():              {exitHoldfast, remedy},
			"redis://" + locked.Addr():                     {exitHoldfast, remedy},
			"redis://nobody:pw@" + srv.Addr():              {exitHoldfast, remedy},
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
				require.Empty(t, stdout)
			})
		}
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
		var log output
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
	for command, owners := range map[string]int{"ls": 2, "ls --json": 2, "inspect quorum --json": 2, "inspect quorum": 4} {
		code, stdout, stderr := says(append(strings.Fields(command), up...)...)
		require.Equal(t, exitNoServer, code, stderr)
		require.Equal(t, owners, strings.Count(stdout, "555555555555:h1"), stdout)
		require.Contains(t, stderr, servers[0].Addr())
		require.NotContains(t, stdout, "--token", "a token is not enough for several")
	}
}
