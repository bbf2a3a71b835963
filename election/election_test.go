package election_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestCampaign: a leader is known by what it said, with its token, until it resigns.
func TestCampaign(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	e, other := election.New(newClient(t, rdb, nil), uniqueName(t)), newClient(t, rdb, nil)
	seen := election.New(other, e.Name())
	require.ErrorIs(t, kindtest.Err(seen.Leader(t.Context())), election.ErrNoLeader)
	require.False(t, e.IsLeader())
	for _, value := range []string{"10.0.0.7:8080", "", " two words\n\x00\xff", strings.Repeat("x", 64<<10)} {
		h := lead(t, e, value)
		require.True(t, e.IsLeader())
		require.False(t, seen.IsLeader())
		l := leader(t, seen)
		require.Positive(t, l.Remaining)
		require.Equal(t, election.Leader{Value: value, Owner: h.Owner(), Token: h.Token(), Remaining: l.Remaining}, l)
		require.Greater(t, rdb.PTTL(t.Context(), said(e.Name())).Val(), l.Remaining, "it outlives the lease")
		unlock(t, h)
		require.False(t, e.IsLeader())
		require.ErrorIs(t, kindtest.Err(seen.Leader(t.Context())), election.ErrNoLeader)
		require.Zero(t, rdb.Exists(t.Context(), e.Name(), said(e.Name())).Val())
	}
}

// TestOrder: candidates lead in the order in which they came, and whoever gives up is none.
func TestOrder(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	name := uniqueName(t)
	var all [3]*election.Election
	for i := range all {
		all[i] = election.New(newClient(t, rdb, nil), name)
	}
	last := lead(t, all[0], "0")
	var line []*campaign
	for _, value := range []string{"1", "2", "gives up", "3", "4"} {
		line = append(line, stand(t, rdb, all[len(line)%len(all)], value))
	}
	line[2].cancel()
	require.ErrorIs(t, line[2].Err(), context.Canceled)
	for i, value := range []string{"1", "2", "", "3", "4"} {
		if value == "" {
			continue
		}
		unlock(t, last)
		h := line[i].Hold()
		require.Greater(t, h.Token(), last.Token())
		l := leader(t, all[0])
		require.Equal(t, value, l.Value)
		last = h
	}
	unlock(t, last)
}

// TestSuccession: what follows a resignation is a message, and one script by which the successor announces itself. It does not
// ask for the lock, unless the message overtook the answer that made it a candidate, as on a busy machine.
func TestSuccession(t *testing.T) {
	srv := redistest.Shared(t)
	rdb, proxy := srv.Client(t), faultproxy.New(t, srv.Addr())
	first := election.New(newClient(t, rdb, nil), uniqueName(t))
	second := election.New(newClient(t, redistest.NewClient(t, proxy.Addr()), nil), first.Name())
	seen := func(s *lua.Script) int { return proxy.Seen(faultproxy.Script(s.Hash())) }
	eventually(t, "a successor that did not ask", func() bool {
		h := lead(t, first, "first")
		next := stand(t, rdb, second, "second")
		asked, announced := seen(lua.FairAcquire), seen(lua.ElectionAnnounce)
		unlock(t, h)
		unlock(t, next.Hold())
		require.LessOrEqual(t, seen(lua.ElectionAnnounce)-announced, 2, "by EVAL too if the server did not know it")
		return seen(lua.FairAcquire) == asked
	})
}

// TestRun: it leads until its function returns, and returns what that returned.
func TestRun(t *testing.T) {
	e, rdb := newElection(t)
	failure := errors.New("failure")
	for _, want := range []error{nil, failure} {
		err := e.Run(t.Context(), "v", func(ctx context.Context) error {
			require.True(t, e.IsLeader())
			l, err := e.Leader(ctx)
			require.NoError(t, err)
			require.Equal(t, "v", l.Value)
			return want
		})
		require.Equal(t, want, err)
		require.False(t, e.IsLeader())
		require.Zero(t, rdb.Exists(t.Context(), e.Name()).Val(), "it has resigned")
	}
	require.PanicsWithValue(t, "panic", func() {
		_ = e.Run(t.Context(), "v", func(context.Context) error { panic("panic") })
	})
	require.Zero(t, rdb.Exists(t.Context(), e.Name()).Val(), "it has resigned")
}

