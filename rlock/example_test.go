package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// example runs f with the address of a Redis server of its own.
func example(f func(ctx context.Context, addr string) error) {
	addr := redistest.ForExample()
	if err := f(context.Background(), addr); err != nil {
		fmt.Fprintln(os.Stdout, "error:", err)
	}
}

func work(_ context.Context, token uint64) error {
	if token > 0 {
		fmt.Println("working")
	}
	return nil
}

// A lock is taken, worked under, and given back.
func ExampleMutex() {
	example(func(ctx context.Context, addr string) error {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		client, err := holdfast.New(rdb, nil)
		if err != nil {
			return err
		}
		defer client.Close(ctx)

		hold, err := rlock.New(client, "orders:42").Lock(ctx, holdfast.Wait(5*time.Second))
		if err != nil {
			return err // errors.Is(err, holdfast.ErrNotAcquired): somebody else has it; ErrUnavailable: nobody knows
		}
		defer hold.Unlock(ctx)                    // sent even if ctx is cancelled; drops the error, which holdfast.Do returns
		return work(hold.Context(), hold.Token()) // the context ends if the lock is lost; Lock under it re-enters
	})
	// Output: working
}

// TryLock does not wait.
func ExampleMutex_TryLock() {
	example(func(ctx context.Context, addr string) error {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		client, err := holdfast.New(rdb, nil)
		if err != nil {
			return err
		}
		defer client.Close(ctx)
		m := rlock.New(client, "nightly-report")

		first, err := m.TryLock(ctx)
		if err != nil {
			return err
		}
		if _, err := m.TryLock(ctx); errors.Is(err, holdfast.ErrNotAcquired) {
			fmt.Println("somebody else is at it")
		}
		again, err := m.TryLock(first.Context()) // the same owner
		if err != nil {
			return err
		}
		fmt.Println("depth", again.Count())
		return errors.Join(again.Unlock(ctx), first.Unlock(ctx))
	})
	// Output:
	// somebody else is at it
	// depth 2
}

// State is for dashboards and for operators.
func ExampleMutex_State() {
	example(func(ctx context.Context, addr string) error {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		client, err := holdfast.New(rdb, nil)
		if err != nil {
			return err
		}
		defer client.Close(ctx)
		m := rlock.New(client, "orders:42")
		hold, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		state, err := m.State(ctx)
		if err != nil {
			return err
		}
		fmt.Println(state.Owner == hold.Owner(), state.Count, state.Token == hold.Token())

		there, err := m.ForceUnlock(ctx) // the holder is told
		if err != nil {
			return err
		}
		<-hold.Context().Done()
		fmt.Println(there, errors.Is(context.Cause(hold.Context()), holdfast.ErrLost))
		return nil
	})
	// Output:
	// true 1 true
	// true true
}
