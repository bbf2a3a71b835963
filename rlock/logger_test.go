package rlock_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// handler is a log that does something with each record.
type handler struct {
	slog.Handler
	handle func()
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(context.Context, slog.Record) error { h.handle(); return nil }

// TestCloseWithBlockedLogger: a log blocks when it is told of a loss. Close gives back what is held, and
// waits for the log until its context ends, and not longer. Package memory shows the same in virtual time,
// without what is sent to Redis.
func TestCloseWithBlockedLogger(t *testing.T) {
	blocked, released := make(chan struct{}), make(chan struct{})
	log := slog.New(handler{slog.DiscardHandler, func() {
		close(blocked) // there is one record
		<-released
	}})
	rdb := redistest.Shared(t).Client(t)
	c, err := holdfast.New(rdb, &holdfast.Options{Logger: log})
	require.NoError(t, err)
	m := rlock.New(c, uniqueName(t))
	h := lock(t, m)
	lock(t, rlock.New(c, uniqueName(t)+"-lost"), holdfast.NoRenewal(), holdfast.Lease(time.Second))
	<-blocked
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error)
	go func() { closed <- c.Close(ctx) }()
	require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrClosed)
	eventually(t, "given back", func() bool { return free(t, rdb, m.Name()) })
	cancel()
	require.ErrorIs(t, <-closed, context.Canceled)
	close(released)
	eventually(t, "what Close left to the background has ended", func() bool {
		stacks := make([]byte, 4<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "remote.(*undoer)")
	})
}

// TestPanickingLogger: a log that panics harms nobody.
func TestPanickingLogger(t *testing.T) {
	c, _ := shared(t, &holdfast.Options{Logger: slog.New(handler{slog.DiscardHandler, func() { panic("logger") }})})
	for range 2 {
		h := lock(t, rlock.New(c, uniqueName(t)), holdfast.NoRenewal(), holdfast.Lease(time.Second))
		require.ErrorIs(t, awaitEnd(t, h), holdfast.ErrLost)
	}
}