// TestRunEnds: when its context ends, it waits for its function, resigns, and returns the cause.
func TestRunEnds(t *testing.T) {
	e, rdb := newElection(t)
	why, failure := errors.New("why"), errors.New("failure")
	for name, returned := range map[string]func(ctx context.Context) error{
		"nothing":     func(context.Context) error { return nil },
		"its end":     func(ctx context.Context) error { return ctx.Err() },
		"the cause":   context.Cause,
		"a failure":   func(context.Context) error { return failure },
		"its own end": func(context.Context) error { return context.DeadlineExceeded },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := e.Run(ctx, "v", func(lead context.Context) error {
				cancel(why)
				<-lead.Done()
				require.NotZero(t, rdb.Exists(t.Context(), e.Name()).Val(), "it leads until its function returns")
				return returned(lead)
			})
			require.ErrorIs(t, err, why)
			require.Equal(t, name == "a failure", errors.Is(err, failure))
			require.Zero(t, rdb.Exists(t.Context(), e.Name()).Val(), "it has resigned")
		})
	}
	t.Run("while it waits", func(t *testing.T) {
		h := lead(t, e, "leader")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx, "v", func(context.Context) error { panic("never") }) }()
		eventually(t, "it waits", func() bool { return len(queued(t, rdb, e.Name())) == 1 })
		cancel(why)
		require.Equal(t, why, <-ended)
		eventually(t, "it is no candidate any more", func() bool { return len(queued(t, rdb, e.Name())) == 0 })
		unlock(t, h)
	})
	t.Run("the client is closed", func(t *testing.T) {
		c, err := holdfast.New(rdb, nil)
		require.NoError(t, err)
		err = election.New(c, e.Name()).Run(t.Context(), "v", func(lead context.Context) error {
			go func() { _ = c.Close(context.WithoutCancel(lead)) }()
			<-lead.Done()
			return nil
		})
		require.ErrorIs(t, err, holdfast.ErrClosed)
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestObserve: the present leader, each change, and nobody. Who observes is told by messages.
func TestObserve(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	opts := &holdfast.Options{Lease: time.Hour}
	name := uniqueName(t)
	a, b := election.New(newClient(t, rdb, opts), name), election.New(newClient(t, rdb, opts), name)
	w, stop := watch(t, election.New(newClient(t, rdb, nil), name))
	require.Equal(t, election.Leader{}, w.next())
	h := lead(t, a, "a")
	require.Equal(t, h.Token(), w.until("a").Token)
	next := stand(t, rdb, b, "b")
	unlock(t, h)
	h = next.Hold()
	require.Equal(t, h.Owner(), w.until("b").Owner)
	late, stopLate := watch(t, election.New(newClient(t, rdb, nil), name))
	require.Equal(t, "b", late.next().Value)
	unlock(t, h)
	require.Equal(t, election.Leader{}, w.until(""))
	require.Equal(t, election.Leader{}, late.next())
	stop()
	stopLate()
	require.Empty(t, w.errs)
	for l, err := range a.Observe(t.Context()) { // a loop that is left
		require.NoError(t, err)
		require.Equal(t, election.Leader{}, l)
		break
	}
}

// TestBadInput is refused before anything is sent.
func TestBadInput(t *testing.T) {
	srv := redistest.Start(t)
	c := newClient(t, srv.Client(t), nil)
	e, lead := election.New(c, "e"), func(context.Context) error { return nil }
	campaign := func(e *election.Election, value string, opts ...holdfast.Option) error {
		_, err := e.Campaign(t.Context(), value, opts...)
		return err
	}
	observe := func(e *election.Election, ctx context.Context) (last error) {
		for _, err := range e.Observe(ctx) {
			last = err
		}
		return last
	}
	var none context.Context
	_, leader := (*election.Election)(nil).Leader(t.Context())
	_, noContext := e.Leader(none)
	_, noCampaign := e.Campaign(none, "")
	for says, err := range map[string]error{
		"value has 65537 bytes":     campaign(e, strings.Repeat("x", 64<<10+1)),
		"name is empty":             campaign(election.New(c, ""), ""),
		"HoldAtLeast is 1s":         campaign(e, "", holdfast.HoldAtLeast(time.Second)),
		"Keep is 1s":                campaign(e, "", rlock.Keep(time.Second)),
		"client is nil":             campaign(election.New(nil, "e"), ""),
		"nil or zero Election":      leader,
		"Election; make":            observe(&election.Election{}, t.Context()),
		"lead is nil":               e.Run(t.Context(), "", nil),
		"run \"e\": invalid":        e.Run(none, "", lead),
		"leader \"e\": invalid":     noContext,
		"campaign \"e\": invalid":   noCampaign,
		"observe \"e\": invalid":    observe(e, none),
		"observe \"\": invalid":     observe(election.New(c, ""), t.Context()),
		"Lease is 1ms":              election.New(c, "e", holdfast.Lease(time.Millisecond)).Run(t.Context(), "", lead),
		"make one with holdfast.Ne": election.New(nil, "e").Run(t.Context(), "", lead),
	} {
		require.ErrorIs(t, err, holdfast.ErrInvalid, says)
		require.ErrorContains(t, err, says)
		var own *holdfast.Error
		require.ErrorAs(t, err, &own)
		require.Equal(t, "election", own.Kind)
	}
	calls := srv.CommandCalls(t)
	require.Zero(t, calls["subscribe"]+calls["eval"]+calls["evalsha"], "nothing was sent")
}

// TestWaitingForOneself: who leads and campaigns under its own context is refused, and not for ever.
func TestWaitingForOneself(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	c := newClient(t, rdb, nil)
	e, other := election.New(c, uniqueName(t)), election.New(c, uniqueName(t)+":other")
	h := lead(t, e, "")
	_, err := election.New(c, e.Name()).Campaign(h.Context(), "")
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "would wait for itself")
	inner, err := other.Campaign(h.Context(), "")
	require.NoError(t, err, "another election")
	require.ErrorContains(t, kindtest.Err(e.Campaign(inner.Context(), "")), "would wait for itself")
	lasting := context.WithoutCancel(inner.Context())
	unlock(t, inner, h)
	h, err = e.Campaign(lasting, "")
	require.NoError(t, err, "it has resigned")
	unlock(t, h)
}

// TestOwners: each campaign is a candidate of its own, whatever owner its context has.
func TestOwners(t *testing.T) {
	e, _ := newElection(t)
	ctx := holdfast.WithOwner(t.Context())
	h, err := e.Campaign(ctx, "first")
	require.NoError(t, err)
	require.ErrorIs(t, kindtest.Err(e.Campaign(ctx, "second", holdfast.Wait(0))), holdfast.ErrNotAcquired)
	owner := h.Owner()
	require.NoError(t, h.Unlock(ctx))
	h, err = e.Campaign(ctx, "third")
	require.NoError(t, err)
	require.NotEqual(t, owner, h.Owner())
	require.NoError(t, h.Unlock(ctx))
}

// TestCandidatesOfOneClient: they stand side by side in the queue; yet each has an owner of its own and announces itself.
func TestCandidatesOfOneClient(t *testing.T) {
	e, rdb := newElection(t)
	last := lead(t, e, "0")
	line := []*campaign{stand(t, rdb, e, "1"), stand(t, rdb, e, "2"), stand(t, rdb, e, "3")}
	for i, next := range line {
		unlock(t, last)
		h := next.Hold()
		require.NotEqual(t, last.Owner(), h.Owner())
		require.Equal(t, []string{h.Owner()}, rdb.HKeys(t.Context(), e.Name()).Val())
		l := leader(t, e)
		require.Equal(t, [2]any{string(rune('1' + i)), h.Token()}, [2]any{l.Value, l.Token})
		require.True(t, e.IsLeader())
		last = h
	}
	unlock(t, last)
}

// TestTokensGoBack: the server has lost its data, and its clock was set back. The next leader has a
// lesser token than the last one of the same Election, and knows of itself all the same.
func TestTokensGoBack(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	e := election.New(newClient(t, rdb, nil), "back")
	require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{back}", "8000000000000000", time.Hour).Err())
	h := lead(t, e, "v")
	unlock(t, h)
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	next := lead(t, e, "v")
	require.Less(t, next.Token(), h.Token())
	require.True(t, e.IsLeader())
	unlock(t, next)
	require.False(t, e.IsLeader())
}

// TestFullServer: the server's memory is full when Run campaigns. It campaigns again, and leads when there is room.
func TestFullServer(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	logged := make(kindtest.Lines, 1)
	e := election.New(newClient(t, rdb, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(logged, nil))}), "full")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	done, failure := make(chan error, 1), errors.New("failure")
	go func() { done <- e.Run(t.Context(), "v", func(context.Context) error { return failure }) }()
	select {
	case line := <-logged:
		require.Contains(t, line, "a campaign failed, and is repeated")
	case err := <-done:
		require.Fail(t, "it does not campaign again", err)
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.ErrorIs(t, <-done, failure)
}

