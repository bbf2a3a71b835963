package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/semaphore"
)

// Three calls at a time, in all processes; and one piece of work that counts for two.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	if err := call(context.Background(), rdb); err != nil {
		fmt.Println("error:", err)
	}
	// Output:
	// 2 of 3 are out
	// all are out
	// free: 3
}

func call(ctx context.Context, rdb *redis.Client) error {
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	calls := semaphore.New(client, "partner:calls", 3)
	export, err := calls.Acquire(ctx, 2)
	if err != nil {
		return err
	}
	fmt.Println(export.Count(), "of 3 are out")
	err = holdfast.Do(ctx, calls, func(ctx context.Context) error { // waits for one permit
		_, err := calls.TryLock(ctx)
		if errors.Is(err, holdfast.ErrNotAcquired) {
			fmt.Println("all are out")
			return nil
		}
		return err
	})
	if err := errors.Join(err, export.Unlock(ctx)); err != nil {
		return err
	}
	state, err := calls.State(ctx)
	fmt.Println("free:", state.Free)
	return err
}
