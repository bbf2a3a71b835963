// Package multilock takes several locks as one: all of them, or none. It is Redisson's MultiLock
// for Go. It avoids three faults of that one: it does not wait for itself, leave members locked, or
// return as if locked.
//
// The members are locks of any kind, on any servers and clients: plain, fair and quorum locks,
// sides of a read-write lock, one permit of a semaphore, and other multilocks. The members of a
// multilock count as if they had been given here.
//
// # What is promised
//
//   - All or none. If one member is not granted, Lock gives the granted ones back, and then returns
//     an error that names the member.
//   - One order. Lock takes the members in the order of their names, however they are given or
//     nested. No call waits for a member while it holds one that comes later in the order. So two
//     multilocks of overlapping sets never wait for each other, in any processes.
//   - The hold's context ends when the first member is lost. Its cause names that member. The
//     others stay locked until Unlock. Unlock gives all members back, even if that fails for some,
//     and its error names those.
//   - [holdfast.Hold.Token] is the greatest of the members' tokens. Of two holds of the same set of
//     locks the later one has the greater token. fence.TokenOf returns the token of each member by
//     its name. A resource that one member guards has to check that token.
//   - Callers that stop waiting do not delay the others. Calls of one client for the same members
//     ask one after another, mostly in the order in which they came. A call with less time left
//     than the last of them took lets a call with more time go first. So callers that all wait for
//     a few round trips get the members too, and a call that waits without a limit gets its turn. A
//     call whose time ends before its turn asks once, for one member after the other. Two sorts of
//     calls take no turns and ask at the same time: calls under a context that carries an owner,
//     and calls whose first member is a quorum lock.
//   - All members have one owner. Under the hold's context a member re-enters, and so does this
//     multilock, and any other that shares members with it. A semaphore gives another permit
//     instead. If the semaphore has only one, Lock waits in vain.
//
// The deadline of a hold is the earliest of its members, its count is the least, and its owner is
// that of the first member. Extend asks all of them.
//
// # Cost
//
// The client asks for members on one client that follow each other in the order together. That is
// one round trip, and one script if they are four or more plain locks on one server. Unlock does
// the same. If one of them is taken, Lock gives back those behind it, and waits for that one. In a
// cluster each member takes a command of its own, and all are sent at the same time. Lock asks for
// members of another client, and for quorum locks, one after the other.
//
// # Members
//
// A lock that is given twice counts once, with the options of the first. The first operation
// refuses these, with [holdfast.ErrInvalid]:
//   - no members, or a nil one;
//   - two permits of one semaphore: two owners of one each would wait for each other. A multilock
//     takes one; get more by Acquire of the semaphore;
//   - two kinds or sides of lock with one name on one client, and one lock by way of two clients:
//     each would wait for the other;
//   - a quorum lock beside a lock of its name on one of its masters, or beside another quorum lock
//     of its name that has a master in common with it;
//   - a multilock that is wrapped in another type, because its members cannot be seen.
//
// [New] asks each member which lock it is. To do so it calls TryLock under a context that has
// ended, with an option that refuses. A type that wraps a lock has to pass both on. New sends
// nothing.
//
// # Not promised
//
//   - Freedom from deadlocks, if you take further locks under the hold's context that come earlier
//     in the order, or take locks in another order without a multilock. Take all that you need at
//     once, and use [holdfast.Wait].
//   - One order in all processes for locks of one name and kind on different servers. They have one
//     order if all processes reach the servers by the same addresses, and not through Sentinel.
//   - That New notices one lock by way of two clients, if these reach the server by different
//     addresses or through Sentinel. The lock then waits for itself. Use one client.
//   - That TryLock gets free locks while others ask for some of them at the same time. Both may be
//     refused.
//   - That all members begin or end at one moment. One server does several of them at once, others
//     at other times.
//   - That observers see a call before its turn. Observer tells of waits for members, and a call
//     asks for no member until its turn.
//   - Any order among waiters, beyond what the kinds promise for the member that Lock waits for.
//     Lock asks for the others by TryLock, which may overtake the waiters of this process.
package multilock
