package inspect_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestDeadlocksEndsByItself: a text of a circle that says that it will be written anew in some years holds
// nobody up for longer than a client can be silent. The control: for the longest time between two texts of a
// client, Deadlocks waits, because the client may write.
func TestDeadlocksEndsByItself(t *testing.T) {
	const most = 4*deadlock.MostEvery + 3*time.Second
	for what, c := range map[string]struct {
		every int64
		least time.Duration
	}{
		"years":               {int64(10 * 365 * 24 * time.Hour / time.Millisecond), 0},
		"more than there are": {math.MaxInt64, 0},
		"before the text":     {-1, 0},
		"control: a client's": {deadlock.MostEvery.Milliseconds(), 4 * deadlock.MostEvery},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const client = "00000000-0000-4000-8000-000000000000"
				said := &deadlock.Published{Client: client, EveryMS: c.every, Waits: []deadlock.Wait{{
					Lock: deadlock.Lock{Name: "x"}, Owner: "o", Holds: []deadlock.Hold{{Lock: deadlock.Lock{Name: "x"}, Owner: "h"}},
				}}}
				rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nobody dials it
				defer rdb.Close()
				// A server in which one client says one thing, which never changes.
				rdb.AddHook(redistest.Around(func(_ func() error, cmds ...redis.Cmder) error {
					for _, cmd := range cmds {
						switch cmd := cmd.(type) {
						case *redis.ScanCmd:
							cmd.SetVal([]string{keys.Waits(client)}, 0)
						case *redis.StringCmd:
							cmd.SetVal(said.Text())
						}
					}
					return nil
				}))
				i, err := inspect.New(rdb, nil)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				from := time.Now()
				all, err := i.Deadlocks(ctx)
				require.NoError(t, err)
				require.Empty(t, all, "it was seen once")
				require.LessOrEqual(t, time.Since(from), most)
				require.GreaterOrEqual(t, time.Since(from), c.least)
			})
		})
	}
}
