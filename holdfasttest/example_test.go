package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
)

// report is the code that is tested. It works for an hour, unless it loses the lock.
func report(ctx context.Context, client *holdfast.Client) error {
	return holdfast.Do(ctx, rlock.New(client, "report"), func(ctx context.Context) error {
		select {
		case <-time.After(time.Hour):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, holdfast.Wait(30*time.Minute))
}

// TestReport is what stands in docs/unit-tests.md.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		client := server.Client(nil)

		release := server.Occupy("report", 0)   // somebody else has it
		time.AfterFunc(20*time.Minute, release) // and gives it back in time
		if err := report(t.Context(), client); err != nil {
			t.Error("waited, and worked:", err)
		}

		time.AfterFunc(10*time.Minute, func() { server.Lose("report") }) // in the middle of the work
		if err := report(t.Context(), client); !errors.Is(err, holdfast.ErrLost) {
			t.Error("stopped when the lock was lost:", err)
		}

		restore := server.Silence() // nobody knows who has it
		if err := report(t.Context(), client); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Error("an outage is not contention:", err)
		}
		restore()
	})
}

// The same on the clock of the machine, as far as that can be: an example has no test, and so no
// bubble.
func ExampleServer_Lose() {
	example(func(tb testing.TB) {
		server := holdfasttest.New(tb)
		hold, err := rlock.New(server.Client(nil), "orders:42").Lock(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		server.Lose("orders:42")
		<-hold.Context().Done() // at once: nobody waits for the next renewal
		fmt.Println(errors.Is(context.Cause(hold.Context()), holdfast.ErrLost))
		fmt.Println(errors.Is(hold.Unlock(context.Background()), holdfast.ErrLost))
	})
	// Output:
	// true
	// true
}

// Somebody else has the lock, and the call says so.
func ExampleServer_Occupy() {
	example(func(tb testing.TB) {
		server := holdfasttest.New(tb)
		release := server.Occupy("orders:42", 0)
		lock := rlock.New(server.Client(nil), "orders:42")
		_, err := lock.TryLock(context.Background())
		fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
		release()
		hold, err := lock.TryLock(context.Background())
		fmt.Println(err)
		fmt.Println(hold.Unlock(context.Background()))
	})
	// Output:
	// true
	// <nil>
	// <nil>
}

// A reply is lost after the server has done what it was asked. The library asks again, and nothing
// happens twice.
func ExampleServer_Fail() {
	example(func(tb testing.TB) {
		server := holdfasttest.New(tb)
		lock := rlock.New(server.Client(nil), "orders:42")
		hold, err := lock.Lock(context.Background())
		fmt.Println(err)
		server.Fail("orders:42", 1, nil)
		fmt.Println(hold.Unlock(context.Background()))
		hold, err = lock.TryLock(context.Background())
		fmt.Println(err, hold.Count())
		fmt.Println(hold.Unlock(context.Background()))
	})
	// Output:
	// <nil>
	// <nil>
	// <nil> 1
	// <nil>
}

// example runs f with what it needs of a test. Yours has a *testing.T.
func example(f func(tb testing.TB)) {
	r := new(recorder)
	f(r)
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	for _, text := range r.failures {
		fmt.Println("failed:", text)
	}
}
