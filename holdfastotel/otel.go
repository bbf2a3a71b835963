package holdfastotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/telemetry"
)

// Scope is the name of the meter and the tracer.
const Scope = "github.com/holdfast-go/holdfast/holdfastotel"

// Options are the settings of [New]. A zero field means its default.
type Options struct {
	MeterProvider  metric.MeterProvider // default: the global one
	TracerProvider trace.TracerProvider // default: the global one

	// HoldSpans makes each hold a span, "holdfast.lock hold", beside that of the call that took it and
	// linked to it. A span is exported when it ends, so a lock that is held for hours is seen after hours.
	// Without it, only a loss is told, as an event of the caller's span if that has not ended.
	HoldSpans bool

	// Class returns the class of a lock's name, such as what stands before the first colon. It becomes
	// an attribute of metrics, so there should be ten classes and not a thousand. It is called for each
	// event, with the name as it is in Redis. Default: none, and no attribute.
	Class func(name string) string
	// MaxClasses is how many pairs of kind and class get series of their own. Those that come first do;
	// the names of all others have the class "other". Default 100, which stays below the SDK's limit.
	MaxClasses int
	// Kinds are the kinds of lock whose counters are there, at 0, before the first event. Without them
	// an alert misses the first loss, because a rate needs two samples. Default: all kinds.
	Kinds []string
}

// Telemetry hears what a client does, or several.
type Telemetry struct {
	observer     *event.Observer
	registration metric.Registration
}

// New makes instruments; nil options stand for the defaults. An error is the meter's.
func New(opts *Options) (*Telemetry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	meter := o.MeterProvider.Meter(Scope)
	m, err := newInstruments(meter)
	if err != nil {
		return nil, err
	}
	tracker := telemetry.NewTracker(telemetry.Config{Class: o.Class, MaxClasses: o.MaxClasses, Kinds: o.Kinds}, m)
	registration, err := m.observe(meter, tracker)
	if err != nil {
		return nil, err
	}
	spans := &spans{tracer: o.TracerProvider.Tracer(Scope), holds: o.HoldSpans}
	return &Telemetry{
		// Metrics come first, so that what they record has the span that has not ended yet as its exemplar.
		observer:     event.Join(tracker.Observer(), spans.observer()),
		registration: registration,
	}, nil
}

// Observer is for holdfast.Options. Several clients may have the same: their numbers are added up.
func (t *Telemetry) Observer() *event.Observer { return t.observer }

// Close takes the gauges away from the meter. Call it if the client ends before the process does.
func (t *Telemetry) Close() error { return t.registration.Unregister() }
