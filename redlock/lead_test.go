package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// Whoever waits asks one master first, which one depends on the name. So each fault is at each of
// the masters in turn: with one name, one of them is it.

// channelOf is where releases of a name are announced.
func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

// listeners is how many connections listen for a release at a master.
func (l *lab) listeners(name string, at int) int {
	return int(l.direct[at].PubSubNumSub(context.Background(), channelOf(name)).Val()[channelOf(name)])
}

// versed is a party that has had a lock of all masters, so it knows them.
func (l *lab) versed(opts *holdfast.Options) *party {
	l.Helper()
	p := l.party(opts)
	require.NoError(l, lockOnce(l.Context(), p.mutex("warm:"+p.clients[0].ID())))
	return p
}

// awaits has a waiter that was refused and listens everywhere, as one who waits already when things
// happen. It is told of its grant; the waiter releases the lock at once.
func (l *lab) awaits(p *party, name string) (granted <-chan error) {
	l.Helper()
	before := make([]int, len(l.masters))
	for i := range before {
		before[i] = l.listeners(name, i)
	}
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	l.Cleanup(cancel)
	go func() { result <- lockOnce(ctx, p.mutex(name)) }()
	eventually(l.T, "it waits", func() bool {
		for i := range before {
			if l.listeners(name, i) == before[i] {
				return false
			}
		}
		return true
	})
	return result
}

// taken has somebody else's hash at one master when the lock is released, as a dead contender
// leaves it, or another program. It reports whether one who waits gets the lock.
func (l *lab) taken(name string, at int) bool {
	l.Helper()
	a, b := l.party(nil), l.versed(nil)
	h, err := a.mutex(name).Lock(l.Context())
	require.NoError(l, err)
	granted := l.awaits(b, name)
	rdb := l.direct[at]
	rdb.Del(l.Context(), name)
	rdb.HSet(l.Context(), name, "somebody:1", 1)
	rdb.PExpire(l.Context(), name, time.Hour)
	require.NoError(l, h.Unlock(l.Context()))
	defer func() {
		rdb.Del(l.Context(), name)
		eventually(l.T, "released", func() bool { return l.held(name) == 0 })
	}()
	return l.gets(granted)
}

// gets reports whether a waiter is granted the lock, however slow the machine is; with a defence
// switched off it has less time.
func (l *lab) gets(granted <-chan error) bool {
	l.Helper()
	limit := patience
	if defence.LastWord.Off() {
		limit = 2 * never
	}
	select {
	case err := <-granted:
		require.NoError(l, err)
		return true
	case <-time.After(limit):
		return false
	}
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

// A holder that cannot release the lock at one master keeps nobody from it.
func TestHolderIsCutOff(t *testing.T) {
	l := newLab(t, 5)
	name := uniqueName(t)
	for i := range l.masters {
		a, b := l.party(&holdfast.Options{Lease: time.Hour}), l.versed(nil)
		h := lock(t, a.mutex(name))
		eventually(t, "held everywhere", func() bool { return l.held(name) == 5 })
		granted := l.awaits(b, name)
		a.proxies[i].Stop()
		unlock(t, h)
		require.True(t, l.gets(granted), "not released at master %d", i)
		l.direct[i].Del(t.Context(), name)
		a.proxies[i].Start()
		eventually(t, "released", func() bool { return l.held(name) == 0 })
	}
}

// beside has one process hand the lock on within itself without end, and another one, which cannot
// reach one master, wait for it.
func beside(t *testing.T, at int, limit time.Duration) error {
	t.Helper()
	l := newLab(t, 3)
	a, b := l.versed(nil), l.versed(nil)
	name := uniqueName(t)
	b.proxies[at].Stop()
	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	for range 16 {
		m := a.mutex(name)
		g.Go(func() {
			for ctx.Err() == nil {
				_ = lockOnce(ctx, m)
			}
		})
	}
	defer func() { cancel(); g.Wait() }()
	eventually(t, "in use", func() bool { return l.held(name) > 0 })
	for range 5 {
		h, err := b.mutex(name).Lock(t.Context(), holdfast.Wait(limit))
		if err != nil {
			return err
		}
		unlock(t, h)
	}
	return nil
}

// Who cannot reach one of the masters is seen by a process that hands the lock on, and gets its
// turns.
func TestWhoIsCutOffHasTurns(t *testing.T) {
	for i := range 3 {
		require.NoError(t, beside(t, i, patience), "cut off from master %d", i)
	}

	// The control: a process that asks one master who waits does not see who cannot reach that one.
	t.Cleanup(defence.Listeners.Without(t))
	for range 10 { // by chance nobody may be waiting in the process, and then it releases the lock
		if errors.Is(beside(t, 0, never), holdfast.ErrNotAcquired) {
			return
		}
	}
	t.Fatal("it does")
}

// narrow has a lock held at all masters but one, and a waiter that finds that one free.
func (l *lab) narrow(name string, at int) (waiter *party, sent func() int, end func()) {
	l.Helper()
	a, b := l.party(nil), l.versed(nil)
	a.proxies[at].Stop()
	h, err := a.mutex(name).Lock(l.Context())
	require.NoError(l, err)
	eventually(l.T, "at all others", func() bool { return l.held(name) == len(l.masters)-1 })
	granted := l.awaits(b, name)
	before := b.votes()
	return b, func() int { return b.votes() - before }, func() {
		require.NoError(l, h.Unlock(l.Context()))
		require.True(l, l.gets(granted))
	}
}

// wakesItself reports whether a waiter that one master grants the lock asks more often than it looks
// again by itself: at most two times a second, all masters.
func (l *lab) wakesItself(name string, at, most int) (wakes bool) {
	_, sent, end := l.narrow(name, at)
	for begin := time.Now(); !wakes && time.Since(begin) < never/2; {
		<-time.After(never / 10)
		wakes = sent() > most*len(l.masters)*(4+int(time.Since(begin)/(500*time.Millisecond)))
	}
	end()
	eventually(l.T, "released", func() bool { return l.held(name) == 0 })
	return wakes
}

// A waiter that one master grants the lock gives it back, and does not wake itself by that.
func TestWaiterDoesNotWakeItself(t *testing.T) {
	l, name := newLab(t, 5), uniqueName(t)
	for i := range l.masters { // the one that is asked first is among them
		require.False(t, l.wakesItself(name, i, 1))
	}
	t.Cleanup(defence.Quiet.Without(t)) // the control
	for i := range l.masters {
		if l.wakesItself(name, i, 3) {
			return
		}
	}
	t.Fatal("it does not")
}
