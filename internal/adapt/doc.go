// Package adapt is what the adapters to other libraries share: how a job runs under a lock, and how a
// hold is found by a library that unlocks by name.
//
// An adapter takes any kind of lock, as a [holdfast.Locker] or as a function that makes one. The
// rules that all adapters keep are here:
//
//   - A fresh owner per call. The context that a library hands on may be that of a hold, as when work
//     under one lock starts the library. Under it Lock would re-enter where it must exclude.
//   - Unlock by name ends the oldest hold of the name. A holder that lost the lock unlocks late, and
//     would otherwise free the lock of the one that came after it.
//   - A job fails by a loss, and not because the lock could not be given back.
//
// Not here: what a library makes of a lock that somebody else has. Each has its own way to say it.
package adapt
