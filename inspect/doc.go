// Package inspect tells what locks there are in Redis and what they look like: of every kind, without
// a client that locks. It can also put an end to one holder, and to no other.
//
// Locks are found by keys that the library makes anyway. Each grant leaves a token, whose key has the
// name in it, and lives for an hour after the lock. So a pass over the keys (SCAN in small steps, never
// KEYS, on every master of a cluster) finds every lock with its exact name, and the servers need no
// registry. What is at a name is then read by one script, which writes nothing; where the server knows
// EVALSHA_RO (Redis 7, Valkey) it makes sure of that. Each state is of one moment; a list is not.
//
// # What cannot be told
//
//   - Which kind a lock is, where the keys look the same. A lock of package rlock, a lock of
//     package fairlock that nobody waits for, and one master's part of a lock of package redlock are
//     all [Plain].
//   - Who waits for a plain lock: its waiters have no places in Redis. [Lock.Listening] is how many
//     connections listen for its release, or did so a few seconds ago.
//   - A latch that nobody has called or waited for lately, a semaphore from which nobody has taken a
//     permit, and Redisson's semaphores have no key by which they are found. Asked for by name they
//     are shown.
//   - Whether somebody's number is a latch of Redisson's: the two look the same.
//
// Not promised: that a lock which comes or goes during a pass is in the list. One that is there from
// its beginning to its end is, and mostly once: see [Inspector.Locks].
package inspect
