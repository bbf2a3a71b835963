// Package fair is the model of a fair lock's queue and of how the lock is handed over: fair_acquire.lua, fair_poll.lua,
// fair_release.lua and renew.lua, and clients with waiters, mailboxes, polls and runs. It consists of tests.
//
// Bounds: up to three clients and four waiters. Few requests are late at a time, and few of these
// happen in a scenario: callers leave, processes stand still or die, mailboxes break, the server
// loses its keys. The fields of fair are the bounds, and a scenario says what each of them is.
//
// What a run leaves at the server is given back by one piece of work for all of it.
//
// Left out: re-entry (an owner holds once), waiters of Redisson, and what package line leaves out.
package fair
