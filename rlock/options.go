package rlock

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Keep lets the client keep the lock after Unlock, without a holder, for as long as nobody else
// wants it, but for at most d of idleness. The next Lock of this client for the name then takes the
// lock without asking Redis, in about two microseconds. That call is a new holder like any other,
// with an owner, a context and a greater fencing token of its own. Use Keep for names that one
// process locks again and again while others rarely want them. For other names it costs a little
// and brings nothing.
//
//   - Another client of this library that is refused the lock sends a recall message. If nobody
//     holds the lock then, the client releases it at once: Lock takes two messages longer than for
//     a free lock. TryLock returns [holdfast.ErrNotAcquired], and finds the lock free a moment later.
//   - Redisson's clients, and earlier versions of this library, cannot send a recall message. They
//     wait for up to d. So does every client whose message is lost, or not permitted: the channel
//     is that of the lock, followed by a colon and the id of the keeping client.
//   - A process that dies while it keeps the lock blocks others until the lease ends, as a holder
//     that dies does. Choose a short [holdfast.Lease] if that matters.
//   - To Redis a kept lock is a held one: State names an owner, and the client renews the lease.
//   - If somebody forces a kept lock free, or the server loses it, up to a third of the lease may
//     pass before the client knows. A Lock within that time gets a hold that is then lost. The
//     fencing token protects from that, as from every hold that is lost.
//
// The client does not keep a lock while it cannot receive recall messages. That is so before it has
// subscribed to them, which the first Lock of a name begins, and where the server cannot say who
// listens (a cluster of Redis 6, or with [holdfast.Options.ClassicPubSub]). Nor does it keep a lock that was
// several times recalled, or idle for d, before a caller of this client wanted it again. It tries
// again later. [holdfast.Client.Close] releases the locks that are kept.
//
// d is also the longest time for which the client does not ask Redis whether others listen for a
// release. 0 keeps nothing. Keep has no effect on a hold with [holdfast.NoHandoff], [holdfast.NoRenewal] or
// [holdfast.HoldAtLeast]. Kinds that cannot keep a lock refuse the option: all but rlock.
func Keep(d time.Duration) holdfast.Option { return engine.Keep(d) }

// RespectStrings treats a string at the lock's key as a lock that somebody else has. The locks of
// redsync, bsm/redislock and rueidislock are such strings. So Go services that use one of them can
// share a lock with this library, while a fleet moves from one to the other. docs/migrating.md in
// the repository says how. Without the option a string is an error, because it may be the key of
// your data.
//
//   - Lock waits until the string is gone. Nobody announces that, so Lock asks again when the
//     string's time to live ends, and each 125 to 250 ms until then. One waiter of each client and
//     name asks.
//   - TryLock returns [holdfast.ErrNotAcquired] at once, and the error's text says that a string is in the
//     way.
//   - Lock waits for a string without a time to live in the same way, and the error's text says so.
//   - The lock is not handed off within the process, as with [holdfast.NoHandoff], and [Keep] has no effect:
//     the client would not learn that a client of another library waits.
//
// The library never changes the string. Only acquisitions respect it. State and ForceUnlock return
// an error as without the option, and a hold whose key became a string is lost. The other library
// must respect this one's locks too, which are hashes. It does if it sets its string only where
// there is no key at all (SET NX).
//
// Kinds that cannot wait for a string refuse the option: all but rlock.
func RespectStrings() holdfast.Option { return engine.RespectStrings() }
