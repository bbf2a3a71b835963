package queue

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// entered is what came of a wait.
type entered struct {
	turn Handover
	err  error
}

// enter has somebody wait; the result comes later.
func enter(ctx context.Context, q *Queue, who any) <-chan entered {
	result := make(chan entered, 1)
	go func() {
		turn, err := enterAndWait(ctx, q, who)
		result <- entered{turn, err}
	}()
	synctest.Wait()
	return result
}

// TestHand: the lock goes to the one who has waited longest, if that one can take it, and to nobody
// else.
func TestHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		yes, no := func(any) bool { return true }, func(any) bool { return false }
		require.True(t, q.TryEnter(key, "front"))
		require.False(t, q.Hand(key, yes), "nobody waits")
		require.False(t, q.TryEnter(key, "front"), "and the place is kept")
		first, second := enter(t.Context(), &q, "first"), enter(t.Context(), &q, "second")
		var asked []any
		require.False(t, q.Hand(key, func(who any) bool { asked = append(asked, who); return false }))
		require.Equal(t, []any{"first"}, asked, "nobody is passed over")
		require.Equal(t, 2, q.Waiting(key))
		require.True(t, q.Hand(key, yes))
		require.Equal(t, entered{Handed, nil}, <-first)
		require.False(t, q.Hand(key, no))
		q.Leave(key, 3)
		require.Equal(t, entered{3, nil}, <-second)
		third := enter(t.Context(), &q, "third")
		q.Leave(key, Free)
		require.Equal(t, entered{Free, nil}, <-third)
		q.Leave(key, 3)
		require.Empty(t, q.lines)
		require.Equal(t, entered{Free, nil}, <-enter(t.Context(), &q, "fourth"), "a place that nobody had is free")
	})
}

// TestHandedToWhoLeaves: a waiter is handed the lock in the moment that its context ends. It is
// told of both, has the place, and it is its own business to give up the lock. With another turn,
// the place is passed on.
func TestHandedToWhoLeaves(t *testing.T) {
	for _, turn := range []Handover{Handed, 3, Free} {
		synctest.Test(t, func(t *testing.T) {
			var q Queue
			require.True(t, q.TryEnter(key, "front"))
			ctx, cancel := context.WithCancel(t.Context())
			leaving := enter(ctx, &q, "leaving")
			behind := enter(t.Context(), &q, "behind")
			q.mu.Lock()
			cancel() // it leaves its select and waits for the mutex ...
			q.leaveLocked(key, turn)
			q.mu.Unlock() // ... and finds that it was its turn
			require.Equal(t, entered{turn, context.Canceled}, <-leaving)
			synctest.Wait()
			if turn == Handed {
				require.Empty(t, behind, "the lock is not passed on by the queue")
				q.Leave(key, Free)
				turn = Free
			}
			require.Equal(t, entered{turn, nil}, <-behind)
			q.Leave(key, Free)
			require.Empty(t, q.lines)
		})
	}
}
