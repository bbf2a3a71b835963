package live

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func newPicture(t *testing.T, o Options, clients ...redis.UniversalClient) *Picture {
	t.Helper()
	p, err := New(clients, o)
	require.NoError(t, err)
	return p
}

// finding runs Find until the test, or what is returned, ends it.
func finding(t *testing.T, p *Picture) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Find(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (p *Picture) row(name string) *Row {
	rows, _ := p.Rows()
	at := slices.IndexFunc(rows, func(r *Row) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return rows[at]
}

// TestFinds: locks come into the picture and leave it, found by their keys, and by who waits.
func TestFinds(t *testing.T) {
	srv := redistest.Start(t)
	c, ctx := kindtest.NewClient(t, srv.Client(t), nil), t.Context()
	a := kindtest.Lock(t, rlock.New(c, "a"))
	kindtest.Lock(t, fairlock.New(c, "b"))
	kindtest.Lock(t, rlock.New(c, "other"))
	p := newPicture(t, Options{Match: "[ab]", Every: time.Millisecond, Share: 1}, srv.Client(t))
	require.True(t, p.Status().Listed.IsZero())
	stop := finding(t, p)
	eventually(t, func() bool { return p.row("a") != nil && p.row("b") != nil }, "found")
	require.Nil(t, p.row("other"), "not meant")

	waits, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = fairlock.New(kindtest.NewClient(t, srv.Client(t), nil), "b").Lock(waits)
	}()
	defer func() { cancel(); <-ended }()
	eventually(t, func() bool { r := p.row("b"); return r != nil && r.Waiting() == 1 && r.Lock.Waiters == 1 }, "one waits")
	require.Zero(t, p.row("a").Waiting())

	require.NoError(t, a.Unlock(ctx))
	require.EqualValues(t, 1, srv.Client(t).Del(ctx, "redisson_lock_token:{a}").Val())
	eventually(t, func() bool { return p.row("a") == nil }, "what is gone leaves")
	require.False(t, p.Status().Listed.IsZero())
	require.NoError(t, p.Status().Err)
	stop()
}

// TestLooksAtWhatIsAsked: of a thousand locks, a look reads those that are asked for, and who their
// clients are, and no others. The server's own account of time is what is counted.
func TestLooksAtWhatIsAsked(t *testing.T) {
	const locks, shown = 1000, 40
	srv := redistest.Start(t)
	rdb, ctx := srv.Client(t), t.Context()
	pipe := rdb.Pipeline()
	for n := range locks {
		pipe.HSet(ctx, fmt.Sprint("lock:", n), "11111111-2222-4333-8444-555555555555:h1", 1)
		pipe.Set(ctx, fmt.Sprintf("redisson_lock_token:{lock:%d}", n), 5000, time.Hour)
	}
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	p := newPicture(t, Options{Share: 1}, srv.Client(t))
	require.NoError(t, p.FindAll(ctx, nil))
	rows, _ := p.Rows()
	require.Len(t, rows, locks)
	require.Zero(t, p.Status().Spent, "a pass of no lane is not counted")
	var keys []Key
	for _, r := range rows[:shown] {
		keys = append(keys, r.Key)
	}
	srv.ResetStats(t)
	require.NoError(t, p.Look(ctx, keys))
	calls := srv.CommandCalls(t)
	require.EqualValues(t, shown, calls["evalsha_ro"]+calls["evalsha"]+calls["eval"]+calls["eval_ro"], "%v", calls)
	require.Zero(t, calls["scan"])
	spent := p.Status().Spent
	require.Positive(t, spent)
	took := srv.CommandTime(t)
	require.GreaterOrEqual(t, spent, took["evalsha_ro"]+took["evalsha"], "what the commands took, and what was between them")
}

// TestPassWaitsForItsShare: a share that is spent by the first steps ends a pass over many keys there,
// until there is credit again. The control: with a share without bounds all of the keys are gone over.
func TestPassWaitsForItsShare(t *testing.T) {
	srv := redistest.Start(t)
	const fill = `for i = 1, ARGV[1] do redis.call('SET', 'other:' .. i, 1) end return 1`
	require.NoError(t, srv.Client(t).Eval(t.Context(), fill, nil, 50_000).Err())
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "a"))
	p := newPicture(t, Options{Share: 1e-9}, srv.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.scan(in(ctx, scanning), 0) }()
	stop := func() { cancel(); require.ErrorIs(t, <-done, context.Canceled) }
	eventually(t, func() bool { return p.servers[0].scannedNow() > 0 }, "it begins")
	stop()
	require.EqualValues(t, 1, p.servers[0].scannedNow())
	st := p.Status()
	require.True(t, st.Listed.IsZero())
	require.InDelta(t, 0.02, st.Progress, 0.001, "one step of a thousand keys")

	p = newPicture(t, Options{Share: 1}, srv.Client(t))
	stop = finding(t, p)
	eventually(t, func() bool { return !p.Status().Listed.IsZero() }, "control: it comes to its end")
	require.GreaterOrEqual(t, p.servers[0].scannedNow(), int64(50))
	stop()
}

