package rlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestCloseInAChain: the client is closed while its goroutines hand the lock on among each other.
// All are told, the lock is free before its lease ends, and no goroutine stays (which TestMain
// looks at).
func TestCloseInAChain(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	for round := range 20 {
		c := newClient(t, srv.Client(t), nil)
		m := rlock.New(c, "a")
		var group sync.WaitGroup
		running := make(chan struct{}, 1000)
		for range 16 {
			group.Go(func() {
				for {
					h, err := m.Lock(t.Context())
					if err != nil {
						if !isClosed(err) {
							t.Errorf("a waiter was told: %v", err)
						}
						return
					}
					select {
					case running <- struct{}{}:
					default:
					}
					ctx := h.Context()
					err = h.Unlock(t.Context())
					switch cause := context.Cause(ctx); {
					case err == nil && cause == holdfast.ErrReleased: //nolint:errorlint // exactly that one
					case isClosed(err) && isClosed(cause):
					case isClosed(err) && cause == holdfast.ErrReleased: //nolint:errorlint // it was told before it was closed
					default:
						t.Errorf("unlock: %v, and the context ended with %v", err, cause)
					}
				}
			})
		}
		for range 10 * (round + 1) {
			<-running
		}
		require.NoError(t, c.Close(t.Context()))
		group.Wait()
		// What was granted in the moment of the end is given back in the background. Its lease
		// would end later than this waits.
		eventually(t, "it is free", func() bool { return free(t, rdb, "a") })
	}
}

// TestCloseOfAHandedHold: a hold that was handed on is open when the client is closed, and two wait
// behind it.
func TestCloseOfAHandedHold(t *testing.T) {
	p := newProxied(t, nil)
	l := lineUp(t.Context(), t, p.mutex, 3)
	unlock(t, l.holder)
	h := l.next[0].Hold()
	ctx := h.Context()
	require.NoError(t, p.client.Close(t.Context()))
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrClosed)
	require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrClosed)
	for i := 1; i < 3; i++ {
		require.ErrorIs(t, l.next[i].Err(), holdfast.ErrClosed)
	}
	p.nothingLeft(t)
}

// TestOwnSubscriptionIsNoOther: a client that waited once goes on listening for a while. It takes
// itself for another client once, and then it does not any more.
func TestOwnSubscriptionIsNoOther(t *testing.T) {
	keeps := func(t *testing.T) bool { // whether the second pass keeps the lock
		p := newProxied(t, &holdfast.Options{Linger: time.Minute})
		p.warmPass(t)
		other := lock(t, rlock.New(newClient(t, p.srv.Client(t), nil), "a"))
		l := &line{mutex: p.mutex}
		granted := begin(t.Context(), t, p.mutex.Lock)
		awaitSubscriber(t, p.direct, "a")
		unlock(t, other)
		h := granted.Hold()
		asked := func() bool { // whether the next one asks the server
			l.join(t.Context(), t)
			p.stale(t)
			acquired, passed := p.proxy.Seen(script(lua.Acquire)), p.proxy.Seen(script(lua.Pass))
			unlock(t, h)
			h = l.next[len(l.next)-1].Hold()
			require.Equal(t, passed+1, p.proxy.Seen(script(lua.Pass)))
			return p.proxy.Seen(script(lua.Acquire)) > acquired
		}
		require.True(t, asked(), "it listens itself")
		const channel = "redisson_lock__channel:{a}"
		if !defence.Rest.Off() {
			eventually(t, "it stops listening", func() bool {
				return p.direct.PubSubNumSub(t.Context(),
					channel).Val()[channel] == 0
			})
		}
		kept := !asked()
		unlock(t, h)
		return kept
	}
	require.True(t, keeps(t))
	defer defence.Rest.Without(t)()
	require.False(t, keeps(t), "control: it listens on, and gives the lock up for itself")
}

func isClosed(err error) bool { return errors.Is(err, holdfast.ErrClosed) }
