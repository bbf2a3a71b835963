package simulation

import (
	"context"
	"log/slog"
	"sync"
)

// slowLog is the log of a client: a record takes its time, or for the rest of the client's life,
// and now and then it panics. None of that may be felt by anybody.
type slowLog struct {
	world *World
	life  context.Context // of the client; Close does not wait for the log's time

	mu  sync.Mutex // guards rng
	rng source
}

func (l *slowLog) Enabled(context.Context, slog.Level) bool { return l.world.Log > 0 }
func (l *slowLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *slowLog) WithGroup(string) slog.Handler            { return l }

func (l *slowLog) Handle(context.Context, slog.Record) error {
	l.mu.Lock()
	d, panics := l.world.round(l.rng.random(l.world.Log)), l.world.LogPanics && l.rng.IntN(4) == 0
	l.mu.Unlock()
	l.world.sleep(l.life, d)
	if panics {
		panic("log")
	}
	return nil
}
