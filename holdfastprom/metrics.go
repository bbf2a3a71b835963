package holdfastprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/telemetry"
)

// Options are the settings of [New]. A zero field means its default.
type Options struct {
	// Class returns the class of a lock's name, such as what stands before the first colon. It becomes
	// a label, so there should be ten classes and not a thousand. It is called for each event, with
	// the name as it is in Redis. Default: none, and no label.
	Class func(name string) string
	// MaxClasses is how many pairs of kind and class get series of their own. Those that come first do;
	// the names of all others have the class "other". Default 100.
	MaxClasses int
	// Kinds are the kinds of lock whose counters are there, at 0, before the first event. Without them
	// an alert misses the first loss, because a rate needs two samples. Default: all kinds. Locks of a
	// kind that is left out are counted from their first event.
	Kinds []string
	// Exemplar returns the labels of the exemplar for an event in a context, such as the id of the
	// trace in it; nil: none. Default: no exemplars. Waits and holds have them.
	Exemplar func(ctx context.Context) prometheus.Labels
}

// Metrics are the metrics of one client, or of several together. It is a prometheus.Collector:
// register it once.
type Metrics struct {
	tracker *telemetry.Tracker

	acquisitions, contended, losses, renewals, uncertain, deadlocks *prometheus.CounterVec

	waits, holds, slack, scripts    *prometheus.HistogramVec
	errors                          *prometheus.CounterVec
	repeats, subscriptions, dropped prometheus.Counter
	exemplar                        func(context.Context) prometheus.Labels
}

// New makes metrics; nil options stand for the defaults.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{
		acquisitions: counters("holdfast_lock_acquisitions_total", "Calls of Lock and TryLock that have ended, by how.",
			"kind", "class", "outcome"),
		contended: counters("holdfast_lock_contended_total",
			"Calls of Lock and TryLock that found the lock taken by somebody else.", "kind", "class"),
		losses: counters("holdfast_lock_losses_total", "Holds that ended before they were unlocked, by the reason.",
			"kind", "class", "reason"),
		renewals: counters("holdfast_lock_renewals_total",
			"Attempts to renew a lease, by outcome. A late one left less than a third of the lease.", "kind", "class", "outcome"),
		uncertain: counters("holdfast_lock_uncertain_total",
			"Operations that were sent and never answered, so that they may have happened.", "kind", "class", "operation"),
		deadlocks: counters("holdfast_lock_deadlocks_total",
			"Holders that a long wait of their own client was for (self), and circles of waits that one was in.", "kind", "class", "shape"),
		waits: histograms("holdfast_lock_wait_duration_seconds",
			"How long calls of Lock and TryLock took, by whether they were granted.", telemetry.Buckets,
			"kind", "class", "granted"),
		holds: histograms("holdfast_lock_hold_duration_seconds", "How long locks were held, of holds that have ended.",
			telemetry.Buckets, "kind", "class"),
		slack: histograms("holdfast_lock_renewal_slack_ratio",
			"Which part of the lease was left when a renewal was confirmed. Two thirds are usual, 0 is a loss.",
			telemetry.SlackBuckets, "kind", "class"),
		scripts: histograms("holdfast_script_duration_seconds", "How long scripts took, from sending to the answer.",
			telemetry.ScriptBuckets, "script"),
		errors: counters("holdfast_script_errors_total",
			"Scripts that the server answered with an error, or did not answer.", "reason"),
		repeats: counter("holdfast_script_repeats_total", "How often scripts were sent again because no answer came."),
		subscriptions: counter("holdfast_subscription_losses_total",
			"Connections that wake waiters and were lost."),
		dropped: counter("holdfast_events_dropped_total",
			"Events that these metrics did not hear of, because too many waited."),
		exemplar: opts.Exemplar,
	}
	for _, reason := range telemetry.Failures {
		m.errors.WithLabelValues(reason)
	}
	m.tracker = telemetry.NewTracker(telemetry.Config{Class: opts.Class, MaxClasses: opts.MaxClasses, Kinds: opts.Kinds},
		exporter{m})
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// histograms have classic buckets, which every Prometheus can scrape, and native ones, which those that
// are configured for them prefer.
func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

// Observer is for holdfast.Options. Several clients may have the same: their numbers are added up.
func (m *Metrics) Observer() *event.Observer { return m.tracker.Observer() }
