// Package handoff is the model of a lock that is handed off within a client: acquire.lua, pass.lua,
// release.lua, recount.lua and renew.lua, as package server has them, with tokens in blocks and a lease
// that several owners use in turn. It consists of tests.
//
// Bounds: client A has two owners, and all that goes wrong happens to it. Client B has one owner,
// and is the victim. Few requests are lost or late at a time, and a process dies once. The fields
// of hand are the bounds, and a scenario says what each of them is.
//
// Left out: lost keys, longer leases by Extend, messages that wake waiters, processes that stand
// still, and clocks that go at different speeds. The model of a plain lock has the first two.
package handoff
