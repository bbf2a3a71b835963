// Command queue prints a page on a printer that all machines share: first come, first served. NAME says who
// prints.
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

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err) //nolint:gocritic // the process ends anyway
	}
}

func run(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx)) // who is interrupted leaves the queue at once

	printer := fairlock.New(client, "printer")
	if state, err := printer.State(ctx); err == nil && state.Owner != "" {
		fmt.Println("the printer is busy, and so many wait:", state.Waiters)
	}
	// The place in the queue is kept at the server. A process that dies there is passed over.
	hold, err := printer.Lock(ctx, holdfast.Wait(10*time.Minute))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return fmt.Errorf("not printed: %w", err) // it says who prints now
	}
	if err != nil {
		return err
	}
	err = print(hold.Context(), hold.Token())
	return errors.Join(err, hold.Unlock(ctx)) // an error of Unlock says if the lock was lost meanwhile
}

// print is done when the context ends, whatever is on the page by then.
func print(ctx context.Context, token uint64) error {
	fmt.Printf("%s prints, token %d\n", cmp.Or(os.Getenv("NAME"), "somebody"), token)
	return ctx.Err()
}
