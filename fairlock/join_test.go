package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// joinFaults are what can happen to a script that asks for several places.
var joinFaults = map[string]func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule{
	"executed late": func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule {
		return p.KeepRequest(match, nth, 20*time.Millisecond) // and the repeats before it
	},
}

func init() {
	for _, fault := range faults {
		joinFaults[fault.String()] = func(p *faultproxy.Proxy, match func([]string) bool, nth int) *faultproxy.Rule {
			return p.On(match, nth, fault)
		}
	}
}

// joined has waiters of two clients use a lock until a fault has happened to three scripts that ask
// for several places. It returns what went wrong.
func joined(t *testing.T, fault func(*faultproxy.Proxy, func([]string) bool, int) *faultproxy.Rule) error {
	t.Helper()
	const waiters, times = 8, 4
	srv := redistest.Start(t)
	proxy, direct := faultproxy.New(t, srv.Addr()), srv.Client(t)
	ctx, name := t.Context(), uniqueName(t)
	require.NoError(t, direct.ScriptLoad(ctx, lua.FairJoin.Text()).Err())
	var rules []*faultproxy.Rule
	for nth := 3; nth <= 9; nth += 3 {
		rules = append(rules, fault(proxy, script(lua.FairJoin), nth))
	}
	deadline := time.Now().Add(time.Minute)
	var failed atomic.Bool
	happened := func() bool { // or never will, as who fails locks no more
		return failed.Load() || time.Now().After(deadline) ||
			!slices.ContainsFunc(rules, func(r *faultproxy.Rule) bool { return r.Count() == 0 })
	}
	var inside, last atomic.Uint64
	one := func(m *fairlock.Mutex) error {
		h, err := m.Lock(ctx, holdfast.Wait(patience))
		if err != nil {
			return err
		}
		if n := inside.Add(1); n != 1 {
			err = fmt.Errorf("%d holders", n)
		}
		if before := last.Swap(h.Token()); before >= h.Token() {
			err = fmt.Errorf("token %d after %d", h.Token(), before)
		}
		inside.Add(^uint64(0))
		return errors.Join(err, h.Unlock(ctx))
	}
	var g sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	var clients []*holdfast.Client
	for range 2 {
		rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = 300 * time.Millisecond })
		client := newClient(t, rdb, nil)
		clients = append(clients, client)
		m := fairlock.New(client, name)
		for range waiters {
			g.Go(func() {
				for n := 0; n < times || !happened(); n++ {
					if err := one(m); err != nil {
						failed.Store(true)
						mu.Lock()
						errs = append(errs, err)
						mu.Unlock()
						return
					}
				}
			})
		}
	}
	g.Wait()
	for _, client := range clients {
		require.NoError(t, client.Close(context.WithoutCancel(ctx))) // joins what is done in the background
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, rule := range rules {
		require.Equal(t, 1, rule.Count(), "so many did ask together")
	}
	require.Zero(t, direct.Exists(ctx, name, "redisson_lock_queue:{"+name+"}", "redisson_lock_timeout:{"+name+"}").Val())
	return nil
}

// TestJoinMeetsFaults: waiters of one client ask for their places by one script, and that is lost, or
// its answer, or it is executed late. Each of them is granted the lock once, and no place is left.
func TestJoinMeetsFaults(t *testing.T) {
	for what, fault := range joinFaults {
		t.Run(what, func(t *testing.T) { require.NoError(t, joined(t, fault)) })
	}
}

// TestJoinMeetsFaultsControl: a script that is not repeated is noticed.
func TestJoinMeetsFaultsControl(t *testing.T) {
	defer defence.Resend.Without(t)()
	require.Error(t, joined(t, joinFaults[faultproxy.DropRequest.String()]))
}

// TestJoinAtAFreeLock: places are asked for together, and then the lock becomes free. It is handed to
// the first of them with the others behind it, and nobody asks once more. Control: an answer with the
// time of the grant. To the one who was granted the lock its message then seems to be an old one, and only
// the next poll helps. (Without the control no poll comes through: one in that moment is a reason to ask.)
func TestJoinAtAFreeLock(t *testing.T) {
	asksAgain := func(edits ...string) int {
		srv := redistest.Start(t)
		proxy, direct, name := faultproxy.New(t, srv.Addr()), srv.Client(t), uniqueName(t)
		rdb := redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.ReadTimeout = patience })
		join := lua.FairJoin
		if len(edits) > 0 {
			rdb.AddHook(mutant.Hook(lua.FairJoin, edits...))
			join = lua.New("mutant", strings.NewReplacer(edits...).Replace(join.Text()), 5)
		}
		require.NoError(t, direct.ScriptLoad(t.Context(), join.Text()).Err())
		m := fairlock.New(newClient(t, rdb, &holdfast.Options{RetryBudget: patience}), name)
		held, err := fairlock.New(newClient(t, direct, nil), name).Lock(t.Context())
		require.NoError(t, err)
		var g errgroup.Group
		use := func() error {
			h, err := m.Lock(t.Context())
			if err != nil {
				return err
			}
			return h.Unlock(t.Context())
		}
		delayed := proxy.DelayRequest(script(join), 1, patience)
		if len(edits) == 0 {
			proxy.DelayRequest(script(lua.FairPoll), 0, time.Hour)
		}
		for started := 0; delayed.Count() == 0; started += 2 {
			g.Go(use)
			g.Go(use)
			eventually(t, "they ask", func() bool { return delayed.Count() > 0 || len(queued(t, direct, name)) == started+2 })
		}
		require.NoError(t, held.Unlock(t.Context()))
		eventually(t, "all others were served", func() bool {
			return direct.Exists(t.Context(), name, "redisson_lock_queue:{"+name+"}").Val() == 0
		})
		asked := proxy.Seen(script(lua.FairAcquire))
		delayed.Release()
		require.NoError(t, g.Wait())
		proxy.Clear()
		return proxy.Seen(script(lua.FairAcquire)) - asked
	}
	require.Zero(t, asksAgain())
	require.Positive(t, asksAgain("tonumber(clock) - 1", "tonumber(clock)"))
}
