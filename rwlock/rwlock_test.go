package rwlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	lock, take, unlock = kindtest.Lock, kindtest.Take, kindtest.Unlock
	begin, refused     = kindtest.Begin, kindtest.Refused
	tells              = kindtest.Tells

	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
)

// lab is a name on the package's server.
type lab struct {
	testing.TB
	rdb  *redis.Client
	name string
}

func newLab(t testing.TB) *lab {
	return &lab{t, redistest.Shared(t).Client(t), uniqueName(t)}
}

// process is the lock for a client of its own.
func (l *lab) process(opts *holdfast.Options) *rwlock.RWMutex {
	return rwlock.New(newClient(l.TB, redistest.Shared(l.TB).Client(l.TB), opts), l.name)
}

func (l *lab) fields() map[string]string {
	all, err := l.rdb.HGetAll(context.Background(), l.name).Result()
	require.NoError(l, err)
	return all
}

// waiting is how many writers the server knows that wait.
func (l *lab) waiting() int64 {
	n, err := l.rdb.ZCard(context.Background(), "holdfast_rwlock_writers:{"+l.name+"}").Result()
	require.NoError(l, err)
	return n
}

// listening is how many clients listen for a release.
func (l *lab) listening() int64 {
	return kindtest.Listeners(context.Background(), l.rdb, "redisson_rwlock:{"+l.name+"}")
}

// TestKind: what every kind of lock promises. A read-write lock is one by its side to write.
func TestKind(t *testing.T) {
	kindtest.Run(t, kindtest.Kind{Name: "rwlock", Lease: 2 * time.Second}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return rwlock.New(c[0], name, opts...)
		},
		State: func(ctx context.Context, c []*holdfast.Client, name string) (holdfast.State, error) {
			s, err := rwlock.New(c[0], name).State(ctx)
			state := holdfast.State{Token: s.Token, Waiters: s.Waiters}
			for _, h := range s.Holders {
				state.Owner, state.Count, state.Remaining = h.Owner, h.Count, h.Remaining
			}
			return state, err
		},
		Force: func(ctx context.Context, c []*holdfast.Client, name string) (bool, error) {
			return rwlock.New(c[0], name).ForceUnlock(ctx)
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			// The first attempt brings a place. Who listens has had the answer.
			return min(rdb.ZCard(ctx, "holdfast_rwlock_writers:{"+name+"}").Val(),
				kindtest.Listeners(ctx, rdb, "redisson_rwlock:{"+name+"}"))
		},
		Places: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return rdb.ZCard(ctx, "holdfast_rwlock_writers:{"+name+"}").Val()
		},
		Fields: []any{"mode", "write", kindtest.Stranger + ":47:write", 1},
	}))
}

// Readers of several processes are inside together, and no writer with them.
func TestReadersShare(t *testing.T) {
	l := newLab(t)
	here, there := l.process(nil), l.process(nil)
	write := lock(t, here)
	require.Greater(t, write.Token(), uint64(0))
	refused(t.Context(), t, there.TryRLock)
	unlock(t, write)

	a := take(t.Context(), t, here.RLock)
	b := take(t.Context(), t, there.RLock)
	c := take(t.Context(), t, there.TryRLock)
	for _, h := range []*holdfast.Hold{a, b, c} {
		require.Equal(t, write.Token(), h.Token(), "that of the last write")
		require.NoError(t, h.Context().Err())
	}
	refused(t.Context(), t, here.TryLock)
	s := kindtest.State(t, here)
	require.False(t, s.Writing)
	require.Len(t, s.Holders, 3)
	require.Equal(t, write.Token(), s.Token)
	unlock(t, a, b, c)
	next := take(t.Context(), t, here.TryLock)
	require.Greater(t, next.Token(), write.Token())
	unlock(t, next)
	require.Empty(t, l.fields())
}

