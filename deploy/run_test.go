package deploy

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/holdfastprom"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

// run is a service on a real server whose metrics are scraped.
type run struct {
	prom, otel *prometheus.Registry
	observer   *holdfast.Observer // of both exporters
	memory     *memory            // what Prometheus has scraped of prom
	scrapes    int
}

// lease is short, so that renewals come soon, and long enough that a busy machine loses no lock.
const lease = 6 * time.Second

func class(name string) string {
	c, _, _ := strings.Cut(name, ":")
	return c
}

// observe makes an observer for both exporters, which therefore hear of the same events.
func (r *run) observe(t *testing.T) *holdfast.Observer {
	metrics := holdfastprom.New(&holdfastprom.Options{Class: class})
	r.prom = prometheus.NewPedanticRegistry()
	require.NoError(t, r.prom.Register(metrics))

	r.otel = prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(r.otel), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	require.NoError(t, err)
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	telemetry, err := holdfastotel.New(&holdfastotel.Options{MeterProvider: provider, Class: class})
	require.NoError(t, err)
	r.observer = holdfast.JoinObservers(metrics.Observer(), telemetry.Observer())
	return r.observer
}

// value is one number of the registry, by name and labels; of a histogram, how many were counted.
func (r *run) value(t *testing.T, name string, want map[string]string) (sum float64) {
	families, err := r.prom.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			fits := 0
			for _, l := range m.GetLabel() {
				if v, ok := want[l.GetName()]; ok && v == l.GetValue() {
					fits++
				}
			}
			if fits == len(want) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// until waits for a number.
func (r *run) until(t *testing.T, atLeast float64, name string, labels map[string]string) {
	require.Eventually(t, func() bool { return r.value(t, name, labels) >= atLeast }, 30*time.Second, 5*time.Millisecond,
		"%s %v", name, labels)
}

// client makes one of the service's.
func client(t *testing.T, server *redistest.Server, o *holdfast.Observer) *holdfast.Client {
	return kindtest.NewClient(t, server.Client(t), &holdfast.Options{Lease: lease, Observer: o})
}

// live does what a service does with locks: they are granted, contended, handed on, renewed, refused,
// waited for in vain and lost. It scrapes before, in the middle and at the end.
func live(t *testing.T) *run {
	t.Helper()
	r := &run{memory: newMemory()}
	server := redistest.Start(t)
	observer := r.observe(t)
	one, two := client(t, server, observer), client(t, server, observer)
	ctx := context.Background()
	r.scrape(t)

	orders := rlock.New(one, "orders:1")
	hold := kindtest.Lock(t, orders)
	_, err := rlock.New(two, "orders:1").TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	_, err = rlock.New(two, "orders:1").Lock(ctx, holdfast.Wait(time.Millisecond))
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	inner, err := orders.Lock(hold.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))

	var waiters sync.WaitGroup
	for _, c := range []*holdfast.Client{one, one, two} {
		waiters.Go(func() {
			h, err := rlock.New(c, "orders:1").Lock(ctx)
			if err == nil {
				err = h.Unlock(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	fair := kindtest.Lock(t, fairlock.New(two, "mail:1"))
	r.until(t, 3, "holdfast_lock_waiting", map[string]string{"kind": "rlock", "class": "orders"})
	r.until(t, 2, "holdfast_lock_renewals_total", map[string]string{"outcome": "in_time"})
	require.Equal(t, 1.0, r.value(t, "holdfast_lock_held", map[string]string{"kind": "rlock", "class": "orders"}))
	require.Equal(t, 1.0, r.value(t, "holdfast_lock_held", map[string]string{"kind": "fairlock", "class": "mail"}))
	r.scrape(t)

	require.NoError(t, hold.Unlock(ctx))
	waiters.Wait()
	server.Command(t, "DEL", "mail:1")
	<-fair.Context().Done()
	require.ErrorIs(t, fair.Unlock(ctx), holdfast.ErrLost)
	r.until(t, 1, "holdfast_lock_losses_total", map[string]string{"kind": "fairlock", "reason": "gone"})
	require.Zero(t, r.value(t, "holdfast_lock_held", nil))
	require.Zero(t, r.value(t, "holdfast_lock_waiting", nil))
	r.scrape(t)
	return r
}
