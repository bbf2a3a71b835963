package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// Whoever waits asks one master first, which one depends on the name. So each fault is at each of
// the masters in turn: with one name, one of them is it.

// channelOf is where releases of a name are announced.
func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

// listeners is how many connections listen for a release at a master.
func (l *lab) listeners(name string, at int) int {
	return int(l.direct[at].PubSubNumSub(context.Background(), channelOf(name)).Val()[channelOf(name)])
}

// versed is a process that has had a lock of all masters, so it knows them.
func (l *lab) versed(opts *holdfast.Options) *process {
	p := l.process(opts)
	require.NoError(l, lockOnce(l.Context(), p.mutex("warm:"+p.clients[0].ID())))
	return p
}

// awaits has a waiter that was refused and listens everywhere. It releases the lock at once when it has it.
func (l *lab) awaits(p *process, name string) *kindtest.Pending {
	before := make([]int, len(l.masters))
	for i := range before {
		before[i] = l.listeners(name, i)
	}
	waiter := begin(l.Context(), l, once(p.mutex(name)))
	eventually(l.T, "it waits", func() bool {
		return !slices.ContainsFunc(l.all(), func(i int) bool { return l.listeners(name, i) == before[i] })
	})
	return waiter
}

// all are the places of the masters.
func (l *lab) all() (places []int) {
	for i := range l.masters {
		places = append(places, i)
	}
	return places
}

// taken has somebody else's hash at one master when the lock is released, as a dead contender
// leaves it, or another program. It reports whether one who waits gets the lock.
func (l *lab) taken(name string, at int) bool {
	a, b := l.process(nil), l.versed(nil)
	h := lock(l, a.mutex(name))
	granted := l.awaits(b, name)
	l.give(at, name, "somebody:1", time.Hour)
	unlock(l, h)
	defer func() {
		l.direct[at].Del(l.Context(), name)
		eventually(l.T, "released", func() bool { return l.held(name) == 0 })
	}()
	return l.gets(granted)
}

// gets reports whether a waiter is granted the lock, however slow the machine is; with a defence switched off it has less time.
func (l *lab) gets(waiter *kindtest.Pending) bool {
	if begun := time.Now(); defence.LastWord.Off() {
		eventually(l.T, "granted, or its time is over", func() bool { return waiter.Over() || time.Since(begun) > 2*never })
		if !waiter.Over() {
			return false
		}
	}
	waiter.Hold()
	return true
}

// One master that somebody else has keeps nobody from the lock.
func TestTakenAtOneMaster(t *testing.T) {
	l := newLab(t, 5)
	name := uniqueName(t)
	for i := range l.masters {
		require.True(t, l.taken(name, i), "taken at master %d", i)
	}

	// The control: if the refusal by the one that is asked first is the last word, it does.
	t.Cleanup(defence.LastWord.Without(t))
	l = newLab(t, 5)
	name = uniqueName(t)
	for range 20 { // a master that is slow for a moment is not the first to be asked
		for i := range l.masters {
			if !l.taken(name, i) {
				return
			}
		}
	}
	t.Fatal("no master kept the waiter out")
}

// TestOnceDoesNotDisturb: a caller who asks once, for a lock that others want too, takes no votes of the other masters if
// the lead refuses and somebody has a majority. If nobody has, it takes the lock.
func TestOnceDoesNotDisturb(t *testing.T) {
	l := newLab(t, 3)
	p, name := l.process(nil), uniqueName(t)
	m := p.mutex(name, redlock.TrustRestarts())
	asked := func() (votes int, err error) {
		before := p.votes()
		h, err := m.TryLock(t.Context())
		if err == nil {
			unlock(t, h)
		}
		unlock(t, l.everywhere(p.mutex("behind:"+name))) // behind all that was asked
		return p.votes() - before - len(l.masters), err
	}
	contested := func(owner string, at ...int) {
		for _, i := range l.all() {
			l.direct[i].Del(t.Context(), name)
		}
		for _, i := range at {
			l.give(i, name, owner, time.Hour)
		}
	}
	contested("somebody:2", l.all()...)
	eventually(t, "the lead is asked alone", func() bool {
		votes, err := asked()
		tells(t, err, holdfast.ErrNotAcquired, "somebody:2")
		return votes == 1
	})
	for _, i := range l.all() {
		contested("somebody:3", i)
		require.NoError(t, kindtest.Err(asked()), "a minority keeps nobody out")
	}
	contested("somebody:4", l.all()...)
	defer defence.Undisturbed.Without(t)()
	eventually(t, "control: all are asked, unless two have answered before the third is", func() bool {
		votes, _ := asked()
		return votes == len(l.masters)
	})
}

// handedOn has a process whose turn is over unlock while another goroutine of it waits, and returns how
// that one gets the lock. Another process waits too, which cannot reach the first master.
func handedOn(t *testing.T) event.How {
	l := newLab(t, 3)
	hows := make(chan event.How, 10)
	a := l.process(&holdfast.Options{Observer: &event.Observer{
		Granted: func(_ context.Context, e event.Grant) { hows <- e.How },
	}})
	b, name := l.versed(nil), uniqueName(t)
	b.proxies[0].Stop()
	h := lock(t, a.mutex(name))
	require.Equal(t, event.Asked, <-hows)
	second := begin(t.Context(), t, a.mutex(name).Lock)
	eventually(t, "it waits in the process", func() bool { return kindtest.Goroutines("queue.(*Ticket).Wait(") > 0 })
	third := begin(t.Context(), t, b.mutex(name).Lock)
	eventually(t, "the other one listens at the others", func() bool {
		return l.listeners(name, 1) > 0 && l.listeners(name, 2) > 0
	})
	begun := time.Now()
	eventually(t, "the turn is over", func() bool { return time.Since(begun) > 20*time.Millisecond })
	unlock(t, h)
	kindtest.InTurn(t, func(*holdfast.Hold) {}, second, third)
	return <-hows
}