// A lock that one reader gives back is the others'. The control: a script that does not look for them.
func TestOneOfTheReadersLeaves(t *testing.T) {
	left := func(hooks ...redis.Hook) map[string]string {
		p := newProxied(t, hooks...)
		a, b := take(t.Context(), t, p.mutex.RLock), take(t.Context(), t, p.mutex.RLock)
		redistest.Subscribed(t, p.rdb, "redisson_rwlock:{"+p.name+"}") // else the script does not look
		unlock(t, a)
		defer func() { _ = b.Unlock(t.Context()) }()
		return p.fields()
	}
	require.Len(t, left(), 2)
	require.Empty(t, left(mutant.Hook(lua.RwReadRelease, "if mode then\n  local one", "if false then\n  local one")))
}

// The token of a read without a write is less than that of the first write.
func TestTokenWithoutAWrite(t *testing.T) {
	l := newLab(t)
	m := l.process(nil)
	first := take(t.Context(), t, m.RLock)
	second := take(t.Context(), t, m.RLock)
	require.Positive(t, first.Token())
	require.Equal(t, first.Token(), second.Token())
	unlock(t, first, second)
	write := lock(t, m)
	require.Greater(t, write.Token(), first.Token())
	unlock(t, write)
}

// Both sides re-enter, the writer reads, and goes on reading when it has stopped to write.
func TestDowngrade(t *testing.T) {
	l := newLab(t)
	m, other := l.process(nil), l.process(nil)
	ctx := holdfast.WithOwner(t.Context())
	lock := func(acquire kindtest.Acquire) *holdfast.Hold { return take(ctx, t, acquire) }
	w1, w2 := lock(m.Lock), lock(m.Lock)
	r1, r2 := lock(m.RLock), lock(m.RLock)
	require.Equal(t, map[string]string{"mode": "write", w1.Owner(): "2", w1.Owner() + ":write": "2"}, l.fields())
	require.Equal(t, []int{1, 2, 1, 2}, []int{w1.Count(), w2.Count(), r1.Count(), r2.Count()})
	require.Equal(t, w1.Owner(), r1.Owner())
	require.Equal(t, w1.Token(), r1.Token())
	waiting := begin(t.Context(), t, other.RLock)
	eventually(t, "a reader waits", func() bool { return l.listening() > 0 })
	unlock(t, w2, w1)
	require.Equal(t, map[string]string{"mode": "read", w1.Owner(): "2", waiting.Hold().Owner(): "1"}, l.fields())
	require.NoError(t, r1.Context().Err())
	tells(t, kindtest.Err(m.Lock(ctx)), rwlock.ErrUpgrade, "unlock the read hold first")
	require.ErrorIs(t, kindtest.Err(m.TryLock(r2.Context())), rwlock.ErrUpgrade)
	unlock(t, r1, r2)
}

// TestHintBehindAnOwnRead: a caller that reads, and writes under a plain context, is told to unlock, not to use its context.
func TestHintBehindAnOwnRead(t *testing.T) {
	m := newLab(t).process(nil)
	read := take(t.Context(), t, m.RLock)
	_, err := m.TryLock(t.Context())
	tells(t, err, holdfast.ErrNotAcquired, "the holder is of this client and reads")
	require.NotContains(t, err.Error(), "lock under hold.Context()")
	unlock(t, read)
	write := take(t.Context(), t, m.Lock)
	require.ErrorContains(t, kindtest.Err(m.TryLock(t.Context())), "lock under hold.Context()")
	require.ErrorContains(t, kindtest.Err(m.TryRLock(t.Context())), "lock under hold.Context()")
	unlock(t, write)
}

