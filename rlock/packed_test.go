package rlock_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// parcels has two clients lock and unlock the same names until a fault has hit every 5th of 25 scripts for many locks.
var parcels = kindtest.Crowd{
	Clients: 2, Each: 48, Names: 48, Times: 4,
	New:     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
	Scripts: []string{lua.Acquire.Text(), lua.Release.Text(), lua.Many.Text()},
	Hit:     faultproxy.Script(lua.Many.Hash()), At: []int{5, 10, 15, 20, 25},
}

// TestParcelsMeetFaults: what several names ask for travels in one script, and that is lost, or its answer, or it is executed
// late. Each name gets what it would get alone: at most once, and to one holder at a time.
func TestParcelsMeetFaults(t *testing.T) { parcels.Meet(t) }

// TestParcelsMeetFaultsControl: answers that go to the wrong names are noticed, and so is a script that is
// lost and taken for one that never left. Here the script is made of four calls, always the same.
func TestParcelsMeetFaultsControl(t *testing.T) {
	t.Run("own answers", func(t *testing.T) {
		refused := func() (list []bool) {
			g := newGathering(t)
			_ = lock(t, rlock.New(newClient(t, g.direct, nil), g.locks[3].Name()))
			for _, err := range g.together(func(m *rlock.Mutex) error { _, err := m.TryLock(t.Context()); return err }) {
				list = append(list, err != nil)
			}
			return list
		}
		require.Equal(t, []bool{false, false, false, true}, refused())
		t.Cleanup(defence.OwnAnswer.Without(t))
		require.NotEqual(t, []bool{false, false, false, true}, refused(), "in whatever order they came")
	})
	t.Run("lost for all", func(t *testing.T) {
		released := func() error {
			g := newGathering(t)
			holds := map[string]*holdfast.Hold{}
			for _, m := range g.locks {
				h := lock(t, m)
				holds[m.Name()] = h
			}
			g.proxy.On(faultproxy.Script(lua.Many.Hash()), 1, faultproxy.DropReply)
			return errors.Join(g.together(func(m *rlock.Mutex) error { return holds[m.Name()].Unlock(t.Context()) })...)
		}
		require.NoError(t, released())
		t.Cleanup(defence.LostForAll.Without(t))
		require.ErrorIs(t, released(), holdfast.ErrLost)
	})
}

// gathering is a client whose next calls for four locks travel as one script.
type gathering struct {
	*testing.T
	proxy  *faultproxy.Proxy
	direct *redis.Client
	client *holdfast.Client
	locks  [4]*rlock.Mutex // parcel:0 to parcel:3
}

func newGathering(t *testing.T) *gathering {
	t.Cleanup(defence.Overtake.Without(t)) // calls wait for those under way, however long these take
	srv := redistest.Start(t)
	g := &gathering{T: t, proxy: faultproxy.New(t, srv.Addr()), direct: srv.Client(t)}
	kindtest.Load(t, g.direct, lua.Acquire, lua.Release, lua.Many)
	g.client = newClient(t, redistest.NewClient(t, g.proxy.Addr(), func(o *redis.Options) {
		o.PoolSize, o.ReadTimeout = 2, patience // so no more than two are under way
	}), nil)
	for i := range g.locks {
		g.locks[i] = rlock.New(g.client, fmt.Sprint("parcel:", i))
		unlock(t, lock(t, g.locks[i])) // the server's clock is known from now on
	}
	return g
}

// together has one script do something with each of the locks, behind two calls that are under way, and returns the errors.
func (g *gathering) together(do func(m *rlock.Mutex) error) []error {
	g.Helper()
	hold := g.proxy.On(script(lua.Acquire), 0, faultproxy.HoldReply)
	var group sync.WaitGroup
	defer group.Wait()
	for i := range 2 {
		group.Go(func() {
			if _, err := rlock.New(g.client, fmt.Sprint("gate:", i)).TryLock(g.Context()); err != nil {
				g.Error(err)
			}
		})
	}
	eventually(g.T, "two are under way", func() bool { return hold.Count() == 2 })
	errs := make([]error, len(g.locks))
	for i, m := range g.locks {
		group.Go(func() { errs[i] = do(m) })
		eventually(g.T, "it waits for them", func() bool { return travelling() == 3+i })
	}
	many := faultproxy.Script(lua.Many.Hash())
	before := g.proxy.Seen(many)
	hold.Clear()
	group.Wait()
	require.Equal(g, before+1, g.proxy.Seen(many))
	return errs
}

// travelling is how many goroutines send something, or wait until others do.
func travelling() int { return kindtest.Goroutines("combine.(*Combiner).process(") }

// TestParcelsOfSlots: a client of one server of a cluster, which serves all slots, does not know that names have slots. Scripts
// for many locks are refused there, and every name gets its lock all the same. Control: a server without slots refuses none.
func TestParcelsOfSlots(t *testing.T) {
	level.ForAll(t)
	refused := func(slots bool) int {
		cluster := redistest.StartCluster(t, 1, 0)
		addr := cluster.Addrs()[0]
		if !slots {
			addr = redistest.Start(t).Addr()
		}
		rdb := redistest.NewClient(t, addr)
		var n atomic.Int64
		rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			err := send()
			for _, cmd := range cmds {
				if len(cmds) > 1 && redis.HasErrorPrefix(cmd.Err(), "CROSSSLOT") {
					n.Add(1)
				}
			}
			return err
		}))
		client := newClient(t, rdb, nil)
		deadline := time.Now().Add(patience)
		met := func() bool { return !slots || n.Load() > 0 } // some names must meet
		var g errgroup.Group
		for i := range 64 {
			m := rlock.New(client, fmt.Sprint("slot:", i))
			g.Go(func() error {
				for round := 0; round < 5 || !met() && time.Now().Before(deadline); round++ {
					if err := kindtest.Pair(t.Context(), m, holdfast.Wait(patience)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		return int(n.Load())
	}
	require.Positive(t, refused(true))
	require.Zero(t, refused(false))
}

// TestManyNamesMeetFaults: operations on many names of one client travel together, scripts of one name and
// scripts of several, and connections break under them. Each is repeated, and happens once.
func TestManyNamesMeetFaults(t *testing.T) {
	var together atomic.Bool
	crowd := kindtest.Crowd{
		Clients: 1, Each: 64, Names: 64, Times: 6,
		New:     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
		Scripts: []string{lua.Acquire.Text(), lua.Release.Text()},
		Hit:     faultproxy.Command("EVALSHA"), At: []int{20, 40, 60, 80, 100, 120, 140, 160, 180, 200},
		Hook: redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
			if len(cmds) > 1 && cmds[0].Name() == "evalsha" {
				together.Store(true)
			}
			return send()
		}),
	}
	crowd.Meet(t)
	require.True(t, together.Load(), "some travelled together")
}
