package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
