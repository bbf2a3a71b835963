package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

type nobody struct{}

func (nobody) Lost(error) {}

// TestRefusedBeforeTheHold: a refusal has the hold renewed soon, also one that comes when the votes
// are counted and there is no hold yet. One of a question that came after the win does not: who
// asks again and again is refused each time.
func TestRefusedBeforeTheHold(t *testing.T) {
	for name, hears := range map[string]struct {
		won, held bool // what the ballot knows when the refusal comes
		begun     time.Duration
		renewals  int32
	}{
		"before the win":            {renewals: 1},
		"after it":                  {won: true, renewals: 1},
		"with the hold":             {won: true, held: true, renewals: 1},
		"of a question of a holder": {won: true, held: true, begun: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var renewals atomic.Int32
				dog := watchdog.New(watchdog.Config{Renew: func(context.Context,
					[]watchdog.Renewal) {
					renewals.Add(1)
				}})
				defer func() {
					dog.Stop()
					dog.Join()
				}()
				b := &ballot{q: &quorum{base: &engine.Lock{Dog: dog}}, votes: make([]vote, 3)}
				var lease watchdog.Lease
				require.True(t, dog.Watch(&lease, nobody{}, time.Now(), time.Hour, true))
				refusal := &answer{begun: time.Now().Add(hears.begun), reply: lua.NewReply(lua.Denied, 1000, "another")}
				time.Sleep(time.Millisecond)
				if hears.won {
					b.won = time.Now()
				}
				if hears.held {
					b.live(&lease)
				}
				b.settle(0, refusal)
				if !hears.held {
					b.live(&lease)
				}
				time.Sleep(joinAfter)
				synctest.Wait()
				require.Equal(t, hears.renewals, renewals.Load())
			})
		})
	}
}
