package main

import (
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
)

// versusMetrics are compared in scenarios of a quorum: a pair's rate, which with one goroutine is
// one through its latency, and how long the lock alone takes.
var versusMetrics = []string{metricRate, metricWaitP50}

// versus compares lock by lock where a scenario says so, and in all scenarios of a quorum, because
// a budget names each: Holdfast's with all others, and every other one with those that were
// measured on one master, which is what a quorum costs it. Above 1 the first is better.
func (r *report) versus(scenarios []scenario) []ratio {
	var all []ratio
	for _, s := range scenarios {
		for _, pair := range s.versus {
			names := versusMetrics
			if !slices.Contains(names, s.shows[0]) {
				names = append(slices.Clone(names), s.shows[0])
			}
			for _, name := range names {
				if x, ok := r.against(s, pair[0], pair[1], metricNamed(name)); ok {
					all = append(all, x)
				}
			}
		}
		if !s.quorum {
			continue
		}
		for _, lock := range contenders {
			for _, other := range contenders {
				one := slices.Contains(s.beside, other.name)
				if slices.Contains(s.beside, lock.name) || lock.name == other.name || lock.group != own && !one {
					continue
				}
				for _, name := range versusMetrics {
					if x, ok := r.against(s, lock.name, other.name, metricNamed(name)); ok {
						all = append(all, x)
					}
				}
			}
		}
	}
	return all
}

// against compares two contenders round by round.
func (r *report) against(s scenario, lock, other string, m metric) (ratio, bool) {
	var perRound []float64
	for _, ours := range r.of(s.name, lock) {
		for _, theirs := range r.of(s.name, other) {
			mine, yours := ours.Metrics[m.name], theirs.Metrics[m.name]
			if theirs.Round != ours.Round || mine == 0 || yours == 0 {
				continue
			}
			x := mine / yours
			if m.less {
				x = 1 / x
			}
			perRound = append(perRound, x)
		}
	}
	if len(perRound) == 0 {
		return ratio{}, false
	}
	return ratio{scenario: s.name, metric: m.title, lock: lock, against: other, spread: spreadOf(perRound)}, true
}

func (r *report) versusTable() table.Writer {
	all := r.versus(scenarios)
	if len(all) == 0 {
		return nil
	}
	t := table.NewWriter()
	t.AppendHeader(table.Row{"scenario", "what", "lock", "against", "ratio"})
	for _, x := range all {
		t.AppendRow(table.Row{x.scenario, x.metric, x.lock, x.against, x.spread.String()})
	}
	return t
}
