package holdfasttest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestPing: in a bubble, too, a client finds out whether it could lock, and leaves nothing behind.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		c := s.Client(&holdfast.Options{Prefix: "team:"})
		require.NoError(t, c.Ping(t.Context()))
		rdb := redis.NewClient(s.RedisOptions())
		defer rdb.Close()
		require.Empty(t, rdb.Keys(t.Context(), "*").Val())
	})
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards the rest
	failures []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatal(args ...any) {
	r.Errorf("%s", fmt.Sprint(args...))
	panic(r)
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// recorded runs a test in a bubble and returns why it failed.
func recorded(t *testing.T, test func(r *recorder)) string {
	r := &recorder{TB: t}
	synctest.Test(t, func(*testing.T) {
		func() {
			defer func() {
				if p := recover(); p != nil && p != r {
					panic(p)
				}
			}()
			test(r)
		}()
		for i := len(r.cleanups) - 1; i >= 0; i-- {
			r.cleanups[i]()
		}
	})
	return strings.Join(r.failures, "\n")
}

// locked locks.
func locked(t testing.TB, l holdfast.Locker, opts ...holdfast.Option) *holdfast.Hold {
	h, err := l.Lock(context.Background(), opts...)
	require.NoError(t, err)
	return h
}

// TestStillHeld: a lock that is held at the end of a test, and a call that waits, fail it, and say
// where that was locked. What was unlocked, lost, or occupied by the test does not.
func TestStillHeld(t *testing.T) {
	hold := func(r *recorder, opts ...holdfasttest.Option) {
		s := holdfasttest.New(r, opts...)
		for _, name := range []string{"unlocked", "lost", "held"} {
			h := locked(t, rlock.New(s.Client(nil), name))
			switch name {
			case "unlocked":
				require.NoError(t, h.Unlock(context.Background()))
			case "lost":
				s.Lose(name)
				<-h.Context().Done()
			}
		}
		s.Occupy("occupied", 0)
		s.Queue("occupied", func() { _, _ = rlock.New(s.Client(nil), "occupied").Lock(context.Background()) })
	}
	said := recorded(t, func(r *recorder) { hold(r) })
	require.Regexp(t, `rlock "held" is still held at the end of the test, by .*:h1 \(token \d+\), locked at holdfasttest/end_synctest_test.go:\d+`, said)
	require.Regexp(t, `a call for rlock "occupied", locked at holdfasttest/end_synctest_test.go:\d+ .* still waits`, said)
	require.Len(t, strings.Split(said, "\n"), 2, said)
	require.Empty(t, recorded(t, func(r *recorder) { hold(r, holdfasttest.AllowHeld()) }))
}

// TestServersEndTogether: a redlock on several servers of one test that is held at its end, or waited for, is given back,
// whichever of them has its first client; and no server ends before a cleanup that the test added after the first one.
func TestServersEndTogether(t *testing.T) {
	for _, first := range []int{0, 1, 2} {
		said := recorded(t, func(r *recorder) {
			servers, clients := make([]*holdfasttest.Server, 3), make([]*holdfast.Client, 3)
			for i := range servers {
				servers[i] = holdfasttest.New(r, holdfasttest.AllowHeld())
				clients[i] = servers[i].Client(nil)
				r.Cleanup(func() {
					h := locked(t, rlock.New(clients[i], "b"))
					require.NoError(t, h.Unlock(context.Background()))
				})
			}
			clients[0], clients[first] = clients[first], clients[0]
			locked(t, redlock.New(clients, "a"))
			servers[first].Queue("a", func() {
				_, err := redlock.New(clients, "a").Lock(context.Background())
				require.ErrorIs(t, err, holdfast.ErrClosed)
			})
		})
		require.Empty(t, said)
	}
	require.Contains(t, recorded(t, func(r *recorder) {
		holdfasttest.New(r)
		locked(t, rlock.New(holdfasttest.New(r).Client(nil), "a"))
	}), "is still held", "each of them fails the test")
}

// TestStuck: calls that wait for each other fail the test, are named, and return. Those that do not, do not.
func TestStuck(t *testing.T) {
	ctx := context.Background()
	lock := func(l holdfast.Locker, opts ...holdfast.Option) error {
		h, err := l.Lock(ctx, opts...)
		if err == nil {
			return h.Unlock(ctx)
		}
		return err
	}
	closed := func(err error) { // or it got what another client gave back a moment before
		if err != nil {
			require.ErrorIs(t, err, holdfast.ErrClosed)
		}
	}
	for title, row := range map[string]struct {
		after time.Duration // for how long a call may wait
		play  func(s *holdfasttest.Server)
		said  []string // of the failure; none: there is no failure
		not   string   // is not said; empty: it does not matter
	}{
		"itself": {time.Hour, func(s *holdfasttest.Server) {
			c := s.Client(nil)
			h := locked(t, rlock.New(c, "a"))
			start := time.Now()
			require.ErrorIs(t, lock(rlock.New(c, "a")), holdfast.ErrClosed)
			require.Equal(t, time.Hour, time.Since(start))
			require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrClosed)
		}, []string{"wait for each other", "by the same goroutine", "end_synctest_test.go"}, ""},
		"a limit": {time.Minute, func(s *holdfasttest.Server) {
			h := locked(t, rlock.New(s.Client(nil), "a"))
			require.ErrorIs(t, lock(rlock.New(s.Client(nil), "a"), holdfast.Wait(61*time.Second)), holdfast.ErrNotAcquired)
			require.NoError(t, h.Unlock(ctx))
		}, nil, ""},
		"another goroutine works": {time.Minute, func(s *holdfasttest.Server) {
			h := locked(t, rlock.New(s.Client(nil), "a"))
			wait := s.Queue("a", func() { require.NoError(t, lock(rlock.New(s.Client(nil), "a"))) })
			time.Sleep(59 * time.Second)
			require.NoError(t, h.Unlock(ctx))
			wait()
		}, nil, ""},
		"for ever": {time.Minute, func(s *holdfasttest.Server) {
			h := locked(t, rlock.New(s.Client(nil), "a"))
			s.Queue("a", func() { closed(lock(rlock.New(s.Client(nil), "a"))) })()
			_ = h
		}, []string{"has waited for 1m0s of the bubble's time", "for the hold"}, ""},
		"somebody who does not leave": {time.Minute, func(s *holdfasttest.Server) {
			s.Occupy("a", 0)
			closed(lock(fairlock.New(s.Client(nil), "a")))
		}, []string{"has waited for 1m0s of the bubble's time", "occupies the name"}, ""},
		"somebody whose lease has ended": {time.Minute, func(s *holdfasttest.Server) {
			release := s.Occupy("a", 10*time.Second)
			h := locked(t, rlock.New(s.Client(nil), "a"))
			closed(lock(rlock.New(s.Client(nil), "a")))
			release()
			_ = h
		}, []string{"for the hold"}, "occupies the name"},
		"somebody who has lost it": {time.Minute, func(s *holdfasttest.Server) {
			s.Occupy("a", 0)
			s.Lose("a")
			h := locked(t, rlock.New(s.Client(nil), "a"))
			closed(lock(rlock.New(s.Client(nil), "a")))
			_ = h
		}, []string{"for the hold"}, "occupies the name"},
		"a candidate": {time.Minute, func(s *holdfasttest.Server) {
			leads, err := election.New(s.Client(nil), "a").Campaign(ctx, "one")
			require.NoError(t, err)
			wait := s.Queue("a", func() {
				h, err := election.New(s.Client(nil), "a").Campaign(ctx, "two")
				require.NoError(t, err)
				require.NoError(t, h.Unlock(ctx))
			})
			time.Sleep(5 * time.Minute)
			require.NoError(t, leads.Unlock(ctx))
			wait()
		}, nil, ""},
		"switched off": {-1, func(s *holdfasttest.Server) {
			c := s.Client(nil)
			h := locked(t, rlock.New(c, "a"))
			time.AfterFunc(61*time.Minute, func() { _ = h.Unlock(ctx) })
			require.NoError(t, lock(rlock.New(c, "a")))
		}, nil, ""},
	} {
		t.Run(title, func(t *testing.T) {
			said := recorded(t, func(r *recorder) {
				if row.after == time.Hour {
					row.play(holdfasttest.New(r)) // which is the default
				} else {
					row.play(holdfasttest.New(r, holdfasttest.StuckAfter(row.after)))
				}
			})
			if row.said == nil {
				require.Empty(t, said)
			}
			for _, text := range row.said {
				require.Contains(t, said, text)
			}
			if row.not != "" {
				require.NotContains(t, said, row.not)
			}
		})
	}
}

