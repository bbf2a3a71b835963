// Package holdfasttest is locks for unit tests: without Redis, and in a bubble of testing/synctest
// without waiting. The code that is tested has the library's own clients, on a server in the memory
// of the test (miniredis, which runs the library's own scripts). So it need not be written for
// tests, and all kinds of locks are there: rlock, fairlock, rwlock, semaphore, latch, election and
// multilock, redlock on several servers, guards of package fence, and package inspect.
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
// The test is in command:
//
//   - [Server.Occupy] has somebody else take a lock, and [Server.Lose] takes one away in the middle;
//   - [Server.Queue] has callers wait in a known order;
//   - [Server.Inject] loses or delays commands, before or after they took effect, or has the server answer
//     an error; [Server.Fail] is the short form;
//   - [Server.Silence] has the server answer nobody until it is restored; [Server.MoveClock] moves its clock.
//
// A test that leaves a lock held fails, and so does one whose calls wait for each other: see [New].
//
// # What is promised
//
// Faults behave as on a real server: errors as errors.Is tells them,
// causes of contexts, the order of grants, growing tokens, and that nothing happens twice. The
// tests of this package play the same stories on both and compare; each of the library's scripts is
// executed in some story.
//
// In a bubble time passes when all its goroutines are blocked, for clients and server alike.
// Outside of one the server's time is the machine's.
//
// Nothing is left behind when the test has ended: no goroutine, and no port, since there is none.
//
// # What is not promised
//
//   - A cluster, Sentinel, replicas and so WithReplicas, persistence, permissions, TLS, limits of memory:
//     the emulation has none. Its scripts run in another Lua. A test that is to show that a service gets
//     along with its Redis needs that Redis.
//   - Speed. A script takes the emulation a hundred times as long as it takes Redis.
//   - That goroutines of a bubble that can run at the same moment do so in a certain order.
//   - Faults of single bytes. A connection that breaks is lost with all that travels on it: commands for
//     other locks behind the one that a fault hits, in one pipeline, share its fate, as in a network. An
//     [Answer] hits one lock alone.
//   - That a client's first request runs when its reply is lost. Until a client has heard of a server's
//     clock, its requests count there as late, and refuse themselves. A real server does the same.
//   - Keys that end by themselves. The emulation removes a key that has ended when somebody asks for
//     anything, not at that moment. No lock can tell the difference; a test that subscribes to the
//     server's events on keys, which the emulation does not have, could.
//   - Refusals of EVALSHA_RO to write: the emulation runs such a script as any other. It also knows the
//     library's scripts from the start, which a new server does not.
package holdfasttest
