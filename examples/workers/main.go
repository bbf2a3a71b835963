// Command workers moves money between accounts, with a pool of goroutines. A transfer holds the locks of two
// accounts, and calls a function that takes one of them again. It writes the keys account:0 to account:2.
//
//	go run ./examples/workers
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

const workers, transfers, accounts = 4, 24, 3

// bank has balances that are read and written by two commands: without the locks money would be lost.
type bank struct {
	rdb    *redis.Client
	client *holdfast.Client
}

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
	defer client.Close(context.WithoutCancel(ctx))
	if _, err := rlock.New(client, balance(0)).State(ctx); err != nil {
		return err // it says what to do if Redis is away, or wants a password
	}
	b := bank{rdb, client}
	if err := rdb.MSet(ctx, balance(0), 100, balance(1), 100, balance(2), 100).Err(); err != nil {
		return err
	}

	// ctx carries no hold, so each transfer is an owner. Under one hold the locks would not keep them apart.
	pool, work := errgroup.WithContext(ctx)
	pool.SetLimit(workers)
	for i := range transfers {
		pool.Go(func() error { return b.transfer(work, i%accounts, (i+1)%accounts, i) })
	}
	if err := pool.Wait(); err != nil {
		return err
	}
	sum := 0
	for i := range accounts {
		n, err := rdb.Get(ctx, balance(i)).Int()
		if err != nil {
			return err
		}
		sum += n
	}
	fmt.Println("transfers:", transfers, "sum:", sum)
	return nil
}

// transfer takes the lower account first, whatever the direction: two transfers that each have one lock and
// want the other's would wait for each other. Package multilock orders any locks.
func (b bank) transfer(ctx context.Context, from, to, amount int) error {
	first, second := b.lock(min(from, to)), b.lock(max(from, to))
	return holdfast.Do(ctx, first, func(ctx context.Context) error {
		return holdfast.Do(ctx, second, func(ctx context.Context) error { // this ctx ends if either lock is lost
			if err := b.add(ctx, from, -amount); err != nil {
				return err
			}
			return b.add(ctx, to, amount)
		})
	})
}

// add is called by others, too, so it locks the account itself. Under a context with a hold of that lock it
// re-enters. Under a plain context it would wait for its own caller.
func (b bank) add(ctx context.Context, account, amount int) error {
	return holdfast.Do(ctx, b.lock(account), func(ctx context.Context) error {
		n, err := b.rdb.Get(ctx, balance(account)).Int()
		if err != nil {
			return err
		}
		return b.rdb.Set(ctx, balance(account), n+amount, 0).Err()
	})
}

func (b bank) lock(account int) holdfast.Locker { return rlock.New(b.client, balance(account)+":lock") }

func balance(account int) string { return fmt.Sprint("account:", account) }
