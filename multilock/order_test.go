package multilock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// crossing has two processes take a and b, given in both orders with a third member in between that
// is taken until both wait. nest is what each process makes of its members, within is how long each
// waits at most.
func crossing(t *testing.T, nest func(locks []holdfast.Locker) holdfast.Locker, within time.Duration) []error {
	t.Helper()
	other, rdb := shared(t)
	ctx, n := t.Context(), names(t, "abxy")
	x, y := lock(ctx, t, rlock.New(other, n[2])), lock(ctx, t, rlock.New(other, n[3]))
	one, _ := shared(t)
	two, _ := shared(t)
	first := begin(ctx, t, nest(plain(one, n[0], n[2], n[1])).Lock, holdfast.Wait(within))
	listened(t, rdb, n[2])
	second := begin(ctx, t, nest(plain(two, n[1], n[3], n[0])).Lock, holdfast.Wait(within))
	eventually(t, "the second waits", func() bool {
		waiting := int64(0)
		for _, name := range n {
			waiting += kindtest.Listeners(ctx, rdb, channelOf(name))
		}
		return waiting == 2
	})
	unlock(t, x, y)
	var failed []error
	for both := []*kindtest.Pending{first, second}; len(both) > 0; {
		i := kindtest.First(t, both...)
		h, err := both[i].Result()
		if err != nil {
			failed = append(failed, err)
		} else {
			unlock(t, h)
		}
		both = slices.Delete(both, i, i+1)
	}
	require.Empty(t, taken(t, rdb, n...))
	return failed
}

var nestings = map[string]func(locks []holdfast.Locker) holdfast.Locker{
	"flat": func(l []holdfast.Locker) holdfast.Locker { return multilock.New(l...) },
	"nested": func(l []holdfast.Locker) holdfast.Locker {
		return multilock.New(multilock.New(l[0], l[1]), multilock.New(l[2]))
	},
	"overlapping inside": func(l []holdfast.Locker) holdfast.Locker {
		return multilock.New(multilock.New(l[0], l[1]), multilock.New(l[1], l[2]))
	},
	"under other names": func(l []holdfast.Locker) holdfast.Locker {
		return multilock.New(renamed{l[0], "1"}, renamed{l[1], "2"}, renamed{l[2], "3"})
	},
}

// TestTwoOrders: two processes give the same locks in two orders, and none waits for the other.
func TestTwoOrders(t *testing.T) {
	for name, nest := range nestings {
		t.Run(name, func(t *testing.T) { require.Empty(t, crossing(t, nest, patience)) })
	}
}

// The control: taken in the order in which they are given, each process holds what the other one
// waits for, until the time is over.
func TestTwoOrdersControl(t *testing.T) {
	t.Cleanup(defence.OneOrder.Without(t))
	for name, nest := range nestings {
		t.Run(name, func(t *testing.T) {
			failed := crossing(t, nest, time.Second)
			require.NotEmpty(t, failed)
			require.ErrorIs(t, failed[0], holdfast.ErrNotAcquired)
		})
	}
}

// processes have clients of their own for each server, and locks by name.
type processes struct {
	names   []string
	clients [][]*holdfast.Client // by process and server
	inside  []atomic.Int32       // by name
}

// some makes a multilock of some of the names, in any order and nested in any way.
func (p *processes) some(rnd *rand.Rand, process int) (l holdfast.Locker, of []int) {
	of = rnd.Perm(len(p.names))[:2+rnd.IntN(3)]
	var locks []holdfast.Locker
	for _, i := range of {
		mine := p.clients[process]
		locks = append(locks, rlock.New(mine[i%len(mine)], p.names[i]))
	}
	if cut := rnd.IntN(len(locks)); cut > 0 {
		locks = append(locks[cut:], multilock.New(locks[:cut]...))
	}
	return multilock.New(locks...), of
}

// round takes some of the names, and looks that nobody else has any of them.
func (p *processes) round(ctx context.Context, rnd *rand.Rand, process int) error {
	l, of := p.some(rnd, process)
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	for _, i := range of {
		if p.inside[i].Add(1) != 1 {
			err = fmt.Errorf("two hold %s", p.names[i])
		}
	}
	for _, i := range of {
		p.inside[i].Add(-1)
	}
	if failed := h.Unlock(ctx); failed != nil {
		return failed
	}
	return err
}

// TestOverlappingSets: goroutines of three processes take overlapping sets on two servers, in any
// order and nested in any way. None waits for ever, and no two hold one lock.
func TestOverlappingSets(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	p := &processes{names: names(t, "abcdef"), inside: make([]atomic.Int32, 6)}
	var direct []*redis.Client
	for _, srv := range servers {
		direct = append(direct, srv.Client(t))
	}
	for range 3 {
		var mine []*holdfast.Client
		for _, srv := range servers {
			mine = append(mine, newClient(t, srv.Client(t), nil))
		}
		p.clients = append(p.clients, mine)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	var group sync.WaitGroup
	rnd := level.Rand(t)
	for i := range 24 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		group.Go(func() {
			for range 15 {
				if err := p.round(ctx, rnd, i%len(p.clients)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, rdb := range direct {
		require.Empty(t, taken(t, rdb, p.names...))
	}
}

// TestCluster: members in several slots of a cluster, and in one slot, are one lock like any other.
func TestCluster(t *testing.T) {
	level.ForAll(t)
	cluster := redistest.StartCluster(t, 3, 0)
	direct := cluster.Client(t)
	c, other := newClient(t, cluster.Client(t), nil), newClient(t, cluster.Client(t), nil)
	ctx := t.Context()
	for what, pattern := range map[string]string{"many slots": "m:%d", "one slot": "{one}:%d"} {
		var n []string
		for i := range 6 {
			n = append(n, fmt.Sprintf(pattern, i))
		}
		m := multilock.New(plain(c, n[3], n[5], n[0], n[1], n[4], n[2])...)
		h := lock(ctx, t, m)
		require.Equal(t, n, taken(t, direct, n...), what)
		_, err := multilock.New(plain(other, n[2], n[3])...).TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
		waiting := begin(ctx, t, multilock.New(plain(other, n...)...).Lock)
		unlock(t, h)
		next := waiting.Hold()
		require.Greater(t, next.Token(), h.Token(), what)
		_, err = m.Lock(ctx, holdfast.Wait(20*time.Millisecond))
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
		unlock(t, next)
		middle := lock(ctx, t, rlock.New(other, n[3]))
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
		require.Equal(t, n[3:4], taken(t, direct, n...), what)
		unlock(t, middle)
	}
}
