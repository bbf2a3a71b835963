package holdfastotel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/internal/testkit/hostile"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/watchdog"
)

// metered makes a Telemetry whose metrics can be collected.
func metered(t *testing.T, opts holdfastotel.Options) (*holdfastotel.Telemetry, *metric.ManualReader) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	opts.MeterProvider = provider
	tel, err := holdfastotel.New(&opts)
	require.NoError(t, err)
	return tel, reader
}

// collect returns the numbers by name and attributes; of histograms, how many were counted.
func collect(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data))
	all := map[string]float64{}
	key := func(name string, set attribute.Set) string {
		return name + " " + set.Encoded(attribute.DefaultEncoder())
	}
	for _, scope := range data.ScopeMetrics {
		require.Equal(t, holdfastotel.Scope, scope.Scope.Name)
		for _, m := range scope.Metrics {
			require.NotEmpty(t, m.Description, m.Name)
			require.NotEmpty(t, m.Unit, m.Name)
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					all[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					all[key(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					all[key(m.Name, p.Attributes)] = float64(p.Count)
				}
			default:
				t.Fatalf("%s is a %T", m.Name, d)
			}
		}
	}
	return all
}

// TestGauges: there are none after Close. Package deploy shows that all numbers are those of holdfastprom.
func TestGauges(t *testing.T) {
	tel, reader := metered(t, holdfastotel.Options{Kinds: []string{"rlock"}})
	require.Contains(t, collect(t, reader), "holdfast.lock.held kind=rlock")
	require.NoError(t, tel.Close())
	require.NotContains(t, collect(t, reader), "holdfast.lock.held kind=rlock")
}

// TestNothingIsFolded: with every kind and more classes than fit, the SDK, which folds what exceeds its limit, folds nothing.
func TestNothingIsFolded(t *testing.T) {
	tel, reader := metered(t, holdfastotel.Options{Class: func(name string) string { return name }})
	kinds := []string{"rlock", "fairlock", "rwlock", "semaphore", "redlock", "election"}
	for i := range 300 {
		for _, kind := range kinds {
			kindtest.Play(tel.Observer(), kind, fmt.Sprint("class", i), watchdog.ErrDeadline)
		}
	}
	lost := 0.0
	for name, v := range collect(t, reader) {
		require.NotContains(t, name, "otel.metric.overflow")
		if reason := "reason=silent"; len(name) > len(reason) && name[len(name)-len(reason):] == reason {
			lost += v
		}
	}
	require.Equal(t, float64(300*len(kinds)), lost)
}

// The control: without the cap the SDK does fold.
func TestSomethingIsFoldedWithoutTheCap(t *testing.T) {
	tel, reader := metered(t, holdfastotel.Options{MaxClasses: 1 << 20, Class: func(name string) string { return name }})
	for i := range 300 {
		kindtest.Play(tel.Observer(), "rlock", fmt.Sprint("class", i), watchdog.ErrDeadline)
	}
	require.Contains(t, collect(t, reader), "holdfast.lock.acquisitions otel.metric.overflow=true")
}

// TestALostLockOnARealServer: the spans and the log line of a lock that somebody deletes lead to the request that took it.
func TestALostLockOnARealServer(t *testing.T) {
	server := redistest.Start(t)
	tel, provider, exporter := traced(t, true)
	var out bytes.Buffer
	client, err := holdfast.New(server.Client(t), &holdfast.Options{Lease: 3 * time.Second, Observer: event.Join(
		tel.Observer(), holdfastotel.LogLosses(slog.New(slog.NewJSONHandler(&out, nil))))})
	require.NoError(t, err)

	ctx, caller := provider.Tracer("app").Start(context.Background(), "request")
	hold, err := rlock.New(client, "a").Lock(ctx)
	require.NoError(t, err)
	refused, err := rlock.New(client, "a").TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.Nil(t, refused)
	server.Command(t, "DEL", "a")
	<-hold.Context().Done()
	require.ErrorIs(t, hold.Unlock(ctx), holdfast.ErrLost)
	caller.End()
	require.NoError(t, client.Close(context.Background())) // waits for what has to be told

	spans := exporter.GetSpans()
	lost := byName(t, spans, "holdfast.lock hold")
	require.Equal(t, codes.Error, lost.Status.Code)
	require.Equal(t, caller.SpanContext().SpanID(), lost.Parent.SpanID())
	require.Equal(t, caller.SpanContext().TraceID(), lost.SpanContext.TraceID())
	require.Equal(t, "a", attrs(lost)["holdfast.lock.name"])
	require.Equal(t, hold.Owner(), attrs(lost)["holdfast.lock.owner"])
	outcomes := map[string]codes.Code{}
	for _, s := range spans {
		if s.Name == "holdfast.lock acquire" {
			require.Equal(t, caller.SpanContext().SpanID(), s.Parent.SpanID())
			outcomes[attrs(s)["holdfast.lock.outcome"]] = s.Status.Code
		}
	}
	require.Equal(t, map[string]codes.Code{"asked": codes.Unset, "refused": codes.Unset}, outcomes)

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), out.String())
	require.Equal(t, "WARN", line["level"])
	require.Equal(t, "a", line["name"])
	require.Equal(t, caller.SpanContext().TraceID().String(), line["trace_id"])
	require.Equal(t, lost.Links[0].SpanContext.SpanID().String(), line["span_id"])
}

