package rwlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rwlock"
)

// Readers are inside together. The one who writes is alone, and may go on reading when it has
// written: then nobody else has written in between.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	if err := publish(context.Background(), rdb); err != nil {
		fmt.Println("error:", err)
	}
	// Output:
	// writes alone
	// both read what was written: true
	// a reader cannot write as well
}

func publish(background context.Context, rdb *redis.Client) error {
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(background)
	config := rwlock.New(client, "config")

	// One owner for both holds: the context of a hold ends with that hold.
	ctx := holdfast.WithOwner(background)
	write, err := config.Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("writes alone")
	read, err := config.RLock(ctx)
	if err != nil {
		return err
	}
	if err := write.Unlock(ctx); err != nil {
		return err
	}

	other, err := config.RLock(background)
	if err != nil {
		return err
	}
	fmt.Println("both read what was written:", read.Token() == other.Token())
	if _, err := config.Lock(ctx); errors.Is(err, rwlock.ErrUpgrade) { // it would wait for itself
		fmt.Println("a reader cannot write as well")
	}
	if err := read.Unlock(ctx); err != nil {
		return err
	}
	return other.Unlock(background)
}
