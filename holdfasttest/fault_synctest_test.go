package holdfasttest_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestFail: errors of the connection and answers of the server come to the caller as themselves, and afterwards all is well.
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
		h := locked(t, l)

		s.Fail("a", 2, nil)
		require.NoError(t, h.Unlock(ctx), "repeated")
		h = locked(t, l)
		require.NoError(t, h.Unlock(ctx))
	})
}

// TestInject: a fault counts its hits, lets some through, waits, and is stopped; it hits no other name or operation.
func TestInject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := holdfasttest.New(t), t.Context()
		c := s.Client(nil)
		late := s.Inject(holdfasttest.Fault{Name: "a", Op: holdfasttest.Unlock, Skip: 1, Times: 2, Delay: time.Second})
		for _, name := range []string{"b", "a", "b", "a", "a", "a"} {
			h := locked(t, rlock.New(c, name, holdfast.NoHandoff()))
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
		h := locked(t, rlock.New(c, "a"))
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
			h := locked(t, rlock.New(c, name))
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

// TestSeveralServers: a redlock on three servers of a test goes on while a majority has it.
func TestSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := []*holdfasttest.Server{holdfasttest.New(t), holdfasttest.New(t), holdfasttest.New(t)}
		var clients []*holdfast.Client
		for _, s := range servers {
			clients = append(clients, s.Client(nil))
		}
		h := locked(t, redlock.New(clients, "q"))
		time.Sleep(11 * time.Second) // it was granted by two of them, and renewed by all
		servers[1].Lose("q")
		time.Sleep(time.Minute)
		require.NoError(t, context.Cause(h.Context()), "a majority has it")
		servers[1].Silence()
		servers[2].Lose("q")
		<-h.Context().Done()
		require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
	})
}

// TestLoseAndKeep: what the stories of TestSame leave out. All who read lose it, so does a leader, and who has one of
// several; and a client that keeps its lock gives it back to who waits.
func TestLoseAndKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := holdfasttest.New(t), t.Context()
		c := s.Client(nil)
		vote := election.New(c, "e")
		lead, err := vote.Campaign(ctx, "one")
		require.NoError(t, err)
		holds := []*holdfast.Hold{
			lead, locked(t, rwlock.New(c, "rw").RLocker()), locked(t, rwlock.New(s.Client(nil), "rw").RLocker()),
			locked(t, multilock.New(rlock.New(c, "m1"), fairlock.New(c, "m2"))),
		}
		for _, name := range []string{"e", "rw", "m2"} {
			s.Lose(name)
		}
		for _, h := range holds {
			<-h.Context().Done()
			require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
		}
		_, err = vote.Leader(ctx)
		require.ErrorIs(t, err, election.ErrNoLeader)

		require.NoError(t, locked(t, rlock.New(c, "k", rlock.Keep(time.Hour))).Unlock(ctx))
		require.NoError(t, locked(t, rlock.New(s.Client(nil), "k")).Unlock(ctx))
	})
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
					h := locked(t, l)
					if kind != "semaphore" {
						again, err := l.Lock(h.Context())
						require.NoError(t, err)
						require.NoError(t, again.Unlock(ctx))
					}
					time.Sleep(11 * time.Second)
					if state, ok := l.(interface {
						State(context.Context) (holdfast.State, error)
					}); ok {
						_, err := state.State(ctx)
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

// TestScripts: each script of the library is of some operation, and by its hash and its text of the same.
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

// TestOccupy: whoever waits for an occupied name, for any kind, has it at the moment of the release, and
// otherwise at that of the end of the lease: not before, and not a poll later. Who waits for a quorum looks again by
// chance within half a second, so that not all ask at once.
func TestOccupy(t *testing.T) {
	occupied := maps.Clone(kinds)
	delete(occupied, "semaphore") // it has no hash, so that nobody can occupy it without knowing how many there are
	for kind, make := range occupied {
		t.Run(kind, func(t *testing.T) {
			occupy(t, make, func(s *holdfasttest.Server, lease time.Duration) func() { return s.Occupy("a", lease) })
		})
	}
	permits := func(c *holdfast.Client) holdfast.Locker { return semaphore.New(c, "a", 1) }
	reads := func(c *holdfast.Client) holdfast.Locker { return rwlock.New(c, "a").RLocker() }
	t.Run("with permits", func(t *testing.T) {
		occupy(t, kinds["semaphore"], func(s *holdfasttest.Server, lease time.Duration) func() { return s.OccupyWith(lease, permits) })
	})
	t.Run("with a reader", func(t *testing.T) {
		occupy(t, kinds["rwlock"], func(s *holdfasttest.Server, lease time.Duration) func() { return s.OccupyWith(lease, reads) })
	})
}

func occupy(t *testing.T, make func(*holdfast.Client, string) holdfast.Locker,
	take func(s *holdfasttest.Server, lease time.Duration) (release func())) {
	for _, row := range []struct{ lease, releases, over time.Duration }{
		{0, 2 * time.Minute, 2 * time.Minute},
		{time.Hour, 2 * time.Minute, 2 * time.Minute},
		{time.Minute, 0, time.Minute},
		{time.Minute, 59900 * time.Millisecond, 59900 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := holdfasttest.New(t)
			release := take(s, row.lease)
			if row.releases > 0 {
				time.AfterFunc(row.releases, release)
			}
			start := time.Now()
			h := locked(t, make(s.Client(nil), "a"), holdfast.Wait(90*time.Minute))
			waited := time.Since(start)
			require.GreaterOrEqual(t, waited, row.over-time.Millisecond, "%+v", row)
			require.Less(t, waited, row.over+time.Second, "%+v", row)
			require.NoError(t, h.Unlock(t.Context()))
			release()
		})
	}
}

// TestTokensGrow: each grant has a greater token, also in one moment of a bubble and after the server forgot the last one.
func TestTokensGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfasttest.AllowHeld())
		last := uint64(0)
		for range 5 {
			for kind, make := range kinds {
				h := locked(t, make(s.Client(nil), kind))
				require.Greater(t, h.Token(), last, kind)
				last = h.Token()
				require.NoError(t, s.Redis().FlushAll(t.Context()).Err())
			}
		}
	})
}