func TestMain(m *testing.M) { redistest.Main(m) }

// traced makes a Telemetry whose spans are kept, and a tracer of a caller's.
func traced(t *testing.T, holdSpans bool) (*holdfastotel.Telemetry, *trace.TracerProvider, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	tel, err := holdfastotel.New(&holdfastotel.Options{MeterProvider: metricnoop.NewMeterProvider(),
		TracerProvider: provider, HoldSpans: holdSpans})
	require.NoError(t, err)
	return tel, provider, spans
}

func attrs(span tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// byName returns the only span of a name.
func byName(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, s := range spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

func errLost(why error) error { return fmt.Errorf("%w: %w", holdfast.ErrLost, why) }

func TestSpansOfAHold(t *testing.T) {
	tel, provider, exporter := traced(t, true)
	o := tel.Observer()
	ctx, caller := provider.Tracer("app").Start(context.Background(), "request")
	ctx = o.Waiting(ctx, event.Wait{Kind: "rlock", Name: "orders:42"})
	o.Granted(ctx, event.Grant{Kind: "rlock", Name: "orders:42", Owner: "o", Token: 1<<63 + 1, Count: 1, How: event.HandedOn, Contended: true})
	require.Len(t, exporter.GetSpans(), 1, "the wait is over")
	o.Ended(ctx, event.End{Kind: "rlock", Name: "orders:42", Reason: holdfast.ErrReleased})
	caller.End()

	spans := exporter.GetSpans()
	acquire, hold := byName(t, spans, "holdfast.lock acquire"), byName(t, spans, "holdfast.lock hold")
	require.Equal(t, caller.SpanContext().SpanID(), acquire.Parent.SpanID())
	require.Equal(t, caller.SpanContext().SpanID(), hold.Parent.SpanID())
	require.Len(t, hold.Links, 1)
	require.Equal(t, acquire.SpanContext.SpanID(), hold.Links[0].SpanContext.SpanID())
	require.Equal(t, map[string]string{"holdfast.lock.kind": "rlock", "holdfast.lock.name": "orders:42",
		"holdfast.lock.once": "false", "holdfast.lock.owner": "o", "holdfast.lock.token": "9223372036854775809",
		"holdfast.lock.count": "1", "holdfast.lock.outcome": "handed_on", "holdfast.lock.contended": "true"}, attrs(acquire))
	require.Equal(t, "released", attrs(hold)["holdfast.lock.end"])
	require.Equal(t, codes.Unset, acquire.Status.Code)
	require.Equal(t, codes.Unset, hold.Status.Code)
}

// Without hold spans a loss is told to the caller's span.
func TestALossIsTold(t *testing.T) {
	for _, holdSpans := range []bool{false, true} {
		tel, provider, exporter := traced(t, holdSpans)
		o := tel.Observer()
		ctx, caller := provider.Tracer("app").Start(context.Background(), "request")
		ctx = o.Waiting(ctx, event.Wait{Kind: "rlock", Name: "a"})
		o.Granted(ctx, event.Grant{Kind: "rlock", Name: "a", How: event.Asked})
		o.Ended(ctx, event.End{Kind: "rlock", Name: "a", Reason: errLost(watchdog.ErrDeadline)})
		caller.End()
		if holdSpans {
			hold := byName(t, exporter.GetSpans(), "holdfast.lock hold")
			require.Equal(t, codes.Error, hold.Status.Code)
			require.Equal(t, "lost", attrs(hold)["error.type"])
			continue
		}
		require.Len(t, exporter.GetSpans(), 2)
		request := byName(t, exporter.GetSpans(), "request")
		require.Len(t, request.Events, 1)
		require.Equal(t, "holdfast.lock lost", request.Events[0].Name)
		require.Contains(t, request.Events[0].Attributes, attribute.String("holdfast.lock.loss", "silent"))
		require.Equal(t, codes.Unset, request.Status.Code, "what the caller makes of it is the caller's")
	}
}

// What is an answer is no error, and what is an error has a type.
func TestRefusedSpans(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, row := range []struct {
		ctx     context.Context
		once    bool
		err     error
		outcome string
		failed  bool
	}{
		{context.Background(), true, holdfast.ErrNotAcquired, "refused", false},
		{context.Background(), false, holdfast.ErrNotAcquired, "timed_out", true},
		{canceled, false, errors.Join(holdfast.ErrNotAcquired, context.Canceled), "canceled", false},
		{context.Background(), false, holdfast.ErrUnavailable, "unavailable", true},
		{context.Background(), true, errors.New("WRONGTYPE"), "error", true},
	} {
		tel, _, exporter := traced(t, true)
		o := tel.Observer()
		ctx := o.Waiting(row.ctx, event.Wait{Kind: "rlock", Name: "a", Once: row.once})
		o.Refused(ctx, event.Refusal{Kind: "rlock", Name: "a", Err: row.err})
		span := byName(t, exporter.GetSpans(), "holdfast.lock acquire")
		require.Equal(t, row.outcome, attrs(span)["holdfast.lock.outcome"])
		if row.failed {
			require.Equal(t, codes.Error, span.Status.Code, row.outcome)
			require.Equal(t, row.outcome, attrs(span)["error.type"])
			require.Equal(t, row.err.Error(), span.Status.Description)
		} else {
			require.Equal(t, codes.Unset, span.Status.Code, row.outcome)
			require.NotContains(t, attrs(span), "error.type")
		}
	}
}

// Another observer's context that does not derive harms nobody.
func TestSpansOfForeignContexts(t *testing.T) {
	tel, _, exporter := traced(t, true)
	o := tel.Observer()
	o.Granted(context.Background(), event.Grant{})
	o.Refused(context.Background(), event.Refusal{})
	o.Ended(context.Background(), event.End{})
	require.Empty(t, exporter.GetSpans())
}

func TestLogLines(t *testing.T) {
	tel, _, exporter := traced(t, false)
	var out bytes.Buffer
	o := event.Join(tel.Observer(), holdfastotel.LogLosses(slog.New(slog.NewJSONHandler(&out, nil))))
	lose := func(ctx context.Context, why error) map[string]any {
		out.Reset()
		o.Ended(ctx, event.End{Kind: "rlock", Name: "a", Owner: "o", Token: 7, Reason: why})
		if out.Len() == 0 {
			return nil
		}
		line := map[string]any{}
		require.NoError(t, json.Unmarshal(out.Bytes(), &line))
		delete(line, "time")
		return line
	}
	ctx := o.Waiting(context.Background(), event.Wait{Kind: "rlock", Name: "a"})
	o.Granted(ctx, event.Grant{Kind: "rlock", Name: "a", How: event.Asked})
	span := byName(t, exporter.GetSpans(), "holdfast.lock acquire").SpanContext
	want := map[string]any{"level": "WARN", "msg": "lock lost", "kind": "rlock", "name": "a", "owner": "o", "token": 7.0,
		"held": 0.0, "reason": "lock lost: " + watchdog.ErrGone.Error()}
	require.Equal(t, want, lose(context.Background(), errLost(watchdog.ErrGone)), "without a trace")
	want["trace_id"], want["span_id"] = span.TraceID().String(), span.SpanID().String()
	require.Equal(t, want, lose(ctx, errLost(watchdog.ErrGone)))
	require.Nil(t, lose(ctx, holdfast.ErrReleased), "an unlock is no news")
}

// TestHostileNames: a name, an owner and an error of somebody's are printable in spans, their events and statuses, in log
// lines and in labels. An exporter drops all that it sends at once if one text of it is no UTF-8.
func TestHostileNames(t *testing.T) {
	tel, _, exporter := traced(t, true)
	metrics, reader := metered(t, holdfastotel.Options{Class: func(name string) string { return name }})
	var log bytes.Buffer
	logged := holdfastotel.LogLosses(slog.New(slog.NewJSONHandler(&log, nil)))
	const password = "ERR unknown command 'auth', with args beginning with: 'user' 'Zq9tSeKret' " // of a server without AUTH
	for _, text := range append(hostile.Texts, password) {
		err := errLost(errors.New(text))
		kindtest.Play(metrics.Observer(), "rlock", text, watchdog.ErrDeadline)
		logged.Ended(context.Background(), event.End{Name: text, Owner: text, Reason: err})
		o := tel.Observer()
		ctx := o.Waiting(t.Context(), event.Wait{Kind: "rlock", Name: text})
		o.Granted(ctx, event.Grant{Kind: "rlock", Name: text, Owner: text})
		o.Ended(ctx, event.End{Kind: "rlock", Name: text, Owner: text, Reason: err, Err: err})
		o.Refused(o.Waiting(t.Context(), event.Wait{Kind: "rlock", Name: text}), event.Refusal{Kind: "rlock", Name: text, Err: err})
	}
	spans := exporter.GetSpans()
	require.Len(t, spans, 3*len(append(hostile.Texts, password)))
	for _, span := range spans {
		hostile.Check(t, "a status", span.Status.Description)
		require.NotContains(t, span.Status.Description, "SeKret")
		all := span.Attributes
		for _, event := range span.Events {
			all = append(all, event.Attributes...)
		}
		for _, a := range all {
			if a.Value.Type() == attribute.STRING {
				hostile.Check(t, string(a.Key), a.Value.AsString())
			}
		}
	}
	for series := range collect(t, reader) {
		hostile.Check(t, "a series", series)
	}
	hostile.Check(t, "the log", log.String())
	require.NotContains(t, log.String(), "SeKret")
}
