package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// labelled is a client of that name, which looks at long waits soon.
func labelled(t *testing.T, rdb redis.UniversalClient, label string) *holdfast.Client {
	t.Helper()
	return kindtest.NewClient(t, rdb, &holdfast.Options{Label: label, LongWait: 80 * time.Millisecond})
}

// TestDoctorDeadlocks: two who wait for each other are an error, with their labels, and nobody is one when there
// are none. ls, inspect and unlock show the labels, too.
func TestDoctorDeadlocks(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	url, rdb := "redis://"+srv.Addr(), srv.Client(t)
	a, b := labelled(t, rdb, "billing@host-1"), labelled(t, rdb, "stock@host-2")
	ctx, cancel := context.WithCancel(t.Context())
	x := kindtest.Take(ctx, t, rlock.New(a, "x").Lock)
	y := kindtest.Take(ctx, t, rlock.New(b, "y").Lock)
	done := make(chan struct{}, 2)
	wait := func(ctx context.Context, m *rlock.Mutex) {
		defer func() { done <- struct{}{} }()
		if h, err := m.Lock(ctx); err == nil {
			_ = h.Unlock(ctx)
		}
	}
	go wait(x.Context(), rlock.New(a, "y"))
	look := func(args ...string) (code int, out string) {
		p := start(t, nil, append(args, "--redis", url)...)
		code = p.end()
		require.Empty(t, p.stderr.String())
		return code, p.stdout.String()
	}
	code, out := look("doctor", "--deadlocks")
	require.Zero(t, code, out)
	require.Contains(t, out, "ok       deadlock     no circle among the long waits")

	go wait(y.Context(), rlock.New(b, "x"))
	var r doctorReport
	for until := time.Now().Add(patience); code != exitError && time.Now().Before(until); {
		code, out = look("doctor", "--deadlocks", "--json")
		require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	}
	require.Len(t, r.Findings, 1)
	f := r.Findings[0]
	require.Equal(t, "error", r.Worst)
	require.Equal(t, "deadlock", f.Check)
	for _, part := range []string{"2 waits in a circle: ", "billing@host-1 (client " + a.ID() + `) has "x", token `, "stock@host-2", `for "x"`} {
		require.Contains(t, f.Found, part)
	}
	require.Contains(t, f.Command, "holdfast unlock --force")
	_, out = look("ls")
	require.Contains(t, out, "billing@host-1")
	require.Contains(t, out, "stock@host-2")
	_, out = look("inspect", "y")
	require.Contains(t, out, "(stock@host-2)")
	code, out = look("unlock", "y", "--force", "--owner", y.Owner(), "--yes", "--json")
	require.Zero(t, code, out)
	require.Contains(t, out, `"label":"stock@host-2"`)
	cancel()
	<-done
	<-done
	code, out = look("doctor", "--deadlocks")
	require.Zero(t, code, out)
}

// TestDoctorDeadlocksHostile: what others have written into Redis does nothing to a terminal, nor to a shell that is
// given the remedy.
func TestDoctorDeadlocksHostile(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const client, name = "11111111-2222-4333-8444-555555555555", "$(touch x) it's"
	rdb, ctx := srv.Client(t), t.Context()
	require.NoError(t, rdb.HSet(ctx, name, client+":h1", 1).Err())
	require.NoError(t, rdb.PExpire(ctx, name, time.Hour).Err())
	done := make(chan struct{})
	stop, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for n := uint64(1); stop.Err() == nil; n++ {
			s := deadlock.Said{Client: client, Label: "evil\x1b[2J\u202e", Number: n, EveryMS: 100, Waits: []deadlock.Wait{{
				Lock: deadlock.Lock{Kind: "rlock", Name: name}, ID: 1, Owner: client + ":h2",
				Holds: []deadlock.Hold{{Lock: deadlock.Lock{Kind: "rlock", Name: name}, Owner: client + ":h1", Token: 5}},
			}}}
			_ = rdb.Set(stop, keys.Waits(client), s.Text(), time.Minute).Err()
		}
	}()
	p := start(t, nil, "doctor", "--deadlocks", "--json", "--redis", "redis://"+srv.Addr())
	require.Equal(t, exitError, p.end(), p.stdout.String())
	var r doctorReport
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &r))
	require.NotContains(t, r.Findings[0].Found, "evil", "no client says this of itself")
	require.Equal(t, "holdfast unlock --force --token 5 --redis redis://"+srv.Addr()+` '$(touch x) it'\''s'`, r.Findings[0].Command)
	p = start(t, nil, "inspect", name, "--redis", "redis://"+srv.Addr())
	require.Zero(t, p.end())
	require.Contains(t, p.stdout.String(), `--owner `+client+":h1 --redis redis://"+srv.Addr()+` '$(touch x) it'\''s'`+"\n")
	cancel()
	<-done
}
