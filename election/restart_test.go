package election_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestRestart: the server is started anew, without its data. The leader is told that it is none any
// more, nobody sleeps for ever, and observers learn of the new leader. Its token is greater.
func TestRestart(t *testing.T) {
	srv := redistest.Start(t)
	opts := &holdfast.Options{Lease: 3 * time.Second, RetryBudget: 500 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	type turn struct {
		context.Context
		value string
		token uint64
	}
	turns := make(chan turn, 100)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, value := range []string{"a", "b", "c"} {
		e := election.New(newClient(t, srv.Client(t, func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond }), opts), "e")
		running.Go(func() {
			for ctx.Err() == nil {
				_ = e.Run(ctx, value, func(lead context.Context) error {
					l, _ := e.Leader(lead)
					turns <- turn{lead, value, l.Token}
					<-lead.Done()
					return nil
				})
			}
		})
	}
	next := func() turn {
		select {
		case one := <-turns:
			return one
		case <-time.After(patience):
			require.Fail(t, "nobody leads")
			return turn{}
		}
	}
	first := next()
	w, stop := watch(t, election.New(newClient(t, srv.Client(t), opts), "e"))
	require.Equal(t, first.value, w.next().Value)
	srv.Kill()
	srv.Restart()
	second := next()
	eventually(t, "the former leader is told", func() bool { return first.Err() != nil })
	for l := w.next(); l.Token != second.token || l.Value != second.value; {
		l = w.next()
	}
	require.Greater(t, second.token, first.token)
	stop()
}

// TestCandidatesLostTheirPlaces: the server has lost the queue, and the leader resigns without knowing
// of anybody. The candidates have new places, or lead, within a poll.
func TestCandidatesLostTheirPlaces(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	e, other := election.New(newClient(t, rdb, forLong), name), election.New(newClient(t, rdb, forLong), name)
	h := lead(t, e, "first")
	second, third := stand(t, rdb, other, "second"), stand(t, rdb, other, "third")
	require.NoError(t, rdb.Del(t.Context(), "redisson_lock_queue:{"+name+"}", "redisson_lock_timeout:{"+name+"}").Err())
	unlock(t, h)
	kindtest.InTurn(t, func(*holdfast.Hold) {}, second.Pending, third.Pending) // nobody sleeps
}

// TestObserved: campaigns are waits, and terms are holds.
func TestObserved(t *testing.T) {
	var w kindtest.Witness
	c, err := holdfast.New(redistest.Shared(t).Client(t), &holdfast.Options{Observer: w.Observer()})
	require.NoError(t, err)
	e := election.New(c, t.Name())
	term := lead(t, e, "one")
	kindtest.Refused(t.Context(), t, of(e, "two"), holdfast.Wait(10*time.Millisecond))
	unlock(t, term)
	_ = lead(t, e, "three")
	require.NoError(t, c.Close(context.Background()))
	require.NoError(t, w.Wrong())
	calls := w.Calls()
	require.Len(t, calls, 3)
	require.Equal(t, "election", calls[0].Wait.Kind)
	require.ErrorIs(t, calls[0].Ended.Reason, holdfast.ErrReleased)
	require.ErrorIs(t, calls[1].Refused.Err, holdfast.ErrNotAcquired)
	require.ErrorIs(t, calls[2].Ended.Reason, holdfast.ErrClosed)
}
