// Package keep is the model of a lock that a client keeps without a holder: acquire.lua with its call to the owner's client,
// pass.lua and release.lua, as package server has them, and what internal/engine/keep.go makes of calls. It consists of tests.
//
// Bounds: client A keeps the lock, and all that goes wrong happens to it. Client B wants the lock a few times: it waits as
// every waiter does, or asks once. Few requests are lost or late at a time. The fields of keeping are the bounds.
//
// Left out: how the lock is handed off among those who wait in A (package handoff has that), A's
// wait to get the lock (package plain), renewals and messages to B that are lost, tokens beyond the
// ones that A has reserved, and processes that stand still for longer than their leases.
package keep
