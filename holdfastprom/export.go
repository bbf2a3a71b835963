package holdfastprom

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/internal/telemetry"
)

// exporter keeps the methods that the tracker calls out of what users see.
type exporter struct{ *Metrics }

// series are the metrics of one kind and class, found once. Histograms are made when they are needed:
// each is two dozen lines of a scrape, and nobody misses an empty one.
type series struct {
	acquisitions, losses, renewals, uncertain, deadlocks map[string]prometheus.Counter

	contended    prometheus.Counter
	waits        map[bool]func() prometheus.Observer
	holds, slack func() prometheus.Observer
	exemplar     func(context.Context) prometheus.Labels
}

func (e exporter) Series(kind, class string) telemetry.Series {
	each := func(vec *prometheus.CounterVec, values []string) map[string]prometheus.Counter {
		all := map[string]prometheus.Counter{}
		for _, v := range values {
			all[v] = vec.WithLabelValues(kind, class, v) // at 0
		}
		return all
	}
	later := func(vec *prometheus.HistogramVec, more ...string) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer {
			return vec.WithLabelValues(append([]string{kind, class}, more...)...)
		})
	}
	s := &series{
		acquisitions: each(e.acquisitions, telemetry.Outcomes),
		losses:       each(e.losses, telemetry.Reasons),
		renewals:     each(e.renewals, telemetry.Renewals),
		uncertain:    each(e.uncertain, telemetry.Operations),
		deadlocks:    each(e.deadlocks, telemetry.Shapes),
		contended:    e.contended.WithLabelValues(kind, class),
		holds:        later(e.holds),
		slack:        later(e.slack),
		waits:        map[bool]func() prometheus.Observer{},
		exemplar:     e.exemplar,
	}
	for _, granted := range []bool{true, false} {
		s.waits[granted] = later(e.waits, strconv.FormatBool(granted))
	}
	return s
}

// count skips what is not in the list: a value of a later version of the library.
func count(of map[string]prometheus.Counter, value string) {
	if c := of[value]; c != nil {
		c.Inc()
	}
}

func (s *series) Acquired(ctx context.Context, outcome string, granted, contended bool, waited time.Duration) {
	count(s.acquisitions, outcome)
	if contended {
		s.contended.Inc()
	}
	s.observe(ctx, s.waits[granted](), waited)
}

func (s *series) Ended(ctx context.Context, held time.Duration) { s.observe(ctx, s.holds(), held) }

func (s *series) Lost(_ context.Context, reason string) { count(s.losses, reason) }

func (s *series) Renewed(outcome string, slack float64, confirmed bool) {
	count(s.renewals, outcome)
	if confirmed {
		s.slack().Observe(slack)
	}
}

func (s *series) Uncertain(_ context.Context, operation string) { count(s.uncertain, operation) }

func (s *series) Deadlocked(shape string) { count(s.deadlocks, shape) }

func (s *series) observe(ctx context.Context, o prometheus.Observer, d time.Duration) {
	if s.exemplar != nil {
		if labels := s.exemplar(ctx); labels != nil {
			o.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), labels)
			return
		}
	}
	o.Observe(d.Seconds())
}

func (e exporter) Script(name string, took time.Duration, repeats int, failure string) {
	e.scripts.WithLabelValues(name).Observe(took.Seconds())
	e.repeats.Add(float64(max(repeats, 0)))
	if failure != "" {
		e.errors.WithLabelValues(failure).Inc()
	}
}

func (e exporter) SubscriptionLost() { e.subscriptions.Inc() }

func (e exporter) Dropped(n int) { e.dropped.Add(float64(max(n, 0))) }
