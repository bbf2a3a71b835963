package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// never is how long a test watches that something does not happen.
const never = time.Second

// tokens has a holder's token come from a master whose last one is far ahead, and returns it and
// that of the next holder, who does not reach that master.
func tokens(t *testing.T) (first, second uint64) {
	t.Helper()
	l := newLab(t, 3)
	a, b := l.party(nil), l.party(nil)
	name := uniqueName(t)
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	require.NoError(t, l.direct[0].Set(t.Context(), "redisson_lock_token:{"+name+"}", ahead, time.Hour).Err())
	a.proxies[2].Stop()
	b.proxies[0].Stop()
	h := lock(t, a.mutex(name))
	require.Equal(t, ahead+1, h.Token())
	unlock(t, h)
	next := lock(t, b.mutex(name))
	unlock(t, next)
	return h.Token(), next.Token()
}

// A token that only one master knew is told to a majority before the grant counts, so the next one
// is greater.
func TestTokenIsTold(t *testing.T) {
	first, second := tokens(t)
	require.Greater(t, second, first)

	// The control.
	t.Cleanup(defence.Tell.Without(t))
	first, second = tokens(t)
	require.Less(t, second, first)
}

// A majority that grants the lock too late to be trusted is given back, and asked again.
func TestSlowMajority(t *testing.T) {
	l := newLab(t, 3)
	p := l.patient(&holdfast.Options{Lease: 3 * time.Second}, patience)
	require.NoError(t, lockOnce(t.Context(), p.mutex("warm")))
	for i, rdb := range l.direct { // three tokens, so that there are two rounds
		ahead := time.Now().Add(time.Duration(i+1) * time.Hour).UnixMicro()
		require.NoError(t, rdb.Set(t.Context(), "redisson_lock_token:{slow}", ahead, time.Hour).Err())
	}
	var rules []*faultproxy.Rule
	for i, proxy := range p.proxies {
		for nth := 1; nth <= 2; nth++ {
			rules = append(rules, proxy.DelayReply(faultproxy.Script(lua.Vote.Hash()), nth,
				time.Duration(1500+i)*time.Millisecond))
		}
	}
	before := p.votes()
	h := lock(t, p.mutex("slow", redlock.MasterTimeout(2500*time.Millisecond)))
	for _, r := range rules {
		require.Equal(t, 1, r.Count())
	}
	require.GreaterOrEqual(t, p.votes()-before, 9, "a third round, which is another election's")
	require.True(t, time.Now().Before(h.Deadline()))
	unlock(t, h)
}

// wait has a waiter that hears some of the masters, and looks for the lock by itself never. It is
// told of the grant.
func wait(t *testing.T, deaf ...int) (granted chan error, unlock func()) {
	t.Helper()
	t.Cleanup(defence.LeaseEnd.Without(t))
	l := newLab(t, 5)
	holder, waiter := l.party(nil), l.party(nil)
	name := uniqueName(t)
	h := lock(t, holder.mutex(name))
	for _, i := range deaf {
		waiter.proxies[i].On(faultproxy.Command("SUBSCRIBE"), 0, faultproxy.BlackHole) // also when it connects anew
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	granted = make(chan error, 1)
	go func() { granted <- lockOnce(ctx, waiter.mutex(name)) }()
	channel := "redisson_lock__channel:{" + name + "}"
	eventually(t, "it listens", func() bool {
		n := 0
		for _, rdb := range l.direct {
			n += int(rdb.PubSubNumSub(t.Context(), channel).Val()[channel])
		}
		return n >= 5-len(deaf)
	})
	for _, i := range deaf { // it has been refused the lock
		eventually(t, "it wants to listen", func() bool { return waiter.proxies[i].Seen(faultproxy.Command("SUBSCRIBE")) > 0 })
	}
	return granted, func() { require.NoError(t, h.Unlock(t.Context())) }
}

// A waiter is woken by the release, whichever masters it can hear.
func TestWaiterIsWoken(t *testing.T) {
	for _, deaf := range [][]int{nil, {0, 1, 2, 3}, {1, 2, 3, 4}} {
		granted, unlock := wait(t, deaf...)
		unlock()
		select {
		case err := <-granted:
			require.NoError(t, err)
		case <-time.After(patience):
			t.Fatalf("deaf to %v, it sleeps on", deaf)
		}
	}
}

// The control: one that hears none of them sleeps on.
func TestWaiterIsWokenControl(t *testing.T) {
	granted, unlock := wait(t, 0, 1, 2, 3, 4)
	unlock()
	select {
	case err := <-granted:
		t.Fatal("woken all the same", err)
	case <-time.After(never):
	}
}
