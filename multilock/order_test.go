package multilock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
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