// TestWhoIsCutOffIsSeen: a process that cannot reach one of the masters is seen at the others, and has its turn.
func TestWhoIsCutOffIsSeen(t *testing.T) { require.Equal(t, event.Asked, handedOn(t)) }

// The control: one master is asked who waits, and the lock is handed off past that process.
func TestWhoIsCutOffIsSeenControl(t *testing.T) {
	defer defence.Listeners.Without(t)()
	require.Equal(t, event.HandedOn, handedOn(t))
}

// wakesItself has a waiter give back the grant of one free master, and reports whether a message tells the waiter of that.
func wakesItself(t *testing.T) (told bool) {
	l, name := newLab(t, 5), uniqueName(t)
	for i := 0; ; i++ { // one of the masters is asked first, and only if that one is free it is asked to grant
		asked, told := l.narrow(name, i%len(l.masters))
		if asked {
			return told
		}
	}
}

// narrow has a lock held at all masters but one until a waiter has looked twice. It reports whether the one
// was asked, and whether what it granted was announced there when it was given back.
func (l *lab) narrow(name string, at int) (asked, told bool) {
	const last = "the last message"
	a, b := l.process(nil), l.versed(nil)
	a.proxies[at].Stop()
	h := lock(l, a.mutex(name))
	eventually(l.T, "at all others", func() bool { return l.held(name) == len(l.masters)-1 })
	ear := redistest.Subscribed(l, l.direct[at], channelOf(name))
	granted := l.awaits(b, name)
	var votes []int
	for _, proxy := range b.proxies {
		votes = append(votes, proxy.Seen(isVote))
	}
	releases := b.proxies[at].Seen(isRelease)
	eventually(l.T, "it has looked twice", func() bool {
		// Each look asks a master once. The second release is sent when the first has its answer.
		asked = b.proxies[at].Seen(isRelease) >= releases+2
		return asked || b.proxies[at].Seen(isRelease) == releases && slices.ContainsFunc(l.all(),
			func(i int) bool { return i != at && b.proxies[i].Seen(isVote) >= votes[i]+2 })
	})
	require.NoError(l, l.direct[at].Publish(l.Context(), channelOf(name), last).Err())
	for text := ""; text != last; {
		message, err := ear.ReceiveMessage(l.Context())
		require.NoError(l, err)
		text = message.Payload
		told = told || text != last
	}
	unlock(l, h)
	require.True(l, l.gets(granted))
	eventually(l.T, "released", func() bool { return l.held(name) == 0 })
	return asked, told
}

// A waiter that one master grants the lock gives it back, and does not wake itself by that.
func TestWaiterDoesNotWakeItself(t *testing.T) {
	t.Parallel()
	require.False(t, wakesItself(t))
}

// The control: it is told of its own release.
func TestWaiterDoesNotWakeItselfControl(t *testing.T) {
	defer defence.Quiet.Without(t)()
	require.True(t, wakesItself(t))
}

// questions has processes that were refused a lock ask for it again, each in another call, and returns how many votes that
// sends before there is an answer. When there are as many as are awaited the caller leaves, and there is no second look.
func questions(t *testing.T, awaited int) (perCall int) {
	const processes, masters = 5, 5
	l := newLab(t, masters)
	l.load(lua.Vote)
	name := uniqueName(t)
	h := lock(t, l.process(nil).mutex(name))
	votes := 0
	for counted := 0; counted < processes; {
		p := l.process(nil)
		unlock(t, l.everywhere(p.mutex("warm:"+p.clients[0].ID()))) // it knows all masters
		m, begun := p.mutex(name, redlock.MasterTimeout(patience)), time.Now()
		refused(t.Context(), t, m.TryLock)
		unlock(t, l.everywhere(p.mutex("next:"+p.clients[0].ID()))) // behind all that was asked
		before := p.votes()
		for _, proxy := range p.proxies {
			proxy.On(isVote, 1, faultproxy.HoldReply)
		}
		ctx, cancel := context.WithCancel(t.Context())
		again := begin(ctx, t, m.Lock)
		eventually(t, "it asks", func() bool { return p.votes() >= before+awaited })
		remembered := time.Since(begun) < time.Second // for that long it is
		cancel()
		require.ErrorIs(t, again.Err(), context.Canceled)
		for _, proxy := range p.proxies {
			proxy.Clear()
		}
		p.close(t)
		if remembered {
			votes += p.votes() - before
			counted++
		}
	}
	unlock(t, h)
	return votes / processes
}

// A lock that was refused a moment ago is asked for at one master, by the next call too.
func TestRefusedIsRemembered(t *testing.T) {
	require.Less(t, questions(t, 1), 3)
	// The control: each call asks all masters at once.
	t.Cleanup(defence.Remember.Without(t))
	require.GreaterOrEqual(t, questions(t, 4), 4)
}
