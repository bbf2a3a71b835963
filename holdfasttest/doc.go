// Package holdfasttest provides locks for unit tests, without Redis. In a bubble of
// testing/synctest they do not wait either. The code under test uses the library's own clients, on
// a server in the memory of the test (miniredis, which runs the library's own scripts). So that
// code needs nothing special for tests. All kinds of locks work: rlock, fairlock, rwlock,
// semaphore, latch, election and multilock, redlock on several servers, guards of package fence,
// and package inspect.
//
//	func TestReport(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := holdfasttest.New(t)
//			release := server.Occupy("report", 0)       // somebody else has it
//			time.AfterFunc(20*time.Minute, release)
//			err := report(t.Context(), server.Client(nil)) // waits for 20 minutes, in no time
//			...
//		})
//	}
//
// The test is in control:
//
//   - [Server.Occupy] makes somebody else take a lock, and [Server.Lose] takes a lock away from its
//     holder. For a semaphore, and for a lock that is read, use [Server.OccupyWith]: after Occupy a
//     semaphore reports that the key is not a semaphore;
//   - [Server.Queue] makes callers wait in a known order;
//   - [Server.Inject] loses or delays commands, before or after they took effect, or makes the
//     server answer an error; [Server.Fail] is the short form;
//   - [Server.Silence] makes the server answer nobody until the test restores it;
//     [Server.MoveClock] moves its clock.
//
// A test fails if it leaves a lock held, or if its calls wait for each other: see [New].
//
// # What is promised
//
// Faults behave as on a real server. That covers the errors that errors.Is tells apart, causes of
// contexts, the order of grants, growing tokens, and that nothing happens twice. The tests of this
// package run the same scenarios on both and compare. Some scenario runs each of the library's
// scripts.
//
// In a bubble time passes when all its goroutines are blocked, for clients and server alike.
// Outside of a bubble the server's time is the machine's.
//
// Nothing is left behind when the test has ended: no goroutine, and no port, since there is none.
//
// # What is not promised
//
//   - A cluster, Sentinel, replicas and so Replicas, persistence, permissions, TLS, limits of
//     memory: the emulation has none of these. Its scripts run in another Lua. To show that a
//     service works with its Redis, test it with that Redis.
//   - Speed. A script takes the emulation a hundred times as long as it takes Redis: about half a
//     millisecond. So an hour of a bubble costs two seconds for each client that waits for a fair
//     lock, a semaphore or an election, since it polls up to once a second for all its waiters of a
//     name, and a fifth of a second for each hold, which is renewed 360 times. It costs less with
//     waiters that share a client, with a longer Lease of the holder, and with minutes, not hours.
//   - That goroutines of a bubble that can run at the same moment do so in a certain order.
//   - Faults of single bytes. When a connection breaks, everything on it is lost. Commands for
//     other locks in the same pipeline, behind the one that a fault hits, share its fate, as in a
//     network. An [Answer] hits one lock alone.
//   - That a client's first request runs when its reply is lost. Until a client knows a server's
//     clock, the server refuses its requests as late. A real server does the same.
//   - Keys that end by themselves. The emulation removes an expired key when somebody asks for
//     anything, not at the moment of its end. No lock can tell the difference. A test that
//     subscribes to the server's events on keys could, but the emulation has no such events.
//   - Refusals of EVALSHA_RO to write. The emulation runs such a script as any other. It also knows
//     the library's scripts from the start, which a new server does not.
package holdfasttest
