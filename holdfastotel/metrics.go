package holdfastotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/internal/telemetry"
)

// instruments are what is counted when it happens.
type instruments struct {
	acquisitions, contended, losses, renewals, uncertain, deadlocks metric.Int64Counter

	errors, repeats, subscriptions, dropped metric.Int64Counter
	waits, holds, slack, scripts            metric.Float64Histogram
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	var failed []error
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		failed = append(failed, err)
		return c
	}
	histogram := func(name, unit, what string, buckets []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(buckets...))
		failed = append(failed, err)
		return h
	}
	m := &instruments{
		acquisitions: counter("holdfast.lock.acquisitions", "{acquisition}",
			"Calls of Lock and TryLock that have ended, by how."),
		contended: counter("holdfast.lock.contended", "{acquisition}",
			"Calls of Lock and TryLock that found the lock taken by somebody else."),
		losses: counter("holdfast.lock.losses", "{loss}", "Holds that ended before they were unlocked, by the reason."),
		renewals: counter("holdfast.lock.renewals", "{renewal}",
			"Attempts to renew a lease, by outcome. A late one left less than a third of the lease."),
		uncertain: counter("holdfast.lock.uncertain", "{operation}",
			"Operations that were sent and never answered, so that they may have happened."),
		deadlocks: counter("holdfast.lock.deadlocks", "{deadlock}",
			"Holders that a long wait of their own client was for (self), and circles of waits that one was in."),
		errors: counter("holdfast.script.errors", "{error}",
			"Scripts that the server answered with an error, or did not answer."),
		repeats: counter("holdfast.script.repeats", "{repeat}",
			"How often scripts were sent again because no answer came."),
		subscriptions: counter("holdfast.subscription.losses", "{connection}",
			"Connections that wake waiters and were lost."),
		dropped: counter("holdfast.events.dropped", "{event}",
			"Events that these metrics did not hear of, because too many waited."),
		waits: histogram("holdfast.lock.wait.duration", "s",
			"How long calls of Lock and TryLock took, by whether they were granted.", telemetry.Buckets),
		holds: histogram("holdfast.lock.hold.duration", "s",
			"How long locks were held, of holds that have ended.", telemetry.Buckets),
		slack: histogram("holdfast.lock.renewal.slack_ratio", "1",
			"Which part of the lease was left when a renewal was confirmed. Two thirds are usual, 0 is a loss.",
			telemetry.SlackBuckets),
		scripts: histogram("holdfast.script.duration", "s",
			"How long scripts took, from sending to the answer.", telemetry.ScriptBuckets),
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin makes the series that need no lock. An alert misses the first error of a series that begins
// with it.
func (m *instruments) begin() {
	ctx := context.Background()
	for _, reason := range telemetry.Failures {
		m.errors.Add(ctx, 0, with(attribute.String("reason", reason)))
	}
	m.repeats.Add(ctx, 0)
	m.subscriptions.Add(ctx, 0)
	m.dropped.Add(ctx, 0)
}

// observe registers the gauges.
func (m *instruments) observe(meter metric.Meter, tracker *telemetry.Tracker) (metric.Registration, error) {
	var failed []error
	upDown := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		g, err := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		failed = append(failed, err)
		return g
	}
	age := func(name, what string) metric.Float64ObservableGauge {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what))
		failed = append(failed, err)
		return g
	}
	held := upDown("holdfast.lock.held", "{hold}", "Holds that have not ended. A re-entry is a hold of its own.")
	waiting := upDown("holdfast.lock.waiting", "{waiter}", "Calls of Lock and TryLock that have not ended.")
	oldestHold := age("holdfast.lock.oldest_hold.age",
		"Since when the oldest hold that has not ended is held; 0: there is none.")
	oldestWaiter := age("holdfast.lock.oldest_waiter.age",
		"Since when the oldest call that has not ended waits; 0: there is none.")
	down := upDown("holdfast.subscription.down", "{connection}",
		"Servers to which the connection that wakes waiters is lost now.")
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range tracker.States() {
			of := metric.WithAttributeSet(labels(s.Kind, s.Class))
			o.ObserveInt64(held, int64(s.Held), of)
			o.ObserveInt64(waiting, int64(s.Waiting), of)
			o.ObserveFloat64(oldestHold, s.OldestHold.Seconds(), of)
			o.ObserveFloat64(oldestWaiter, s.OldestWaiter.Seconds(), of)
		}
		o.ObserveInt64(down, int64(tracker.Down()))
		return nil
	}, held, waiting, oldestHold, oldestWaiter, down)
}

func with(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attrs...))
}

// labels are the attributes of a series. Without a class there is no attribute, as in Prometheus an
// empty label is none.
func labels(kind, class string, more ...attribute.KeyValue) attribute.Set {
	attrs := append([]attribute.KeyValue{attribute.String("kind", kind)}, more...)
	if class != "" {
		attrs = append(attrs, attribute.String("class", class))
	}
	return attribute.NewSet(attrs...)
}

func (m *instruments) Script(name string, took time.Duration, repeats int, failure string) {
	ctx := context.Background()
	m.scripts.Record(ctx, took.Seconds(), with(attribute.String("script", name)))
	if repeats > 0 {
		m.repeats.Add(ctx, int64(repeats))
	}
	if failure != "" {
		m.errors.Add(ctx, 1, with(attribute.String("reason", failure)))
	}
}

func (m *instruments) SubscriptionLost() { m.subscriptions.Add(context.Background(), 1) }

func (m *instruments) Dropped(n int) { m.dropped.Add(context.Background(), int64(max(n, 0))) }
