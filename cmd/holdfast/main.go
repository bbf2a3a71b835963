// Command holdfast shows the library at work, and runs commands while a distributed lock is held.
//
//	holdfast demo                                        # the whole story on one page
//	holdfast run --name nightly-report -- ./report.sh    # one at a time, over all machines
//
// It is a module of its own, so that what it needs (a parser of flags, an emulation of Redis) is
// not among the library's dependencies. It uses the library as anybody does. Not promised: that its
// Go identifiers or the wording of its output stay; what scripts may rely on are flags, exit codes
// and the variables that "run" sets.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	code, by := executed(os.Args[1:], os.Stdout, os.Stderr)
	if by != 0 {
		endBy(by)
	}
	os.Exit(code)
}

// go-redis writes to stderr about each connection that breaks. What matters of that comes back as
// an error.
func init() { logging.Disable() }
