package multilock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// wrapped is a lock in a type of somebody's own, which counts the grants and knows how long the last wait may take.
type wrapped struct {
	holdfast.Locker
	granted int
	waits   time.Duration
}

func (w *wrapped) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	w.waits, _ = engine.Waits(opts)
	h, err := w.Locker.Lock(ctx, opts...)
	return h, w.count(err)
}

func (w *wrapped) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	h, err := w.Locker.TryLock(ctx, opts...)
	return h, w.count(err)
}

func (w *wrapped) count(err error) error {
	if err == nil {
		w.granted++
	}
	return err
}

// careless drops what it is given.
type careless struct{ holdfast.Locker }

func (c careless) TryLock(context.Context, ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Locker.TryLock(context.Background())
}

// renamed is a lock under a name of somebody's own.
type renamed struct {
	holdfast.Locker
	name string
}

func (r renamed) Name() string { return r.name }

// hollow is a lock that returns nothing, unless its context has ended.
type hollow struct{ holdfast.Locker }

func (hollow) TryLock(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
	return nil, ctx.Err()
}

func (hollow) Lock(ctx context.Context, _ ...holdfast.Option) (*holdfast.Hold, error) {
	return nil, ctx.Err()
}

// TestBadInput: what is refused, with the remedy, before anything is sent.
func TestBadInput(t *testing.T) {
	srv := redistest.Start(t)
	c, other := newClient(t, srv.Client(t), nil), newClient(t, srv.Client(t), nil)
	a, b := rlock.New(c, "a"), rlock.New(c, "b")
	permits := semaphore.New(c, "permits", 2)
	var none *multilock.Mutex
	before := srv.CommandCalls(t)["evalsha"]
	for what, row := range map[string]struct {
		m      *multilock.Mutex
		opts   []holdfast.Option
		remedy string
	}{
		"no locks":       {m: multilock.New(), remedy: "no locks; give at least one"},
		"nil lock":       {m: multilock.New(a, nil), remedy: "lock 2: invalid argument: it is nil; leave it out"},
		"nil Mutex":      {m: multilock.New(a, (*rlock.Mutex)(nil)), remedy: "make one with rlock.New"},
		"zero Mutex":     {m: multilock.New(&rlock.Mutex{}), remedy: "make one with rlock.New"},
		"nil multilock":  {m: multilock.New(none), remedy: "make one with multilock.New"},
		"zero multilock": {m: &multilock.Mutex{}, remedy: "make one with multilock.New"},
		"zero inside":    {m: multilock.New(a, &multilock.Mutex{}), remedy: "lock 2: multilock: try \"\": invalid argument: nil or zero Mutex"},
		"two permits":    {m: multilock.New(permits, renamed{permits, "z"}), remedy: "get more by its Acquire"},
		"hollow first":   {m: multilock.New(hollow{a}, b), remedy: "neither a hold nor an error"},
		"hollow last":    {m: multilock.New(hollow{rlock.New(c, "c")}), remedy: "neither a hold nor an error"},
		"nil itself":     {m: none, remedy: "make one with multilock.New"},
		"empty inside":   {m: multilock.New(a, multilock.New()), remedy: "give at least one"},
		"bad name":       {m: multilock.New(a, rlock.New(c, "")), remedy: "give the lock a name"},
		"nil client":     {m: multilock.New(a, rlock.New(nil, "b")), remedy: "make one with holdfast.New"},
		"two kinds":      {m: multilock.New(a, b, fairlock.New(c, "b")), remedy: "use one kind for a name"},
		"two clients":    {m: multilock.New(a, rlock.New(other, "a")), remedy: "use one client"},
		"in a type":      {m: multilock.New(a, &wrapped{Locker: multilock.New(b)}), remedy: "give the members of it"},
		"bad option":     {multilock.New(a, b), []holdfast.Option{holdfast.Lease(0)}, `rlock "a": invalid argument: Lease is 0s`},
		"nil option":     {multilock.New(a, b), []holdfast.Option{nil}, "option 1 is nil; leave it out"},
		"bad default":    {m: multilock.New(a, rlock.New(c, "b", holdfast.Wait(-1))), remedy: `rlock "b": invalid argument: Wait is -1ns`},
		"refused by one": {multilock.New(a, fairlock.New(c, "b")), []holdfast.Option{rlock.Keep(time.Second)}, `fairlock "b": `},
	} {
		_, lock := row.m.Lock(t.Context(), row.opts...)
		_, try := row.m.TryLock(t.Context(), row.opts...)
		for _, err := range []error{lock, try} {
			require.ErrorIs(t, err, holdfast.ErrInvalid, what)
			require.ErrorContains(t, err, row.remedy, what)
		}
	}
	_, err := multilock.New(b, a, fairlock.New(c, "b")).Lock(t.Context())
	require.ErrorContains(t, err, `multilock: lock "a, b, b": invalid argument: "b" is given as`)
	_, err = multilock.New(b, a, rlock.New(c, "x{y"), rlock.New(c, "z")).Lock(t.Context())
	require.ErrorContains(t, err, `multilock: lock "b, a, x{y": lock 3: `)
	var noContext context.Context
	require.ErrorContains(t, kindtest.Err(multilock.New(a, b).Lock(noContext)), "use context.Background()")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tells(t, kindtest.Err(multilock.New(a, b).Lock(ended)), not(holdfast.ErrUnavailable), context.Canceled)
	require.Equal(t, before, srv.CommandCalls(t)["evalsha"], "nothing is sent")
	_, err = multilock.New(a, careless{b}).Lock(t.Context())
	require.ErrorContains(t, err, "pass context and options on")
	require.Empty(t, taken(t, srv.Client(t), "a", "b"))
}

