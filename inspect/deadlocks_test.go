package inspect_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
)

// longWait is short, so that what is long comes soon.
const longWait = 80 * time.Millisecond

// actor is a client that hears of deadlocks.
type actor struct {
	*holdfast.Client
	heard chan event.Deadlock
}

func newActor(t testing.TB, rdb redis.UniversalClient, label string) *actor {
	a := &actor{heard: make(chan event.Deadlock, 100)}
	a.Client = newClient(t, rdb, &holdfast.Options{Label: label, LongWait: longWait, Observer: &event.Observer{
		Deadlocked: func(d event.Deadlock) { a.heard <- d },
	}})
	return a
}

// hears waits for an event.
func (a *actor) hears(t *testing.T) event.Deadlock {
	return kindtest.Receive(t, "a deadlock is heard of", a.heard)
}

// waitFor has a lock waited for until the function that it returns is called, which waits for the end.
func waitFor(ctx context.Context, l holdfast.Locker) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h, err := l.Lock(ctx); err == nil {
			_ = h.Unlock(ctx)
		}
	}()
	return func() { cancel(); <-done }
}

type locks func(c *holdfast.Client, name string) holdfast.Locker

var deadlocking = map[string]locks{
	"rlock":    func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
	"fairlock": func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	"rwlock":   func(c *holdfast.Client, name string) holdfast.Locker { return rwlock.New(c, name) },
	"one of two": func(c *holdfast.Client, name string) holdfast.Locker {
		return multilock.New(rlock.New(c, name), rlock.New(c, name+"'"))
	},
}

// TestDeadlock: each client of a circle hears of it once, and an observer sees it; before and after it none is seen.
func TestDeadlock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	for kind, newLock := range deadlocking {
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprint(kind, " ", n), func(t *testing.T) {
				t.Parallel()
				testDeadlock(t, rdb, n, func(c *holdfast.Client, i int) holdfast.Locker {
					return newLock(c, fmt.Sprint(kind, n, i%n))
				})
			})
		}
	}
	t.Run("readers who want to write", func(t *testing.T) { testReadersDeadlock(t, rdb) })
	t.Run("one process", func(t *testing.T) { testDeadlockAtHome(t, rdb) })
}

func testDeadlock(t *testing.T, rdb redis.UniversalClient, n int, lock func(*holdfast.Client, int) holdfast.Locker) {
	actors, holds := make([]*actor, n), make([]*holdfast.Hold, n)
	for i := range actors {
		actors[i] = newActor(t, rdb, fmt.Sprint("actor ", i))
		holds[i] = hold(t, lock(actors[i].Client, i))
	}
	for i := range n { // all but the last one: a chain, which is long and no circle
		if i == n-1 {
			eventually(t, "the others say what they wait for", func() bool {
				return rdb.Exists(t.Context(), keys.Waits(actors[0].ID())).Val() == 1
			})
		}
		defer waitFor(holds[i].Context(), lock(actors[i].Client, i+1))()
	}
	for i, a := range actors {
		d := a.hears(t)
		require.Len(t, d.Circle, n)
		require.GreaterOrEqual(t, d.Waited, longWait)
		if !strings.Contains(t.Name(), "one_of_two") { // a multilock has goroutines of its own
			require.True(t, strings.HasPrefix(d.Where, "github.com/holdfast-go/holdfast/inspect_test.waitFor"), "%q", d.Where)
		}
		for j, w := range d.Circle {
			who := (i + j) % n
			require.Equal(t, actors[who].ID(), w.Client)
			require.Equal(t, fmt.Sprint("actor ", who), w.Label)
			require.Equal(t, holds[who].Owner(), w.Owner)
			require.LessOrEqual(t, w.Token, holds[who].Token())
			require.True(t, strings.Contains(lock(actors[who].Client, who+1).Name(), w.Name), "%q", w.Name)
			require.True(t, strings.Contains(lock(actors[who].Client, who).Name(), w.Has), "%q", w.Has)
		}
	}
	mine := func() (list []inspect.Deadlock) {
		all, err := newInspector(t, rdb, nil).Deadlocks(t.Context())
		require.NoError(t, err)
		for _, d := range all {
			if slices.ContainsFunc(actors, func(a *actor) bool { return d[0].Client == a.ID() }) {
				list = append(list, d)
			}
		}
		return list
	}
	seen := mine()
	require.Len(t, seen, 1)
	require.Len(t, seen[0], n)
	require.NoError(t, holds[0].Unlock(t.Context()))
	require.Empty(t, mine())
	eventually(t, "nothing is said any more", func() bool { return rdb.Exists(t.Context(), keys.Waits(actors[0].ID())).Val() == 0 })
	for _, a := range actors {
		require.Empty(t, a.heard, "once")
	}
}

