package holdfastotel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

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
