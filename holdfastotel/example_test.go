package holdfastotel_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func observed(ctx context.Context, rdb redis.UniversalClient) error {
	telemetry, err := holdfastotel.New(nil) // the global providers
	if err != nil {
		return err
	}
	defer telemetry.Close()
	client, err := holdfast.New(rdb, &holdfast.Options{Observer: event.Join(
		telemetry.Observer(), holdfastotel.LogLosses(slog.Default()))})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	hold, err := rlock.New(client, "invoices:8").Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}

func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.ForExample()})
	defer rdb.Close()
	spans := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))

	if err := observed(ctx, rdb); err != nil {
		fmt.Println(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.Status.Code)
	}
	// Output: holdfast.lock acquire Unset
}
