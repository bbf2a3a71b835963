package redistest

import (
	"context"
	"testing"
	"time"
)

// CloseAtEnd closes something at the end of the test, and fails it if that takes longer than it may
// on a busy machine. A client of the library is such a thing; this package must not know it.
func CloseAtEnd(tb testing.TB, c interface {
	Close(ctx context.Context) error
}) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		switch err := c.Close(ctx); {
		case ctx.Err() != nil:
			tb.Errorf("close: %v", err)
		case err != nil:
			tb.Logf("close: %v", err) // what was left where the test has taken the server away
		}
	})
}
