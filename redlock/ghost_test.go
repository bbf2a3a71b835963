package redlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

var isVote, isRelease, isRenewal = kindtest.Script(lua.Vote), kindtest.Script(lua.Release), kindtest.Script(lua.Renew)

// caught is the last vote that was sent to a master.
func (p *party) caught(i int) (vote []string) {
	for _, args := range p.proxies[i].Requests() {
		if isVote(args) {
			vote = args
		}
	}
	return vote
}

// arrives has a vote reach a master, which may have another script in its place.
func (l *lab) arrives(i int, vote []string, text string) {
	l.Helper()
	words := []any{"EVAL", text}
	for _, a := range vote[2:] {
		words = append(words, a)
	}
	require.NoError(l, l.direct[i].Do(l.Context(), words...).Err())
}

// unlimited is the script without the look at the clock.
func unlimited(t *testing.T) string {
	t.Helper()
	const check = "then return {-2, clock} end"
	require.Contains(t, lua.Vote.Text(), check)
	return strings.Replace(lua.Vote.Text(), check, "then end", 1)
}

// stragglers has the votes of a caller that leaves be kept by the network, and returns them when
// all releases have been sent that are to undo them: one at the end of the election, and three in
// the background.
func stragglers(t *testing.T, l *lab, name string) (votes [][]string) {
	t.Helper()
	p := l.party(nil)
	require.NoError(t, lockOnce(t.Context(), p.mutex("warm")))
	var kept []*faultproxy.Rule
	for i, proxy := range p.proxies {
		require.NoError(t, l.direct[i].ScriptLoad(t.Context(), lua.Release.Text()).Err())
		kept = append(kept, proxy.On(isVote, 1, faultproxy.BlackHole))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for _, r := range kept {
			<-r.Fired()
		}
		cancel()
	}()
	_, err := p.mutex(name).Lock(ctx, holdfast.HoldAtLeast(time.Hour), redlock.MasterTimeout(patience))
	require.ErrorIs(t, err, context.Canceled)
	for i, proxy := range p.proxies {
		votes = append(votes, p.caught(i))
		proxy.Clear()
	}
	for i, proxy := range p.proxies {
		// the owner
		released := func(args []string) bool { return isRelease(args) && slices.Contains(args, votes[i][5]) }
		eventually(t, "given back four times", func() bool { return proxy.Seen(released) >= 4 })
	}
	return votes
}

// A vote that the network keeps for longer than it is given back refuses itself.
func TestLateVoteRefusesItself(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	name := uniqueName(t)
	votes := stragglers(t, l, name)
	for i, vote := range votes {
		l.arrives(i, vote, lua.Vote.Text())
	}
	require.Zero(t, l.held(name), "taken for nobody")
	require.NoError(t, use(t.Context(), l.party(nil).mutex(name)))

	// The control.
	eventually(t, "released", func() bool { return l.held(name) == 0 })
	for i, vote := range votes {
		l.arrives(i, vote, unlimited(t))
	}
	require.Equal(t, 3, l.held(name))
	require.Greater(t, l.direct[0].PTTL(t.Context(), name).Val(), 59*time.Minute, "the lease, which is an hour")
}

// So does one that asks a master to take a hold back, when that was released since.
func TestLateJoinRefusesItself(t *testing.T) {
	t.Parallel()
	l := newClockLab(t, 3)
	p := l.party(&holdfast.Options{Lease: 6 * time.Second})
	m := p.mutex(uniqueName(t))
	h := l.everywhere(m)
	rule := p.proxies[2].On(isVote, 1, faultproxy.BlackHole)
	require.NoError(t, l.direct[2].Del(t.Context(), m.Name()).Err())
	<-rule.Fired()
	unlock(t, h)
	vote := p.caught(2)
	p.proxies[2].Clear()
	p.close(t)
	l.masters[2].MoveClock(t, time.Minute) // spares the wait
	l.arrives(2, vote, lua.Vote.Text())
	require.Zero(t, l.held(m.Name()), "taken for nobody")

	// The control.
	l.arrives(2, vote, unlimited(t))
	require.Equal(t, 1, l.held(m.Name()))
}

// A vote that was refused because it came late is no word of another holder: where a clock was set
// forward it is sent once more, at once, and the next ones are not.
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
