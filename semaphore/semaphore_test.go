package semaphore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var lock, take, unlock, refused = kindtest.Lock, kindtest.Take, kindtest.Unlock, kindtest.Refused

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
	tells, not = kindtest.Tells, kindtest.Not
)

// lab is a semaphore on a server.
type lab struct {
	testing.TB
	srv     *redistest.Server
	rdb     *redis.Client
	name    string
	permits int
}

func newLab(t testing.TB, permits int) *lab {
	srv := redistest.Shared(t)
	return &lab{t, srv, srv.Client(t), uniqueName(t), permits}
}

// process is the semaphore for a client of its own.
func (l *lab) process(opts *holdfast.Options) *semaphore.Semaphore {
	return l.through(l.srv.Client(l.TB), opts)
}

// edited is process with other scripts.
func (l *lab) edited(hooks ...redis.Hook) *semaphore.Semaphore {
	return l.through(kindtest.Hooked(l.srv.Client(l.TB), hooks...), nil)
}

// through is process by a go-redis client of its own.
func (l *lab) through(rdb redis.UniversalClient, opts *holdfast.Options) *semaphore.Semaphore {
	return semaphore.New(newClient(l.TB, rdb, opts), l.name, l.permits)
}

func (l *lab) ends() string  { return "{" + l.name + "}:timeout" }
func (l *lab) queue() string { return "holdfast_semaphore_queue:{" + l.name + "}" }

// waiting waits until so many have places.
func (l *lab) waiting(n int64) {
	eventually(l, "they wait", func() bool { return l.rdb.ZCard(context.Background(), l.queue()).Val() == n })
}

// free is how many permits the server has as free.
func (l *lab) free() int {
	n, err := l.rdb.Get(context.Background(), l.name).Int()
	require.NoError(l, err)
	return n
}

// out is how many permits the server has as granted.
func (l *lab) out() int64 { return l.rdb.ZCard(context.Background(), l.ends()).Val() }

// settled waits until all permits are back and nobody waits.
func (l *lab) settled() {
	eventually(l, "all is given back", func() bool {
		return l.out() == 0 && l.free() == l.permits && l.rdb.ZCard(context.Background(), l.queue()).Val() == 0
	})
}

// acquire asks for n permits in a goroutine.
func (l *lab) acquire(ctx context.Context, s *semaphore.Semaphore, n int, opts ...holdfast.Option) *kindtest.Pending {
	return kindtest.Begin(ctx, l, func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
		return s.Acquire(ctx, n, opts...)
	}, opts...)
}

// some takes n permits that are free.
func (l *lab) some(s *semaphore.Semaphore, n int, opts ...holdfast.Option) *holdfast.Hold {
	return l.acquire(l.Context(), s, n, opts...).Hold()
}

// TestKind: what every kind of lock promises. A semaphore of one permit is one.
func TestKind(t *testing.T) {
	srv := redistest.Start(t)
	direct := srv.Client(t)
	ends := func(name string) string { return "{" + name + "}:timeout" }
	kindtest.Run(t, kindtest.Kind{Name: "semaphore", Lease: 2 * time.Second, Once: true, Queues: true}.On(t, kindtest.Servers{
		All: []*redistest.Server{srv},
		Key: ends,
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return semaphore.New(c[0], name, 1, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := semaphore.New(c[0], name, 1).State(ctx)
			token, _ := direct.Get(context.Background(), "redisson_lock_token:{"+name+"}").Uint64() // that was granted last
			state := holdfast.State{Waiters: s.Waiters, Token: token}
			for _, h := range s.Holders {
				state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
			}
			return state, err
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return rdb.ZCard(ctx, "holdfast_semaphore_queue:{"+name+"}").Val()
		},
		Give: func(ctx context.Context, rdb *redis.Client, name string) error {
			pipe := rdb.Pipeline()
			pipe.Del(ctx, ends(name))
			pipe.Set(ctx, name, 0, time.Hour)
			pipe.Incr(ctx, "redisson_lock_token:{"+name+"}")
			pipe.ZAdd(ctx, ends(name), redis.Z{Member: kindtest.Stranger + ":h47", Score: float64(time.Now().Add(time.Hour).UnixMilli())})
			_, err := pipe.Exec(ctx)
			return err
		},
	}))
}

