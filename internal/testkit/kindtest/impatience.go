package kindtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// tenThousand is too much to be done beside anything else.
const tenThousand = "ten thousand who leave at once are told of no outage"

func impatience(s *subject) {
	level.ForAll(s.T)
	require.NoError(s, impatient(10_000)(s))
}

// impatient: callers of one client who leave at once, from behind another client's hold, are told that the
// lock is not theirs: the servers answer. In an outage they are told of that. So few and so many have different
// ways to know: each asks, or one asks for all.
func impatient(callers int) func(*subject) error {
	return func(s *subject) error {
		c, _ := s.patient(nil)
		s.known(c)
		l := c.New(s.name)
		h := s.lock(s.Context(), s.locker())
		wrong := 0
		// A server that a busy machine stops for longer than the callers are late is silent, so one round that goes
		// well is enough. Without the defence one that does not is: where the callers begin one after the other, each
		// asks for itself.
		for end := time.Now().Add(patience); ; {
			var err error
			if wrong, err = leave(s, l, callers); (wrong == 0) != s.control || time.Now().After(end) {
				require.NoError(s, err)
				break
			}
		}
		require.NoError(s, h.Unlock(s.Context()))
		if wrong > 0 {
			return fmt.Errorf("%d of %d were told of an outage", wrong, callers)
		}
		return nil
	}
}

// leave has so many want a lock that is another's, for a moment each. It returns how many were told of an
// outage, and an error if one was told anything else but who has the lock.
func leave(s *subject, l holdfast.Locker, callers int) (wrong int, err error) {
	var g sync.WaitGroup
	var outages atomic.Int64
	var other atomic.Pointer[error]
	for i := range callers {
		g.Go(func() {
			switch _, err := l.Lock(s.Context(), holdfast.Wait(time.Duration(1+i%8)*time.Millisecond)); {
			case errors.Is(err, holdfast.ErrUnavailable):
				outages.Add(1)
			case !errors.Is(err, holdfast.ErrNotAcquired):
				err = fmt.Errorf("told %w", err)
				other.Store(&err)
			}
		})
	}
	g.Wait()
	if other := other.Load(); other != nil {
		err = *other
	}
	return int(outages.Load()), err
}
