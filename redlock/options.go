package redlock

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// DefaultMasterTimeout is how long a lock waits for each master at most; see [MasterTimeout].
const DefaultMasterTimeout = 250 * time.Millisecond

// MasterTimeout is how long a lock waits for each of its masters. Default [DefaultMasterTimeout],
// or a quarter of the lease if that is shorter. If a master is slower, the lock does not wait for
// it again until it has answered. Locks of other kinds refuse the option.
//
// Use the same timeout in all processes that share a lock. One round of asking the masters lasts at
// most four timeouts. A holder assumes that the rounds of other processes last no longer than its
// own, or than rounds with the default, whichever is longer.
func MasterTimeout(d time.Duration) holdfast.Option { return engine.MasterTimeout(d) }

// TrustRestarts lets masters vote that were started less than a lease ago. By default their votes
// do not count, because a master that lost its data may have granted the lock to another owner
// before. Use TrustRestarts where every master writes each change to its disk before it answers
// (appendonly yes, appendfsync always). Locks of other kinds refuse the option.
func TrustRestarts() holdfast.Option { return engine.TrustRestarts() }
