//go:build linux

package chaos

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/integration_test/history"
	"github.com/holdfast-go/holdfast/integration_test/workload"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// lack is of one defence, in a storm made for it: its faults come often, and no others excuse what is looked for.
type lack struct {
	check  string // that finds it
	off    string // the defence
	quorum bool   // on masters of one
	plan   plan
}

// lacks are one for each check that storms rely on. Package simulation shows checks of one kind, by the same actors.
func lacks() []lack {
	// What is not given back stands for the whole lease, which is long, so it is noticed by those who wait, or at the end.
	long := plan{work: work{Lease: 10 * time.Second, Actors: 4, Names: 3, Period: time.Second}, storm: 3 * time.Second,
		calm: time.Second, processes: 3, gap: 200 * time.Millisecond, recovery: 2500 * time.Millisecond, tidy: true}
	long.local = []string{"drop-reply", "drop-request", "delay-reply", "delay-request"}
	silent, plain, kills := long, long, long
	silent.Lease, silent.local = 500*time.Millisecond, []string{"black-hole", "lose-requests", "lose-replies"}
	plain.local = nil
	// Who is not woken would be woken by the next release of the name, if names were not given up so soon.
	kills.Lease, kills.gap, kills.tidy, kills.local = time.Second, 800*time.Millisecond, false, []string{"kill"}
	kills.Names, kills.Period, kills.recovery = 6, 200*time.Millisecond, time.Second
	kills.calm = 2*kills.recovery + bound + 1500*time.Millisecond // after the storm, and before they are stopped
	// Votes of a minority that are not given back stand for the whole lease, and many ask at once.
	votes := plan{work: work{Lease: 10 * time.Second, Actors: 2, Names: 2, Period: time.Second, Alone: true}, storm: 2 * time.Second,
		calm: 500 * time.Millisecond, processes: 4, recovery: 2500 * time.Millisecond, tidy: true}
	// Locks that are to stay taken for a while, whatever is lost or late.
	stays := quorumPlan(0, 4*time.Second)
	stays.Alone, stays.Staying, stays.progress, stays.calm = true, 2, false, 500*time.Millisecond
	stays.global = []string{"pause", "kill-clients", "script-flush"}
	// Those who leave at once do not know themselves what others were told.
	hasty := plan{work: work{Lease: 10 * time.Second, Actors: 4, Names: 1, Period: time.Second, Hasty: 32}, storm: 2 * time.Second,
		calm: 500 * time.Millisecond, processes: 2, recovery: time.Second, tidy: true}
	return []lack{
		{"exclusion", "Deadline", false, silent},
		{"left behind", "NoRetry", false, long},
		{"given up", "Detach", false, plain},
		{"trust", "RepeatedGone", false, long},
		{"wake-up", "LeaseEnd", false, kills},
		{"end", "ToldEnds", false, silent},
		{"left behind", "Withdraw", true, votes},
		{"period", "Stay", true, stays},
		{"outage", "Noted", false, hasty},
	}
}

// TestChecksSee switches single defences of the library off in the client processes. The storm that does no harm with them must
// do harm without, and the check must find it within fifteen storms. It is for a soak: it is up to chance how many it takes.
func TestChecksSee(t *testing.T) {
	level.ForSoak(t)
	defence.Need(t)
	seed := level.Seed(t)
	program := redistest.Programs(t)[0]
	server, masters := startServer(t, program), startMasters(t, program)
	for _, d := range lacks() {
		t.Run(d.off, func(t *testing.T) {
			p, target, rng := d.plan, server, rand.New(rand.NewPCG(seed, 1))
			if d.quorum {
				target = masters
				workload.Sleep(t.Context(), time.Until(target.begun.Add(grown)))
			}
			p.seed = seed
			_, found := p.run(t, target)
			history.Report(t, found, level.Replay(t, seed))
			p.Without = []string{d.off}
			var off figures
			for n := 0; n < 15 && off.violations[d.check] == 0; n++ {
				f, _ := p.run(t, target)
				off.add(f)
				for _, n := range target.nodes {
					n.Command(t, "FLUSHALL") // what was left behind is not to trouble the next
				}
				p.seed = rng.Uint64()
			}
			require.Positive(t, off.violations[d.check], "check %q has not noticed that it was missing: %s", d.check, &off)
		})
	}
}

// What chaos found, told again without chance.

// TestClosedUnderAnInnerUnlock: a client closes while an inner unlock is on its way: the lock is released, and not lost.
func TestClosedUnderAnInnerUnlock(t *testing.T) {
	srv := redistest.Start(t)
	rdb, proxy := kindtest.Behind(t, srv.Addr(), 20*time.Second)
	c := kindtest.NewClient(t, rdb, nil)
	m := rlock.New(c, "closed")
	inner := kindtest.Take(kindtest.Lock(t, m).Context(), t, m.Lock)
	late := proxy.DelayRequest(kindtest.Script(lua.Recount), 1, time.Hour)
	unlocked, closed := make(chan error), make(chan error)
	go func() { unlocked <- inner.Unlock(t.Context()) }()
	<-late.Fired()
	go func() { closed <- c.Close(t.Context()) }() // which waits for the unlock, and releases before
	direct := srv.Client(t)
	kindtest.Eventually(t, "released", func() bool { return direct.Exists(t.Context(), m.Name()).Val() == 0 })
	late.Release()
	err := <-unlocked
	require.NoError(t, <-closed)
	require.ErrorIs(t, err, holdfast.ErrClosed)
	require.NotErrorIs(t, err, holdfast.ErrLost)
}

// TestRefusedOnce: a waiter is refused its subscription. The next one, moments later, is not: the server permits it again.
func TestRefusedOnce(t *testing.T) {
	srv := redistest.Start(t)
	h := kindtest.Lock(t, fairlock.New(kindtest.NewClient(t, srv.Client(t), nil), "refused"))
	m := fairlock.New(kindtest.NewClient(t, srv.Client(t), nil), "refused")
	srv.Command(t, "ACL", "SETUSER", "default", "-subscribe")
	_, err := m.Lock(t.Context())
	require.ErrorContains(t, err, "cannot listen")
	srv.Command(t, "ACL", "SETUSER", "default", "+subscribe")
	granted := kindtest.Begin(t.Context(), t, m.Lock)
	kindtest.Eventually(t, "it waits", func() bool {
		s, err := m.State(t.Context())
		return err == nil && s.Waiters == 1 || granted.Over()
	})
	kindtest.Unlock(t, h)
	kindtest.Unlock(t, granted.Hold())
}
