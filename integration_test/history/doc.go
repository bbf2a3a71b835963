// Package history records what clients of a lock did and saw, and checks it against what the
// library promises.
//
// A history is a list of operations, each with the moment of its call and of its return by one
// clock, and its result. An operation that never returned, because its process was killed, stays
// open: it may take effect at any time or never. The checks, each by itself and all of them by
// [Check]:
//
//   - [Exclusion]: no two owners trust their holds of one name at the same moment, going by the
//     ends of their contexts or by their deadlines, whichever is first.
//   - [Linearizable]: there is an order of the operations, each at a moment between its call and
//     its return, in which a reentrant lock with expiry answers as it did. This is where a fencing token shows
//     that is not greater than the one before, and an operation that was carried out twice, because holders ask for
//     their hold count. It is [Porcupine]'s work.
//   - [Fifo]: nobody overtakes a waiter of a fair lock that had its place before, and could be
//     reached. Who has a place is recorded as an operation of its own, within the Lock, by who sees
//     what the server says.
//   - [Overtaken]: nor one of the same client, when the lock is handed off there.
//   - [Leases]: the server keeps a lock no longer than its holder asked for, and a plain lease goes
//     on for nobody.
//   - [Periods]: a lock that is to stay taken for a while is granted to nobody before.
//   - [Refusals], not by [Check]: who is refused a lock is told who has it, or what stands there in
//     its place.
//   - [Forbidden]: the holder of a name is refused another kind of lock of it.
//   - [WakeUps]: a lock that is free while somebody waits is granted within a bound.
//   - [Progress]: a lock that is free, and wanted all the time, is granted to somebody, however many give up.
//   - [Ghosts]: a lock is held by nobody who is not inside a call, does not hold it and did not do
//     so just before, by samples of what the server says.
//   - [Trust]: a hold ends by its deadline, and not before it without a reason.
//   - [GivenUp]: an operation without an answer is repeated, and not given up at the first failure.
//
// Those are for plain and fair locks. Operations say which [Family] they are of, and Check has models and
// checks of their own for the others:
//
//   - [ReadWrite]: nobody is trusted inside beside one that writes, but itself; the order in which a
//     reentrant read-write lock answers as it did; tokens of writes grow, and a read has that of the
//     last write; [Turns]: no reader that comes goes before a writer that waits; who reads is refused to
//     write; wake-ups of both.
//   - [Permits]: [MostPermits]: no more are trusted than there are, by what [Set] has made of it;
//     all that were asked for, or none; the order in which n permits with leases answer as they did;
//     tokens; Fifo, also of those who want fewer; wake-ups of whoever is the first; [Free]: none is
//     lost at the end.
//   - [Latches]: the order in which a latch that is set, counted down, taken away and ended answers as it
//     did, each count-down counting once; [Sleepers]: nobody waits for one that is open.
//   - [Elections]: all that is checked of a fair lock; [Observers] are told of who led, in the order in
//     which they did, and of all that lasted; [Leaders]: nobody takes itself for the leader, or is named
//     so, that is not.
//
// What is not checked here: that operations succeed at all, and how fast. A history in which
// everything failed is a good one, so who generates one also counts what was granted.
//
// [Porcupine]: https://github.com/anishathalye/porcupine
package history
