package semaphore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// TestSetPermitsRepeatedAfterAWhile has a call of SetPermits repeated for as long as Options.RetryBudget
// allows, which may be longer than the server remembers the call.
func TestSetPermitsRepeatedAfterAWhile(t *testing.T) {
	srv := redistest.Start(t, redistest.Clock())
	l := &lab{t, srv, srv.Client(t), uniqueName(t), 8}
	proxy := faultproxy.New(t, srv.Addr())
	far := l.through(srv.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() }), &holdfast.Options{RetryBudget: time.Minute})
	other := l.process(nil)
	require.NoError(t, far.SetPermits(t.Context(), 8)) // it knows the server's clock from now on

	proxy.On(faultproxy.Script(lua.SemSet.Hash()), 0, faultproxy.DropReply)
	set := make(chan error, 1)
	go func() { set <- far.SetPermits(t.Context(), 2) }()
	permits := func() int {
		s, err := other.State(t.Context())
		require.NoError(t, err)
		return s.Permits
	}
	eventually(t, "it was set, and the answer was lost", func() bool { return permits() == 2 })
	proxy.Stop()
	require.NoError(t, other.SetPermits(t.Context(), 5))
	srv.MoveClock(t, 20*time.Second) // for as long the network is down
	proxy.Clear()
	proxy.Start()
	require.NoError(t, <-set)
	require.Equal(t, 5, permits(), "a repeat of a call that got no answer changes nothing, also if another call was made since")
}
