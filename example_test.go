package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// example runs f with a lock on a Redis server of its own.
func example(f func(ctx context.Context, m *rlock.Mutex) error) {
	addr := redistest.ForExample()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	ctx := context.Background()
	client, err := holdfast.New(rdb, nil)
	if err == nil {
		err = errors.Join(f(ctx, rlock.New(client, "orders:42")), client.Close(ctx))
	}
	if err != nil {
		fmt.Println("error:", err)
	}
}

// The handler of a readiness probe asks whether this process could lock now.
func ExampleClient_Ping() {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	client, err := holdfast.New(rdb, nil)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	defer client.Close(context.Background())

	ready := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := client.Ping(ctx); err != nil {
			slog.WarnContext(ctx, "not ready", "error", err) // it may name Redis's address and user
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})

	answer := httptest.NewRecorder()
	ready.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(answer.Code)
	// Output: 200
}

// One client serves a whole process. Its settings are those of all its locks.
func ExampleNew() {
	addr := redistest.ForExample()
	ctx := context.Background()

	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 2 * time.Second})
	defer rdb.Close()
	client, err := holdfast.New(rdb, &holdfast.Options{
		Lease:  10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(client.ID()), client.Close(ctx))
	// Output: 36 <nil>
}

// Do calls a function under the lock. It returns nil only if the lock was held from start to end.
func ExampleDo() {
	example(func(ctx context.Context, m *rlock.Mutex) error {
		return holdfast.Do(ctx, m, func(context.Context) error {
			fmt.Println("alone")
			return nil
		}, holdfast.Wait(5*time.Second))
	})
	// Output: alone
}

// SyncLocker is for code that takes a sync.Locker.
func ExampleSyncLocker() {
	example(func(ctx context.Context, m *rlock.Mutex) error {
		l := holdfast.SyncLocker(ctx, m)
		l.Lock()
		defer l.Unlock()
		fmt.Println("alone")
		return nil
	})
	// Output: alone
}

// Under one owner, Lock re-enters wherever it is called.
func ExampleWithOwner() {
	example(func(ctx context.Context, m *rlock.Mutex) error {
		ctx = holdfast.WithOwner(ctx)
		first, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		second, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		fmt.Println(first.Count(), second.Count(), first.Owner() == second.Owner())
		return errors.Join(second.Unlock(ctx), first.Unlock(ctx))
	})
	// Output: 1 2 true
}

// A plain lease is not renewed. It can be extended, and tells when it has run out.
func ExampleHold_Extend() {
	example(func(ctx context.Context, m *rlock.Mutex) error {
		hold, err := m.Lock(ctx, holdfast.Lease(time.Second), holdfast.NoRenewal())
		if err != nil {
			return err
		}
		before := hold.Deadline()
		if err := hold.Extend(ctx, time.Minute); err != nil {
			return err
		}
		fmt.Println(hold.Deadline().Sub(before) > 50*time.Second)
		return hold.Unlock(ctx)
	})
	// Output: true
}
