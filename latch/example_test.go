package latch_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/latch"
)

// A service waits until two others are ready.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	if err := start(context.Background(), rdb); err != nil {
		fmt.Println("error:", err)
	}
	// Output:
	// ready, left: 1
	// ready, left: 0
	// all are ready
}

func start(ctx context.Context, rdb *redis.Client) error {
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	ready := latch.New(client, "services:ready")
	if _, err := ready.Set(ctx, 2); err != nil {
		return err
	}
	for range 2 { // each in a process of its own
		left, err := ready.CountDown(ctx)
		if err != nil {
			return err
		}
		fmt.Println("ready, left:", left)
	}
	if err := ready.Wait(ctx); err != nil {
		return err
	}
	fmt.Println("all are ready")
	return nil
}
