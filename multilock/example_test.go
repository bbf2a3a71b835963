package multilock_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// A transfer needs both accounts, and nobody knows who else needs which, in what order.
func ExampleMutex() {
	transfer := func(ctx context.Context, client *holdfast.Client, from, to string) error {
		both := multilock.New(rlock.New(client, from), rlock.New(client, to))
		return holdfast.Do(ctx, both, func(ctx context.Context) error {
			_, one := fence.TokenOf(ctx, from) // for the store of that account to check
			_, two := fence.TokenOf(ctx, to)
			fmt.Println("moving under", both.Name(), one, two)
			return nil
		}, holdfast.Wait(5*time.Second))
	}
	if err := func(ctx context.Context, addr string) error {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		client, err := holdfast.New(rdb, nil)
		if err != nil {
			return err
		}
		defer client.Close(ctx)
		if err := transfer(ctx, client, "account:1", "account:2"); err != nil {
			return err
		}
		return transfer(ctx, client, "account:2", "account:1")
	}(context.Background(), redistest.ForExample()); err != nil {
		fmt.Fprintln(os.Stdout, "error:", err)
	}
	// Output:
	// moving under account:1, account:2 true true
	// moving under account:1, account:2 true true
}
