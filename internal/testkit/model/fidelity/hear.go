package fidelity

import (
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Listen subscribes to channels or unsubscribes, and waits for the server's confirmation.
func (s *Side) Listen(on bool, channels ...string) {
	ctx := s.T.Context()
	if s.ears == nil {
		s.ears = s.RDB.Subscribe(ctx, s.Name)
		s.confirmed("subscribe", s.Name)
	}
	kind, change := "unsubscribe", s.ears.Unsubscribe
	if on {
		kind, change = "subscribe", s.ears.Subscribe
	}
	require.NoError(s.T, change(ctx, channels...))
	for _, channel := range channels {
		s.confirmed(kind, channel)
	}
}

func (s *Side) confirmed(kind, channel string) {
	for {
		got, err := s.ears.Receive(s.T.Context())
		require.NoError(s.T, err)
		if c, ok := got.(*redis.Subscription); ok && c.Kind == kind && c.Channel == channel {
			return
		}
	}
}

// Heard returns the messages since the last call. A server sends the messages to one connection in order,
// so all of them arrive before one that is published now.
func (s *Side) Heard() (list []*redis.Message) {
	if s.ears == nil {
		return nil
	}
	require.NoError(s.T, s.RDB.Publish(s.T.Context(), s.Name, "end").Err())
	for {
		m, err := s.ears.ReceiveMessage(s.T.Context())
		require.NoError(s.T, err)
		if m.Channel == s.Name {
			return list
		}
		list = append(list, m)
	}
}

// Hear compares the messages since the last call with those of the model: a channel and a text each.
func (s *Side) Hear(what string, want ...[2]string) {
	var heard [][2]string
	for _, m := range s.Heard() {
		heard = append(heard, [2]string{m.Channel, m.Payload})
	}
	if !slices.Equal(heard, want) {
		s.Differ("%s sent %q, the model %q", what, heard, want)
	}
}
