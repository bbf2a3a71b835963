package holdfastotel

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/telemetry"
)

// spans makes spans of calls and holds.
type spans struct {
	tracer trace.Tracer
	holds  bool
}

func (s *spans) observer() *event.Observer {
	return &event.Observer{Waiting: s.waiting, Granted: s.granted, Refused: s.refused, Ended: s.ended}
}

// callKey finds a call in the contexts of its events. Several Telemetries may hear of it.
type callKey struct{ *spans }

// call is a Lock or TryLock, and the hold that it led to. Its events come one after the other.
type call struct {
	caller        context.Context // as the call was given it: its span is the parent of both
	once          bool
	acquire, hold trace.Span
}

func (s *spans) waiting(ctx context.Context, w event.Wait) context.Context {
	c := &call{caller: ctx, once: w.Once}
	ctx, c.acquire = s.tracer.Start(ctx, "holdfast.lock acquire", trace.WithAttributes(
		attribute.String("holdfast.lock.kind", w.Kind), named(w.Name),
		attribute.Bool("holdfast.lock.once", w.Once)))
	return context.WithValue(ctx, callKey{s}, c)
}

// named is the attribute of a lock's name. One that is no UTF-8 is quoted: with it the exporter would drop all spans
// that it sends at the same time, also of other code.
func named(name string) attribute.KeyValue {
	return attribute.String("holdfast.lock.name", printable.Name(name))
}

// call returns the one of a context; nil if another observer has put another context in its place.
func (s *spans) call(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{s}).(*call)
	return c
}

func (s *spans) granted(ctx context.Context, g event.Grant) {
	c := s.call(ctx)
	if c == nil {
		return
	}
	hold := []attribute.KeyValue{
		attribute.String("holdfast.lock.owner", printable.Name(g.Owner)),
		attribute.String("holdfast.lock.token", strconv.FormatUint(g.Token, 10)), // may be beyond 63 bits
		attribute.Int("holdfast.lock.count", g.Count),
	}
	c.acquire.SetAttributes(append(hold, attribute.String("holdfast.lock.outcome", g.How.String()),
		attribute.Bool("holdfast.lock.contended", g.Contended))...)
	c.acquire.End()
	if s.holds {
		_, c.hold = s.tracer.Start(c.caller, "holdfast.lock hold", trace.WithLinks(trace.Link{SpanContext: c.acquire.SpanContext()}),
			trace.WithAttributes(append(hold, attribute.String("holdfast.lock.kind", g.Kind), named(g.Name))...))
	}
}

func (s *spans) refused(ctx context.Context, r event.Refusal) {
	c := s.call(ctx)
	if c == nil {
		return
	}
	outcome := telemetry.Outcome(ctx, c.once, r.Err)
	c.acquire.SetAttributes(attribute.String("holdfast.lock.outcome", outcome))
	if outcome != telemetry.Refused && outcome != telemetry.Canceled {
		fail(c.acquire, outcome, r.Err)
	}
	c.acquire.End()
}

func (s *spans) ended(ctx context.Context, e event.End) {
	c := s.call(ctx)
	if c == nil {
		return
	}
	lost := errors.Is(e.Reason, holdfast.ErrLost)
	if c.hold == nil {
		if lost {
			tell(trace.SpanFromContext(c.caller), e)
		}
		return
	}
	switch {
	case lost:
		fail(c.hold, "lost", e.Reason)
	case e.Err != nil:
		fail(c.hold, telemetry.Outcome(c.caller, false, e.Err), e.Err)
	}
	c.hold.SetAttributes(attribute.String("holdfast.lock.end", endOf(e)))
	c.hold.End()
}

// endOf is why a hold ended, of few values.
func endOf(e event.End) string {
	switch {
	case errors.Is(e.Reason, holdfast.ErrLost):
		return "lost"
	case errors.Is(e.Reason, holdfast.ErrClosed):
		return "closed"
	}
	return "released"
}

// tell adds a loss to a span that goes on. One that has ended takes nothing any more.
func tell(span trace.Span, e event.End) {
	span.AddEvent("holdfast.lock lost", trace.WithAttributes(attribute.String("holdfast.lock.kind", e.Kind),
		named(e.Name), attribute.String("holdfast.lock.owner", printable.Name(e.Owner)),
		attribute.String("holdfast.lock.loss", telemetry.Reason(e.Reason))))
}

// fail is what the conventions ask of an operation that failed.
func fail(span trace.Span, kind string, err error) {
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, printable.Line(err.Error()))
}
