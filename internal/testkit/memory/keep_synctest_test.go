package memory_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/memory"
	"github.com/holdfast-go/holdfast/rlock"
)

// keeper is a client that keeps a lock, and one that wants it too, in a test in virtual time.
type keeper struct {
	*testing.T
	server *memory.Server
	client *holdfast.Client
	mine   *memory.Mutex
	other  *memory.Mutex
}

// keptFor is the time for which the lock may be idle: no multiple of what else there is.
const keptFor = 1234 * time.Millisecond

func newKeeper(t *testing.T) *keeper {
	k := &keeper{T: t, server: &memory.Server{}, client: client(t, nil)}
	k.mine = memory.New(k.client, k.server, "a", rlock.Keep(keptFor))
	k.other = memory.New(client(t, nil), k.server, "a")
	return k
}

// pair locks and unlocks once, and returns the token.
func (k *keeper) pair(m *memory.Mutex, opts ...holdfast.Option) uint64 {
	h := k.lock(m, opts...)
	k.unlock(h)
	return h.Token()
}

func (k *keeper) lock(m *memory.Mutex, opts ...holdfast.Option) *holdfast.Hold {
	h, err := m.Lock(k.Context(), opts...)
	require.NoError(k, err)
	return h
}

func (k *keeper) unlock(h *holdfast.Hold) {
	require.NoError(k, h.Unlock(k.Context()))
	synctest.Wait()
}

// refused demands that somebody else's lock is in the way.
func (k *keeper) refused(m *memory.Mutex) {
	require.ErrorIs(k, kindtest.Err(m.TryLock(k.Context())), holdfast.ErrNotAcquired)
	synctest.Wait()
}

// inBackground has somebody wait.
func (k *keeper) inBackground(m *memory.Mutex) *kindtest.Pending {
	p := kindtest.Begin(k.Context(), k, m.Lock)
	synctest.Wait()
	return p
}

func (k *keeper) kept() bool { return k.server.Owner("a") != "" }

// forFree demands that a pair asks the server for nothing.
func (k *keeper) forFree(opts ...holdfast.Option) uint64 {
	before := k.server.Asked()
	token := k.pair(k.mine, opts...)
	require.Equal(k, before, k.server.Asked())
	return token
}

