package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestRefusals: each command that asks says in one line what a server of another sort is, and which
// password is wrong, with what to do about it.
func TestRefusals(t *testing.T) {
	srv, locked := redistest.Start(t), redistest.Start(t)
	require.NoError(t, locked.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	for _, command := range []string{"ls", "inspect n", "unlock --force n --token 7 --yes", "doctor", "watch n"} {
		for address, want := range map[string]struct {
			code int
			says string
		}{
			"redis+sentinel://" + srv.Addr() + "/mymaster": {exitNoServer, "are these Sentinels"},
			"redis+cluster://" + srv.Addr():                {exitHoldfast, "write redis://"},
			"redis://:wrong@" + locked.Addr():              {exitHoldfast, "put user and password into --redis"},
		} {
			t.Run(command+" "+address, func(t *testing.T) {
				t.Parallel()
				var stdout, stderr bytes.Buffer
				code := execute(append(strings.Fields(command), "--redis", address), &stdout, &stderr)
				require.Equal(t, want.code, code, stderr.String())
				require.Contains(t, stderr.String(), want.says)
				require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
			})
		}
	}
}

// TestEndingIsOneCommand: what inspect says to end a hold with is one line, with the name as it is.
func TestEndingIsOneCommand(t *testing.T) {
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), t.Context()
	name := "two  spaces, " + strings.Repeat("long ", 30)
	rdb.HSet(ctx, name, "mode", "read", "11111111-2222-4333-8444-555555555555:h1", 1)
	rdb.PExpire(ctx, name, time.Minute)
	_, stdout, _ := ask(srv, "inspect", name)
	require.Contains(t, stdout, "holdfast unlock --force '"+name+"' --owner 11111111-2222-4333-8444-555555555555:h1 --redis redis://"+srv.Addr()+"\n")
}

// TestOneMasterIsDown: what the others have is shown, whichever it is, and the code says that one is missing.
func TestOneMasterIsDown(t *testing.T) {
	servers := redistest.StartMasters(t, 3)
	var up []string
	for _, srv := range servers {
		up = append(up, "--redis", "redis://"+srv.Addr())
		rdb := srv.Client(t)
		rdb.HSet(t.Context(), "quorum", "11111111-2222-4333-8444-555555555555:h1", 1)
		rdb.PExpire(t.Context(), "quorum", time.Minute)
		rdb.Set(t.Context(), "redisson_lock_token:{quorum}", 1764070102193847, time.Minute)
	}
	servers[0].Kill()
	for command, owners := range map[string]int{"ls": 2, "ls --json": 2, "inspect quorum --json": 2, "inspect quorum": 4} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitNoServer, execute(append(strings.Fields(command), up...), &stdout, &stderr), stderr.String())
		require.Equal(t, owners, strings.Count(stdout.String(), "555555555555:h1"), stdout.String())
		require.Contains(t, stderr.String(), servers[0].Addr())
		require.NotContains(t, stdout.String(), "--token", "a token is not enough for several")
	}
}

// TestNothingMovesTheCursor: what somebody has put into Redis is spelled out.
func TestNothingMovesTheCursor(t *testing.T) {
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), t.Context()
	rdb.HSet(ctx, "rw\x1b[2J", "mode", "read", "\x1b[2J:h1", 1)
	rdb.Set(ctx, "redisson_lock_token:{rw\x1b[2J}", "\x1b[2J", time.Minute)
	for _, args := range [][]string{
		{"ls"}, {"ls", "--redisson"}, {"ls", "--json"}, {"inspect", "rw\x1b[2J"},
		{"unlock", "--force", "rw\x1b[2J", "--token", "7", "--yes"},
	} {
		_, stdout, stderr := ask(srv, args...)
		require.NotEmpty(t, stdout+stderr)
		require.NotContains(t, stdout+stderr, "\x1b", args)
	}
}
