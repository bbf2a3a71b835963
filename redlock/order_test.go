package redlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlock"
)

// The set of clients makes the lock, in whatever order they are: who holds it re-enters, others of
// the process queue behind, and the first client of the first list is whose Close ends the holds.
func TestOrderOfClients(t *testing.T) {
	l := newLab(t, 3)
	p := l.party(nil)
	name, c := uniqueName(t), p.clients
	h := lock(t, redlock.New(c, name))
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		m := redlock.New([]*holdfast.Client{c[order[0]], c[order[1]], c[order[2]]}, name)
		inner, err := m.Lock(h.Context(), holdfast.Wait(patience))
		require.NoError(t, err, "%v", order)
		require.Equal(t, 2, inner.Count())
		require.Equal(t, h.Owner(), inner.Owner())
		unlock(t, inner)
		refused(t.Context(), t, m.TryLock)
	}
	unlock(t, h)
	other := redlock.New([]*holdfast.Client{c[2], c[1], c[0]}, name)
	h = lock(t, other)
	require.Regexp(t, "^"+c[0].ID()+":", h.Owner())
	require.NoError(t, c[0].Close(t.Context()))
	require.ErrorIs(t, context.Cause(h.Context()), holdfast.ErrClosed)
	h, err := redlock.New([]*holdfast.Client{c[2], c[1], c[0]}, name).Lock(t.Context())
	require.NoError(t, err, "another home, and a majority")
	unlock(t, h)
}
