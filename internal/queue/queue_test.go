package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

func TestMain(m *testing.M) { leak.Main(m) }

var key = &Key{Kind: "test", Name: "a"}

// enterAndWait takes the front place, or the next one in line.
func enterAndWait(ctx context.Context, q *Queue, who any) (Handover, error) {
	if p, _ := q.Enter(key, who); p != nil {
		p.Wait(ctx)
		return p.Outcome()
	}
	return Free, nil
}

func TestFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		require.True(t, q.TryEnter(key, "front"))
		require.False(t, q.TryEnter(key, "front"))
		require.True(t, q.TryEnter(&Key{Kind: "test", Name: "b"}, "front"), "names are independent")
		var order []int
		for i := range 10 {
			go func() {
				_, _ = enterAndWait(t.Context(), &q, nil)
				order = append(order, i) // one at a time, by the queue itself
				q.Leave(key, Free)
			}()
			synctest.Wait()
		}
		require.Equal(t, 10, q.Waiting(key))
		q.Leave(key, Free)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
		require.True(t, q.TryEnter(key, "front"), "the last one leaves nothing behind")
	})
}

func TestGivingUpReturnsTheCause(t *testing.T) {
	var q Queue
	require.True(t, q.TryEnter(key, "front"))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	enter := func() error {
		_, err := enterAndWait(ctx, &q, nil)
		return err
	}
	require.Equal(t, why, enter())
	require.Zero(t, q.Waiting(key))
	q.Leave(key, Free)
	require.NoError(t, enter(), "a free place is given to a done context too")
	require.Len(t, q.lines, 1)
	q.Leave(key, Free)
	require.Empty(t, q.lines)
}

// TestClose: all who wait are told why, and so is who comes later. The one in front leaves when it wants to.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		why := errors.New("why")
		require.True(t, q.TryEnter(key, "front"))
		require.True(t, q.TryEnter(&Key{Kind: "test", Name: "nobody waits"}, "front"))
		first, second := enter(t.Context(), &q, "first"), enter(t.Context(), &q, "second")
		require.Empty(t, first)
		q.Close(why)
		require.Equal(t, entered{Free, why}, <-first)
		require.Equal(t, entered{Free, why}, <-second)
		require.Equal(t, entered{Free, why}, <-enter(t.Context(), &q, "third"))
		q.Leave(key, Free)
		require.Len(t, q.lines, 1)
	})
}

// TestClosedWhileLeaving: a waiter's context ends, and the queue is closed before it has left. Others keep their places.
func TestClosedWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		require.True(t, q.TryEnter(key, "front"))
		ctx, cancel := context.WithCancel(t.Context())
		leaving := enter(ctx, &q, nil)
		q.mu.Lock()
		cancel() // it leaves its select and waits for the mutex
		behind := q.lines[*key].behind
		p := behind.Remove(behind.Front()).(*Ticket)
		p.err = errors.New("closed")
		close(p.ready)
		q.mu.Unlock()
		require.Equal(t, entered{Free, context.Canceled}, <-leaving)
		require.False(t, q.TryEnter(key, "front"), "the one in front is still there")
	})
}

// cancelWhileWoken gives a waiter the place before it sees its cancellation, and reports whether the next one is served.
func cancelWhileWoken(t *testing.T, q *Queue) (served bool) {
	synctest.Test(t, func(t *testing.T) {
		require.True(t, q.TryEnter(key, "front"))
		ctx, cancel := context.WithCancel(t.Context())
		behind, giveUp := context.WithCancel(t.Context())
		go func() { _, _ = enterAndWait(ctx, q, nil) }()
		synctest.Wait()
		go func() {
			_, err := enterAndWait(behind, q, nil)
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
	defer defence.PassOn.Without(t)()
	require.False(t, cancelWhileWoken(t, &Queue{}), "control: the wake-up is lost")
}

// TestManyGiveUp: half of the waiters give up, at any moment. The rest are all served.
func TestManyGiveUp(t *testing.T) {
	var q Queue
	var group sync.WaitGroup
	var served atomic.Int64
	stay, rnd := int64(0), level.Rand(t)
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if _, err := enterAndWait(ctx, &q, nil); err == nil {
				served.Add(1)
				q.Leave(key, Free)
			}
		})
		if rnd.IntN(2) == 0 {
			group.Go(cancel)
		} else {
			stay++
			defer cancel()
		}
	}
	group.Wait()
	require.GreaterOrEqual(t, served.Load(), stay)
	require.Empty(t, q.lines)
}

// TestAhead: who has waited knows who was in front, whether the place came free or the wait was over.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		require.True(t, q.TryEnter(key, "first"))
		second, front := q.Enter(key, "second")
		require.Equal(t, "first", front)
		third, _ := q.Enter(key, "third")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		third.Wait(over)
		require.Equal(t, "first", third.Ahead())
		q.Leave(key, Free)
		second.Wait(t.Context())
		require.Equal(t, "first", second.Ahead())
		fourth, _ := q.Enter(key, "fourth")
		fourth.Wait(over)
		require.Equal(t, "second", fourth.Ahead())
		q.Leave(key, Free)
		require.Empty(t, q.lines)
	})
}

// TestDissolve: all who wait are told to ask, nobody is in front, and who left before is not told.
func TestDissolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		require.True(t, q.TryEnter(key, "first"))
		second, _ := q.Enter(key, "second")
		third, _ := q.Enter(key, "third")
		gone, _ := q.Enter(key, "gone")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		gone.Wait(over)
		q.Dissolve(key)
		for _, p := range []*Ticket{second, third} {
			p.Wait(over) // it is told all the same, or leaves
			turn, _ := p.Outcome()
			require.Equal(t, Together, turn)
			require.Equal(t, "first", p.Ahead())
		}
		_, err := gone.Outcome()
		require.Error(t, err)
		require.Empty(t, q.lines)
		require.True(t, q.TryEnter(key, "next"))
		q.Dissolve(key)
		require.Empty(t, q.lines)
	})
}

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

// TestHand: the lock goes to the one who has waited longest, if that one can take it, and to nobody else.
func TestHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		yes, no := func(any) bool { return true }, func(any) bool { return false }
		require.True(t, q.TryEnter(key, "front"))
		require.False(t, q.HandOff(key, yes), "nobody waits")
		require.False(t, q.TryEnter(key, "front"), "and the place is kept")
		first, second := enter(t.Context(), &q, "first"), enter(t.Context(), &q, "second")
		var asked []any
		require.False(t, q.HandOff(key, func(who any) bool { asked = append(asked, who); return false }))
		require.Equal(t, []any{"first"}, asked, "nobody is passed over")
		require.Equal(t, 2, q.Waiting(key))
		require.True(t, q.HandOff(key, yes))
		require.Equal(t, entered{Handed, nil}, <-first)
		require.False(t, q.HandOff(key, no))
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

// TestHandedToWhoLeaves: a waiter is handed the lock in the moment that its context ends. It is told of both, has the place,
// and it is its own business to give up the lock. With another turn, the place is passed on.
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
