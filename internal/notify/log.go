package notify

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// LogRoom is how many records wait at most.
const LogRoom = 1000

// Dropped is the key of the number of records that were dropped before this one.
const Dropped = "dropped"

// NewLogger makes a logger whose records go to the handler of another one, in a goroutine of their own. Text that others
// wrote is made printable on the way. start runs a function in a goroutine: there is one while there are records. The
// owner of start owns it, and it lasts for as long as the handler blocks.
//
// nil stands for the program's default logger as it is now, from warnings on. slog.DiscardHandler gets no records, and
// no goroutine.
func NewLogger(to *slog.Logger, start func(func())) *slog.Logger {
	byDefault := to == nil
	if byDefault {
		to = slog.Default()
	}
	if to.Handler() == slog.DiscardHandler {
		return to
	}
	if byDefault {
		to = slog.New(warnings{to.Handler()})
	}
	return slog.New(&handler{queue: newQueue(start, logRecord), to: to.Handler})
}

// handler only queues the records. It does not call the user's code.
type handler struct {
	queue *queue[entry]
	to    func() slog.Handler // makes the user's handler; called in the queue's goroutine
}

// Enabled says yes: the user's handler decides, and the queue's goroutine asks it later.
func (*handler) Enabled(context.Context, slog.Level) bool { return true }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.queue.put(entry{h.to, r.Clone()}, LogRoom)
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.queue, func() slog.Handler { return h.to().WithAttrs(attrs) }}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.queue, func() slog.Handler { return h.to().WithGroup(name) }}
}

// warnings passes on nothing below a warning.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}

func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }

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

// logRecord passes one record to the user's handler. It ignores the error, as slog does.
func logRecord(e entry, dropped int) {
	if dropped > 0 {
		e.record.AddAttrs(slog.Int(Dropped, dropped))
	}
	_ = deliver(e.to, e.record)
}
