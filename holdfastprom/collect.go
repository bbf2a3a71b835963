package holdfastprom

import "github.com/prometheus/client_golang/prometheus"

// What is so at the moment of a scrape.
var (
	held = prometheus.NewDesc("holdfast_lock_held",
		"Holds that have not ended. A re-entry is a hold of its own.", []string{"kind", "class"}, nil)
	waiting = prometheus.NewDesc("holdfast_lock_waiting",
		"Calls of Lock and TryLock that have not ended.", []string{"kind", "class"}, nil)
	oldestHold = prometheus.NewDesc("holdfast_lock_oldest_hold_age_seconds",
		"Since when the oldest hold that has not ended is held; 0: there is none.", []string{"kind", "class"}, nil)
	oldestWaiter = prometheus.NewDesc("holdfast_lock_oldest_waiter_age_seconds",
		"Since when the oldest call that has not ended waits; 0: there is none.", []string{"kind", "class"}, nil)
	down = prometheus.NewDesc("holdfast_subscription_down",
		"Servers to which the connection that wakes waiters is lost now.", nil, nil)
)

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.acquisitions, m.contended, m.losses, m.renewals, m.uncertain, m.deadlocks, m.waits,
		m.holds, m.slack, m.scripts, m.errors, m.repeats, m.subscriptions, m.dropped}
}

// Describe is for Prometheus.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{held, waiting, oldestHold, oldestWaiter, down} {
		to <- d
	}
}

// Collect is for Prometheus.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range m.tracker.States() {
		gauge(held, float64(s.Held), s.Kind, s.Class)
		gauge(waiting, float64(s.Waiting), s.Kind, s.Class)
		gauge(oldestHold, s.OldestHold.Seconds(), s.Kind, s.Class)
		gauge(oldestWaiter, s.OldestWaiter.Seconds(), s.Kind, s.Class)
	}
	gauge(down, float64(m.tracker.Down()))
}