// testReadersDeadlock: two read one lock, and each wants to write the other's.
func testReadersDeadlock(t *testing.T, rdb *redis.Client) {
	a, b := newActor(t, rdb, ""), newActor(t, rdb, "")
	x := hold(t, rwlock.New(a.Client, "read x").RLocker())
	y := hold(t, rwlock.New(b.Client, "read y").RLocker())
	defer waitFor(x.Context(), rwlock.New(a.Client, "read y"))()
	defer waitFor(y.Context(), rwlock.New(b.Client, "read x"))()
	require.Equal(t, "read x", a.hears(t).Circle[0].Has)
	require.Equal(t, "read y", b.hears(t).Circle[0].Has)
}

// testDeadlockAtHome: two goroutines of one client, and one that waits for itself under another owner.
func testDeadlockAtHome(t *testing.T, rdb *redis.Client) {
	a := newActor(t, rdb, "")
	x, y := hold(t, rlock.New(a.Client, "home x")), hold(t, fairlock.New(a.Client, "home y"))
	stop := waitFor(x.Context(), fairlock.New(a.Client, "home y"))
	defer waitFor(y.Context(), rlock.New(a.Client, "home x"))()
	require.Len(t, a.hears(t).Circle, 2)
	stop()
	b := newActor(t, rdb, "")
	z := hold(t, rlock.New(b.Client, "home z"))
	defer waitFor(holdfast.WithOwner(z.Context()), rlock.New(b.Client, "home z"))()
	d := b.hears(t)
	require.Len(t, d.Circle, 1)
	require.Equal(t, z.Token(), d.Circle[0].Token)
}

// TestDeadlockWithALimit: a wait that ends by itself is in a circle until then, and the log does not say that it never ends.
func TestDeadlockWithALimit(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	said, heard := make(kindtest.Lines, 1000), make(chan event.Deadlock, 10)
	c := newClient(t, rdb, &holdfast.Options{
		LongWait: longWait, Logger: slog.New(slog.NewTextHandler(said, nil)),
		Observer: &event.Observer{Deadlocked: func(d event.Deadlock) { heard <- d }},
	})
	h := hold(t, rlock.New(c, "limited"))
	var err error
	for len(heard) == 0 { // on a machine so busy that nobody looked meanwhile it waits again
		_, err = rlock.New(c, "limited").Lock(holdfast.WithOwner(h.Context()), holdfast.Wait(8*longWait))
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, "it ended by itself")
	}
	for line := range said {
		if strings.Contains(line, "deadlock: ") {
			require.Contains(t, line, "ends by itself, unless it has a limit")
			return
		}
	}
}

