// Package inspect shows the locks in Redis, of every kind, without a client that locks. It can also
// end the hold of one holder, and of no other.
//
// An Inspector finds locks by keys that the library writes anyway. Each grant leaves a token. The
// token's key has the name in it, and lives for an hour after the lock. So a pass over the keys
// (SCAN in small steps, never KEYS, on every master of a cluster) finds every lock with its exact
// name, and the servers need no registry. One script then reads what is at a name, and writes
// nothing. A server that knows EVALSHA_RO (Redis 7, Valkey) makes sure of that. The state of each
// lock is of one moment; a list is not.
//
// # What inspect cannot know
//
//   - Which kind a lock is, if the keys look the same. A lock of package rlock, a lock of package
//     fairlock that nobody waits for, and one master's part of a lock of package redlock are all
//     [Plain].
//   - Which callers wait for a plain lock: its waiters have no places in Redis. [Lock.Listening] is
//     how many connections listen for its release, or did so a few seconds ago.
//   - How many callers wait for a plain or a read-write lock inside the process that holds it: they
//     are in no key. [Lock.Uncounted] says where there may be some.
//   - The names of Redisson's latches that nobody has called or waited for lately, of semaphores
//     from which nobody has taken a permit, and of Redisson's semaphores. No key leads to them. Ask
//     for them by name.
//   - Whether somebody's number is a latch of Redisson's: the two look the same.
//
// Not promised: that the list has a lock that comes or goes during a pass. It has every lock that
// is there from the beginning of the pass to its end, mostly once: see [Inspector.Locks].
package inspect
