package redlock_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// newClockLab is newLab with clocks that can be moved.
func newClockLab(t *testing.T, n int) *lab { return newLab(t, n, redistest.Clock()) }

// time is what a master's clock shows, as tokens count it.
func (l *lab) time(i int) uint64 {
	return uint64(l.direct[i].Time(l.Context()).Val().UnixMicro()) //nolint:gosec // after 1970
}

// passed waits until the clocks of all masters, or of those given, are beyond a token. What a
// client knows of them is as unsure as its round trips were long, so on a busy machine a token may
// be ahead of them; and when they have forgotten it, the next one goes by their clocks alone.
func (l *lab) passed(token uint64, masters ...int) {
	if len(masters) == 0 {
		for i := range l.masters {
			masters = append(masters, i)
		}
	}
	eventually(l.T, "the clocks are beyond the token", func() bool {
		return !slices.ContainsFunc(masters, func(i int) bool { return l.time(i) <= token })
	})
}

// forget has all masters lose their data. They are empty then, and nobody holds anything.
func (l *lab) forget() {
	for _, rdb := range l.direct {
		require.NoError(l, rdb.FlushAll(l.Context()).Err())
	}
}

// token is that of a hold of the process's, which is released. (Since when a master runs is told by its clock.)
func (l *lab) token(p *process, name string) uint64 {
	h := lock(l, p.mutex(name, redlock.TrustRestarts()))
	unlock(l, h)
	return h.Token()
}

// Tokens are by the masters' clocks, whatever that of the client shows: here it is an hour ahead of them.
func TestTokensAreByTheMastersClocks(t *testing.T) {
	t.Parallel()
	l := newClockLab(t, 3)
	for _, m := range l.masters {
		m.MoveClock(t, -time.Hour)
	}
	name := uniqueName(t)
	before := l.time(0) - uint64(time.Second.Microseconds())
	first := l.token(l.process(nil), name)
	require.Greater(t, first, before)
	require.Less(t, first, l.time(0)+uint64(time.Minute.Microseconds()))
	l.passed(first)
	l.forget()
	require.Greater(t, l.token(l.process(nil), name), first, "another client, and no master knows the last token")
}

// The control: a client that proposes by its own clock leaves tokens that those after it do not reach.
func TestTokensAreByTheMastersClocksControl(t *testing.T) {
	l := newClockLab(t, 3)
	for _, m := range l.masters {
		m.MoveClock(t, -time.Hour)
	}
	name := uniqueName(t)
	restore := defence.Clocks.Without(t)
	t.Cleanup(restore)
	h := lock(t, l.process(nil).mutex(name, redlock.TrustRestarts()))
	eventually(t, "all have voted", func() bool { return l.held(name) == 3 }) // no vote comes to a master that has forgotten
	unlock(t, h)
	eventually(t, "released", func() bool { return l.held(name) == 0 })
	restore()
	l.forget()
	require.Less(t, l.token(l.process(nil), name), h.Token())
}

// A minority of the masters may show any time, also when it fails afterwards.
func TestTokensWithAClockThatIsWrong(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for what, d := range map[string]time.Duration{"ahead": 10 * year, "behind": -10 * year} {
		t.Run(what, func(t *testing.T) {
			l := newClockLab(t, 3)
			l.masters[1].MoveClock(t, d)
			name, p := uniqueName(t), l.process(nil)
			first := l.token(p, name)
			require.Less(t, first, max(l.time(0), l.time(1))+uint64(time.Minute.Microseconds()),
				"what is unsure of a clock is on top")
			l.passed(first, 0, 2)
			l.forget()
			next := l.token(p, name)
			require.Greater(t, next, first)
			require.Less(t, next, l.time(0)+uint64(time.Minute.Microseconds()), "as the other two show")
			l.forget()
			l.passed(next, 0, 2)
			p.proxies[1].Silence(true)
			require.Greater(t, l.token(p, name), next)
			p.proxies[1].Silence(false)
		})
	}
}

