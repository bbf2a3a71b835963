package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = kindtest.Patience

var (
	eventually = kindtest.Eventually
	newClient  = kindtest.NewClient
	uniqueName = kindtest.UniqueName
)

// said is the key of an election's announcement.
func said(name string) string { return "holdfast_election:{" + name + "}" }

// queued lists the candidates of an election, the next one first.
func queued(t testing.TB, rdb redis.UniversalClient, name string) []string {
	t.Helper()
	list, err := rdb.LRange(context.Background(), "redisson_lock_queue:{"+name+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}

// listeners is how many connections observe an election.
func listeners(t testing.TB, rdb redis.UniversalClient, name string) int64 {
	t.Helper()
	channel := "holdfast_election__channel:{" + name + "}"
	n, err := rdb.PubSubNumSub(context.Background(), channel).Result()
	require.NoError(t, err)
	return n[channel]
}

// campaign is one candidate that waits by hand.
type campaign struct {
	t      testing.TB
	cancel context.CancelFunc
	won    chan *holdfast.Hold
	failed chan error
}

// stand starts a campaign, and waits until it has a place if there is a leader.
func stand(t testing.TB, rdb redis.UniversalClient, e *election.Election, value string) *campaign {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := &campaign{t, cancel, make(chan *holdfast.Hold, 1), make(chan error, 1)}
	before := len(queued(t, rdb, e.Name()))
	go func() {
		h, err := e.Campaign(ctx, value)
		if err != nil {
			c.failed <- err
			return
		}
		c.won <- h
	}()
	eventually(t, "it is a candidate", func() bool { return len(queued(t, rdb, e.Name())) > before })
	return c
}

// leads waits until the candidate leads.
func (c *campaign) leads() *holdfast.Hold {
	c.t.Helper()
	select {
	case h := <-c.won:
		return h
	case err := <-c.failed:
		require.NoError(c.t, err)
	case <-time.After(patience):
		require.Fail(c.t, "the candidate does not lead")
	}
	return nil
}

// watched is what an observer was told.
type watched struct {
	t    testing.TB
	told chan election.Leader
	errs chan error
	end  chan struct{}
}

// watch observes until the test ends, or stop is called.
func watch(t testing.TB, e *election.Election) (w *watched, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w = &watched{t, make(chan election.Leader, 10000), make(chan error, 100), make(chan struct{})}
	go func() {
		defer close(w.end)
		for l, err := range e.Observe(ctx) {
			if err != nil {
				w.errs <- err
			} else {
				w.told <- l
			}
		}
	}()
	stop = func() {
		cancel()
		<-w.end
	}
	t.Cleanup(stop)
	return w, stop
}

// next waits for the next one that is told.
func (w *watched) next() election.Leader {
	w.t.Helper()
	select {
	case l := <-w.told:
		return l
	case <-time.After(patience):
		require.Fail(w.t, "the observer is not told")
		return election.Leader{}
	}
}

// until skips what is told until a value.
func (w *watched) until(value string) election.Leader {
	w.t.Helper()
	for {
		if l := w.next(); l.Value == value {
			return l
		}
	}
}
