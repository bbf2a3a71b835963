package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rwlock"
)

// counting is the lock for a client of its own, and how many of its questions to read were answered.
func (l *lab) counting() (*rwlock.RWMutex, *atomic.Int64) {
	rdb, asked := redistest.Shared(l.TB).Client(l.TB), new(atomic.Int64)
	rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
		err := send()
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 1 && args[1] == lua.RwRead.Hash() {
				asked.Add(1)
			}
		}
		return err
	}))
	return rwlock.New(newClient(l.TB, rdb, nil), l.name), asked
}

// ownRead has an owner wait to read and to write behind somebody whose lease is long, and another reader of
// its client wait before it, if there is to be one. Then the server loses the lock, which nobody is told. When
// the owner writes, it returns that hold, the wait to read, and what ends it.
func ownRead(t *testing.T, another bool) (w *holdfast.Hold, read *kindtest.Pending, leave func()) {
	l := newLab(t)
	m, asked := l.counting()
	unlock(t, take(t.Context(), t, m.RLock)) // the server knows the script
	asked.Store(0)
	lock(t, l.process(&holdfast.Options{Lease: time.Hour}))
	asks := int64(2) // once more since it listens, so not later
	if another {
		ctx, cancel := context.WithCancel(t.Context())
		other := begin(ctx, t, m.RLock)
		t.Cleanup(func() { cancel(); _, _ = other.Result() })
		eventually(t, "another reader waits", func() bool { return asked.Load() >= asks && l.listening() == 1 })
		asks = 1
	}
	before := asked.Load()
	own, leave := context.WithCancel(holdfast.WithOwner(t.Context()))
	t.Cleanup(leave)
	read = begin(own, t, m.RLock)
	eventually(t, "it was refused, and listens", func() bool { return asked.Load() >= before+asks && l.listening() == 1 })
	write := begin(own, t, m.Lock)
	eventually(t, "it waits to write", func() bool { return l.waiting() == 1 })
	require.NoError(t, l.rdb.Del(t.Context(), l.name).Err())
	return write.Hold(), read, leave
}

// TestOwnReadBehindOwnWrite: an owner that waits to write and to read has both when it is granted the
// write, although nobody tells the read, and whoever else of its client waits to read before it.
func TestOwnReadBehindOwnWrite(t *testing.T) {
	for _, another := range []bool{false, true} {
		w, read, _ := ownRead(t, another)
		r := read.Hold()
		require.Equal(t, w.Token(), r.Token())
		unlock(t, r, w)
	}

	// The control: it sleeps until the lease has ended that it was told of.
	t.Cleanup(defence.OwnRead.Without(t))
	w, read, leave := ownRead(t, false)
	leave()
	require.ErrorIs(t, read.Err(), context.Canceled)
	unlock(t, w)
}

// TestWhoWaitsToWrite: a reader that a waiting writer keeps out is told so, and not that it has the lock.
func TestWhoWaitsToWrite(t *testing.T) {
	l := newLab(t)
	first := take(t.Context(), t, l.process(nil).RLock)
	ctx, cancel := context.WithCancel(t.Context())
	m := l.process(nil)
	writer := begin(ctx, t, m.Lock)
	eventually(t, "it waits", func() bool { return l.waiting() == 1 })
	owner := l.rdb.ZRange(t.Context(), "holdfast_rwlock_writers:{"+l.name+"}", 0, 0).Val()[0]
	for _, m := range []*rwlock.RWMutex{m, l.process(nil)} {
		err := refused(t.Context(), t, m.TryRLock)
		require.ErrorContains(t, err, ": "+owner+" waits to write")
		require.NotContains(t, err.Error(), "hold")
	}
	cancel()
	require.Error(t, writer.Err())
	unlock(t, first)
}

// TestStateOfTheDead: readers whose leases have ended are no holders, while others live and when nobody
// does. Forced out are those who live, and then the lock is free for clients of Redisson too.
func TestStateOfTheDead(t *testing.T) {
	const ours, redissons = "5d1a2f5e-6a0c-4a52-9d6f-5ad55f5cfd01:h3", "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47"
	l := newLab(t)
	m := l.process(nil)
	holders := func() (owners []string) {
		s := kindtest.State(t, m)
		for _, h := range s.Holders {
			require.Positive(t, h.Remaining)
			owners = append(owners, h.Owner)
		}
		return owners
	}
	live := take(t.Context(), t, m.RLock)
	require.NoError(t, l.rdb.HSet(t.Context(), l.name, ours, 1, redissons, 2).Err())
	require.Equal(t, []string{live.Owner()}, holders())
	// Redisson has a lease for each hold, of which the first may last longer.
	lease := "{" + l.name + "}:" + redissons + ":rwlock_timeout:1"
	require.NoError(t, l.rdb.Set(t.Context(), lease, 1, time.Minute).Err())
	require.ElementsMatch(t, []string{live.Owner(), redissons}, holders())
	kindtest.Forced(t, m)
	require.Empty(t, l.fields())
	require.Error(t, live.Unlock(t.Context()))

	require.NoError(t, l.rdb.HSet(t.Context(), l.name, "mode", "read", ours, 1).Err())
	require.Empty(t, holders())
	unlock(t, lock(t, m))
}

// Who waits without a limit is not delayed by callers of its own client who come and leave: it is granted the lock at the
// first release, and of those who want to write, none is who came after it.
func TestWhoStaysAmongThoseWhoLeave(t *testing.T) {
	const callers = 16
	for _, read := range []bool{false, true} {
		t.Run(fmt.Sprintf("read %v", read), func(t *testing.T) {
			l := newLab(t)
			waits := make(chan struct{})
			var once sync.Once
			here := l.process(&holdfast.Options{Observer: &event.Observer{
				Waiting: func(ctx context.Context, e event.Wait) context.Context {
					if !e.Bounded && !e.Once {
						once.Do(func() { close(waits) })
					}
					return ctx
				},
			}})
			acquire := here.Lock
			if read {
				acquire = here.RLock
			}
			other := lock(t, l.process(nil))
			var left, granted atomic.Int64
			var wrong atomic.Pointer[error]
			ctx, over := context.WithCancel(t.Context())
			defer over()
			var callersLeft sync.WaitGroup
			for range callers {
				callersLeft.Go(func() {
					for ctx.Err() == nil && wrong.Load() == nil {
						switch h, err := acquire(t.Context(), holdfast.Wait(2*time.Millisecond)); {
						case err == nil:
							granted.Add(1)
							_ = h.Unlock(t.Context())
						case errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, holdfast.ErrUnavailable):
							left.Add(1)
						default:
							wrong.Store(&err)
						}
					}
				})
			}
			leave := func() {
				before := left.Load()
				eventually(t, "they come and leave", func() bool { return left.Load() > before+8*callers })
			}
			leave()
			passed := int64(0)
			stays := begin(t.Context(), t, func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
				h, err := acquire(ctx, opts...)
				passed = granted.Load()
				return h, err
			})
			<-waits
			leave()
			require.Zero(t, granted.Load())
			unlock(t, other)
			unlock(t, stays.Hold())
			if !read {
				require.LessOrEqual(t, passed, int64(callers), "each that may have come before it, once")
			}
			over()
			callersLeft.Wait()
			require.Nil(t, wrong.Load())
			kindtest.Eventually(t, "nothing is left", func() bool { return len(l.fields()) == 0 && l.waiting() == 0 })
		})
	}
}