// Of what the writer reads nothing cuts its lease to write, and nothing stops its renewal.
func TestReadsOfTheWriter(t *testing.T) {
	l := newLab(t)
	m := l.process(&holdfast.Options{Lease: 20 * time.Second})
	ctx := holdfast.WithOwner(t.Context())
	w := take(ctx, t, m.Lock, holdfast.Lease(20*time.Second))
	for range 3 { // W2 of Redisson
		unlock(t, take(ctx, t, m.RLock, holdfast.Lease(time.Second)))
		require.Greater(t, l.rdb.PTTL(t.Context(), l.name).Val(), 5*time.Second)
	}
	again := take(ctx, t, m.Lock) // W6: leases are not added
	require.LessOrEqual(t, l.rdb.PTTL(t.Context(), l.name).Val(), 20*time.Second)
	unlock(t, again, w)
	w = take(ctx, t, m.Lock, holdfast.Lease(3*time.Second))
	unlock(t, take(ctx, t, m.RLock, holdfast.Lease(3*time.Second)))
	end := w.Deadline() // W1: it is renewed when it has stopped to read
	eventually(t, "renewed twice", func() bool { return w.Deadline().After(end.Add(1500 * time.Millisecond)) })
	unlock(t, w)
}

// A reader that died does not keep a writer out for longer than its lease, although others that live went on to renew theirs.
func TestDeadReader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.process(&holdfast.Options{Lease: 3 * time.Second})
	const dead = "110cc421-94e6-4f2e-9a4b-2f6b5d8a7c11:47" // of Redisson, and of a library that has gone
	for _, owner := range []string{dead, "5d1a2f5e-6a0c-4a52-9d6f-5ad55f5cfd01:h3"} {
		require.NoError(t, l.rdb.HSet(t.Context(), l.name, "mode", "read", owner, 1).Err())
		require.NoError(t, l.rdb.Set(t.Context(), "{"+l.name+"}:"+owner+":rwlock_timeout:1", 1, 500*time.Millisecond).Err())
	}
	require.NoError(t, l.rdb.PExpire(t.Context(), l.name, time.Hour).Err())
	live := take(t.Context(), t, m.RLock)
	refused(t.Context(), t, m.TryLock)
	writer := begin(t.Context(), t, m.Lock)
	eventually(t, "it waits", func() bool { return l.waiting() == 1 })
	end := live.Deadline()
	eventually(t, "renewed beyond their leases", func() bool { return live.Deadline().After(end.Add(time.Second)) })
	require.False(t, writer.Over())
	unlock(t, live)
	unlock(t, writer.Hold())
	require.Empty(t, l.fields())
}

// Readers that come after a writer wait for it, those that read already do not. When it goes away they are let in.
func TestWaitingWriter(t *testing.T) {
	l := newLab(t)
	here, there := l.process(nil), l.process(nil)
	ctx := holdfast.WithOwner(t.Context())
	first := take(ctx, t, here.RLock)
	giveUp, cancel := context.WithCancel(t.Context())
	defer cancel()
	writer := begin(giveUp, t, there.Lock)
	eventually(t, "the writer waits", func() bool { return l.waiting() == 1 })
	for _, m := range []*rwlock.RWMutex{here, there} {
		refused(t.Context(), t, m.TryRLock)
	}
	unlock(t, take(ctx, t, here.RLock))
	s := kindtest.State(t, here)
	require.Equal(t, 1, s.Waiters)
	readers := []*kindtest.Pending{begin(t.Context(), t, here.RLock), begin(t.Context(), t, there.RLock)}
	eventually(t, "the readers wait", func() bool { return l.listening() == 2 })
	cancel()
	require.ErrorIs(t, writer.Err(), context.Canceled)
	for _, c := range readers {
		unlock(t, c.Hold())
	}
	unlock(t, first)
	require.Empty(t, l.fields())
	require.Zero(t, l.waiting())
}