// TestCircle: two goroutines that have locked two names in different orders.
func TestCircle(t *testing.T) {
	ctx := context.Background()
	said := recorded(t, func(r *recorder) {
		s := holdfasttest.New(r)
		var both, group sync.WaitGroup
		both.Add(2)
		for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} {
			group.Go(func() {
				c := s.Client(nil)
				locked(t, rlock.New(c, names[0]))
				both.Done()
				both.Wait()
				if _, err := rlock.New(c, names[1]).Lock(ctx); err != nil { // else the other client was closed a moment before
					require.ErrorIs(t, err, holdfast.ErrClosed)
				}
			})
		}
		group.Wait()
	})
	require.Contains(t, said, "calls wait for each other")
	require.Contains(t, said, `a call for rlock "a"`)
	require.Contains(t, said, `a call for rlock "b"`)
	require.NotContains(t, said, "the same goroutine")
	require.Equal(t, 1, strings.Count(said, "wait for each other"), said)
}

// TestMisuse: what a test gets wrong fails it, with a remedy.
func TestMisuse(t *testing.T) {
	for said, play := range map[string]func(s *holdfasttest.Server){
		"nobody holds":          func(s *holdfasttest.Server) { s.Lose("a") },
		"cannot occupy":         func(s *holdfasttest.Server) { s.Occupy("a", 0); s.Occupy("a", 0) },
		"occupy the name first": func(s *holdfasttest.Server) { s.Queue("a", func() {}) },
		"leave After out": func(s *holdfasttest.Server) {
			s.Inject(holdfasttest.Fault{After: true, Err: holdfasttest.Answer("OOM")})
		},
		"answers to Listen":        func(s *holdfasttest.Server) { s.Inject(holdfasttest.Fault{After: true, Op: holdfasttest.Listen}) },
		"Skip is negative":         func(s *holdfasttest.Server) { s.Inject(holdfasttest.Fault{Skip: -1}) },
		"use UntilStopped":         func(s *holdfasttest.Server) { s.Inject(holdfasttest.Fault{Delay: -2}) },
		"use one of the constants": func(s *holdfasttest.Server) { s.Inject(holdfasttest.Fault{Op: "walk"}) },
		"Lease is -1":              func(s *holdfasttest.Server) { s.Client(&holdfast.Options{Lease: -1}) },
	} {
		require.Contains(t, recorded(t, func(r *recorder) { play(holdfasttest.New(r)) }), said)
	}
}

