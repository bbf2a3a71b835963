package holdfastotel

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// LogLosses returns an Observer that logs each lost lock as a warning, with the trace of the call that
// took it: the attributes trace_id and span_id, as the OpenTelemetry specification names them for
// logs. The record's context has the trace too, for a handler that looks there. The attributes are
// left out where there is no trace.
//
// holdfast.Options.Logger, by default slog.Default(), has a line for each loss as well, which cannot know
// the trace. Let its handler leave out "lock lost" if one line is enough.
//
// The logger runs in the goroutine that hears of losses: a slow one delays events, and no lock.
func LogLosses(logger *slog.Logger) *event.Observer {
	return &event.Observer{Ended: func(ctx context.Context, e event.End) {
		if !errors.Is(e.Reason, holdfast.ErrLost) {
			return
		}
		attrs := []slog.Attr{slog.String("kind", e.Kind), slog.String("name", printable.Name(e.Name)), slog.String("owner", printable.Name(e.Owner)),
			slog.Uint64("token", e.Token), slog.Duration("held", e.Held), slog.String("reason", printable.Line(e.Reason.Error()))}
		if span := trace.SpanContextFromContext(ctx); span.IsValid() {
			attrs = append(attrs, slog.String("trace_id", span.TraceID().String()),
				slog.String("span_id", span.SpanID().String()))
		}
		logger.LogAttrs(ctx, slog.LevelWarn, "lock lost", attrs...)
	}}
}
