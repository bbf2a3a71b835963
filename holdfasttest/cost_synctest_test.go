package holdfasttest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// TestCost: in a bubble a second costs a poll for each client that waits for an election, however many candidates it has, and a lease
// costs three renewals of the leader. No other script runs.
func TestCost(t *testing.T) {
	const passes = 5 * time.Minute
	for _, c := range []struct {
		name            string
		opts            holdfast.Options
		clients, each   int
		polls, renewals int
	}{
		{"two clients", holdfast.Options{}, 2, 1, 300, 30},
		{"one client", holdfast.Options{}, 1, 5, 300, 30},
		{"a long lease", holdfast.Options{Lease: 5 * time.Minute}, 1, 1, 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				ran := make(map[string]int)
				c.opts.Observer = &event.Observer{Sent: func(s event.Script) {
					mu.Lock()
					defer mu.Unlock()
					ran[s.Script]++
				}}
				s := holdfasttest.New(t)
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				for range c.clients {
					e := election.New(s.Client(&c.opts), "billing")
					for range c.each {
						group.Go(func() {
							_ = e.Run(ctx, "", func(ctx context.Context) error { <-ctx.Done(); return nil })
						})
					}
				}
				time.Sleep(time.Minute) // places are old enough for polls
				synctest.Wait()
				mu.Lock()
				clear(ran)
				mu.Unlock()
				time.Sleep(passes)
				synctest.Wait()
				mu.Lock()
				polls, renewals := ran["fair_poll"], ran["election_renew"]
				all := 0
				for _, n := range ran {
					all += n
				}
				mu.Unlock()
				cancel()
				group.Wait()
				require.InDelta(t, c.polls, polls, 1)
				require.InDelta(t, c.renewals, renewals, 1)
				require.Equal(t, polls+renewals, all, "others")
			})
		})
	}
}
