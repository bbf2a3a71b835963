// Package lua holds the scripts that change a lock in Redis, and runs them at most once per call.
//
// Each script is a .lua file whose header names its KEYS, its ARGV, every reply and what is atomic.
// What several scripts have in common is a part, which is pasted into them when the package is
// initialised. The rules they keep:
//
//   - A reply begins with a [Status]. A time to live is never a status: 0 and -1 are both real
//     times to live.
//   - All checks come before the first write, so an error leaves nothing half done.
//   - Counts are written as absolute numbers ("your count is now 2"), never as steps. A script
//     that runs twice because a reply was lost does the same thing again instead of counting twice,
//     and a straggler from an earlier attempt is put right by the next command.
//   - A lease is never shortened, so that a late straggler cannot cut the ground from under a
//     confirmed renewal.
//   - What releases or renews begins with a write that Redis allows when it is out of memory.
//
// go-redis repeats a command whose reply was lost, which is wrong for a caller that has to know
// what it sent. Calls are therefore sent by commands that refuse go-redis's own retries (NoRetry);
// whether and when to send again is decided one layer up, where the caller's deadline is known.
//
// # Errors
//
// An error is that of go-redis, without the advice that the locks of this library add to it:
//
//   - a redis.Error is the server's refusal, and nothing was done. [AuthProblemOf] says whether it is about the user or
//     the password, [IsDenied] whether a permission is missing, and [IsError] compares its kind: "READONLY" from a replica,
//     "OOM", "LOADING", "WRONGTYPE";
//   - redis.ErrClosed if the go-redis client was closed. Nothing was sent;
//   - the context's error, also from the wait for a connection; with it, as with any other error, the call may have run.
//
// Not promised: that a call which returned a network error did not run. Only an error reply of the
// server says that.
package lua