// TestPermits: all or none, by several clients, with growing tokens, and everything is given back.
func TestPermits(t *testing.T) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	one := lock(t, a)
	require.Equal(t, 1, one.Count())
	two := l.some(b, 2)
	require.Equal(t, 2, two.Count())
	require.Greater(t, two.Token(), one.Token())
	require.Zero(t, l.free())
	refused(t.Context(), t, b.TryLock)
	s := kindtest.State(t, a)
	require.Equal(t, 3, s.Permits)
	require.Zero(t, s.Free)
	counts := map[string]int{}
	for _, h := range s.Holders {
		counts[h.Owner] = h.Count
		require.Greater(t, h.Remaining, 10*time.Second)
	}
	require.Equal(t, map[string]int{one.Owner(): 1, two.Owner(): 2}, counts)
	unlock(t, one)
	require.ErrorIs(t, kindtest.Err(b.TryAcquire(t.Context(), 2)), holdfast.ErrNotAcquired)
	require.Equal(t, 1, l.free(), "none, where not all")
	again, err := b.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	unlock(t, two, again)
	l.settled()
}

// TestNothingIsReentered: a hold is an owner of its own, also under the context of another.
func TestNothingIsReentered(t *testing.T) {
	l := newLab(t, 2)
	s := l.process(nil)
	ctx := holdfast.WithOwner(t.Context())
	one := take(ctx, t, s.Lock)
	two := take(one.Context(), t, s.Lock)
	require.NotEqual(t, one.Owner(), two.Owner())
	refused(two.Context(), t, s.TryLock)
	unlock(t, one, two)
	l.settled()
}

// TestBadNumbers are refused before anything is sent, and what the semaphore does not have is refused by the server, at once.
func TestBadNumbers(t *testing.T) {
	l := newLab(t, 3)
	s := l.process(nil)
	for _, n := range []int{0, -1, 1 << 40} {
		tells(t, kindtest.Err(s.Acquire(t.Context(), n)), holdfast.ErrInvalid, "n is ")
		require.ErrorIs(t, s.SetPermits(t.Context(), n), holdfast.ErrInvalid)
		_, err := semaphore.New(newClient(t, l.rdb, nil), l.name, n).Lock(t.Context())
		tells(t, err, holdfast.ErrInvalid, "permits is ")
	}
	_, err := s.TryAcquire(t.Context(), 10_001)
	tells(t, err, holdfast.ErrInvalid, "n is 10001; use at least 1 and at most 10000")
	require.Zero(t, l.rdb.Exists(t.Context(), l.name).Val())
	for _, opt := range []holdfast.Option{holdfast.HoldAtLeast(time.Second), rlock.Keep(time.Second)} {
		require.ErrorIs(t, kindtest.Err(s.Lock(t.Context(), opt)), holdfast.ErrInvalid)
	}
	_, err = s.Acquire(t.Context(), 4)
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "n is 4, and the semaphore has 3 permits; ask for fewer, or raise their number with SetPermits")
	require.NotContains(t, err.Error(), "HOLDFAST_PERMITS")
	err = semaphore.New(newClient(t, l.rdb, nil), strings.Repeat("x", 1025), 1).SetPermits(t.Context(), 1)
	tells(t, err, holdfast.ErrInvalid, "name has 1025 bytes; use at most 1024")
	l.settled()
	var none *semaphore.Semaphore
	require.ErrorIs(t, kindtest.Err(none.Lock(t.Context())), holdfast.ErrInvalid)
}

// TestArrival: the first to come is served first, over clients; a later request for one does not pass a request for many.
func TestArrival(t *testing.T) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	var held []*holdfast.Hold
	for range 3 {
		h := lock(t, a)
		held = append(held, h)
	}
	many := l.acquire(t.Context(), b, 3)
	l.waiting(1)
	first := l.acquire(t.Context(), a, 1)
	l.waiting(2)
	second := l.acquire(t.Context(), b, 1)
	l.waiting(3)
	unlock(t, held[0], held[1])
	require.Equal(t, 2, l.free())
	refused(t.Context(), t, a.TryLock) // two are free, for who waits
	require.False(t, first.Over())
	unlock(t, held[2])
	h := many.Hold()
	require.False(t, first.Over())
	l.waiting(2)
	unlock(t, h)
	one, two := first.Hold(), second.Hold()
	require.Greater(t, two.Token(), one.Token())
	unlock(t, one, two)
	l.settled()
}

// TestALeaverLetsTheOthersIn: who stops waiting makes room for those behind it at once.
func TestALeaverLetsTheOthersIn(t *testing.T) {
	l := newLab(t, 3)
	a, b := l.process(nil), l.process(nil)
	h := l.some(a, 2)
	ctx, cancel := context.WithCancel(t.Context())
	many := l.acquire(ctx, a, 3)
	l.waiting(1)
	one := l.acquire(t.Context(), b, 1)
	l.waiting(2)
	cancel()
	err := many.Err()
	tells(t, err, holdfast.ErrNotAcquired, context.Canceled)
	unlock(t, one.Hold(), h)
	l.settled()
}

