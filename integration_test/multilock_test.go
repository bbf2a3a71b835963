package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// severalOf makes a multilock of some of six names, in any order; half of the names are of fair locks.
func severalOf(rnd *rand.Rand, c *holdfast.Client, names []string) (m *multilock.Mutex, of []int) {
	of = rnd.Perm(len(names))[:2+rnd.IntN(len(names)-1)]
	var locks []holdfast.Locker
	for _, i := range of {
		if i%2 == 0 {
			locks = append(locks, rlock.New(c, names[i]))
		} else {
			locks = append(locks, fairlock.New(c, names[i]))
		}
	}
	return multilock.New(locks...), of
}

// TestSeveralAtOnce: on every topology, goroutines of three clients take overlapping sets of plain and
// fair locks, in any order. None waits for ever, no two hold one lock, and a loss ends all.
func TestSeveralAtOnce(t *testing.T) {
	topology.Each(t, topology.Single|topology.Replicated|topology.Sentinel|topology.Cluster,
		func(t *testing.T, top topology.Topology) {
			var names []string
			for i := range 6 {
				names = append(names, fmt.Sprintf("orders:%d", i))
			}
			var inside [6]sync.Mutex
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			var group sync.WaitGroup
			rnd := level.Rand(t)
			for range 3 {
				c := newClient(t, top.Connect(t), nil)
				for range 4 {
					rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
					group.Go(func() {
						for range 5 {
							m, of := severalOf(rnd, c, names)
							h, err := m.Lock(ctx)
							if err != nil {
								t.Error(err)
								return
							}
							for _, i := range of {
								if !inside[i].TryLock() {
									t.Errorf("two hold %s", names[i])
									return
								}
							}
							for _, i := range of {
								inside[i].Unlock()
							}
							if err := h.Unlock(ctx); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
			}
			group.Wait()
			c := newClient(t, top.Connect(t), &holdfast.Options{Lease: 3 * time.Second})
			h, err := multilock.New(rlock.New(c, names[0]), rlock.New(c, names[2]), rlock.New(c, names[4])).Lock(ctx)
			require.NoError(t, err)
			forced, err := rlock.New(newClient(t, top.Connect(t), nil), names[2]).ForceUnlock(ctx)
			require.NoError(t, err)
			require.True(t, forced)
			select {
			case <-h.Context().Done():
			case <-ctx.Done():
				t.Fatal("the hold's context does not end")
			}
			require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrLost)
			require.ErrorContains(t, context.Cause(h.Context()), names[2])
			require.ErrorIs(t, h.Unlock(ctx), holdfast.ErrLost)
			h, err = multilock.New(rlock.New(c, names[0]), rlock.New(c, names[2]), rlock.New(c, names[4])).TryLock(ctx)
			require.NoError(t, err, "all were given back")
			require.NoError(t, h.Unlock(ctx))
		})
}

// TestSeveralLeastPrivilege: a multilock needs what its members need, and nothing of its own, also where
// they are so many that one script takes them.
func TestSeveralLeastPrivilege(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		c := newClient(t, as(t, srv, "limited", aclRule(srv, false)), nil)
		var locks []holdfast.Locker
		for i := range 5 {
			locks = append(locks, rlock.New(c, fmt.Sprint("orders:", i)))
		}
		m := multilock.New(locks...)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.NoError(t, h.Unlock(t.Context()))
		require.Empty(t, refused(t, srv))
	})
}
