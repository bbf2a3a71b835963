package holdfasttest_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestFail: errors of the connection and answers of the server come to the caller as themselves,
// and afterwards all is well.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := holdfasttest.New(t), t.Context()
		l := rlock.New(s.Client(nil), "a")
		mine := errors.New("mine")

		s.Fail("a", -1, mine)
		s.Fail("a", 0, nil)
		_, err := l.Lock(ctx)
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, err, holdfast.ErrUnavailable)

		s = holdfasttest.New(t)
		l = rlock.New(s.Client(nil), "a")
		s.Fail("a", 1, holdfasttest.Answer("NOPERM no"))
		_, err = l.Lock(ctx)
		require.ErrorContains(t, err, "NOPERM no")
		var answer redis.Error
		require.ErrorAs(t, err, &answer)
		h, err := l.Lock(ctx)
		require.NoError(t, err)

		s.Fail("a", 2, nil)
		require.NoError(t, h.Unlock(ctx), "repeated")
		h, err = l.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
	})
}

// TestInject: a fault counts what it has hit, lets some through, waits, and is stopped; it does not
// hit other names, nor other operations.
func TestInject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := holdfasttest.New(t), t.Context()
		c := s.Client(nil)
		late := s.Inject(holdfasttest.Fault{Name: "a", Op: holdfasttest.Unlock, Skip: 1, Times: 2, Delay: time.Second})
		for _, name := range []string{"b", "a", "b", "a", "a", "a"} {
			h, err := rlock.New(c, name, holdfast.NoHandoff()).Lock(ctx)
			require.NoError(t, err)
			start, hit := time.Now(), late.Hits()
			require.NoError(t, h.Unlock(ctx))
			require.Equal(t, time.Duration(late.Hits()-hit)*time.Second, time.Since(start))
		}
		<-late.Fired()
		require.Equal(t, 2, late.Hits())

		lost := s.Inject(holdfasttest.Fault{Name: "a", Op: holdfasttest.Lock, Delay: time.Second, Err: io.ErrUnexpectedEOF, Times: -1})
		_, err := rlock.New(c, "a").TryLock(ctx)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		lost.Stop()
		lost.Stop()
		h, err := rlock.New(c, "a").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))

		deaf := s.Inject(holdfasttest.Fault{Name: "a", Op: holdfasttest.Listen, Times: -1, Err: holdfasttest.Answer("NOPERM no")})
		s.Occupy("a", 0)
		_, err = rlock.New(c, "a").Lock(ctx)
		require.ErrorContains(t, err, "cannot listen")
		<-deaf.Fired()
	})
}

// TestFaultsHitOneLock: what would travel in one script with others is hit alone.
func TestFaultsHitOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		c, ctx := s.Client(nil), t.Context()
		names := []string{"a", "b", "c", "d", "e", "f"}
		var holds []*holdfast.Hold
		for _, name := range names {
			h, err := rlock.New(c, name).Lock(ctx)
			require.NoError(t, err)
			holds = append(holds, h)
		}
		s.Inject(holdfasttest.Fault{Name: "d", Op: holdfasttest.Renew, Times: -1, Err: holdfasttest.Answer("BUSY a script")})
		time.Sleep(time.Minute)
		for i, h := range holds {
			want := error(nil)
			if names[i] == "d" {
				want = holdfast.ErrLost
			}
			require.ErrorIs(t, h.Unlock(ctx), want, names[i])
		}
	})
}