// TestTooManyIsNoOutage: a request for more permits than there are is refused, and is no outage to others of its client.
func TestTooManyIsNoOutage(t *testing.T) {
	l := newLab(t, 2)
	h := l.some(l.process(nil), 2)
	s := l.process(nil)
	ctx, cancel := context.WithCancel(t.Context())
	one := l.acquire(ctx, s, 1)
	l.waiting(1)
	_, err := s.Acquire(t.Context(), 3)
	require.ErrorContains(t, err, "n is 3, and the semaphore has 2 permits; ask for fewer")
	cancel()
	err = one.Err()
	tells(t, err, holdfast.ErrNotAcquired, not(holdfast.ErrUnavailable))
	unlock(t, h)
	l.settled()
}

// TestSetPermits: more permits are handed out at once; of fewer none is granted until enough came back. Who wants more is told.
func TestSetPermits(t *testing.T) {
	l := newLab(t, 2)
	a, b := l.process(nil), l.process(nil)
	h := l.some(a, 2)
	waits := []*kindtest.Pending{l.acquire(t.Context(), a, 1)}
	l.waiting(1)
	waits = append(waits, l.acquire(t.Context(), b, 1))
	l.waiting(2)
	require.NoError(t, b.SetPermits(t.Context(), 4))
	one, two := waits[0].Hold(), waits[1].Hold()
	many := l.acquire(t.Context(), a, 3)
	l.waiting(1)
	last := l.acquire(t.Context(), b, 1)
	l.waiting(2)
	require.NoError(t, b.SetPermits(t.Context(), 1))
	s := kindtest.State(t, a)
	require.Equal(t, [...]int{1, -3, 1}, [...]int{s.Permits, s.Free, s.Waiters})
	require.ErrorIs(t, many.Err(), holdfast.ErrInvalid)
	unlock(t, h, one) // one is out, of one
	require.False(t, last.Over())
	unlock(t, two)
	unlock(t, last.Hold())
	l.permits = 1
	l.settled()
}

// TestTheServersNumberCounts: not that of whoever comes later.
func TestTheServersNumberCounts(t *testing.T) {
	l := newLab(t, 2)
	h := lock(t, l.process(nil))
	l.permits = 5
	require.ErrorIs(t, kindtest.Err(l.process(nil).TryAcquire(t.Context(), 2)), holdfast.ErrNotAcquired)
	require.NoError(t, l.rdb.Del(t.Context(), l.name).Err(), "as if it were evicted")
	four, err := l.process(nil).TryAcquire(t.Context(), 4)
	require.NoError(t, err, "those that are out are known still")
	require.Zero(t, l.free())
	unlock(t, h, four)
	l.settled()
}

// TestEveryKeyEnds.
func TestEveryKeyEnds(t *testing.T) {
	l := newLab(t, 1)
	a, b := l.process(nil), l.process(nil)
	h := lock(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	waits := l.acquire(ctx, b, 1)
	l.waiting(1)
	keys, err := l.rdb.Keys(t.Context(), "*"+l.name+"*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 6)
	for _, key := range keys {
		require.Positive(t, l.rdb.PTTL(t.Context(), key).Val(), key)
	}
	cancel()
	require.ErrorIs(t, waits.Err(), context.Canceled)
	unlock(t, h)
	l.settled()
}

// TestStateOfMany: of ten thousand permits that are out 1024 are told, those that end first, and all are counted.
func TestStateOfMany(t *testing.T) {
	l := newLab(t, 10)
	m := l.process(nil)
	h := take(t.Context(), t, m.Lock)
	const fill = "for i = 1, 9999 do redis.call('ZADD', KEYS[1], 1e15 + i, 'a:h' .. i) end return 1"
	require.NoError(t, l.rdb.Eval(t.Context(), fill, []string{l.ends()}).Err())
	s := kindtest.State(t, m)
	require.Equal(t, 10000, s.Permits-s.Free)
	require.Equal(t, 1024, len(s.Holders)) // Len would print them
	require.Equal(t, h.Owner(), s.Holders[0].Owner)
	require.NoError(t, l.rdb.ZRemRangeByScore(t.Context(), l.ends(), "1e15", "+inf").Err())
	unlock(t, h)
}
