// Package line is the half of a model that is alike for all kinds of locks with a queue at the
// server: the clients, their waiters, the network, the mailboxes and the clock. Packages fair and
// permits add a server each, and say what is wrong with a state.
//
// What it models: a waiter asks the server for the lock. If it is refused, its client subscribes to
// a mailbox, and the waiter asks for a place in the queue. From then on the client polls the queue
// for all its waiters, and messages tell it of grants. A network loses, delays and reorders
// requests, mailboxes break, processes stand still or die, and what an aborted attempt may have
// left at the server is released in the background. Time goes in ticks, for all clocks alike; what
// is granted is trusted for a tick less. A grant that a message tells of counts from the moment of
// the grant.
//
// The fields of Bounds limit how much of each there is. Left out: clocks that go at different
// speeds. A request that is not late travels in no time, because its sender does nothing that
// depends on its being on the way.
package line
