package redlock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/redlock"
)

// forced is a hold that one process has, of a lock that one process frees although nobody waits for
// it. A hook is put before the masters of the one that frees it.
type forced struct {
	*lab
	hold *holdfast.Hold
	name string
	by   *party
}

func newForced(t *testing.T, same bool, hook redis.Hook) forced {
	t.Helper()
	l := newLab(t, 3)
	holder := l.party(nil)
	by := holder
	if !same {
		by = l.party(nil)
	}
	m := holder.mutex(uniqueName(t), redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second))
	f := forced{l, l.everywhere(m, holdfast.Lease(3*time.Second)), m.Name(), by}
	for _, rdb := range by.rdbs {
		if hook != nil {
			rdb.AddHook(hook)
		}
	}
	return f
}

func (f *forced) force() {
	f.Helper()
	there, err := f.by.mutex(f.name, redlock.TrustRestarts(), redlock.MasterTimeout(2*time.Second)).ForceUnlock(f.Context())
	require.NoError(f, err)
	require.True(f, there)
}

// TestForceUnlockIsNoticed: a lock is freed, and nobody takes it. Its holder does not take it back:
// the next renewal says that the lock is lost.
func TestForceUnlockIsNoticed(t *testing.T) {
	for name, same := range map[string]bool{"in the same process": true, "in another process": false} {
		t.Run(name, func(t *testing.T) {
			f := newForced(t, same, nil)
			f.force()
			err := awaitEnd(t, f.hold)
			require.ErrorIs(t, err, holdfast.ErrLost)
			require.ErrorContains(t, err, "not known to have held it without a break", "and not because its lease ended")
			require.ErrorIs(t, f.hold.Unlock(t.Context()), holdfast.ErrLost)
			eventually(t, "nothing is left", func() bool { return f.held(f.name) == 0 })
		})
	}
}

// The control: without a token used up, the holder restores its hold, and nothing says that somebody
// wanted it gone.
func TestForceUnlockIsNoticedControl(t *testing.T) {
	f := newForced(t, true, mutant.Hook(lua.Force, "call('SET', tokens, token,", "call('SET', tokens, last,"))
	f.force()
	eventually(t, "the holder has it again", func() bool { return f.held(f.name) == 3 })
	require.NoError(t, f.hold.Context().Err())
	unlock(t, f.hold)
}

// TestForceUnlockWhereNobodyHolds: a master that does not know the holder is asked by its renewal
// too. It must not take the holder in as if nothing had happened.
func TestForceUnlockWhereNobodyHolds(t *testing.T) {
	f := newForced(t, false, nil)
	require.NoError(t, f.direct[2].Del(t.Context(), f.name).Err())
	f.force()
	require.ErrorIs(t, awaitEnd(t, f.hold), holdfast.ErrLost)
	eventually(t, "nothing is left", func() bool { return f.held(f.name) == 0 })
}
