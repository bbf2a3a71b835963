package holdfastotel_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastotel"
	"github.com/holdfast-go/holdfast/watchdog"
)

// metered makes a Telemetry whose metrics can be collected.
func metered(t *testing.T, opts holdfastotel.Options) (*holdfastotel.Telemetry, *metric.ManualReader) {
	t.Helper()
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

// play tells of a call that is granted, renewed and lost, of one that is refused, and of the rest.
func play(o *holdfast.Observer, kind, name string) {
	ctx := o.Waiting(context.Background(), holdfast.WaitEvent{Kind: kind, Name: name})
	o.Granted(ctx, holdfast.GrantEvent{Kind: kind, Name: name, How: holdfast.Asked, Waited: time.Second, Contended: true})
	o.Renewed(holdfast.RenewalEvent{Kind: kind, Name: name, Lease: 30 * time.Second, Left: 5 * time.Second})
	o.Ended(ctx, holdfast.EndEvent{Kind: kind, Name: name, Held: time.Minute,
		Reason: fmt.Errorf("%w: %w", holdfast.ErrLost, watchdog.ErrDeadline), Err: holdfast.ErrUncertain})
	ctx = o.Waiting(context.Background(), holdfast.WaitEvent{Kind: kind, Name: name, Once: true})
	o.Refused(ctx, holdfast.RefusalEvent{Kind: kind, Name: name, Err: holdfast.ErrNotAcquired})
	o.Sent(holdfast.ScriptEvent{Script: "acquire", Took: time.Millisecond, Repeats: 1, Err: io.EOF})
	o.Subscribed(holdfast.SubscriptionEvent{Server: "s"})
	o.Dropped(2)
	o.SelfBlocked(holdfast.SelfBlockEvent{Kind: kind, Name: name})
	o.Deadlocked(holdfast.DeadlockEvent{Kind: kind, Name: name})
}

func TestMetricsBeginAtZero(t *testing.T) {
	_, reader := metered(t, holdfastotel.Options{})
	got := collect(t, reader)
	for _, name := range []string{
		"holdfast.lock.acquisitions kind=election,outcome=unavailable", "holdfast.lock.losses kind=rlock,reason=silent",
		"holdfast.lock.renewals kind=fairlock,outcome=late", "holdfast.lock.uncertain kind=redlock,operation=release",
		"holdfast.lock.deadlocks kind=rlock,shape=self", "holdfast.script.errors reason=answered", "holdfast.script.repeats ", "holdfast.subscription.losses ",
		"holdfast.events.dropped ", "holdfast.lock.held kind=rwlock",
	} {
		require.Contains(t, got, name)
	}
	for name, v := range got {
		require.Zero(t, v, name)
	}
}

func TestMetrics(t *testing.T) {
	tel, reader := metered(t, holdfastotel.Options{Kinds: []string{}})
	play(tel.Observer(), "rlock", "a")
	ctx := tel.Observer().Waiting(context.Background(), holdfast.WaitEvent{Kind: "rlock", Name: "b"})
	tel.Observer().Waiting(context.Background(), holdfast.WaitEvent{Kind: "rlock", Name: "c"})
	tel.Observer().Granted(ctx, holdfast.GrantEvent{Kind: "rlock", Name: "b", How: holdfast.Reentered})
	got := collect(t, reader)
	require.Positive(t, got["holdfast.lock.oldest_hold.age kind=rlock"])
	require.Positive(t, got["holdfast.lock.oldest_waiter.age kind=rlock"])
	delete(got, "holdfast.lock.oldest_hold.age kind=rlock")
	delete(got, "holdfast.lock.oldest_waiter.age kind=rlock")
	for name, v := range got {
		if v == 0 {
			delete(got, name)
		}
	}
	require.Equal(t, map[string]float64{
		"holdfast.lock.acquisitions kind=rlock,outcome=asked": 1, "holdfast.lock.acquisitions kind=rlock,outcome=refused": 1,
		"holdfast.lock.acquisitions kind=rlock,outcome=reentered": 1, "holdfast.lock.contended kind=rlock": 2,
		"holdfast.lock.wait.duration granted=true,kind=rlock": 2, "holdfast.lock.wait.duration granted=false,kind=rlock": 1,
		"holdfast.lock.hold.duration kind=rlock": 1, "holdfast.lock.losses kind=rlock,reason=silent": 1,
		"holdfast.lock.renewals kind=rlock,outcome=late": 1, "holdfast.lock.renewal.slack_ratio kind=rlock": 1,
		"holdfast.lock.uncertain kind=rlock,operation=release": 1, "holdfast.lock.held kind=rlock": 1,
		"holdfast.lock.waiting kind=rlock": 1, "holdfast.script.duration script=acquire": 1,
		"holdfast.script.errors reason=unanswered": 1, "holdfast.script.repeats ": 1, "holdfast.subscription.losses ": 1,
		"holdfast.subscription.down ": 1, "holdfast.events.dropped ": 2,
		"holdfast.lock.deadlocks kind=rlock,shape=self": 1, "holdfast.lock.deadlocks kind=rlock,shape=circle": 1,
	}, got)

	require.NoError(t, tel.Close())
	require.NotContains(t, collect(t, reader), "holdfast.lock.held kind=rlock", "no gauges after Close")
}

// TestNothingIsFolded: with every kind and more classes than there is room for, the SDK, which folds
// what goes beyond its limit into one series, folds nothing.
func TestNothingIsFolded(t *testing.T) {
	tel, reader := metered(t, holdfastotel.Options{Class: func(name string) string { return name }})
	kinds := []string{"rlock", "fairlock", "rwlock", "semaphore", "redlock", "election"}
	for i := range 300 {
		for _, kind := range kinds {
			play(tel.Observer(), kind, fmt.Sprint("class", i))
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
		play(tel.Observer(), "rlock", fmt.Sprint("class", i))
	}
	require.Contains(t, collect(t, reader), "holdfast.lock.acquisitions otel.metric.overflow=true")
}