// TestNoDeadlock: long waits of callers that hold something, in no circle. The control: the same clients see one when it comes.
func TestNoDeadlock(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	a, b, c := newActor(t, rdb, ""), newActor(t, rdb, ""), newActor(t, rdb, "")
	ctx := t.Context()
	x, y, z := hold(t, rlock.New(a.Client, "x")), hold(t, rlock.New(b.Client, "y")), hold(t, rlock.New(c.Client, "z"))
	shared := kindtest.Take(x.Context(), t, rwlock.New(a.Client, "shared").RLocker().Lock)
	defer waitFor(shared.Context(), rlock.New(a.Client, "y"))() // a waits for b, which waits for c, which waits for nobody
	defer waitFor(y.Context(), fairlock.New(b.Client, "z"))()
	defer waitFor(ctx, rlock.New(c.Client, "x"))() // of c, and not of who has z
	defer waitFor(ctx, fairlock.New(c.Client, "y"))()
	wrote := func(who *actor, more uint64) {
		var first uint64
		eventually(t, "it goes on saying what it waits for", func() bool {
			n := numberOf(t, rdb, who)
			if first == 0 {
				first = n
			}
			return n > 0 && n >= first+more
		})
	}
	wrote(a, 6) // more than a circle needs
	wrote(b, 6)
	all, err := newInspector(t, rdb, nil).Deadlocks(ctx)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Empty(t, slices.Concat(drain(a), drain(b), drain(c)))
	require.Zero(t, rdb.Exists(ctx, keys.Waits(c.ID())).Val(), "who holds nothing else says nothing")

	defer waitFor(z.Context(), rwlock.New(c.Client, "shared"))()
	for _, who := range []*actor{a, b, c} {
		require.Len(t, who.hears(t).Circle, 3)
	}
}

func drain(a *actor) (list []event.Deadlock) {
	for len(a.heard) > 0 {
		list = append(list, <-a.heard)
	}
	return list
}

func numberOf(t *testing.T, rdb *redis.Client, a *actor) (number uint64) {
	text, err := rdb.Get(t.Context(), keys.Waits(a.ID())).Result()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(text, `"number":`)
	require.NoError(t, kindtest.Err(fmt.Sscanf(rest, "%d", &number)))
	require.Positive(t, rdb.PTTL(t.Context(), keys.Waits(a.ID())).Val())
	return number
}

// TestDeadlockInACluster: what two clients say is in slots of its own, and so are their labels.
func TestDeadlockInACluster(t *testing.T) {
	level.ForAll(t)
	rdb := redistest.StartCluster(t, 3, 0).Client(t)
	testDeadlock(t, rdb, 3, func(c *holdfast.Client, i int) holdfast.Locker { return rlock.New(c, fmt.Sprint("cluster", i%3)) })
}

