package pubsub

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// ear is a listener that remembers.
type ear struct {
	mu       sync.Mutex
	messages []string
	looks    []bool
}

func (e *ear) Message(payload string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages = append(e.messages, payload)
}

func (e *ear) Look(confirmed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks = append(e.looks, confirmed)
}

func (e *ear) heard() (messages []string, looks []bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.messages...), append([]bool(nil), e.looks...)
}

// TestListen: a listener is told what messages say, each of them, and when some may have been
// missed. Who only waits beside it is woken as ever.
func TestListen(t *testing.T) {
	_, rdb, h := started(t, Options{})
	e := &ear{}
	s := h.Listen("name", e)
	defer s.Close()
	eventually(t, "confirmed", s.Confirmed)
	beside := h.Subscribe("name")
	defer beside.Close()
	woken(t, beside)
	for _, text := range []string{"one", "two", "three"} {
		require.EqualValues(t, 1, rdb.Publish(t.Context(), "name", text).Val())
	}
	eventually(t, "all messages", func() bool { m, _ := e.heard(); return len(m) == 3 })
	woken(t, beside)
	m, looks := e.heard()
	require.Equal(t, []string{"one", "two", "three"}, m)
	require.Equal(t, []bool{true}, looks)

	late := &ear{}
	defer h.Listen("name", late).Close()
	_, looks = late.heard()
	require.Equal(t, []bool{true}, looks, "joined a channel that is confirmed")

	require.NoError(t, rdb.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	eventually(t, "down, and up again", func() bool { _, looks := e.heard(); return len(looks) == 3 })
	_, looks = e.heard()
	require.Equal(t, []bool{true, false, true}, looks)
	require.NoError(t, h.Close(t.Context()))
	require.ErrorIs(t, s.Err(), ErrClosed)
	_, looks = e.heard()
	require.Equal(t, []bool{true, false, true, false}, looks)
}

// TestDoubt: a connection to the wrong server is replaced, and that is told as an outage.
func TestDoubt(t *testing.T) {
	old, next := redistest.Start(t), redistest.Start(t)
	addr := atomic.Pointer[string]{}
	first, second := old.Addr(), next.Addr()
	addr.Store(&first)
	rdb := redistest.NewClient(t, "", func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", *addr.Load())
		}
	})
	h := newHub(t, rdb, Options{})
	e := &ear{}
	s := h.Listen("name", e)
	defer s.Close()
	eventually(t, "confirmed", s.Confirmed)
	addr.Store(&second) // the name of the primary means another one now
	heard := func() bool { return next.Client(t).Publish(t.Context(), "name", "text").Val() == 1 }
	require.False(t, heard(), "control")
	s.Reconnect()
	eventually(t, "heard at the new one", heard)
	eventually(t, "told", func() bool {
		messages, looks := e.heard()
		return len(messages) == 1 && slices.Equal(looks, []bool{true, false, true})
	})
}
