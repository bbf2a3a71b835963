package election_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestRefusedForAnHour: Redis refuses a candidate and an observer for an hour, and then refuses them in another way. Both
// say so twice, and neither floods the server nor gives up.
func TestRefusedForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun, asked := time.Now(), atomic.Int64{}
		rdb := kindtest.Hooked(redis.NewClient(&redis.Options{Dialer: noNetwork}),
			redistest.Around(func(_ func() error, cmds ...redis.Cmder) error {
				err := refusal("NOPERM no permission, at " + time.Now().String())
				if time.Since(begun) > time.Hour {
					err = "WRONGPASS at " + refusal(time.Now().String())
				}
				asked.Add(int64(len(cmds)))
				cmds[0].SetErr(err)
				return err
			}))
		defer rdb.Close()
		logged := &kindtest.Log{}
		c, err := holdfast.New(rdb, &holdfast.Options{Logger: logged.Logger()})
		require.NoError(t, err)
		defer c.Close(t.Context())
		e := election.New(c, "e")
		var told []string
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for _, err := range e.Observe(ctx) {
				told = append(told, err.Error())
			}
		}()
		time.AfterFunc(2*time.Hour, cancel)
		require.ErrorIs(t, e.Run(ctx, "v", func(context.Context) error { panic("never") }), context.Canceled)
		<-observed
		require.Len(t, told, 2, told)
		require.Equal(t, 2, strings.Count(logged.String(), "a campaign failed"), logged)
		// A candidate and an observer, for two hours, every 8 to 16 s; and while that grows.
		require.Greater(t, asked.Load(), int64(2*2*3600/16))
		require.Less(t, asked.Load(), int64(2*2*3600/8+20))
	})
}

func noNetwork(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("there is no network")
}
