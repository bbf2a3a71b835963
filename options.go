package holdfast

import (
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Defaults of [Options].
const (
	DefaultLease       = 30 * time.Second
	DefaultRetryBudget = 5 * time.Second
	DefaultLinger      = 2 * time.Second
)

// Options are the settings of a [Client]. Zero fields stand for their defaults.
type Options struct {
	// Lease is how long a lock outlives a holder that died. While the holder lives, the lease is
	// renewed every third of its length. Default 30 s, at least 4 ms. Below about 100 ms a busy
	// machine loses locks.
	Lease time.Duration
	// RetryBudget is how long one operation repeats itself when Redis does not answer, or answers
	// that it cannot serve now (loading, failing over), before the operation returns the error.
	// Default 5 s.
	//
	// The budget also bounds the wait for a connection, which is at least a second. Where the
	// connection waits for an answer, go-redis's ReadTimeout comes on top. The budget bounds Unlock
	// as a whole. TryLock does not repeat itself. A client that is closing takes a second of the
	// budget at most. Renewals do not depend on it: they are tried until the hold cannot be trusted
	// any more.
	RetryBudget time.Duration
	// Linger is how long a subscription stays after its last waiter left, in case another one
	// comes. Default 2 s.
	Linger time.Duration
	// Logger receives what no caller is there to learn: locks lost, background releases that
	// failed. Default: silent.
	//
	// It runs in a goroutine of its own, one record after another, and may be slow, block or panic.
	// Only Close waits for it, until the context of Close ends. While a thousand records wait,
	// further ones are only counted. The next record has their number as "dropped".
	Logger *slog.Logger
}

// Option changes one acquisition. An option that is given to a kind's New is the default of all
// acquisitions of that lock.
type Option = engine.Option

// Wait bounds the waiting. After d, Lock returns [ErrNotAcquired], or [ErrUnavailable] if Redis has
// not answered. 0 tries once. The hold's context does not inherit this limit. Default: only the
// context bounds the wait.
func Wait(d time.Duration) Option { return engine.Wait(d) }

// Lease sets the lease of this hold, from 4 ms up, rounded up to whole milliseconds. It is renewed
// like the default one unless NoRenewal is given too. A re-entry never shortens the lease of the
// hold that it enters.
func Lease(d time.Duration) Option { return engine.Lease(d) }

// NoRenewal makes the hold a plain lease, which nobody renews. The hold is lost when the lease has
// run out: its context ends with [ErrLost], whose text then says so.
//
// A re-entry without renewal into a renewed hold stays renewed. A renewed re-entry into a plain
// lease has that lease renewed until the re-entry ends. A plain lease is not handed on.
func NoRenewal() Option { return engine.NoRenewal() }

// NoHandoff keeps this acquisition out of hand-offs within the process. It asks the server for the
// lock, and its Unlock gives the lock back to the server. It changes nothing for a kind that never
// hands off.
func NoHandoff() Option { return engine.NoHandoff() }

// HoldAtLeast keeps the lock taken until d after the grant, however early it is unlocked. So what
// runs under the lock runs once per period, even if it is short and the clocks of the machines
// differ. Unlock then leaves the lock with exactly what is left of d. It ends the hold all the
// same: the context ends with [ErrReleased], nobody renews the lock any more, and nobody can
// re-enter it. Those who wait get the lock when d is over. Until then State names the hold's owner.
// In Redis that one has a 0 before its number.
//
// d counts from the moment at which the server's answer arrived. One per cent is added for clocks
// that run at different rates. So by the server's clock the lock is never taken for less than d,
// and it is taken for longer by a round trip and that per cent.
//
// d may be longer or shorter than the lease. The lock is asked for with the longer of the two as
// its time to live. So it stays taken for d even if the process dies, if the hold is lost while
// Redis is silent, or if the client is closed.
//
// Of nested holds, the option of the outermost counts. Such a hold is never handed on within the
// process. A quorum that has such locks ignores masters that were started less than d ago, because
// they may have forgotten one; see redlock.TrustRestarts.
func HoldAtLeast(d time.Duration) Option { return engine.HoldAtLeast(d) }

// WithReplicas makes a grant count only when n replicas of the server have it (WAIT). They have
// timeout to confirm it. If fewer confirm, the lock is given back, and Lock and TryLock return
// [ErrNotReplicated] and say how many confirmed. Lock does not try again by itself: as long as
// replicas are missing it would take the lock and give it back, and be in the way of others.
//
// It narrows the window in which a failover loses a lock that is held, and does not close it. A
// replica that is not among the n may be promoted. Only an n of all replicas there are, connected
// or not, rules that out. A replica that confirmed may lose its memory before it is promoted. Only
// the fencing token protects from that.
//
// Replicas are waited for only where a new owner gets the lock. Nothing is waited for with
//   - re-entries and inner unlocks: they change a count that the client knows. But a re-entry that
//     asks for more replicas than the hold was granted with waits for them;
//   - renewals: a failover may set the end of the lease back to that of an earlier renewal. The
//     next renewal comes before that end if the replica was less than a third of the lease behind,
//     and the new server takes writes within another third. Otherwise the lock may be granted to
//     another owner while it is held;
//   - the last Unlock: after a failover the lock may stay taken until its lease ends.
//
// A lock is handed on within the process only to holders that want no more replicas than it was
// granted with.
//
// While a cluster moves the lock's slot, an acquisition may have to wait until the move ends, for
// as long as [Options.RetryBudget].
//
// Each acquisition takes another round trip, and a connection for up to timeout. timeout is rounded
// up to whole milliseconds, and must be shorter than the lease. A user with few permissions needs
// the permission for WAIT.
func WithReplicas(n int, timeout time.Duration) Option { return engine.WithReplicas(n, timeout) }

// WithReplicasOnDisk is [WithReplicas], except that a replica counts only when it has written the
// grant to the append-only file on its disk (WAITAOF). So the grant also survives a restart of the
// replicas. Replicas without appendonly never count. With appendfsync everysec a grant takes up to
// a second, so timeout should be longer. It needs Redis 7.2 or Valkey; an older server refuses it,
// and the lock is not held then.
func WithReplicasOnDisk(n int, timeout time.Duration) Option {
	return engine.WithReplicasOnDisk(n, timeout)
}
