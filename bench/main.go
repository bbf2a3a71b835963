// Command bench compares Holdfast's locks with other locks: the same work on the same server in one
// run, in interleaved rounds, while a page shared by all processes checks that nobody is inside
// together.
//
//	go run ./bench                                # everything; about 40 minutes
//	go run ./bench -rounds 2 -time 1s -scenario clients,gap16
//	go run ./bench -list
//
// It writes tables to the terminal, and table.md, results.json, results.csv and a plot per scenario
// to a directory. Exit code 1 says that a lock of Holdfast let two in, gave a token out of order,
// failed, or was not measured.
//
// Not promised: that absolute numbers compare between machines or between runs. The ratios of one
// run do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

// workerArg is the first argument that makes a worker of this program; see worker.go.
const workerArg = "worker"

func main() {
	if len(os.Args) > 1 && os.Args[1] == workerArg {
		os.Exit(workerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

// go-redis writes to stderr about each connection that breaks. What matters of that comes back as
// an error.
func init() { logging.Disable() }