func (s *server) scannedNow() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scanned()
}

// TestCluster: each node has a toll of its own, and labels, redirects and listeners pass them.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 2, 0)
	c := kindtest.NewClient(t, cluster.Client(t), nil)
	var keys []Key
	for n := range 20 {
		keys = append(keys, Key{0, fmt.Sprint("lock:", n)})
		kindtest.Lock(t, rlock.New(c, keys[n].Name))
	}
	p := newPicture(t, Options{Every: time.Millisecond, Share: 1}, cluster.Client(t))
	stop := finding(t, p)
	eventually(t, func() bool { rows, _ := p.Rows(); return len(rows) == len(keys) }, "all are found")
	require.NoError(t, p.Look(t.Context(), keys))
	stop()
	tolled := 0
	for _, toll := range p.servers[0].tolls {
		if toll.spent.Load() > 0 {
			tolled++
		}
	}
	require.Equal(t, 2, tolled)
}

// TestOutage: a fault is told until it is over, and what was known stays.
func TestOutage(t *testing.T) {
	srv := redistest.Start(t)
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "a"))
	p := newPicture(t, Options{Every: time.Millisecond, Share: 1}, redistest.NewClient(t, srv.Addr(), func(o *redis.Options) {
		o.ReadTimeout, o.MaxRetries = 100*time.Millisecond, -1
	}))
	finding(t, p)
	eventually(t, func() bool { return p.row("a") != nil }, "found")
	srv.Pause()
	eventually(t, func() bool { return p.Status().Err != nil }, "told")
	require.NotNil(t, p.row("a"))
	srv.Resume()
	require.NoError(t, p.Look(t.Context(), []Key{{0, "a"}}))
	eventually(t, func() bool { return p.Status().Err == nil }, "over")
}

// TestRoom: there are no more rows than there is room for, and those that are there are kept current.
func TestRoom(t *testing.T) {
	b := newBoard()
	held := func(n int) inspect.Lock {
		return inspect.Lock{Name: fmt.Sprint(n), Kind: inspect.Plain, Holders: []inspect.Holder{{}}}
	}
	for n := range mostRows + 7 {
		b.put(0, held(n))
	}
	rows, version := b.all()
	require.Len(t, rows, mostRows)
	require.Equal(t, 7, b.left)
	b.put(0, held(3))
	_, later := b.all()
	require.Greater(t, later, version)
	b.put(0, inspect.Lock{Name: "3", Kind: inspect.Nothing})
	rows, _ = b.all()
	require.Len(t, rows, mostRows-1)
}

// TestDenied: who may not ask for the channels, nor how many keys there are, finds locks by their keys.
func TestDenied(t *testing.T) {
	srv := redistest.Start(t)
	kindtest.Lock(t, rlock.New(kindtest.NewClient(t, srv.Client(t), nil), "a"))
	srv.Command(t, "ACL", "SETUSER", "some", "on", ">pw", "~*", "&*", "+@all", "-dbsize", "-pubsub|channels")
	p := newPicture(t, Options{Every: time.Millisecond, Share: 1}, srv.Client(t, func(o *redis.Options) { o.Username, o.Password = "some", "pw" }))
	stop := finding(t, p)
	eventually(t, func() bool { return p.row("a") != nil && !p.Status().Listed.IsZero() }, "found")
	stop()
	require.NoError(t, p.Status().Err)
	require.Positive(t, srv.CommandCalls(t)["scan"])
}

func TestMain(m *testing.M) { redistest.Main(m) }

// patience is how long a test waits for what must come, on however slow a machine.
const patience = 2 * time.Minute

func eventually(t *testing.T, cond func() bool, what string) {
	t.Helper()
	require.Eventually(t, cond, patience, 5*time.Millisecond, what)
}