// TestKeep: when a kept lock is given back, and to whom it is given.
func TestKeep(t *testing.T) {
	if without, ok := keepControls[os.Getenv(flawEnv)]; ok {
		without.Drop()
	}
	for name, test := range map[string]func(*keeper){
		"it is given back when it was idle for as long as that, and no sooner": func(k *keeper) {
			k.pair(k.mine)
			<-time.After(keptFor / 2)
			k.forFree() // its time begins anew
			<-time.After(keptFor - 1)
			require.True(k, k.kept())
			<-time.After(1)
			synctest.Wait()
			require.False(k, k.kept())
			require.Zero(k, k.server.Called("a"), "nor are calls heard any more")
		},
		"the last holder says for how long": func(k *keeper) {
			k.pair(k.mine, rlock.Keep(time.Hour))
			k.forFree(rlock.Keep(time.Second))
			<-time.After(time.Second)
			synctest.Wait()
			require.False(k, k.kept())
			k.pair(k.mine, rlock.Keep(time.Minute))
			k.forFree(rlock.Keep(time.Hour)) // also if that is longer
			<-time.After(time.Hour - 1)
			require.True(k, k.kept())
			<-time.After(1)
			synctest.Wait()
			require.False(k, k.kept())
		},
		"a holder is not idle": func(k *keeper) {
			k.pair(k.mine)
			h := k.lock(k.mine)
			<-time.After(3 * keptFor)
			require.NoError(k, h.Context().Err())
			require.True(k, k.kept())
			k.unlock(h) // the server was asked too long ago, and is asked again
			require.True(k, k.kept())
			k.forFree()
		},
		"who calls while it is idle gets it": func(k *keeper) {
			token := k.pair(k.mine)
			start := time.Now()
			h := k.lock(k.other)
			require.Zero(k, time.Since(start))
			require.Greater(k, h.Token(), token)
			k.refused(k.mine)
			k.unlock(h)
		},
		"who asks once while it is held finds it free then": func(k *keeper) {
			k.pair(k.mine)
			h := k.lock(k.mine)
			k.refused(k.other)
			<-h.Wanted()
			k.unlock(h)
			require.False(k, k.kept())
		},
		"two who call each get it": func(k *keeper) {
			k.pair(k.mine)
			third := memory.New(client(k.T, nil), k.server, "a")
			h := k.lock(k.mine)
			one, two := k.inBackground(k.other), k.inBackground(third)
			k.unlock(h)
			kindtest.InTurn(k, func(*holdfast.Hold) {}, one, two)
			require.Greater(k, k.pair(k.mine), h.Token())
		},
		"two calls at once are one release": func(k *keeper) {
			k.server.ReleaseTakes = time.Second
			k.pair(k.mine)
			k.refused(k.other)
			k.refused(k.other)
			before := k.server.Asked()
			<-time.After(2 * time.Second)
			require.False(k, k.kept())
			require.Equal(k, before+1, k.server.Asked())
		},
		"a call in the moment in which its time is over": func(k *keeper) {
			for range 20 { // who is first is by chance
				k.pair(k.mine, rlock.Keep(time.Second))
				if !k.kept() { // kept in vain too often
					continue
				}
				<-time.After(time.Second)
				h := k.lock(k.other)
				synctest.Wait()
				require.Equal(k, h.Owner(), k.server.Owner("a"))
				k.unlock(h)
			}
		},
		"its own client in the moment in which its time is over": func(k *keeper) {
			var last uint64
			for range 20 {
				k.pair(k.mine, rlock.Keep(time.Second))
				<-time.After(time.Second)
				h, err := k.mine.TryLock(k.Context())
				require.NoError(k, err, "nobody else has it")
				synctest.Wait()
				require.Equal(k, h.Owner(), k.server.Owner("a"))
				require.NoError(k, h.Context().Err())
				require.Greater(k, h.Token(), last)
				last = h.Token()
				k.unlock(h)
			}
		},
		"its own client while it is being given back": func(k *keeper) {
			k.server.ReleaseTakes = time.Second
			token := k.pair(k.mine)
			k.refused(k.other) // which calls
			start := time.Now()
			h, err := k.mine.TryLock(k.Context())
			require.NoError(k, err, "it waits for that")
			require.Equal(k, time.Second, time.Since(start))
			require.Greater(k, h.Token(), token)
			require.Equal(k, h.Owner(), k.server.Owner("a"))
			k.unlock(h)
		},
		"who waits for that gives up at its time": func(k *keeper) {
			k.server.ReleaseTakes = 10 * time.Second
			k.pair(k.mine)
			k.refused(k.other)
			start := time.Now()
			_, err := k.mine.Lock(k.Context(), holdfast.Wait(time.Second))
			require.ErrorIs(k, err, holdfast.ErrNotAcquired, "its client has the lock still")
			require.Equal(k, time.Second, time.Since(start))
			h := k.lock(k.mine)
			require.Equal(k, 10*time.Second, time.Since(start))
			k.unlock(h)
		},
		"a lock that is lost while it is kept is asked for": func(k *keeper) {
			token := k.pair(k.mine, rlock.Keep(time.Hour))
			k.server.Take("a")
			<-time.After(time.Minute) // a renewal has seen it
			require.Zero(k, k.server.Called("a"))
			before := k.server.Asked()
			h := k.lock(k.mine)
			require.Greater(k, k.server.Asked(), before)
			require.Greater(k, h.Token(), token)
			k.unlock(h)
		},
		"a lock that is another's meanwhile is not taken": func(k *keeper) {
			k.pair(k.mine, rlock.Keep(time.Hour))
			k.server.Give("a", "somebody", time.Hour)
			<-time.After(time.Minute)
			k.refused(k.mine)
			require.Equal(k, "somebody", k.server.Owner("a"))
		},
		"a lock that is lost unseen is lost by the next holder": func(k *keeper) {
			k.pair(k.mine, rlock.Keep(time.Hour))
			k.server.Give("a", "somebody", time.Hour)
			h := k.lock(k.mine)
			<-h.Context().Done()
			require.ErrorIs(k, context.Cause(h.Context()), holdfast.ErrLost)
			require.ErrorIs(k, h.Unlock(k.Context()), holdfast.ErrLost)
			require.Equal(k, "somebody", k.server.Owner("a"))
		},
		"Close gives it back": func(k *keeper) {
			k.pair(k.mine)
			require.NoError(k, k.client.Close(k.Context()))
			require.False(k, k.kept())
			require.Zero(k, k.server.Called("a"))
			require.ErrorIs(k, kindtest.Err(k.mine.Lock(k.Context())), holdfast.ErrClosed)
		},
		"Close waits for a give-back that is under way": func(k *keeper) {
			k.server.ReleaseTakes = time.Second
			k.pair(k.mine)
			k.refused(k.other)
			require.NoError(k, k.client.Close(k.Context()))
			require.False(k, k.kept())
		},
		"it is given back when calls may have been missed": func(k *keeper) {
			k.pair(k.mine)
			k.server.Interrupt("a", true)
			synctest.Wait()
			require.False(k, k.kept())
		},
		"it is not kept while none are heard": func(k *keeper) {
			k.pair(k.mine)
			h := k.lock(k.mine)
			k.server.Interrupt("a", true)
			k.unlock(h)
			require.False(k, k.kept())
		},
		"where some were not it is kept only after the server was asked": func(k *keeper) {
			k.pair(k.mine)
			h := k.lock(k.mine)
			k.server.Interrupt("a", true)
			k.server.Interrupt("a", false)
			before := k.server.Asked()
			k.unlock(h)
			require.True(k, k.kept())
			require.Greater(k, k.server.Asked(), before)
			k.forFree()
		},
		"kept in vain it is released at once, for twice as many unlocks each time": func(k *keeper) {
			for _, released := range []int{2, 4, 8, 16, 32, 64, 128, 256, 256} {
				k.pair(k.mine)
				require.True(k, k.kept())
				k.refused(k.other)
				for range released {
					k.pair(k.mine)
					require.False(k, k.kept())
				}
			}
			k.pair(k.mine)
			k.forFree()        // it was wanted again
			k.refused(k.other) // which is forgotten now
			require.False(k, k.kept())
			k.pair(k.mine)
			require.True(k, k.kept())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newKeeper(t)) })
		})
	}
}

// keepControls are the promises that are not kept without a defence.
var keepControls = map[string]*defence.Switch{
	"who calls while it is idle gets it":                                   &defence.KeptCalled,
	"it is given back when it was idle for as long as that, and no sooner": &defence.KeptIdle,
	"its own client while it is being given back":                          &defence.KeptLeaves,
	"it is given back when calls may have been missed":                     &defence.KeptMissed,
	"where some were not it is kept only after the server was asked":       &defence.KeptGap,
}

// TestKeepControls: each fails without it, in a process of its own.
func TestKeepControls(t *testing.T) {
	defence.Need(t)
	for promise := range keepControls {
		t.Run(promise, func(t *testing.T) { requireBroken(t, "TestKeep", promise, promise) })
	}
}
