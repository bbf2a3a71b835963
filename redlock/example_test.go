package redlock_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/redlock"
)

func work(_ context.Context, token uint64) error {
	if token > 0 {
		fmt.Println("working")
	}
	return nil
}

// A lock is granted by three of five masters, worked under, and given back.
func ExampleMutex() {
	if err := onMasters(context.Background(), redistest.ForExamples(5)); err != nil {
		fmt.Fprintln(os.Stdout, "error:", err)
	}
	// Output: working
}

// closeAll begins with the first client, which has the holds.
func closeAll(ctx context.Context, clients []*holdfast.Client) {
	for _, c := range clients {
		_ = c.Close(ctx)
	}
}

func onMasters(ctx context.Context, addrs []string) error {
	var clients []*holdfast.Client
	for _, addr := range addrs { // five servers that know nothing of each other
		rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second})
		defer rdb.Close()
		client, err := holdfast.New(rdb, nil)
		if err != nil {
			return err
		}
		clients = append(clients, client)
	}
	defer closeAll(ctx, clients)

	// a *holdfast.Client for each master
	hold, err := redlock.New(clients, "payout:42").Lock(ctx, holdfast.Wait(5*time.Second))
	if err != nil {
		return err // also if too few masters answer; it says what each of them said
	}
	defer hold.Unlock(ctx)
	return work(hold.Context(), hold.Token()) // the context ends if the lock is lost: no majority renewed it
}
