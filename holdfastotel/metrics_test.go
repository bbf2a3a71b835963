package holdfastotel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastotel"
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

// TestNothingIsFolded: with every kind and more classes than there is room for, the SDK, which folds
// what goes beyond its limit into one series, folds nothing.
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

// TestALostLockOnARealServer: the spans and the log line of a lock that somebody deletes lead to the
// request that took it.
func TestALostLockOnARealServer(t *testing.T) {
	server := redistest.Start(t)
	tel, provider, exporter := traced(t, true)
	var out bytes.Buffer
	client, err := holdfast.New(server.Client(t), &holdfast.Options{Lease: 3 * time.Second, Observer: holdfast.JoinObservers(
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
