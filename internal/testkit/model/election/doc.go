// Package election is the model of what an election adds to the queue of a fair lock: election_announce.lua,
// election_release.lua, election_renew.lua and election_leader.lua, and what package election makes of them: campaigns that
// announce themselves, Run, which waits for the leader's function, and Observe. It consists of tests.
//
// The queue itself has a model, package fair. Here it is a lock with a queue that is looked after in single steps: who asks is
// granted the lock or has a place; a release hands a free lock to the first who can be reached, with a claim, and tells it; a
// poll finds what was not heard, and a lock whose lease has ended. Claims and leases end with time, and claims may end unheard.
//
// Bounds: two processes that campaign again and again, and an observer. Few requests are late at a time, and few of these
// happen in a scenario: answers are lost, callers leave or end Run, processes die, connections break, the lock is forced free,
// the server loses its keys. The fields of electing are the bounds, and a scenario says what each of them is.
//
// Left out: requests for the lock that come late (package fair has that), candidates of one process
// beside each other, clocks that go at different speeds, and processes that stand still.
package election
