package main

import (
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Metrics: names in results.json and results.csv.
const (
	metricRate           = "rate"
	metricWaitMean       = "wait-mean"
	metricWaitP50        = "wait-p50"
	metricWaitP99        = "wait-p99"
	metricLongest        = "wait-longest"
	metricGapMean        = "gap-mean"
	metricGapP50         = "gap-p50"
	metricGapP99         = "gap-p99"
	metricMoved          = "moved"
	metricJain           = "jain-goroutines"
	metricJainProcesses  = "jain-processes"
	metricLeastShare     = "least-client-share"
	metricLeastGoroutine = "least-goroutine-share"
	metricMostGoroutine  = "most-goroutine-share"
	metricCommands       = "commands-per-grant"
	metricServer         = "server-per-grant"
	metricCPU            = "cpu-per-grant"
	metricMemory         = "memory-per-waiter"
	metricScripts        = "scripts-per-grant"
	metricSubscriptions  = "subscriptions"
	metricScriptRate     = "scripts-per-second"
	metricLeastTrust     = "least-trust"
	metricGoroutines     = "goroutines"
	metricTakeover       = "takeover"
	metricLease          = "lease"
	metricAfterLease     = "after-lease"
	metricReads          = "reads-per-second"
	metricLongestRead    = "longest-read"
	metricBeyondRead     = "beyond-longest-read"
	metricTrips          = "gap-round-trips"
	metricCommandRate    = "commands-per-second"
	metricAwakeAll       = "awake-all"
	metricAwakeP50       = "awake-p50"
	metricAwakeP99       = "awake-p99"
	metricMessages       = "messages"
	metricScriptsEach    = "scripts-to-wake"
	metricAllRate        = "rate-of-all"
	metricFirstShare     = "first-side-share"
)

// metric is what the reader of a table is told about a number.
type metric struct {
	name  string
	title string
	scale float64 // of what is shown to what is kept: seconds are shown as µs or ms
	less  bool    // less is better
}

// metrics are kept in seconds, bytes, shares of 1 and numbers.
var metrics = []metric{
	{metricRate, "pairs/s", 1, false},
	{metricWaitMean, "wait mean ms", 1e3, true},
	{metricWaitP50, "wait p50 ms", 1e3, true},
	{metricWaitP99, "wait p99 ms", 1e3, true},
	{metricLongest, "longest wait ms", 1e3, true},
	{metricGapMean, "gap mean µs", 1e6, true},
	{metricGapP50, "gap p50 µs", 1e6, true},
	{metricGapP99, "gap p99 µs", 1e6, true},
	{metricMoved, "moved %", 100, false},
	{metricJain, "Jain", 1, false},
	{metricJainProcesses, "Jain processes", 1, false},
	{metricLeastShare, "least client's share %", 100, false},
	{metricLeastGoroutine, "least goroutine's share %", 100, false},
	{metricMostGoroutine, "most goroutine's share %", 100, true},
	{metricCommands, "commands/grant", 1, true},
	{metricServer, "server's CPU µs/grant", 1e6, true},
	{metricCPU, "client's CPU µs/grant", 1e6, true},
	{metricMemory, "bytes/waiter", 1, true},
	{metricScripts, "scripts/grant", 1, true},
	{metricSubscriptions, "subscriptions", 1, true},
	{metricScriptRate, "scripts/s", 1, true},
	{metricLeastTrust, "least trust left, % of lease", 100, false},
	{metricGoroutines, "goroutines of the process", 1, true},
	{metricLease, "lease s", 1, false},
	{metricTakeover, "takeover ms", 1e3, true},
	{metricAfterLease, "of that after the lease ms", 1e3, true},
	{metricReads, "reads/s", 1, false},
	{metricLongestRead, "longest read ms", 1e3, true},
	{metricBeyondRead, "longest wait beyond that ms", 1e3, true},
	{metricTrips, "gap mean in round trips", 1, true},
	{metricCommandRate, "commands/s", 1, true},
	{metricAwakeAll, "all awake ms", 1e3, true},
	{metricAwakeP50, "awake p50 ms", 1e3, true},
	{metricAwakeP99, "awake p99 ms", 1e3, true},
	{metricMessages, "messages to connections", 1, true},
	{metricScriptsEach, "scripts from the last count-down on", 1, true},
	{metricAllRate, "pairs/s of all", 1, false},
	{metricFirstShare, "share of the first half %", 100, false},
}

func metricNamed(name string) metric {
	return metrics[slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })]
}

// jain is Jain's index of fairness: 1 if all have the same, 1/n if one has everything.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0 // nobody got anything; there is nothing to be fair with
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// summarise turns what the workers of one measurement counted into metrics. clients is per process.
func summarise(results []*result, took float64, clients int) (map[string]float64, error) {
	waits, gaps := newHistogram(), newHistogram()
	var all result
	var perGoroutine, perProcess, perClient []float64
	for _, r := range results {
		if err := decode(waits, r.Waits); err != nil {
			return nil, err
		}
		if err := decode(gaps, r.Gaps); err != nil {
			return nil, err
		}
		all.add(r)
		all.Longest = max(all.Longest, r.Longest)
		byClient, process := make([]float64, clients), 0.0
		for i, n := range r.Grants {
			perGoroutine = append(perGoroutine, float64(n))
			byClient[i%clients] += float64(n)
			process += float64(n)
		}
		perClient, perProcess = append(perClient, byClient...), append(perProcess, process)
	}
	grants := float64(waits.TotalCount())
	m := map[string]float64{
		metricRate:          grants / took,
		metricLongest:       seconds(all.Longest),
		metricJain:          jain(perGoroutine),
		metricJainProcesses: jain(perProcess),
	}
	if grants > 0 {
		m[metricWaitMean] = seconds(all.WaitSum) / grants
		m[metricWaitP50], m[metricWaitP99] = quantile(waits, 0.5), quantile(waits, 0.99)
		m[metricLeastShare] = slices.Min(perClient) * float64(len(perClient)) / grants
		each := float64(len(perGoroutine)) / grants
		m[metricLeastGoroutine], m[metricMostGoroutine] = slices.Min(perGoroutine)*each, slices.Max(perGoroutine)*each
	}
	if all.Reads > 0 {
		m[metricReads], m[metricLongestRead] = float64(all.Reads)/took, seconds(all.LongestRead)
		m[metricBeyondRead] = seconds(all.Longest - all.LongestRead)
	}
	if n := float64(all.Handover); n > 0 {
		m[metricGapMean] = seconds(all.GapSum) / n
		m[metricGapP50], m[metricGapP99] = quantile(gaps, 0.5), quantile(gaps, 0.99)
		m[metricMoved] = float64(all.Moved) / n
	}
	return m, nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	return seconds(h.ValueAtQuantile(q * 100))
}
