// Command leader has one of its processes lead, and the others know which one. Start it several times; NAME is
// what a leader says of itself.
//
//	NAME=a go run ./examples/leader
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
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

	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		for ctx.Err() == nil {
			for leader, err := range e.Observe(ctx) {
				switch {
				case err != nil: // Redis does not answer; ask again
					log.Print(err)
				case leader == election.Leader{}:
					fmt.Println("nobody leads")
				default:
					fmt.Println("the leader is", leader.Value)
				}
			}
		}
		return nil
	})
	both.Go(func() error {
		for ctx.Err() == nil {
			// Run campaigns, leads, and campaigns again if the leadership is lost. It returns when lead does.
			if err := e.Run(ctx, name, lead); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
		}
		return nil
	})
	if err := both.Wait(); err != nil && !errors.Is(err, context.Canceled) {
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
