package printable

import (
	"context"
	"fmt"
	"log/slog"
)

// Stack is the key of a log value of many lines, which is the program's own.
const Stack = "stack"

// Handler takes records to another handler, with messages and values that are fit to be shown: texts as [Text]
// of [Long] bytes, errors as [Error], and what else has a text of its own as that.
func Handler(to slog.Handler) slog.Handler { return handler{to} }

type handler struct{ to slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) bool { return h.to.Enabled(ctx, level) }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	shown := slog.NewRecord(r.Time, r.Level, Line(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		shown.AddAttrs(attr(a))
		return true
	})
	return h.to.Handle(ctx, shown)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	shown := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shown[i] = attr(a)
	}
	return handler{h.to.WithAttrs(shown)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.to.WithGroup(name)} }

func attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		if a.Key != Stack {
			v = slog.StringValue(Text(v.String(), Long))
		}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			v = slog.AnyValue(Error(err))
		} else {
			v = slog.StringValue(Text(fmt.Sprint(v.Any()), Long))
		}
	case slog.KindGroup:
		var members []slog.Attr
		for _, member := range v.Group() {
			members = append(members, attr(member))
		}
		v = slog.GroupValue(members...)
	}
	return slog.Attr{Key: a.Key, Value: v}
}
