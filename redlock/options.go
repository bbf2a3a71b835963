package redlock

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
)

// DefaultMasterTimeout is how long each master is waited for at most, see [MasterTimeout].
const DefaultMasterTimeout = 250 * time.Millisecond

// MasterTimeout is how long a lock waits for each of its masters. Default [DefaultMasterTimeout],
// or a quarter of the lease if that is shorter. A master that is slower is not waited for again
// until it has answered. It changes nothing for other kinds.
//
// Give all who use the lock the same timeout. An election lasts at most four timeouts. A holder
// takes the elections of others to last no longer than its own would, or than they would by
// default.
func MasterTimeout(d time.Duration) holdfast.Option {
	return func(s *engine.Settings) {
		if d <= 0 {
			s.Refuse(errs.Invalid("MasterTimeout is %v; use a positive duration, much shorter than the lease", d))
		}
		s.MasterTimeout = d
	}
}

// TrustRestarts lets masters vote that were started less than a lease ago. By default their votes
// do not count, because a master that has lost its data may have granted the lock to somebody else
// before. Use it where every master writes each change to its disk before it answers (appendonly
// yes, appendfsync always). It changes nothing for other kinds.
func TrustRestarts() holdfast.Option {
	return func(s *engine.Settings) { s.TrustRestarts = true }
}
