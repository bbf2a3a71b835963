package election_test

import (
	"context"
	"testing"

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
	script     = kindtest.Script
	unlock     = kindtest.Unlock
)

// newElection makes an election for a client of its own.
func newElection(t testing.TB) (*election.Election, *redis.Client) {
	c, rdb := kindtest.Shared(t, nil)
	return election.New(c, uniqueName(t)), rdb
}

// leader is what an election says of its leader.
func leader(t testing.TB, e *election.Election) election.Leader {
	l, err := e.Leader(t.Context())
	require.NoError(t, err)
	return l
}

// said is the key of an election's announcement.
func said(name string) string { return "holdfast_election:{" + name + "}" }

// queued lists the candidates of an election, the next one first.
func queued(t testing.TB, rdb redis.UniversalClient, name string) []string {
	list, err := rdb.LRange(context.Background(), "redisson_lock_queue:{"+name+"}", 0, -1).Result()
	require.NoError(t, err)
	return list
}

// listeners is how many connections observe an election.
func listeners(t testing.TB, rdb redis.UniversalClient, name string) int64 {
	return kindtest.Listeners(t.Context(), rdb, "holdfast_election__channel:{"+name+"}")
}

// of is a campaign with a value, as tests of locks have it.
func of(e *election.Election, value string) kindtest.Acquire {
	return func(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
		return e.Campaign(ctx, value, opts...)
	}
}

// lead leads an election that has no leader.
func lead(t testing.TB, e *election.Election, value string) *holdfast.Hold {
	return kindtest.Begin(t.Context(), t, of(e, value)).Hold()
}

// campaign is one candidate.
type campaign struct {
	*kindtest.Pending
	cancel context.CancelFunc
}

// stand starts a campaign, and waits until it has a place, behind the others.
func stand(t testing.TB, rdb redis.UniversalClient, e *election.Election, value string) *campaign {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	before := len(queued(t, rdb, e.Name()))
	c := &campaign{kindtest.Begin(ctx, t, of(e, value)), cancel}
	eventually(t, "it is a candidate", func() bool { return len(queued(t, rdb, e.Name())) > before })
	return c
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
	stop = func() { cancel(); <-w.end }
	t.Cleanup(stop)
	return w, stop
}

// next waits for the next one that is told.
func (w *watched) next() election.Leader {
	return kindtest.Receive(w.t, "the observer is told", w.told)
}

// until skips what is told until a value.
func (w *watched) until(value string) election.Leader {
	for {
		if l := w.next(); l.Value == value {
			return l
		}
	}
}

// candidacy is an election as a lock.
type candidacy struct{ *election.Election }

func (c candidacy) Lock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Campaign(ctx, "", opts...)
}

func (c candidacy) TryLock(ctx context.Context, opts ...holdfast.Option) (*holdfast.Hold, error) {
	return c.Campaign(ctx, "", append(opts, holdfast.Wait(0))...)
}

// TestBursts: candidates who do not stay.
func TestBursts(t *testing.T) {
	kindtest.Bursts(t, kindtest.Kind{Name: "election", Queues: true}.On(t, kindtest.Servers{
		All: []*redistest.Server{redistest.Start(t)},
		New: func(c []*holdfast.Client, name string, opts ...holdfast.Option) holdfast.Locker {
			return candidacy{election.New(c[0], name, opts...)}
		},
		Waiters: func(ctx context.Context, rdb *redis.Client, name string) int64 {
			return rdb.LLen(ctx, "redisson_lock_queue:{"+name+"}").Val()
		},
	}))
}
