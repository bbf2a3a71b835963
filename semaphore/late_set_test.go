package semaphore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/faultproxy"
	"github.com/holdfast-go/holdfast/internal/testkit/mutant"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/lua"
)

// repeatedAfter is the number of permits where the answer of a call that set it to 2 is lost, another
// call sets it to 5, and the first one is repeated after an outage.
func repeatedAfter(t *testing.T, outage time.Duration, hooks ...redis.Hook) int {
	t.Helper()
	srv := redistest.Start(t, redistest.Clock())
	l := &lab{t, srv, srv.Client(t), uniqueName(t), 8}
	proxy := faultproxy.New(t, srv.Addr())
	rdb := srv.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() })
	for _, h := range hooks {
		rdb.AddHook(h)
	}
	far, other := l.through(rdb, &holdfast.Options{RetryBudget: time.Minute}), l.process(nil)
	require.NoError(t, far.SetPermits(t.Context(), 8)) // it knows the server's clock from now on
	permits := func() int {
		s, err := other.State(t.Context())
		require.NoError(t, err)
		return s.Permits
	}
	proxy.On(faultproxy.Command("EVAL", "EVALSHA"), 0, faultproxy.DropReply)
	set := make(chan error, 1)
	go func() { set <- far.SetPermits(t.Context(), 2) }()
	eventually(t, "it is set, and the answer lost", func() bool { return permits() == 2 })
	proxy.Stop()
	require.NoError(t, other.SetPermits(t.Context(), 5))
	srv.MoveClock(t, outage)
	// Others come and go meanwhile.
	unlock(t, lock(t, other))
	proxy.Clear()
	proxy.Start()
	require.NoError(t, <-set)
	return permits()
}

// TestSetPermitsRepeatedAfterAWhile: however long a call is repeated, it is known as long.
func TestSetPermitsRepeatedAfterAWhile(t *testing.T) {
	require.Equal(t, 5, repeatedAfter(t, 20*time.Second))

	// The control: if the server forgets calls as it forgets places, the repeat undoes the other
	// call.
	require.Equal(t, 2, repeatedAfter(t, 20*time.Second,
		mutant.Hook(lua.SemSet, "'ZADD', places, -now - more, this", "'ZADD', places, -now, this")))
}