// A writer that gives up lets the readers in at once, also where another one died while it waited, a while ago.
func TestLastWriterThatWaits(t *testing.T) {
	l := newLab(t)
	first := take(t.Context(), t, l.process(nil).RLock)
	writers := "holdfast_rwlock_writers:{" + l.name + "}"
	require.NoError(t, l.rdb.ZAdd(t.Context(), writers, redis.Z{Score: 1, Member: "dead:h1"}).Err())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writer := begin(ctx, t, l.process(nil).Lock)
	eventually(t, "it waits", func() bool { return l.waiting() == 2 })
	ear := redistest.Subscribed(t, l.rdb, "redisson_rwlock:{"+l.name+"}")
	cancel()
	require.ErrorIs(t, writer.Err(), context.Canceled)
	require.NoError(t, kindtest.Err(ear.ReceiveTimeout(t.Context(), patience)), "nobody is told")
	unlock(t, first)
}

// Readers and writers take turns: a reader lets one writer go first, a writer all readers that waited before that writer.
func TestTurns(t *testing.T) {
	l := newLab(t)
	one, two, three := l.process(nil), l.process(nil), l.process(nil)
	first := lock(t, one)
	reader := begin(t.Context(), t, three.RLock)
	eventually(t, "the reader waits", func() bool { return l.listening() == 1 })
	second := begin(t.Context(), t, two.Lock)
	eventually(t, "the second writer waits", func() bool { return l.waiting() == 1 })
	// The second writer may be quicker; but then the reader is next, before the third.
	unlock(t, first)
	if kindtest.First(t, reader, second) == 1 {
		third := begin(t.Context(), t, one.Lock)
		eventually(t, "the third writer waits", func() bool { return l.waiting() == 1 })
		unlock(t, second.Hold())
		kindtest.InTurn(t, func(*holdfast.Hold) {}, reader, third) // it may be quicker, too; no other writer waits now
		return
	}
	reads := reader.Hold()
	require.False(t, second.Over())
	late := begin(t.Context(), t, one.RLock)
	eventually(t, "the late reader waits", func() bool { return l.listening() == 2 })
	unlock(t, reads)
	writes := second.Hold()
	require.False(t, late.Over())
	unlock(t, writes)
	unlock(t, late.Hold())
}

// All readers that wait are let in by one release, whatever process they are of.
func TestReadersAreWokenTogether(t *testing.T) {
	l := newLab(t)
	w := l.process(nil)
	write := lock(t, w)
	var all []*kindtest.Pending
	for range 3 {
		m := l.process(nil)
		for range 8 {
			all = append(all, begin(t.Context(), t, m.RLock))
		}
	}
	eventually(t, "all clients listen", func() bool { return l.listening() == 3 })
	unlock(t, write)
	var holds []*holdfast.Hold
	for _, c := range all { // nobody of them unlocks before all are inside
		holds = append(holds, c.Hold())
	}
	require.Len(t, l.fields(), 1+len(holds))
	unlock(t, holds...)
	require.Empty(t, l.fields())
}

