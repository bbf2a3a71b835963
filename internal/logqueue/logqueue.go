// Package logqueue takes log records to a handler of the user's in a goroutine of their own, so
// that one who logs never waits for it: it may be slow, block for ever or panic. What others wrote is
// made printable on the way.
//
// Not promised: that a record arrives. Of those that come while too many wait, and of those at
// which the handler panics, only the number is told, with the next record that gets through.
package logqueue

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/internal/aside"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Room is how many records wait at most.
const Room = 1000

// Dropped is the key of the number of records that did not get through.
const Dropped = "dropped"

// New makes a logger whose records go to the handler of another one. start runs a function in a
// goroutine: there is one while there are records, and none else. It is owned by whoever start
// belongs to, and lasts for as long as the handler blocks.
func New(to *slog.Logger, start func(func())) *slog.Logger {
	return slog.New(&handler{queue: aside.New(start, hand), to: to.Handler})
}

// handler is what a logger sees. It calls nothing of the user's.
type handler struct {
	queue *aside.Queue[entry]
	to    func() slog.Handler // makes the user's; called in the queue's goroutine
}

// Enabled says yes: whether a record is wanted is the user's code to say, and that is called later.
func (*handler) Enabled(context.Context, slog.Level) bool { return true }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.queue.Put(entry{h.to, r.Clone()}, Room)
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.queue, func() slog.Handler { return h.to().WithAttrs(attrs) }}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.queue, func() slog.Handler { return h.to().WithGroup(name) }}
}

func deliver(to func() slog.Handler, r slog.Record) error {
	h := printable.Handler(to())
	if !h.Enabled(context.Background(), r.Level) {
		return nil
	}
	return h.Handle(context.Background(), r)
}

type entry struct {
	to     func() slog.Handler
	record slog.Record
}

// hand gives the user's handler one record. Its errors are its own affair, as they are for slog.
func hand(e entry, dropped int) {
	if dropped > 0 {
		e.record.AddAttrs(slog.Int(Dropped, dropped))
	}
	_ = deliver(e.to, e.record)
}
