package fairlock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// lateWord has the word of a grant come to a waiter when the claim has ended with which that was made, and another
// client has the lock. say sends it.
func lateWord(t *testing.T) (w *kindtest.Pending, other *holdfast.Hold, token uint64, say func()) {
	t.Helper()
	const claim = 100 * time.Millisecond
	rdb := redistest.Shared(t).Client(t)
	name, c := uniqueName(t), newClient(t, rdb, nil)
	other, err := fairlock.New(newClient(t, rdb, nil), name).Lock(t.Context())
	require.NoError(t, err)
	w = wait(t.Context(), t, rdb, fairlock.New(c, name))
	granted, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	eventually(t, "a claim from then has ended", func() bool {
		now, err := rdb.Time(t.Context()).Result()
		return err == nil && now.After(granted.Add(2*claim))
	})
	number, token := strings.TrimPrefix(queued(t, rdb, name)[0], c.ID()+":"), other.Token()+1
	word := fmt.Sprintf("%s %d %d %d", number, token, granted.UnixMicro(), claim.Milliseconds())
	return w, other, token, func() {
		require.EqualValues(t, 1, rdb.Publish(t.Context(), "redisson_lock__channel:{"+name+"}:"+c.ID(), word).Val())
	}
}

// TestLateWord: such a word is not trusted. The waiter asks, and is granted the lock after the other one.
func TestLateWord(t *testing.T) {
	w, other, token, say := lateWord(t)
	say()
	require.NoError(t, other.Unlock(t.Context()))
	h := w.Hold()
	require.Greater(t, h.Token(), token)
	require.NoError(t, h.Unlock(t.Context()))
}

// TestLateWordControl: where a grant counts from when it was heard of, two are inside.
func TestLateWordControl(t *testing.T) {
	defer defence.GrantTime.Without(t)()
	w, other, token, say := lateWord(t)
	eventually(t, "it is trusted", func() bool { say(); return w.Over() })
	require.NoError(t, other.Context().Err(), "the other one has the lock")
	h := w.Hold()
	require.Equal(t, token, h.Token())
	_ = h.Unlock(t.Context())
	require.NoError(t, other.Unlock(t.Context()))
}
