// Package permits is the model of a semaphore: sem_acquire.lua, sem_join.lua, sem_poll.lua, sem_release.lua, sem_renew.lua and
// sem_set.lua, and clients with waiters, mailboxes and polls, as package internal/fair has them. It consists of tests.
//
// Bounds: up to three clients, four waiters that want one or two permits, and three permits. Few requests are late at a time,
// and few of these happen in a scenario: callers leave, processes stand still or die, mailboxes break, the number of permits is
// set, a client of Redisson takes a permit, the server loses its keys. The fields of semaphore are the bounds, and a scenario
// says what each of them is.
//
// A client of Redisson takes one permit, gives it back or lets its lease end, and takes back one
// permit of anybody whose lease has ended. Its clock is the server's.
//
// Whoever stands first and asks takes what it wants, and its script hands the rest to those behind it.
// A client that let a claim end counts as one that cannot be told until it polls.
//
// Left out: Redisson's waiters; single keys that the server loses although it keeps the rest; more grants than one script
// makes; calls that set the number and come late; a question for several places that comes late (it is lost instead); renewals
// of single permits of an owner, for a script renews all of them or none; and what package line leaves out.
package permits
