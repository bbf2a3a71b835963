// Command leader has one of its processes lead, and the others know which one. Start it several times; NAME is
// what a leader says of itself.
//
//	NAME=a go run ./examples/leader
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logging.Disable() // during an outage go-redis would write to stderr; the errors say what is the matter
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")})
	defer rdb.Close()
	// If a leader dies, nobody leads until its lease ends. Shorter: a sooner successor, and less patience with
	// a process that pauses.
	client, err := holdfast.New(rdb, &holdfast.Options{Lease: 5 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close(context.Background()) // resigns
	name, e := cmp.Or(os.Getenv("NAME"), "this process"), election.New(client, "billing")

	// Observe and Run go on by themselves while Redis does not answer, or refuses them.
	both, work := errgroup.WithContext(ctx)
	both.Go(func() error {
		for leader, err := range e.Observe(work) {
			switch {
			case err != nil: // said once in an outage
				log.Print(err)
			case leader == election.Leader{}:
				fmt.Println("nobody leads")
			default:
				fmt.Println("the leader is", leader.Value)
			}
		}
		return nil
	})
	// Run campaigns, leads, and campaigns again if the leadership is lost. It returns when lead does.
	both.Go(func() error { return e.Run(work, name, lead) })
	if err := both.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// lead does the leader's work until its context ends: then somebody else may lead. Run waits for it.
func lead(ctx context.Context) error {
	fmt.Println("leading")
	defer fmt.Println("not leading any more")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C: // a piece of the work, with ctx
		case <-ctx.Done():
			return nil
		}
	}
}
