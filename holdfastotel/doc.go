// Package holdfastotel exports what a client does as metrics and traces of OpenTelemetry, and puts the
// trace of whoever held a lock into the log line that tells of its loss.
//
//	telemetry, err := holdfastotel.New(nil) // the global providers
//	client, err := holdfast.New(rdb, &holdfast.Options{Observer: event.Join(
//		telemetry.Observer(), holdfastotel.LogLosses(slog.Default()))})
//
// OpenTelemetry has no conventions for locks, so all names begin with holdfast. Metrics are those of
// package holdfastprom; with a Prometheus exporter they also have their names there, so the alerts and
// the dashboard in the directory deploy of the repository are for both. Their attributes are called
// kind, class and outcome for that reason, and have no prefix.
//
// The span "holdfast.lock acquire" is a call of Lock or TryLock. It has the name of the lock, which
// metrics do not: the SDK folds what goes beyond 2000 series into one, in silence. It has failed if
// the lock was not granted, with the outcome as error.type; except that it was asked for once and somebody
// else has it, or that the caller ended the wait, which are answers and no errors.
//
// Not promised: counts of events that the client had to drop, because it told more than anybody can
// hear. The metric holdfast.events.dropped says how many.
package holdfastotel
