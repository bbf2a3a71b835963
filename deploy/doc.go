// Package deploy has what a service that uses Holdfast needs in Prometheus and Grafana: alerts.yml with
// its test alerts_test.yml for promtool, and dashboard.json. docs/operating.md explains them.
//
// There is no code but tests. They evaluate each rule and each query of the dashboard with Prometheus's
// own engine, on made-up series and on the metrics of a real run, so that none of them can name a
// metric or a label that there is not. They are a module of their own because nobody who uses the
// library is to get Prometheus with it. Of Prometheus they use the engine alone, over a storage of their
// own, for its packages for storage and rules take minutes to build.
package deploy
