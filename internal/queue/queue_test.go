package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/control"
	"github.com/holdfast-go/holdfast/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var key = Key{"test", "a"}

func TestFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		require.True(t, q.TryEnter(key))
		require.False(t, q.TryEnter(key))
		require.True(t, q.TryEnter(Key{"test", "b"}), "names are independent")
		var order []int
		for i := range 10 {
			go func() {
				_, _ = q.Enter(t.Context(), t.Context(), key, nil)
				order = append(order, i) // one at a time, by the queue itself
				q.Leave(key, Free)
			}()
			synctest.Wait()
		}
		require.Equal(t, 10, q.Waiting(key))
		q.Leave(key, Free)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
		require.True(t, q.TryEnter(key), "the last one leaves nothing behind")
	})
}

func TestGivingUpReturnsTheCause(t *testing.T) {
	var q Queue
	require.True(t, q.TryEnter(key))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	enter := func(ctx, client context.Context) error {
		_, err := q.Enter(ctx, client, key, nil)
		return err
	}
	require.Equal(t, why, enter(ctx, t.Context()))
	require.Equal(t, why, enter(t.Context(), ctx), "of either context")
	require.Zero(t, q.Waiting(key))
	q.Leave(key, Free)
	require.NoError(t, enter(ctx, t.Context()), "a free place is given to a done context too")
	require.Len(t, q.lines, 1)
	q.Leave(key, Free)
	require.Empty(t, q.lines)
}

// cancelWhileWoken cancels a waiter, and gives it the place before it has noticed. It reports whether the waiter behind it
// is served all the same.
func cancelWhileWoken(t *testing.T, q *Queue) (served bool) {
	synctest.Test(t, func(t *testing.T) {
		require.True(t, q.TryEnter(key))
		ctx, cancel := context.WithCancel(t.Context())
		behind, giveUp := context.WithCancel(t.Context())
		go func() { _, _ = q.Enter(ctx, t.Context(), key, nil) }()
		synctest.Wait()
		go func() {
			_, err := q.Enter(behind, t.Context(), key, nil)
			if served = err == nil; served {
				q.Leave(key, Free)
			}
		}()
		synctest.Wait()
		q.mu.Lock()
		cancel() // it leaves its select and waits for the mutex ...
		q.leaveLocked(key, Free)
		q.mu.Unlock() // ... and finds that it was its turn
		synctest.Wait()
		giveUp()
		synctest.Wait()
	})
	return served
}

func TestPassesOnWhenCancelledWhileWoken(t *testing.T) {
	require.True(t, cancelWhileWoken(t, &Queue{}))
	defer control.PassOn.Without()()
	require.False(t, cancelWhileWoken(t, &Queue{}), "control: the wake-up is lost")
}

// TestManyGiveUp: half of the waiters give up at random moments. The rest are all served.
func TestManyGiveUp(t *testing.T) {
	var q Queue
	var group sync.WaitGroup
	var served atomic.Int64
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := q.Enter(ctx, t.Context(), key, nil); err == nil {
				served.Add(1)
				q.Leave(key, Free)
			}
		})
		if rand.N(2) == 0 {
			group.Go(cancel)
		} else {
			defer cancel()
		}
	}
	group.Wait()
	require.GreaterOrEqual(t, served.Load(), int64(900))
	require.Empty(t, q.lines)
}
