package holdfast

import (
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Defaults of [Options].
const (
	DefaultLease       = 30 * time.Second
	DefaultRetryBudget = 5 * time.Second
	DefaultLinger      = 2 * time.Second
	DefaultLongWait    = 10 * time.Second
)

// NoLabel as [Options.Label] makes a client without a label, which neither writes its own nor reads
// those of others.
const NoLabel = "-"

// Options are the settings of a [Client]. A zero field means its default.
type Options struct {
	// Lease is how long a lock outlives a holder that died. While the holder lives, the lease is
	// renewed every third of its length. Default 30 s, at least 4 ms. Below about 100 ms a busy
	// machine loses locks.
	Lease time.Duration
	// RetryBudget is how long one operation repeats itself when Redis does not answer, or answers
	// that it cannot serve now (loading, failing over), before the operation returns the error.
	// Default 5 s.
	//
	// The budget also bounds the wait for a connection, but not below one second. If an operation
	// still waits for an answer when the budget, the time of [Wait] or its context's deadline is
	// over, it returns within 100 ms, or an eighth of that time if that is longer, whatever
	// go-redis's ReadTimeout is. An operation that nothing but the budget bounds may take twice the
	// budget if it first has to wait for a connection. If the server falls silent just when it is asked, an operation may
	// notice a cancelled context without a deadline as late as RetryBudget or ReadTimeout says,
	// whichever is shorter. Hooks that you add to the go-redis client after [New] put ReadTimeout
	// in the place of all this.
	//
	// The budget bounds Unlock as a whole. TryLock does not repeat itself. A closing client uses at
	// most a second of the budget. Renewals do not depend on the budget: the client repeats them
	// until the hold's deadline.
	RetryBudget time.Duration
	// Linger is how long a subscription stays after its last waiter has gone, in case another one
	// comes. Default 2 s.
	Linger time.Duration
	// Logger receives events that no call returns: lost locks, failed background releases, calls that wait
	// for what their own client holds, and deadlocks. Default: [slog.Default] as it is when New is called,
	// at the level of warnings and above. For silence pass a logger with [slog.DiscardHandler].
	//
	// The Logger runs in a goroutine of its own, one record after another, and may be slow, block
	// or panic. Only Close waits for it, until the context of Close ends. While a thousand records
	// wait, the client drops further records. The next record has their number as "dropped".
	Logger *slog.Logger
	// Label names this client for people: the name of the service and its machine, for example. The
	// commands "holdfast ls", inspect and unlock show it beside the client's UUID, and so do
	// package inspect and errors that name an owner. At most 200 bytes of UTF-8, of printable
	// characters. Default: host/program[pid], with the host's name up to its first dot. [NoLabel]
	// turns it off.
	//
	// The client writes the label to the key "holdfast_client:{UUID}" when it is granted a lock or
	// begins to wait. It writes it again every 30 s while it holds or waits, or every Lease if that
	// is longer, but at least every hour. The key lives three times as long, or as long as a lock that
	// was taken with [HoldAtLeast] may stay taken, if that is longer. Close deletes it, unless such a
	// lock may stay. No lock waits for that, and none fails because of it.
	//
	// A client with a label also reads the labels of the clients that it is refused by, in the
	// background: the next error names them. It reads each once, at most 30 in a minute, and one
	// that is not there again after pauses that grow from 1 s to 64 s.
	//
	// So a client that always holds or waits sends at most two SET and 30 GET in a minute for this,
	// and one DEL at the end; two SET and a DEL to each master of its quorum locks. One that is never refused sends no GET, and an idle one nothing. A
	// Lock and Unlock costs no more with a label than without.
	//
	// A user of Redis needs the permissions +get +set +del ~holdfast_client:{*. Without them a
	// client with the default label tries once and then no more, and says so at the level of
	// debugging. The Logger gets one warning if a label that you chose cannot be written.
	Label string
	// LongWait is how long a call waits for a lock before the client checks whether the wait can
	// end by itself. Default 10 s, at least 10 ms. A negative LongWait turns that off.
	//
	// The client reports two things. One is a wait of LongWait for a lock that the client itself
	// has held as long, without a break. It goes to the Logger and to SelfBlocked of the Observer.
	// Mostly a caller locks under a plain context what it already holds, and waits for itself. The
	// other is a circle of waits, over any number of processes. It goes to the Logger and to
	// Deadlocked. To find circles, the client writes long waits, of callers that hold other locks,
	// to the key "holdfast_client:{UUID}:waits", for as long as they last. It sends nothing else,
	// and no call waits for it. The package comment says which circles are seen.
	LongWait time.Duration
	// Observer has functions that the client calls at waits, grants, ends, renewals, scripts and
	// lost subscriptions, for metrics and traces. Default: none.
	Observer *event.Observer

	// Prefix is put in front of the name of every lock of this client, as a NameMapper of Redisson
	// does: with "team:", the name "orders:42" is "team:orders:42" in Redis. So clients share a
	// lock if prefix and name together are the same. Default: none.
	//
	// The methods called Name, errors and the keys of other settings, such as permissions, have the
	// name as it is in Redis. New refuses a prefix with a brace that is not closed, an empty hash
	// tag, or a closing brace alone. A hash tag in it puts all locks into one slot of a cluster.
	// The keys of package fence are your data's and get no prefix.
	Prefix string
	// ClassicPubSub makes the client announce and wait by classic pub/sub (PUBLISH, SUBSCRIBE) in a
	// Cluster of Redis 7 or later, or of Valkey, as Redisson does with shardedSubscriptionMode=OFF.
	// Default: sharded pub/sub (SPUBLISH, SSUBSCRIBE). Elsewhere the field changes nothing.
	//
	// All clients of a lock must agree, Redisson's too. Otherwise they exclude each other, but do
	// not get each other's release messages, and wait for the end of the lease. Servers of a
	// cluster pass classic messages on to all others. They cannot say who listens to a classic
	// channel. So Keep of package rlock keeps nothing, hand-offs end every 10 ms, and a fair lock takes dead
	// waiters for living ones until the claim that they were given has ended.
	ClassicPubSub bool
}

// Option changes one acquisition. An option given to a kind's New is the default for all
// acquisitions of that lock.
type Option = engine.Option

// Wait bounds how long Lock waits for other holders. After d, Lock returns [ErrNotAcquired], or
// [ErrUnavailable] if Redis has not answered. With 0, Lock tries once. The hold's context does not
// inherit this limit. Default: only the context bounds the wait.
//
// If Redis does not answer when Lock asks for the lock, Lock returns ErrUnavailable after
// [Options.RetryBudget], however long d is. TryLock does not wait for other holders: d bounds how
// long it waits for Redis.
func Wait(d time.Duration) Option { return engine.Wait(d) }

// Lease sets the lease of this hold: at least 4 ms, rounded up to whole milliseconds. The lease is
// renewed like the default one unless NoRenewal is given too. A re-entry never shortens the lease
// of the hold that it enters.
func Lease(d time.Duration) Option { return engine.Lease(d) }

// NoRenewal makes the hold a plain lease, which the watchdog does not renew. The hold is lost when
// the lease runs out: its context ends with [ErrLost], and the text of that error names the reason.
//
// A re-entry without renewal into a renewed hold stays renewed. A renewed re-entry into a plain
// lease renews that lease until the re-entry ends. A plain lease is not handed off.
func NoRenewal() Option { return engine.NoRenewal() }

// NoHandoff keeps this acquisition out of hand-offs within the process. The acquisition asks the
// server for the lock, and its Unlock gives the lock back to the server. NoHandoff changes nothing
// for a kind that never hands off. A fair lock hands off within a run of its queue only.
func NoHandoff() Option { return engine.NoHandoff() }

// HoldAtLeast keeps the lock taken until d after the grant, however early it is unlocked. So a job
// runs once per period under the lock, even if the job is short and the clocks of the machines
// differ. Unlock leaves the lock in Redis for exactly the rest of d. The hold ends all the same:
// its context ends with [ErrReleased], the lock is not renewed any more, and nobody can re-enter
// it. Waiters get the lock when d is over. Until then State names the hold's owner. In Redis that
// owner's number has a 0 in front.
//
// d counts from the moment at which the server's answer arrived. One per cent is added for clocks
// that run at different rates. So by the server's clock the lock is never taken for less than d. It
// may be taken for longer, by a round trip and that per cent.
//
// d may be longer or shorter than the lease. The longer of the two becomes the lock's time to live.
// So the lock stays taken for d even if the process dies, if the hold is lost while Redis is
// silent, or if the client is closed.
//
// Of nested holds, the option of the outermost counts. Such a hold is never handed off within the
// process. For such a lock a quorum ignores masters that were started less than d ago, because they
// may have forgotten the lock: see redlock.TrustRestarts.
func HoldAtLeast(d time.Duration) Option { return engine.HoldAtLeast(d) }

// ReleaseOnError makes [Do] give up what is left of [HoldAtLeast] if its function returns an error or
// panics. So a job that failed does not count as done, and the next attempt need not wait for the period to
// end. Of nested holds, the option of the outermost counts. Lock by itself does not know how the work
// ended: there, call [Hold.UnlockNow] when it has failed. Default: a failed job stays locked like any other.
//
// Without HoldAtLeast the option changes nothing. If the process dies, or Redis is not reached, the lock
// stays taken for the time of HoldAtLeast all the same.
func ReleaseOnError() Option { return engine.ReleaseOnError() }

// Replicas makes a grant count only when n replicas of the server confirm it within timeout
// (WAIT). If fewer confirm, the client gives the lock back, and Lock and TryLock return
// [ErrNotReplicated]. The error says how many confirmed. Lock does not retry by itself: while
// replicas are missing it would take the lock and give it back, again and again, and hinder others.
//
// Replicas narrows the window in which a failover loses a lock that is held. It does not close
// the window. A replica that is not among the n may be promoted. That cannot happen if n is the
// number of all replicas, connected or not. A replica that confirmed may lose its memory before it
// is promoted. Only the fencing token protects from that.
//
// Only the grant to a new owner waits for replicas. These do not wait:
//   - re-entries and inner unlocks, because they change a count that the client knows. But a
//     re-entry that asks for more replicas than the hold was granted with does wait;
//   - renewals. A failover may set the end of the lease back to that of an earlier renewal. The
//     next renewal still comes in time if the replica was less than a third of the lease behind and
//     the new server accepts writes within another third. Otherwise the lock may be granted to
//     another owner while it is held;
//   - the last Unlock. After a failover the lock may stay taken until its lease ends.
//
// A lock is handed off within the process only to holders that ask for no more replicas than have
// confirmed the grant.
//
// While a cluster moves the lock's slot, an acquisition may have to wait until the move ends, at
// most for [Options.RetryBudget].
//
// Each acquisition costs another round trip, and occupies a connection for up to timeout. timeout
// is rounded up to whole milliseconds, and must be shorter than the lease. A Redis user with
// restricted permissions needs the permission for WAIT.
func Replicas(n int, timeout time.Duration) Option { return engine.Replicas(n, timeout) }

// ReplicasOnDisk is [Replicas], except that a replica counts only when it has written the
// grant to the append-only file on its disk (WAITAOF). So the grant also survives a restart of the
// replicas. Replicas without appendonly never count. With appendfsync everysec a grant takes up to
// a second, so timeout should be longer. The option needs Redis 7.2 or Valkey; an older server
// refuses the command, and the lock is then not held.
func ReplicasOnDisk(n int, timeout time.Duration) Option {
	return engine.ReplicasOnDisk(n, timeout)
}