// A process for which a master is farther away than the others waits for that one's clock too,
// before it proposes its first token: of two clocks nobody can tell which one is wrong.
func TestFirstTokenWaitsForAllClocks(t *testing.T) {
	t.Parallel()
	l := newClockLab(t, 3)
	l.masters[2].MoveClock(t, -2*time.Hour)
	name := uniqueName(t)
	first := l.token(l.process(nil), name)
	l.passed(first, 0, 1)
	l.forget()
	far := &process{timeout: patience}
	for i, m := range l.masters {
		addr := m.Addr()
		if i == 1 {
			addr = faultproxy.Distance(t, addr, 20*time.Millisecond)
		}
		c := kindtest.NewClient(t, redistest.NewClient(t, addr), nil)
		far.clients = append(far.clients, c)
	}
	h := lock(t, far.mutex(name, redlock.TrustRestarts()))
	require.Greater(t, h.Token(), first)
	unlock(t, h)
}

// Clocks that are set back, or forward, do not make tokens smaller.
func TestTokensGrowWhenClocksAreSet(t *testing.T) {
	t.Parallel()
	l := newClockLab(t, 3)
	name, p := uniqueName(t), l.process(nil)
	last := l.token(p, name)
	for _, d := range []time.Duration{-time.Hour, -48 * time.Hour, 100 * time.Hour, 365 * 24 * time.Hour} {
		for _, m := range l.masters {
			m.MoveClock(t, d)
		}
		for _, q := range []*process{p, l.process(nil)} {
			token := l.token(q, name)
			require.Greater(t, token, last, d)
			last = token
		}
	}
	require.Greater(t, last, l.time(0)-uint64(time.Minute.Microseconds()), "they follow a clock that is set forward")
}

// Who proposes by a clock of years ahead neither jams the lock nor leaves a token that those after it do not reach.
func TestAbsurdProposals(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	name, p := uniqueName(t), l.process(nil)
	last := l.token(p, name)
	for _, proposal := range []uint64{
		uint64(time.Now().AddDate(1, 0, 0).UnixMicro()), 1<<53 - 2, 1<<53 - 1, 1 << 53, math.MaxUint64, //nolint:gosec // after 1970
	} {
		eventually(t, "released", func() bool { return l.held(name) == 0 })
		for _, rdb := range l.direct {
			key := "redisson_lock_token:{" + name + "}"
			eventually(t, "a vote of ours that came late has gone, too", func() bool {
				reply, err := lua.Run(t.Context(), rdb,
					lua.Vote.Call(name, key, "hostile:1", 30000, 3600000, 1, strconv.FormatUint(proposal, 10)))
				require.NoError(t, err)
				return reply.Status == lua.Done
			})
			require.NoError(t, rdb.Del(t.Context(), name).Err())
		}
		token := l.token(p, name)
		require.Greater(t, token, last)
		require.Less(t, token, l.time(0)+uint64(time.Minute.Microseconds()), "by the clock")
		last = token
	}
	l.passed(last)
	l.forget()
	require.Greater(t, l.token(l.process(nil), name), last)
}

// A vote refused as late is not another holder's refusal: where a clock was set forward it is repeated once, the next are not.
func TestMastersClockIsSet(t *testing.T) {
	t.Parallel()
	l := newClockLab(t, 3)
	p := l.patient(nil, patience)
	votes := func(opts ...holdfast.Option) int {
		m := p.mutex(uniqueName(t), append(opts, holdfast.NoHandoff(), redlock.TrustRestarts(),
			redlock.MasterTimeout(patience))...)
		before := p.votes()
		h := take(t.Context(), t, m.TryLock)
		eventually(t, "everywhere", func() bool { return l.held(m.Name()) == 3 })
		sent := p.votes() - before
		unlock(t, h)
		eventually(t, "released", func() bool { return l.held(m.Name()) == 0 })
		return sent
	}
	votes() // the scripts are sent whole
	require.Equal(t, 3, votes())
	l.masters[0].MoveClock(t, time.Hour)
	require.Equal(t, 4, votes())
	require.Equal(t, 3, votes())
	for _, m := range l.masters {
		m.MoveClock(t, -2*time.Hour)
	}
	require.Equal(t, 3, votes(), "who is early is not late")
}

// A client that has not met its masters asks them for their clocks, and votes once.
func TestFirstElection(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.load(lua.Vote)
	p := l.patient(nil, patience)
	name := uniqueName(t)
	h := l.everywhere(p.mutex(name, holdfast.NoHandoff(), redlock.MasterTimeout(patience)))
	require.Equal(t, 3, p.votes())
	for _, proxy := range p.proxies {
		require.LessOrEqual(t, proxy.Seen(faultproxy.Command("TIME")), 2)
	}
	unlock(t, h)
}