// TestStuckOutside: outside of a bubble who waits for itself is found by the clock of the machine.
func TestStuckOutside(t *testing.T) {
	r := &recorder{TB: t}
	s := holdfasttest.New(r, holdfasttest.StuckAfter(20*time.Millisecond))
	c := s.Client(nil)
	locked(t, rlock.New(c, "a"))
	_, err := rlock.New(c, "a").Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrClosed)
	for _, cleanup := range r.cleanups {
		cleanup()
	}
	require.Len(t, r.failures, 1)
	require.Contains(t, r.failures[0], "by the same goroutine. To re-enter, lock under the context of that hold")
}

// A server that was made outside of a bubble is refused inside, with what to do, and the test binary goes on.
func TestServerFromOutsideOfTheBubble(t *testing.T) {
	outside := &recorder{TB: t}
	server := holdfasttest.New(outside)
	const remedy = "call New inside synctest.Test"
	synctest.Test(t, func(t *testing.T) {
		require.Panics(t, func() { server.Client(nil) })
		require.Panics(t, func() { server.Occupy("a", 0) })
		rdb := redis.NewClient(server.RedisOptions())
		require.ErrorContains(t, rdb.Ping(t.Context()).Err(), remedy)
		require.NoError(t, rdb.Close())
		require.Len(t, outside.failures, 3)
		for _, failure := range outside.failures {
			require.Contains(t, failure, remedy)
		}
	})
	for _, f := range slices.Backward(outside.cleanups) {
		f()
	}
}
