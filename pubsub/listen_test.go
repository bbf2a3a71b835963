package pubsub

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
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

// TestListen: a listener is told what messages say, each of them, and when some may have been missed. Who only waits beside it
// is woken as ever.
func TestListen(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	h := newHub(t, rdb, Options{})
	e := &ear{}
	s := h.Listen("name", e)
	defer s.Close()
	eventually(t, "confirmed", s.Confirmed)
	beside := h.Subscribe("name")
	defer beside.Close()
	woken(t, beside)
	for _, text := range []string{"one", "two", "three"} {
		require.Equal(t, int64(2), 2*rdb.Publish(t.Context(), "name", text).Val())
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
