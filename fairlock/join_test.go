package fairlock_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// joins has waiters of two clients use a lock until a fault has happened to three scripts that ask for
// several places.
var joins = kindtest.Crowd{
	Clients: 2, Each: 8, Names: 1, Times: 4,
	New:     func(c *holdfast.Client, name string) holdfast.Locker { return fairlock.New(c, name) },
	Scripts: []string{lua.FairJoin.Text()},
	Hit:     script(lua.FairJoin), At: []int{3, 6, 9},
}

// TestJoinMeetsFaults: waiters of one client ask for their places by one script, and that is lost, or
// its answer, or it is executed late. Each of them is granted the lock once, and no place is left.
func TestJoinMeetsFaults(t *testing.T) {
	for what, fault := range kindtest.Faults() {
		t.Run(what, func(t *testing.T) { require.NoError(t, joins.Meet(t, fault)) })
	}
}

// TestJoinAtAFreeLock: places are asked for together, and then the lock becomes free. It is handed to
// the first of them with the others behind it, and nobody asks once more. Control: an answer with the
// time of the grant. To the one who was granted the lock its message then seems to be an old one.
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
		held := lock(t, fairlock.New(newClient(t, direct, nil), name))
		var g errgroup.Group
		use := func() error {
			h, err := m.Lock(t.Context())
			if err != nil {
				return err
			}
			return h.Unlock(t.Context())
		}
		delayed := proxy.DelayRequest(script(join), 1, patience)
		for started := 0; delayed.Count() == 0; started += 2 {
			g.Go(use)
			g.Go(use)
			eventually(t, "they ask", func() bool { return delayed.Count() > 0 || len(queued(t, direct, name)) == started+2 })
		}
		unlock(t, held)
		eventually(t, "all others were served", func() bool {
			return direct.Exists(t.Context(), name, "redisson_lock_queue:{"+name+"}").Val() == 0
		})
		asked := proxy.Seen(script(lua.FairAcquire))
		delayed.Release()
		require.NoError(t, g.Wait())
		return proxy.Seen(script(lua.FairAcquire)) - asked
	}
	fewest := func(edits ...string) int { // on a busy machine a waiter may have another reason to ask
		n := asksAgain(edits...)
		for i := 1; i < 5 && n > 0; i++ {
			n = min(n, asksAgain(edits...))
		}
		return n
	}
	require.Zero(t, fewest())
	require.Positive(t, fewest("tonumber(clock) - 1", "tonumber(clock)"))
}
