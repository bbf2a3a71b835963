package main

import (
	"slices"
)

// fairShare is how many of a peer's hand-overs must have gone to another goroutine for its gap to
// count as the best: who takes the lock again itself has a short gap and lets others wait. Where
// ours does that too, peers that do it no more than ours count.
const fairShare = 0.5

// ratio compares one lock of Holdfast with others in one scenario. Above 1 Holdfast is better: it
// is theirs through ours where less is better.
type ratio struct {
	scenario, metric, lock, against string
	spread
	best []string // who was the best, by round
}

// ratios compares in every scenario in which there is something to compare with: per round, then
// the spread over the rounds.
func (r *report) ratios(scenarios []scenario) []ratio {
	var all []ratio
	for _, s := range scenarios {
		if s.shows[0] == metricTakeover {
			continue // it is what is left of the lease at a random moment; the best of several is the luckiest
		}
		if s.quorum {
			continue // there one is compared with each; see versus
		}
		for _, c := range contenders {
			if c.group != own || len(r.of(s.name, c.name)) == 0 {
				continue
			}
			for _, g := range []group{peer, floor, another} {
				if one, ok := r.ratio(s, c.name, g); ok {
					all = append(all, one)
				}
			}
		}
	}
	return all
}

func (r *report) ratio(s scenario, lock string, g group) (ratio, bool) {
	m := metricNamed(s.shows[0])
	out := ratio{scenario: s.name, metric: m.title, lock: lock,
		against: map[group]string{peer: "best peer", floor: "floor", another: "others"}[g]}
	var perRound []float64
	for _, ours := range r.of(s.name, lock) {
		theirs, best := r.best(s, g, ours, m)
		mine, ok := ours.Metrics[m.name]
		if !ok || best == "" || mine == 0 || theirs == 0 {
			continue
		}
		x := mine / theirs
		if m.less {
			x = 1 / x
		}
		perRound = append(perRound, x)
		if !slices.Contains(out.best, best) {
			out.best = append(out.best, best)
		}
	}
	if len(perRound) == 0 {
		return out, false
	}
	out.spread = spreadOf(perRound)
	return out, true
}

// best is the best of a group in the round of one of ours.
func (r *report) best(s scenario, g group, ours sample, m metric) (value float64, who string) {
	enough := min(fairShare, ours.Metrics[metricMoved])
	for _, other := range r.of(s.name, "") {
		v, ok := other.Metrics[m.name]
		if !ok || other.Group != g || other.Round != ours.Round {
			continue
		}
		if m.name == metricGapMean && g == peer && other.Metrics[metricMoved] < enough {
			continue
		}
		if who == "" || (v > value) != m.less {
			value, who = v, other.Contender
		}
	}
	return value, who
}
