package holdfastotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/internal/telemetry"
)

// series are the attributes of one kind and class, made once.
type series struct {
	*instruments
	plain                                           metric.MeasurementOption
	outcomes, reasons, renewals, operations, shapes map[string]metric.MeasurementOption
	granted                                         map[bool]metric.MeasurementOption
}

// Series makes the attributes, and the counters with them at 0.
func (m *instruments) Series(kind, class string) telemetry.Series {
	ctx := context.Background()
	each := func(c metric.Int64Counter, key string, values []string) map[string]metric.MeasurementOption {
		all := map[string]metric.MeasurementOption{}
		for _, v := range values {
			all[v] = metric.WithAttributeSet(labels(kind, class, attribute.String(key, v)))
			c.Add(ctx, 0, all[v])
		}
		return all
	}
	s := &series{
		instruments: m,
		plain:       metric.WithAttributeSet(labels(kind, class)),
		outcomes:    each(m.acquisitions, "outcome", telemetry.Outcomes),
		reasons:     each(m.losses, "reason", telemetry.Reasons),
		renewals:    each(m.renewals, "outcome", telemetry.Renewals),
		operations:  each(m.uncertain, "operation", telemetry.Operations),
		shapes:      each(m.deadlocks, "shape", telemetry.Shapes),
		granted:     map[bool]metric.MeasurementOption{},
	}
	for _, granted := range []bool{true, false} {
		s.granted[granted] = metric.WithAttributeSet(labels(kind, class, attribute.Bool("granted", granted)))
	}
	m.contended.Add(ctx, 0, s.plain)
	return s
}

// count skips what is not in the list: a value of a later version of the library.
func count(ctx context.Context, c metric.Int64Counter, of map[string]metric.MeasurementOption, value string) {
	if attrs := of[value]; attrs != nil {
		c.Add(ctx, 1, attrs)
	}
}

func (s *series) Acquired(ctx context.Context, outcome string, granted, contended bool, waited time.Duration) {
	count(ctx, s.acquisitions, s.outcomes, outcome)
	if contended {
		s.contended.Add(ctx, 1, s.plain)
	}
	s.waits.Record(ctx, waited.Seconds(), s.granted[granted])
}

func (s *series) Ended(ctx context.Context, held time.Duration) {
	s.holds.Record(ctx, held.Seconds(), s.plain)
}

func (s *series) Lost(ctx context.Context, reason string) { count(ctx, s.losses, s.reasons, reason) }

func (s *series) Renewed(outcome string, slack float64, confirmed bool) {
	ctx := context.Background()
	count(ctx, s.instruments.renewals, s.renewals, outcome)
	if confirmed {
		s.slack.Record(ctx, slack, s.plain)
	}
}

func (s *series) Uncertain(ctx context.Context, operation string) {
	count(ctx, s.uncertain, s.operations, operation)
}

func (s *series) Deadlocked(shape string) { count(context.Background(), s.deadlocks, s.shapes, shape) }
