// Command queue prints a page on a printer that all machines share: first come, first served. NAME says who
// prints.
//
//	NAME=a go run ./examples/queue
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	logging.Disable() // during an outage go-redis would write to stderr; the errors say what is the matter
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx)) // who is interrupted leaves the queue at once

	printer := fairlock.New(client, "printer")
	if state, err := printer.State(ctx); err == nil && state.Owner != "" {
		fmt.Printf("the printer is busy, %d wait\n", state.Waiters)
	}
	// The place in the queue is kept at the server. A process that dies there is passed over.
	hold, err := printer.Lock(ctx, holdfast.Wait(10*time.Minute))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return fmt.Errorf("not printed: %w", err) // it says who prints now
	}
	if err != nil {
		return err
	}
	err = printPage(hold.Context(), hold.Token())
	return errors.Join(err, hold.Unlock(ctx)) // an error of Unlock says if the lock was lost meanwhile
}

// printPage is done when the context ends, whatever is on the page by then.
func printPage(ctx context.Context, token uint64) error {
	fmt.Printf("%s prints, token %d\n", cmp.Or(os.Getenv("NAME"), "somebody"), token)
	return ctx.Err()
}
