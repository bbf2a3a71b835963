package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// TestPermissionLostWhileWaiting: somebody waits already when the permission to listen goes. The
// holder never lets go, so only an error ends the wait. Servers with permissions for channels close
// the connection of a subscriber who lost one; for commands, and on Redis 6.0, the connection is
// closed here, as any network may do.
func TestPermissionLostWhileWaiting(t *testing.T) {
	onAllServers(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, redistest.Exec(p.Path))
		rule := aclRule(srv, false)
		words := []string{"+subscribe"}
		if srv.Major() >= 7 {
			words = append(words, aclChannels)
		}
		for _, word := range words {
			s := newSubject(t, srv.Client(t), as(t, srv, "limited", rule), "orders:42", srv)
			held := s.lock(s.other)
			eventually(s.ctx, t, "nobody listens yet", func() bool { return s.listeners() == 0 })
			done := make(chan error, 1)
			go func(m *rlock.Mutex) {
				_, err := m.Lock(s.ctx)
				done <- err
			}(s.mine)
			eventually(s.ctx, t, "the waiter listens", func() bool { return s.listeners() == 1 })
			setUser(t, srv, "limited", without(rule, word))
			if word == "+subscribe" {
				srv.Command(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
			s.expect("wait", <-done, true)
			state, err := s.other.State(s.ctx)
			require.NoError(t, err)
			require.Equal(t, held.Owner(), state.Owner)
			s.drop(held)
		}
	})
}