// TestFamily: each kind does what it is for, on the double.
func TestFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		servers := []*holdfasttest.Server{holdfasttest.New(t), holdfasttest.New(t), holdfasttest.New(t)}
		s := servers[0]
		var clients []*holdfast.Client
		for _, s := range servers {
			clients = append(clients, s.Client(nil))
		}
		c := clients[0]

		quorum := redlock.New(clients, "q", redlock.TrustRestarts())
		h, err := quorum.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(11 * time.Second) // it was granted by two of them, and renewed by all
		servers[1].Lose("q")
		time.Sleep(time.Minute)
		require.NoError(t, context.Cause(h.Context()), "a majority has it")
		servers[1].Silence()
		servers[2].Lose("q")
		<-h.Context().Done()
		require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)

		reader, err := rwlock.New(c, "rw").RLock(ctx)
		require.NoError(t, err)
		_, err = rwlock.New(c, "rw").Lock(reader.Context())
		require.ErrorIs(t, err, rwlock.ErrUpgrade)
		another, err := rwlock.New(s.Client(nil), "rw").RLock(ctx)
		require.NoError(t, err)
		s.Lose("rw")
		<-reader.Context().Done()
		<-another.Context().Done()

		permits := semaphore.New(c, "s", 3)
		three, err := permits.Acquire(ctx, 3)
		require.NoError(t, err)
		wait := s.Queue("s",
			func() { take(t, semaphore.New(s.Client(nil), "s", 3), 2) },
			func() { take(t, semaphore.New(s.Client(nil), "s", 3), 1) })
		require.NoError(t, three.Unlock(ctx))
		wait()
		require.NoError(t, permits.SetPermits(ctx, 5))
		state, err := permits.State(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, state.Free)

		gate := latch.New(c, "l")
		_, err = gate.Set(ctx, 2)
		require.NoError(t, err)
		s.Fail("l", 1, nil)
		left, err := gate.CountDown(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, left, "counted once")
		time.AfterFunc(time.Hour, func() { _, _ = gate.CountDown(context.Background()) })
		require.NoError(t, latch.New(s.Client(nil), "l").Wait(ctx))

		vote := election.New(c, "e")
		lead, err := vote.Campaign(ctx, "one")
		require.NoError(t, err)
		leader, err := election.New(s.Client(nil), "e").Leader(ctx)
		require.NoError(t, err)
		require.Equal(t, "one", leader.Value)
		s.Lose("e")
		<-lead.Context().Done()
		_, err = vote.Leader(ctx)
		require.ErrorIs(t, err, election.ErrNoLeader)

		all, err := multilock.New(rlock.New(c, "m1"), fairlock.New(c, "m2")).Lock(ctx)
		require.NoError(t, err)
		s.Lose("m2")
		<-all.Context().Done()
		require.ErrorIs(t, all.Unlock(ctx), holdfast.ErrLost)

		kept, err := rlock.New(c, "k", holdfast.Keep(time.Hour)).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, kept.Unlock(ctx))
		called, err := rlock.New(s.Client(nil), "k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, called.Unlock(ctx))

		guard := fence.NewRedis(s.Redis())
		old, err := rlock.New(c, "f").Lock(ctx)
		require.NoError(t, err)
		s.Lose("f")
		<-old.Context().Done()
		fresh, err := rlock.New(s.Client(nil), "f").Lock(ctx)
		require.NoError(t, err)
		_, err = guard.Do(fresh.Context(), "data", "SET", "new")
		require.NoError(t, err)
		_, err = guard.Do(context.WithoutCancel(old.Context()), "data", "SET", "old")
		require.ErrorIs(t, err, fence.ErrStale)
		require.NoError(t, fresh.Unlock(ctx))
	})
}

func take(t *testing.T, s *semaphore.Semaphore, n int) {
	h, err := s.Acquire(context.Background(), n)
	if err == nil {
		err = h.Unlock(context.Background())
	}
	if err != nil {
		t.Errorf("%d permits: %v", n, err)
	}
}

// TestOps: each operation of each kind is found by its name, and hit.
func TestOps(t *testing.T) {
	of := map[holdfasttest.Op][]string{
		holdfasttest.Lock:    {"rlock", "fairlock", "rwlock", "readers", "semaphore", "redlock", "multilock"},
		holdfasttest.Unlock:  {"rlock", "fairlock", "rwlock", "readers", "semaphore", "redlock", "multilock"},
		holdfasttest.Renew:   {"rlock", "fairlock", "rwlock", "readers", "semaphore", "redlock", "multilock"},
		holdfasttest.Reenter: {"rlock", "fairlock", "rwlock", "multilock"},
		holdfasttest.Look:    {"rlock", "fairlock"},
	}
	for op, list := range of {
		for _, kind := range list {
			t.Run(string(op)+" "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, ctx := holdfasttest.New(t), t.Context()
					hit := s.Inject(holdfasttest.Fault{Name: "a", Op: op, Times: -1, Delay: time.Millisecond})
					c := s.Client(nil)
					l := kinds[kind](c, "a")
					h, err := l.Lock(ctx)
					require.NoError(t, err)
					if kind != "semaphore" {
						again, err := l.Lock(h.Context())
						require.NoError(t, err)
						require.NoError(t, again.Unlock(ctx))
					}
					time.Sleep(11 * time.Second)
					if state, ok := l.(interface {
						State(context.Context) (holdfast.State, error)
					}); ok {
						_, err = state.State(ctx)
						require.NoError(t, err)
					}
					require.NoError(t, h.Unlock(ctx))
					require.Positive(t, hit.Hits())
					hit.Stop()
				})
			})
		}
	}
}

// TestScripts: each script of the library is of some operation, and by its hash and its text of the
// same.
func TestScripts(t *testing.T) {
	many := 0
	for hash, text := range holdfasttest.Scripts() {
		op := holdfasttest.OpOf([]string{"EVALSHA", hash, "1", "a"})
		require.Equal(t, op, holdfasttest.OpOf([]string{"eval", text, "1", "a"}))
		if op == "" {
			many++
		}
	}
	require.Equal(t, 2, many, "those for many locks are of none")
	files, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	require.Len(t, holdfasttest.Scripts(), len(files))
	require.Empty(t, holdfasttest.OpOf([]string{"GET", "a"}))
	require.Equal(t, holdfasttest.Listen, holdfasttest.OpOf([]string{"SUBSCRIBE", "a"}))
}
