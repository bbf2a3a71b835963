// Package holdfastprom exports what a client does as metrics of Prometheus.
//
//	metrics := holdfastprom.New(nil)
//	prometheus.MustRegister(metrics)
//	client, err := holdfast.New(rdb, &holdfast.Options{Observer: metrics.Observer()})
//
// Use event.Join to hear of events beside it. docs/operating.md in the repository lists the
// metrics and says what to watch; the directory deploy there has alerts and a dashboard. Package
// holdfastotel exports the same metrics, which have the same names once they are in Prometheus.
//
// No metric has the name of a lock. Prometheus keeps a series for each, for ever, and a service may
// lock a million names. [Options.Class] tells names apart by a few classes.
//
// Not promised: counts of events that the client had to drop, because it told more than anybody can
// hear. holdfast_events_dropped_total says how many.
package holdfastprom