// TestIdleCandidates: a hundred candidates who wait cost a server few scripts, and those who observe cost nothing:
// ten clients poll once a second at most, and keep ten places each.
func TestIdleCandidates(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	var all [10]*election.Election
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range all {
		// Nobody renews meanwhile.
		c := newClient(t, srv.Client(t, func(o *redis.Options) { o.PoolSize = 2 }), &holdfast.Options{Lease: time.Hour})
		all[i] = election.New(c, "idle")
		group.Go(func() {
			for _, err := range all[i].Observe(ctx) {
				if err != nil {
					return
				}
			}
		})
	}
	h := lead(t, all[0], "leads")
	for i := range 100 {
		group.Go(func() { _ = kindtest.Pair(ctx, candidacy{all[i%len(all)]}) })
	}
	eventually(t, "all wait", func() bool { return len(queued(t, rdb, "idle")) == 100 })
	start := time.Now()
	srv.ResetStats(t)
	eventually(t, "time passes", func() bool { return time.Since(start) > 3*time.Second })
	calls := srv.CommandCalls(t)
	polls := int(time.Since(start)/time.Second) + 2 // of each client, with one that was due at the first or the last moment
	cancel()
	group.Wait()
	unlock(t, h)
	require.LessOrEqual(t, calls["evalsha"]+calls["eval"], int64(len(all)*polls))
}
