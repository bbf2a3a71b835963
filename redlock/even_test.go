package redlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// An even number of masters is allowed. Half of them that refuse are enough to know that somebody
// else has the lock, whatever the others would say: it is no outage, and a wait goes on for longer
// than the retry budget.
func TestEvenNumberOfMasters(t *testing.T) {
	for _, n := range []int{2, 4} {
		l := newLab(t, n)
		a, b := l.party(nil), l.party(&holdfast.Options{RetryBudget: 50 * time.Millisecond})
		m := b.mutex(uniqueName(t))
		h := lock(t, a.mutex(m.Name()))
		eventually(t, "everywhere", func() bool { return l.held(m.Name()) == n })
		for range 10 {
			err := refused(t.Context(), t, m.TryLock)
			require.False(t, errors.Is(err, holdfast.ErrUnavailable), err)
		}
		refused(t.Context(), t, m.Lock, holdfast.Wait(300*time.Millisecond))
		unlock(t, h)
		require.NoError(t, lockOnce(t.Context(), m))
	}
}
