// Package redisson has tests in Go use Redisson itself, so that what is said of fleets of Go and
// Java is tested with both. A [Worker] is a process of Java that does what it is told, line by line
// over its standard input and output; a [Client] in it is a RedissonClient with an id and settings
// of its own, and a [Thread] of that is an owner of locks.
//
// The worker is built by Maven into the directory target beside its source, once, and again when
// the source has changed. Where there is no Java or no Maven tests are skipped, loudly, and fail if
// CI=true.
//
// With HOLDFAST_IDLE_WORKER the tests get a worker that does nothing, and says that all went well.
// None of them may pass with it; TestNothingPassesWithoutJava checks that.
//
// Not here: what Redisson does on the wire, command for command. The scripts' rows and the tests
// redisson_*_test.go one folder up play that as it was recorded.
package redisson
