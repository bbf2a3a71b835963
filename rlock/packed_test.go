package rlock_test

import (
	"fmt"
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

// parcels has two clients lock and unlock the same names, many at a time, until a fault has happened to
// five scripts for many locks, every 5th of them.
var parcels = kindtest.Crowd{
	Clients: 2, Each: 48, Names: 48, Times: 4,
	New:     func(c *holdfast.Client, name string) holdfast.Locker { return rlock.New(c, name) },
	Scripts: []string{lua.Acquire.Text(), lua.Release.Text(), lua.Many.Text()},
	Hit:     faultproxy.Script(lua.Many.Hash()), At: []int{5, 10, 15, 20, 25},
}

// TestParcelsMeetFaults: what several names ask for travels in one script, and that is lost, or its
// answer, or it is executed late. Each name gets what it would get alone: at most once, and to one
// holder at a time.
func TestParcelsMeetFaults(t *testing.T) {
	for name, fault := range kindtest.Faults() {
		t.Run(name, func(t *testing.T) { require.NoError(t, parcels.Meet(t, fault)) })
	}
}

// TestParcelsMeetFaultsControl: answers that go to the wrong names are noticed; and so is a script
// that is lost and taken for one that never left. Which answers travel together is up to chance, and
// where all are alike nothing is wrong, so it has several tries.
func TestParcelsMeetFaultsControl(t *testing.T) {
	for name, off := range map[string]*defence.Switch{"own answers": &defence.OwnAnswer, "lost for all": &defence.LostForAll} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(off.Without(t))
			for range 5 {
				if parcels.Meet(t, kindtest.Faults()[faultproxy.DropReply.String()]) != nil {
					return
				}
			}
			t.Error("nothing was noticed")
		})
	}
}

// TestParcelsOfSlots: a client of one server of a cluster, which serves all slots, does not know that
// names have slots. Scripts for many locks are refused there, and every name gets its lock all the
// same. Control: a server without slots refuses none.
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
					h, err := m.Lock(t.Context(), holdfast.Wait(patience))
					if err == nil {
						err = h.Unlock(t.Context())
					}
					if err != nil {
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
