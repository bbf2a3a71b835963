package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// A holder who was overtaken comes late, and the store refuses its write.
func ExampleRedis() {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	if err := overtaken(context.Background(), rdb); err != nil {
		fmt.Println("error:", err)
	}
	// Output:
	// written: OK
	// refused: true, 41 pieces
}

func overtaken(ctx context.Context, rdb *redis.Client) error {
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	lock, guard := rlock.New(client, "stock:7:lock"), fence.NewRedis(rdb)

	late, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := lock.ForceUnlock(ctx); err != nil { // as if it had been paused for longer than its lease
		return err
	}
	hold, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx)

	reply, err := guard.Do(hold.Context(), "stock:7", "SET", 41) // in place of rdb.Set(ctx, "stock:7", 41, 0)
	if err != nil {
		return err
	}
	fmt.Println("written:", reply)

	unaware := context.WithoutCancel(late.Context()) // it does not know of its loss
	_, err = guard.Do(unaware, "stock:7", "SET", 40)
	fmt.Printf("refused: %t, %s pieces\n", errors.Is(err, fence.ErrStale), rdb.Get(ctx, "stock:7").Val())
	return nil
}