// ForceUnlock frees it of those who have it, the writer or all readers, and they are told.
func TestForceUnlock(t *testing.T) {
	l := newLab(t)
	m, other := l.process(&holdfast.Options{Lease: time.Hour}), l.process(nil) // m would not find out by itself
	forced, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.False(t, forced)
	write := lock(t, m)
	waiting := begin(t.Context(), t, other.RLock)
	eventually(t, "a reader waits", func() bool { return l.listening() == 1 })
	kindtest.Forced(t, other)
	read := waiting.Hold()
	mine := take(t.Context(), t, m.RLock)
	require.ErrorIs(t, write.Unlock(t.Context()), holdfast.ErrLost)
	kindtest.Forced(t, m)
	require.Empty(t, l.fields())
	eventually(t, "told at once", func() bool { return mine.Context().Err() != nil })
	require.ErrorIs(t, read.Unlock(t.Context()), holdfast.ErrLost)
	keys, err := l.rdb.Keys(t.Context(), "*"+l.name+"*rwlock_timeout*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
}

// What is no read-write lock is named, and left alone.
func TestOtherKeys(t *testing.T) {
	l := newLab(t)
	m := l.process(nil)
	require.NoError(t, l.rdb.HSet(t.Context(), l.name, "color", "red").Err())
	require.ErrorContains(t, kindtest.Err(m.RLock(t.Context())), "color")
	require.ErrorContains(t, kindtest.Err(m.Lock(t.Context())), "color")
	require.ErrorContains(t, kindtest.Err(m.State(t.Context())), "not a read-write lock")
	require.NoError(t, l.rdb.Set(t.Context(), l.name, "x", time.Minute).Err())
	for _, try := range []func(context.Context, ...holdfast.Option) (*holdfast.Hold, error){m.Lock, m.RLock} {
		require.ErrorContains(t, kindtest.Err(try(t.Context())), "WRONGTYPE")
	}
	_, err := m.RLock(t.Context(), holdfast.HoldAtLeast(time.Second))
	tells(t, err, holdfast.ErrInvalid, "HoldAtLeast is 1s")
	require.ErrorIs(t, kindtest.Err(m.Lock(t.Context(), rlock.Keep(time.Second))), holdfast.ErrInvalid)
	var none *rwlock.RWMutex
	_, err = none.RLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.True(t, strings.Contains(err.Error(), "rwlock.New"))
}

// TestStaysWhileReading: a lock that its writer has left ends its stay as promised, also if the owner goes on reading.
func TestStaysWhileReading(t *testing.T) {
	t.Parallel()
	const stay = time.Second
	for _, reads := range []bool{true, false} {
		l := newLab(t)
		m, other := l.process(nil), l.process(nil)
		own := holdfast.WithOwner(t.Context())
		w := take(own, t, m.Lock, holdfast.HoldAtLeast(stay))
		r := take(own, t, m.RLock)
		second := begin(t.Context(), t, other.RLock) // told, or it would wait for a lease of 30 s
		eventually(t, "it waits", func() bool { return l.listening() == 1 })
		unlock(t, w)
		if !reads {
			unlock(t, r)
			left, err := l.rdb.PTTL(t.Context(), l.name).Result()
			require.NoError(t, err)
			require.LessOrEqual(t, left, stay, "no key is longer there")
		}
		s := second.Hold()
		if reads {
			require.NoError(t, r.Context().Err())
			require.Equal(t, map[string]string{"mode": "read", r.Owner(): "1", s.Owner(): "1"}, l.fields())
			unlock(t, r)
		}
		unlock(t, s)
		require.Empty(t, l.fields())
	}
}

// upgradesWhileWaiting has one owner wait to read and to write until it reads, and returns what came of the write meanwhile.
func upgradesWhileWaiting(t *testing.T, opts ...holdfast.Option) error {
	l := newLab(t)
	m, foreign := l.process(&holdfast.Options{Linger: time.Millisecond}), l.process(nil)
	for {
		w := lock(t, foreign)
		own := holdfast.WithOwner(t.Context())
		reader := begin(own, t, m.RLock)
		eventually(t, "it waits to read", func() bool { return l.listening() == 1 })
		writer := begin(own, t, m.Lock, opts...)
		eventually(t, "it waits to write", func() bool { return l.waiting() == 1 })
		unlock(t, w)
		r := reader.Hold()
		w2, err := writer.Result()
		unlock(t, r)
		if err != nil {
			eventually(t, "nobody waits", func() bool { return l.waiting() == 0 && l.listening() == 0 })
			return err
		}
		unlock(t, w2) // it was first, and may read
		eventually(t, "nobody listens", func() bool { return l.listening() == 0 })
	}
}

// TestUpgradeWhileWaiting: who waits to write is told so when the owner is granted a read.
func TestUpgradeWhileWaiting(t *testing.T) {
	require.ErrorIs(t, upgradesWhileWaiting(t), rwlock.ErrUpgrade)

	// The control: else it waits for itself.
	t.Cleanup(defence.Upgrade.Without(t))
	require.ErrorIs(t, upgradesWhileWaiting(t, holdfast.Wait(200*time.Millisecond)), holdfast.ErrNotAcquired)
}
