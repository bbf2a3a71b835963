package main

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestWaiting: a number is shown only where it is known. Of those who wait inside the holder's process Redis knows nothing.
func TestWaiting(t *testing.T) {
	ours, redissons := []inspect.Holder{{Owner: "ours"}}, []inspect.Holder{{Owner: "redisson's", Redisson: true}}
	const hidden = "waiters inside the holder's process are not counted"
	const readers = "readers that wait have no places"
	for _, c := range []struct {
		lock         inspect.Lock
		column, line string
	}{
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours}, "?", "not known; " + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours, Listening: 2}, "~2",
			"2 listeners for a release; who that is, Redis does not know; " + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: ours, Listening: -1}, "?", "not known: the server does not tell who listens; " + hidden},
		{inspect.Lock{Kind: inspect.Plain, Waiters: -1, Holders: redissons}, "0", ""},
		{inspect.Lock{Kind: inspect.Free, Waiters: -1}, "0", ""},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours}, "?", "not known; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Listening: 1}, "~1", "1 listener for a release; " + readers + "; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 1, Listening: 4}, "~4", "4 listeners for a release, 1 of them with a place; " + readers + "; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 2, Listening: 2}, "2", "2; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 2, Listening: -1}, "2", "2; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: redissons, Listening: 3}, "~3", "3 listeners for a release; " + readers},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: ours, Waiters: 2, Listening: 1}, "2", "2; " + hidden},
		{inspect.Lock{Kind: inspect.ReadWrite, Holders: redissons}, "0", "0"},
		{inspect.Lock{Kind: inspect.Fair, Holders: ours, Waiters: 3}, "3", "3"},
		{inspect.Lock{Kind: inspect.Semaphore, Holders: ours}, "0", "0"},
		{inspect.Lock{Kind: inspect.Latch, Waiters: -1, Count: 1}, "0", ""},
		{inspect.Lock{Kind: inspect.Latch, Waiters: -1, Count: 1, Listening: 1}, "~1", "1 listener for a release; who that is, Redis does not know"},
	} {
		require.Equal(t, c.column, waiting(&c.lock), "%+v", c.lock)
		var out strings.Builder
		newSheet(&out, "").waiters(&c.lock)
		require.Equal(t, c.line, strings.TrimSpace(strings.TrimPrefix(strings.Join(strings.Fields(out.String()), " "), "waiting")))
		require.Equal(t, strings.Contains(c.line, hidden), documentOf(&c.lock).Uncounted)
	}

	const client = "11111111-2222-4333-8444-555555555555"
	for owner, known := range map[string]int{client + ":h1": -1, client + ":47": 0} { // the second one is Redisson's
		s := (&sight{kind: "rlock", holders: []holdfast.Holder{{Owner: owner}}}).honest()
		require.Equal(t, known, s.waiters, owner)
		var out strings.Builder
		require.NoError(t, lines(&out)(s.of("held", s.holders[0])))
		require.Equal(t, known < 0, strings.HasSuffix(strings.TrimSpace(out.String()), "?"), out.String())
	}
	require.Equal(t, 2, (&sight{waiters: 2, holders: []holdfast.Holder{{Owner: client + ":h1"}}}).honest().waiters)
}

// TestInterruptedWhileRedisIsSilent: Ctrl-C is what ends each command, and no outage, while a server takes the connection and says
// nothing.
func TestInterruptedWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	for command, ends := range map[string]bool{ // whether a signal is its usual end
		"ls": false, "inspect x": false, "unlock --force --yes --token 4 x": false, "doctor": false, "doctor --deadlocks": false, "demo": false,
		"run --name x --redis URL -- true": false, "top --once": true, "top --json": true, "watch x": true, "ui --listen 127.0.0.1:0": true,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			mute, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer mute.Close()
			url := "redis://" + mute.Addr().String()
			args := strings.Fields(strings.Replace(command, "URL", url, 1))
			if !strings.Contains(command, "URL") {
				args = append(args, "--redis", url)
			}
			p := start(t, nil, args...)
			conn, err := mute.Accept()
			require.NoError(t, err)
			defer conn.Close()
			if ends {
				require.Zero(t, p.told(t, syscall.SIGINT), "%s", &p.stderr)
				return
			}
			p.diesBy(t, syscall.SIGINT)
			require.Equal(t, "holdfast: interrupted by a signal: interrupt\n", p.stderr.String())
		})
	}
}

// TestInterruptedWhileAnAnswerIsDue: Ctrl-C ends a command that only looks, though go-redis would wait for an answer for an hour.
func TestInterruptedWhileAnAnswerIsDue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.NoError(t, srv.Client(t).Set(t.Context(), "redisson_lock_token:{x}", "5000", time.Hour).Err()) // it was a lock
	for command, ends := range map[string]bool{"ls": false, "inspect x": false, "top --once": true, "top --json": true, "watch x": true} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.New(t, srv.Addr())
			silence := proxy.On(func(args []string) bool {
				return slices.Contains([]string{"eval_ro", "evalsha_ro", "evalsha"}, args[0])
			}, 0, faultproxy.BlackHole)
			p := start(t, nil, append(strings.Fields(command), "--redis", "redis://"+proxy.Addr()+"?read_timeout=1h")...)
			require.True(t, redistest.Within(patience, func() bool { return silence.Count() > 0 }), "%v", proxy.Requests())
			if ends {
				require.Zero(t, p.told(t, syscall.SIGINT), "%s", &p.stderr)
				return
			}
			p.diesBy(t, syscall.SIGINT)
		})
	}
}

// TestInterruptedUnlock: a signal while the answer to an unlock is due does not hide that the hold may have ended.
func TestInterruptedUnlock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "x"))
	proxy := faultproxy.New(t, srv.Addr())
	end := proxy.On(func(args []string) bool { // what looks at the lock does not know its owner
		return strings.HasPrefix(args[0], "eval") && slices.Contains(args, h.Owner())
	}, 0, faultproxy.BlackHole)
	p := start(t, nil, "unlock", "--force", "--yes", "--owner", h.Owner(), "x", "--redis", "redis://"+proxy.Addr()+"?read_timeout=1h")
	require.True(t, redistest.Within(patience, func() bool { return end.Count() > 0 }), "%v", proxy.Requests())
	require.Equal(t, exitNoServer, p.told(t, syscall.SIGINT))
	require.Contains(t, p.stderr.String(), "the hold may have ended or not, look again")
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestNoRoomToWrite: what cannot be printed is a failure of the command, and no bad argument.
func TestNoRoomToWrite(t *testing.T) {
	srv := redistest.Start(t)
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "x"))
	for _, command := range []string{"version", "ls", "ls --json", "inspect x", "doctor --json", "top --once", "top --once --json"} {
		args := strings.Fields(command)
		if command != "version" {
			args = append(args, "--redis", "redis://"+srv.Addr())
		}
		var errs bytes.Buffer
		require.Equal(t, exitHoldfast, execute(args, full{}, &errs), command)
		require.Equal(t, "holdfast: no space left on device\n", errs.String(), command)
	}
}