// TestTwice: a lock that is given twice counts once, however it is made.
func TestTwice(t *testing.T) {
	c, rdb := shared(t)
	n := names(t, "ab")
	two, _ := shared(t)
	quorum := func(one, two *holdfast.Client) *redlock.Mutex {
		return redlock.New([]*holdfast.Client{one, two}, n[1], redlock.TrustRestarts())
	}
	for _, m := range []*multilock.Mutex{
		multilock.New(append(plain(c, n...), plain(c, n...)...)...),
		multilock.New(multilock.New(plain(c, n...)...), multilock.New(plain(c, n[1])...)),
		multilock.New(append(plain(c, n...), &wrapped{Locker: rlock.New(c, n[0])})...),
	} {
		require.Equal(t, n[0]+", "+n[1], m.Name())
		h := lock(t.Context(), t, m)
		for _, name := range n {
			require.Equal(t, "1", count(t, rdb, name, h.Owner()))
		}
		unlock(t, h)
		require.Empty(t, taken(t, rdb, n...))
	}
	require.Equal(t, n[1], multilock.New(quorum(c, two), quorum(two, c)).Name(), "the same masters in another order")
}

// TestWrapped: members in types of somebody's own are called by these, and have their places in the order.
func TestWrapped(t *testing.T) {
	c, rdb := shared(t)
	n := names(t, "abcd")
	in := &wrapped{Locker: rlock.New(c, n[1])}
	m := multilock.New(append(plain(c, n[3], n[2], n[0]), in)...)
	require.Zero(t, in.granted)
	h := lock(t.Context(), t, m)
	require.Equal(t, 1, in.granted)
	require.Equal(t, n, taken(t, rdb, n...))
	unlock(t, h)
	require.Empty(t, taken(t, rdb, n...))
}

// TestAPanic: a hook of go-redis panics for one of the members. The panic reaches the caller, and nothing stays taken.
func TestAPanic(t *testing.T) {
	for _, far := range []bool{false, true} {
		rdb := redistest.Shared(t).Client(t)
		n := names(t, "abc")
		var done atomic.Bool
		rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			for _, cmd := range cmds { // the first about this name
				if args := cmd.Args(); len(args) > 3 && args[3] == n[1] && !done.Swap(true) {
					panic("hook")
				}
			}
			return send()
		}))
		c, other := newClient(t, rdb, nil), newClient(t, redistest.Shared(t).Client(t), nil)
		locks := plain(c, n...)
		if far { // each is asked for by itself
			locks = append(plain(other, n[0], n[2]), rlock.New(c, n[1]))
		}
		require.PanicsWithValue(t, "hook", func() { _, _ = multilock.New(locks...).Lock(t.Context()) })
		require.NoError(t, c.Close(t.Context())) // joins what is given back in the background
		direct := redistest.Shared(t).Client(t)
		eventually(t, "all is free", func() bool { return len(taken(t, direct, n...)) == 0 })
	}
}

// TestPermits: one permit of a semaphore is a member like any other. Two are refused: two owners of one would block each other.
func TestPermits(t *testing.T) {
	c, rdb := shared(t)
	n := names(t, "mp")
	permits, mutex := semaphore.New(c, n[1], 2), rlock.New(c, n[0])
	out := func() int64 { return rdb.ZCard(t.Context(), "{"+n[1]+"}:timeout").Val() }
	h := lock(t.Context(), t, multilock.New(permits, mutex))
	another := lock(h.Context(), t, multilock.New(mutex, permits))
	require.EqualValues(t, 2, out(), "the second is no re-entry")
	require.Equal(t, "2", count(t, rdb, n[0], h.Owner()), "and the other one is")
	refused(another.Context(), t, multilock.New(permits, mutex).TryLock)
	unlock(t, another, h)
	require.Zero(t, out())
	require.Empty(t, taken(t, rdb, n[0]))
	for remedy, m := range map[string]*multilock.Mutex{
		"get more by its Acquire":                    multilock.New(permits, mutex, semaphore.New(c, n[1], 2)),
		"use one kind for a name":                    multilock.New(permits, rlock.New(c, n[1])),
		"wait for each other; a multilock takes one": multilock.New(multilock.New(permits), multilock.New(permits)),
	} {
		tells(t, kindtest.Err(m.Lock(t.Context())), holdfast.ErrInvalid, remedy)
	}
}

// TestOneNameAtAMaster: a quorum lock and a lock of its name on one of its masters wait for each other, and so
// do two quorum locks that have masters in common. They are refused, by whatever clients.
func TestOneNameAtAMaster(t *testing.T) {
	var clients, others []*holdfast.Client
	for _, srv := range redistest.StartMasters(t, 3) {
		clients = append(clients, newClient(t, srv.Client(t), nil))
		others = append(others, newClient(t, srv.Client(t), nil))
	}
	apart := newClient(t, redistest.Start(t).Client(t), nil)
	quorum := redlock.New(clients, "a")
	for what, locks := range map[string][]holdfast.Locker{
		"one of its masters": {quorum, rlock.New(clients[2], "a")}, "by another client": {fairlock.New(others[1], "a"), quorum},
		"two of its masters": {quorum, redlock.New([]*holdfast.Client{others[0], clients[1], apart}, "a")},
	} {
		_, err := multilock.New(locks...).Lock(t.Context(), holdfast.Wait(0))
		require.ErrorIs(t, err, holdfast.ErrInvalid, what)
		require.ErrorContains(t, err, "another name", what)
	}
	h := lock(t.Context(), t, multilock.New(quorum, rlock.New(clients[0], "b"), rlock.New(apart, "a")))
	unlock(t, h)
}
