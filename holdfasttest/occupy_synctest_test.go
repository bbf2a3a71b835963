package holdfasttest_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// TestOccupy: whoever waits for an occupied name, for any kind, has it at the moment of the release, and
// otherwise at that of the end of the lease: not before, and not a poll later. Who waits for a quorum looks again by
// chance within half a second, so that not all ask at once.
func TestOccupy(t *testing.T) {
	occupied := maps.Clone(kinds)
	delete(occupied, "semaphore") // it has no hash, so that nobody can occupy it without knowing how many there are
	for kind, make := range occupied {
		t.Run(kind, func(t *testing.T) {
			occupy(t, make, func(s *holdfasttest.Server, lease time.Duration) func() { return s.Occupy("a", lease) })
		})
	}
	permits := func(c *holdfast.Client) holdfast.Locker { return semaphore.New(c, "a", 1) }
	reads := func(c *holdfast.Client) holdfast.Locker { return rwlock.New(c, "a").RLocker() }
	t.Run("with permits", func(t *testing.T) {
		occupy(t, kinds["semaphore"], func(s *holdfasttest.Server, lease time.Duration) func() { return s.OccupyWith(lease, permits) })
	})
	t.Run("with a reader", func(t *testing.T) {
		occupy(t, kinds["rwlock"], func(s *holdfasttest.Server, lease time.Duration) func() { return s.OccupyWith(lease, reads) })
	})
}

func occupy(t *testing.T, make func(*holdfast.Client, string) holdfast.Locker,
	take func(s *holdfasttest.Server, lease time.Duration) (release func())) {
	for _, row := range []struct{ lease, releases, over time.Duration }{
		{0, 2 * time.Minute, 2 * time.Minute},
		{time.Hour, 2 * time.Minute, 2 * time.Minute},
		{time.Minute, 0, time.Minute},
		{time.Minute, 59900 * time.Millisecond, 59900 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := holdfasttest.New(t)
			release := take(s, row.lease)
			if row.releases > 0 {
				time.AfterFunc(row.releases, release)
			}
			start := time.Now()
			h := locked(t, make(s.Client(nil), "a"), holdfast.Wait(90*time.Minute))
			waited := time.Since(start)
			require.GreaterOrEqual(t, waited, row.over-time.Millisecond, "%+v", row)
			require.Less(t, waited, row.over+time.Second, "%+v", row)
			require.NoError(t, h.Unlock(t.Context()))
			release()
		})
	}
}

// TestTokensGrow: each grant has a greater token, also within one moment of a bubble, and where the server
// has forgotten the last one.
func TestTokensGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfasttest.AllowHeld())
		last := uint64(0)
		for range 5 {
			for kind, make := range kinds {
				h := locked(t, make(s.Client(nil), kind))
				require.Greater(t, h.Token(), last, kind)
				last = h.Token()
				require.NoError(t, s.Redis().FlushAll(t.Context()).Err())
			}
		}
	})
}
