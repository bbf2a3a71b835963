package holdfast_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// slept returns a hold of a lock on a machine that has slept since for as long as its lease.
func slept(t *testing.T, kind string) (holdfast.Locker, *holdfast.Hold) {
	l := everyKind[kind](t, redistest.Shared(t).Client(t))(t.Name())
	h := kindtest.Lock(t, l)
	require.NoError(t, h.Context().Err())
	suspend.Pretend(30 * time.Second)
	return l, h
}

// TestMachineSlept: by the monotonic clock the lease has only begun. The hold is lost to the first look, and later ones are not.
func TestMachineSlept(t *testing.T) {
	for kind := range everyKind {
		for what, ask := range map[string]func(h *holdfast.Hold){
			"Err":      func(h *holdfast.Hold) { require.ErrorIs(t, h.Context().Err(), context.Canceled) },
			"Deadline": func(h *holdfast.Hold) { require.False(t, h.Deadline().After(time.Now())) },
			"Unlock":   func(h *holdfast.Hold) { require.ErrorIs(t, h.Unlock(t.Context()), holdfast.ErrLost) },
			"Extend": func(h *holdfast.Hold) {
				require.ErrorIs(t, h.Extend(t.Context(), time.Hour), holdfast.ErrLost)
			},
			"Done": func(h *holdfast.Hold) { <-h.Context().Done() },
		} {
			t.Run(kind+" "+what, func(t *testing.T) {
				l, h := slept(t, kind)
				ask(h)
				<-h.Context().Done()
				require.Error(t, h.Unlock(t.Context()))
				again := kindtest.Lock(t, l)
				require.NoError(t, again.Context().Err())
				require.Greater(t, again.Token(), h.Token())
				require.NoError(t, again.Unlock(t.Context()))
			})
		}
	}
}

// TestMachineSleptBeforeTheAnswer: a grant whose lease ended before anybody heard of it is none. Who waits asks again.
func TestMachineSleptBeforeTheAnswer(t *testing.T) {
	for kind := range everyKind {
		t.Run(kind, func(t *testing.T) {
			rdb := redistest.Shared(t).Client(t)
			l := everyKind[kind](t, rdb)(t.Name())
			require.NoError(t, once(t, l)) // from now on the scripts are known
			var slept atomic.Bool
			rdb.AddHook(redistest.Around(func(send func() error, cmds ...redis.Cmder) error {
				err := send()
				if cmds[0].Name() == "evalsha" && slept.CompareAndSwap(false, true) {
					suspend.Pretend(30 * time.Second) // the first script has been run, and its answer not heard yet
				}
				return err
			}))
			require.ErrorIs(t, kindtest.Err(l.TryLock(t.Context())), holdfast.ErrUnavailable)
			slept.Store(false)
			h := kindtest.Lock(t, l)
			require.True(t, slept.Load())
			require.True(t, h.Deadline().After(time.Now()))
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// TestMachineSleptControl: by the monotonic clock alone the hold is trusted.
func TestMachineSleptControl(t *testing.T) {
	defer defence.Asleep.Without(t)()
	for kind := range everyKind {
		t.Run(kind, func(t *testing.T) {
			_, h := slept(t, kind)
			require.NoError(t, h.Context().Err())
			require.True(t, h.Deadline().After(time.Now()))
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}
