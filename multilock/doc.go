// Package multilock takes several locks as one: all of them, or none. It is Redisson's MultiLock for
// Go, without what makes that one wait for itself, leave members locked, or return as if it were
// locked.
//
// The members are locks of any kind, on any servers and clients: plain, fair and quorum locks, sides
// of a read-write lock, one permit of a semaphore, and other multilocks, whose members count as if
// they had been given here.
//
// # What is promised
//
//   - All or none. If one member is not granted, those that were are given back before Lock returns
//     the error, which says which member it was.
//   - One order. The members are taken in the order of their names, whatever order they are given in
//     and however they are nested. Nobody waits for a member while holding one that comes after it.
//     So two multilocks of overlapping sets never wait for each other, in whatever processes they
//     are.
//   - The hold's context ends with the first member that is lost. Its cause names that member. The
//     others stay locked until Unlock, which gives all back, also if that fails for some. Its error
//     names each of these.
//   - [holdfast.Hold.Token] is the greatest of the members' tokens. Of two holds of the same set of
//     locks the later one has the greater token. fence.TokenOf has each member's by its name, which is
//     what a resource that one member guards has to check.
//   - Callers who leave do not stop the others. Calls of one client for the same members ask one after another, mostly in
//     the order in which they came; who has less time left than the last of them took is passed over by one that has more,
//     so also callers who all wait for a few round trips are granted the members, and one who waits without a limit is
//     in its turn. A call whose time is over before its turn asks once, for one member after the other. (Not so: calls
//     under a context that carries an owner, and those whose first member is a quorum lock. They ask at the same time.)
//   - The owner is one for all members. Under the hold's context a member, this multilock, and any
//     other that has members in common with it re-enter. A semaphore gives another permit instead,
//     and if it has one only, it is waited for in vain.
//
// The deadline of a hold is its members' earliest, its count their least, and its owner the first
// one's. Extend asks all of them.
//
// # Cost
//
// Members on one client that follow each other in the order are asked for together: one round trip,
// and if they are four or more plain locks on one server, one script. Unlock does the same. Only
// where one of them is taken, those behind it are given back, and it is waited for. In a cluster each
// is a command of its own, and all are sent at the same time. Members of another client, and quorum
// locks, are asked for one after the other.
//
// # Members
//
// A lock that is given twice counts once, with the options of the first. These are refused, with
// [holdfast.ErrInvalid], by the first operation:
//   - no members, or a nil one;
//   - two permits of one semaphore: two owners of one each would wait for each other. A
//     multilock takes one; get more by Acquire of the semaphore;
//   - two kinds or sides of lock with one name on one client, and one lock by way of two clients:
//     each would wait for the other; nor a quorum lock beside a lock of its name on one of its masters,
//     or beside another quorum lock of its name that has a master in common with it;
//   - a multilock that is wrapped in another type, because its members cannot be seen.
//
// [New] asks each member which lock it is, by a TryLock under a context that has ended and with an
// option that refuses; a type that wraps a lock has to pass both on. Nothing is sent.
//
// # Not promised
//
//   - That nobody waits for anybody where a hold's context is used to take further locks that come
//     earlier in the order, or where locks are taken without a multilock in another order. Take all
//     that is needed at once, and use [holdfast.Wait].
//   - That locks of one name and kind on different servers have one order in all processes. They have
//     if all processes reach the servers by the same addresses, and not through Sentinel.
//   - That one lock by way of two clients is noticed, if these reach the server by different addresses
//     or through Sentinel. It then waits for itself. Use one client.
//   - That TryLock gets free locks while others ask for some of them at the same time: both may be
//     refused.
//   - That all members begin or end at one moment. One server does several of them at once, others
//     at other times.
//   - That observers see a call before its turn: Observer tells of waits for members, and a call asks for none until then.
//   - Any order among waiters, but what the kinds promise for the member that is waited for. The
//     others are asked for by TryLock, which may overtake the waiters of this process.
package multilock
