// Package rw is the model of a read-write lock: rw_read.lua, rw_write.lua, rw_read_release.lua, rw_write_release.lua,
// rw_read_renew.lua, rw_leave.lua, rw_force.lua, and renew.lua and recount.lua for who writes; and what clients do about
// answers and messages that come, come late or do not come. It consists of tests.
//
// What it checks: who writes is alone; a hold's context ends before the server may grant the lock to somebody else, whether
// others died or not; a reader is refused only for who writes or waits to write, and a writer only for readers whose leases
// last; tokens; counts; nothing is left, and each key has an end; who waits is told, or looks when what it was told of has
// ended; a reader lets the writers go first that wait when it comes, but waits for one of them only.
//
// Bounds: two or three clients, each with one owner whose user does one thing at a time and wants to read and to write once or
// twice. Few requests are late at a time, and few of these happen in a scenario: callers leave, processes die, subscriptions
// break, leases are extended, an operator forces holders out, the server loses its keys or its time. The fields of rwlock are
// the bounds, and a scenario says what each of them is.
//
// Left out: the line of those who wait in one process, of whom one asks at a time; attempts that do not wait; users of one
// owner who read and write at the same time; processes that stand still, and clocks that go at different speeds; Redisson's
// clients; more readers than the scripts look at. A request that is not late travels in no time, because its sender does
// nothing that depends on its being on the way. A hold has one renewal under way.
package rw
