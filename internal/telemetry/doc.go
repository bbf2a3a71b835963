// Package telemetry turns what a event.Observer hears into the numbers that holdfastprom and
// holdfastotel export, so that both count the same things by the same rules: which outcome a call
// had, what is held and waited for now and since when, which renewal was late, and how many
// different labels there are at most.
//
// It knows neither Prometheus nor OpenTelemetry: each gives it an [Exporter]. It is above the root,
// because it reads the events of users; nothing of the library imports it.
//
// Not promised: numbers of a moment that fit each other exactly. A hold that ends while numbers are
// collected may be in one of them and not in the next.
package telemetry
