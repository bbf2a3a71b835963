package simulation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/testkit/defence"
)

// scene is a world in which a test says what happens: nothing in it happens by chance.
type scene struct {
	*World
	t        *testing.T
	networks []*network
	rdbs     []*redis.Client
	clients  []*holdfast.Client
}

// play has a test say what happens to so many clients.
func play(t *testing.T, clients int, act func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{World: bare(Settings{Seed: 1, Actors: 4, Latency: 100 * time.Microsecond}), t: t}
		for number := range clients {
			n := newNetwork(s.World, number)
			rdb := s.connect(n)
			c, err := holdfast.New(rdb, nil)
			require.NoError(t, err)
			s.networks, s.rdbs, s.clients = append(s.networks, n), append(s.rdbs, rdb), append(s.clients, c)
		}
		act(s)
		for i, c := range s.clients {
			require.NoError(t, c.Close(context.Background()))
			require.NoError(t, s.rdbs[i].Close())
			s.networks[i].cut()
		}
		s.server.Close()
	})
}

// past has time go by.
func (s *scene) past(d time.Duration) { s.sleep(s.t.Context(), d) }

// TestPlacesArePutOff: a waiter for a fair lock has its place for as long as the lock is held. Without
// the defence it loses the place, and does not notice.
func TestPlacesArePutOff(t *testing.T) {
	serves := func() (err error) {
		play(t, 2, func(s *scene) {
			h, err1 := fairlock.New(s.clients[0], "a").Lock(s.t.Context())
			require.NoError(s.t, err1)
			over := make(chan struct{})
			go func() {
				defer close(over)
				var h *holdfast.Hold
				if h, err = fairlock.New(s.clients[1], "a").Lock(s.t.Context(), holdfast.Wait(time.Minute)); err == nil {
					err = h.Unlock(s.t.Context())
				}
			}()
			s.past(2 * place)
			require.NoError(s.t, h.Unlock(s.t.Context()))
			<-over
		})
		return err
	}
	require.NoError(t, serves())
	defer defence.Refresh.Without(t)()
	require.ErrorIs(t, serves(), holdfast.ErrNotAcquired, "control")
}
