// Package plain is the model of a lock on one server: acquire.lua, recount.lua, release.lua and renew.lua, as package server
// has them, and what clients do about answers that come, come late or do not come. It consists of tests.
//
// Bounds: two or three clients, each with one owner that wants the lock once or twice. Few requests
// are lost or late at a time, few callers leave, few processes die, and the server's keys or its
// clock are lost once. The fields of lock are the bounds, and a scenario says what each of them is.
//
// Left out: messages that wake waiters (whoever was refused may ask again at any time), processes that stand still, clocks that
// go at different speeds, and the hand-off within a client, which has a model of its own.
package plain
