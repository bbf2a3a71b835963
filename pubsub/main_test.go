package pubsub

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is how long a condition may take that must come true. It is never a measurement.
const patience = 20 * time.Second

// started is a hub on a server of the test's own.
func started(t *testing.T, opts Options, change ...func(*redis.Options)) (*redistest.Server, *redis.Client, *Hub) {
	server := redistest.Start(t)
	rdb := server.Client(t, change...)
	return server, rdb, newHub(t, rdb, opts)
}

// newHub makes a hub that is closed with the test and then keeps nothing.
func newHub(t testing.TB, rdb redis.UniversalClient, opts Options) *Hub {
	h := New(rdb, opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, h.Close(ctx))
		require.Equal(t, Stats{Subscribers: h.Stats().Subscribers}, h.Stats(), "left behind by Close")
	})
	return h
}

func eventually(t testing.TB, what string, cond func() bool) {
	require.Eventually(t, cond, patience, time.Millisecond, what)
}

func woken(t testing.TB, s *Subscription) {
	t.Helper()
	select {
	case <-s.Wake():
	case <-time.After(patience):
		t.Fatalf("not woken within %s (channel %q, error %v)", patience, s.topic.channel, s.Err())
	}
}

// hasToken looks without waiting.
func hasToken(s *Subscription) bool {
	select {
	case <-s.Wake():
		return true
	default:
		return false
	}
}

// stateOf is how far the hub is with a channel; gone if it does not know it.
func stateOf(h *Hub, channel string) state {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[channel]; t != nil {
		return t.state
	}
	return gone
}

func awaitConfirmed(t testing.TB, h *Hub, channel string) {
	eventually(t, channel+" confirmed", func() bool { return stateOf(h, channel) == confirmed })
}

// joined subscribes and takes the token of the confirmation.
func joined(t testing.TB, h *Hub, channel string) *Subscription {
	s := h.Subscribe(channel)
	t.Cleanup(s.Close)
	awaitConfirmed(t, h, channel)
	woken(t, s)
	return s
}

// publish asserts that exactly n connections were listening.
func publish(t testing.TB, rdb *redis.Client, channel string, n int64) {
	got, err := rdb.Publish(t.Context(), channel, "0").Result()
	require.NoError(t, err)
	require.Equal(t, n, got, "receivers of %q", channel)
}

// subscribers are the ids of the server's subscriber connections.
func subscribers(t testing.TB, rdb *redis.Client) []string {
	list, err := rdb.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	require.NoError(t, err)
	var ids []string
	for line := range strings.Lines(list) {
		if id, _, ok := strings.Cut(line, " "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// beforeDial is a hook that is called before every dial.
type beforeDial func(ctx context.Context)

func (f beforeDial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		f(ctx)
		return next(ctx, network, addr)
	}
}
func (beforeDial) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (beforeDial) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// gate holds every dial until it is open: what is subscribed before travels together.
func gate(open <-chan struct{}) redis.Hook {
	return beforeDial(func(ctx context.Context) {
		select {
		case <-open:
		case <-ctx.Done():
		}
	})
}