// TestDeadlockOfMasters: locks of two quorums.
func TestDeadlockOfMasters(t *testing.T) {
	masters := redistest.StartMasters(t, 3)
	var actors []*actor
	var holds []*holdfast.Hold
	lock := func(i, name int) holdfast.Locker {
		clients := []*holdfast.Client{actors[i].Client}
		for _, m := range masters[1:] {
			clients = append(clients, newClient(t, m.Client(t), nil))
		}
		return redlock.New(clients, fmt.Sprint("masters", name))
	}
	for i := range 2 {
		actors = append(actors, newActor(t, masters[0].Client(t), ""))
		holds = append(holds, hold(t, lock(i, i)))
	}
	for i := range 2 {
		defer waitFor(holds[i].Context(), lock(i, 1-i))()
	}
	for i, a := range actors {
		require.Equal(t, holds[1-i].Owner(), a.hears(t).Circle[1].Owner)
	}
	all, err := newInspector(t, masters[0].Client(t), nil).Deadlocks(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// TestDeadlockOfReaderInLine: a reader behind another one of its client, which asks for both, is still part of a circle.
func TestDeadlockOfReaderInLine(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	a, b := newActor(t, rdb, "a"), newActor(t, rdb, "b")
	ours := hold(t, rlock.New(a.Client, "y"))
	theirs := hold(t, rwlock.New(b.Client, "x"))
	read := rwlock.New(a.Client, "x").RLocker()
	defer waitFor(t.Context(), read)() // has nothing else
	eventually(t, "somebody is in front", func() bool { return (*engine.Client)(a.Client).InLine("x") == 1 })
	defer waitFor(ours.Context(), read)()
	eventually(t, "and the reader behind", func() bool { return (*engine.Client)(a.Client).InLine("x") == 2 })
	defer waitFor(theirs.Context(), rlock.New(b.Client, "y"))()
	for _, one := range []*actor{a, b} {
		d := one.hears(t)
		require.Len(t, d.Circle, 2)
		require.True(t, strings.HasPrefix(d.Where, "github.com/holdfast-go/holdfast/inspect_test.waitFor"), "%q", d.Where)
	}
	require.NoError(t, ours.Unlock(t.Context()))
	require.NoError(t, theirs.Unlock(t.Context()))
}

// TestDeadlockOfAnybody: a text that no client wrote, of circles of false names or of others' locks, hides no other circle.
func TestDeadlockOfAnybody(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	a := newActor(t, rdb, "")
	h := hold(t, rlock.New(a.Client, "x"))
	defer waitFor(holdfast.WithOwner(h.Context()), rlock.New(a.Client, "x"))()
	a.hears(t)
	const strange = "00000000-0000-0000-0000-000000000000"
	hold(t, rlock.New(a.Client, "a's"))
	// Four times that is no time that there is, and must not end the look before the circle is certain.
	said := &deadlock.Published{Client: strange, EveryMS: math.MaxInt64 / int64(3*time.Millisecond)}
	for _, name := range []string{"}", "a's"} {
		wait := deadlock.Wait{Owner: "o", Holds: []deadlock.Hold{{Owner: "h"}}}
		wait.Name, wait.Holds[0].Name = name, name
		said.Waits = append(said.Waits, wait)
	}
	require.Len(t, deadlock.NewGraph(said).Circles(""), 2)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	written := make(chan struct{}, 1)
	group.Go(func() {
		for ctx.Err() == nil {
			said.Number++
			_ = rdb.Set(ctx, keys.Waits(strange), said.Text(), time.Minute).Err()
			select {
			case written <- struct{}{}:
			default:
			}
		}
	})
	<-written
	all, err := newInspector(t, rdb, nil).Deadlocks(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, a.ID(), all[0][0].Client)
}

// TestDeadlocksEndsByItself: a text of a circle that says that it will be written anew in some years holds
// nobody up for longer than a client can be silent. The control: for the longest time between two texts of a
// client, Deadlocks waits, because the client may write.
func TestDeadlocksEndsByItself(t *testing.T) {
	const most = 4*deadlock.MostEvery + 3*time.Second
	for what, c := range map[string]struct {
		every int64
		least time.Duration
	}{
		"years":               {int64(10 * 365 * 24 * time.Hour / time.Millisecond), 0},
		"more than there are": {math.MaxInt64, 0},
		"before the text":     {-1, 0},
		"control: a client's": {deadlock.MostEvery.Milliseconds(), 4 * deadlock.MostEvery},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const client = "00000000-0000-4000-8000-000000000000"
				said := &deadlock.Published{Client: client, EveryMS: c.every, Waits: []deadlock.Wait{{
					Lock: deadlock.Lock{Name: "x"}, Owner: "o", Holds: []deadlock.Hold{{Lock: deadlock.Lock{Name: "x"}, Owner: "h"}},
				}}}
				rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody dials it
				defer rdb.Close()
				// A server in which one client says one thing, which never changes.
				rdb.AddHook(redistest.Around(func(_ func() error, cmds ...redis.Cmder) error {
					for _, cmd := range cmds {
						switch cmd := cmd.(type) {
						case *redis.ScanCmd:
							cmd.SetVal([]string{keys.Waits(client)}, 0)
						case *redis.StringCmd:
							cmd.SetVal(said.Text())
						}
					}
					return nil
				}))
				var rested time.Duration
				i, err := inspect.New(rdb, &inspect.Options{Rested: func(d time.Duration) { rested += d }})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				from := time.Now()
				all, err := i.Deadlocks(ctx)
				require.NoError(t, err)
				require.Empty(t, all, "it was seen once")
				require.LessOrEqual(t, time.Since(from), most)
				require.GreaterOrEqual(t, time.Since(from), c.least)
				require.Equal(t, time.Since(from), rested, "this server answers at once")
			})
		})
	}
}
