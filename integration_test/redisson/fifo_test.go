package redisson

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integration_test/topology"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// TestFifo: the order of grants is the order of arrival, in 20 rounds of a queue of both sides on every
// topology; in a soak in 200. Redisson breaks it where a deadline passes (F2 in
// TestDefectsOfRedisson), which none does here. A busy machine may let one of its threads miss the
// two seconds that it has for a lock that was handed to it; a round in which the server saw that
// happen proves nothing, and another takes its place.
func TestFifo(t *testing.T) {
	t.Parallel()
	topology.EachOutermost(t, topology.Single|topology.Sentinel|topology.Cluster, func(t *testing.T, top topology.Topology) {
		rounds := 20
		if level.Soaking() {
			rounds = 200
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*Patience) // for all rounds
		s := newFleet(t, top).in(ctx, t, kinds[2], "fifo")
		defer s.group.Wait()
		defer cancel()
		fifo(s, rounds)
	})
}

func fifo(s *story, rounds int) {
	rng := level.Rand(s.T)
	holder, m := s.thread(0), s.mutex(0)
	handovers := map[string]int{}
	missed := 0
	for round := 0; round < rounds+missed; round++ {
		ended := s.ended(s.T)
		var h *holdfast.Hold
		before := "J"
		if round%2 == 0 {
			before = "G"
			h = s.must(m.Lock(s.ctx))
		} else {
			s.javaLocks(holder, "lock")
		}
		text := sides(rng)
		want, got := s.line(round, text)
		if h != nil {
			s.mustUnlock(h)
		} else {
			require.NoError(s, s.ask(holder, "unlock").Err())
		}
		order := got()
		if s.ended(s.T) > ended && !slices.Equal(want, order) {
			missed++
			s.Logf("round %d, %s behind %s: a claim was not taken in time", round, text, before)
			s.nothingLeft()
			continue
		}
		require.Equal(s, want, order, "round %d, %s behind %s", round, text, before)
		for _, side := range text {
			handovers[before+string(side)]++
			before = string(side)
		}
		s.nothingLeft()
	}
	s.Logf("proof: redisson: %d rounds of a mixed queue in the order of arrival; hand-overs from Go to Go %d, to Java %d, "+
		"from Java to Go %d, to Java %d", rounds, handovers["GG"], handovers["GJ"], handovers["JG"], handovers["JJ"])
}

// sides are six waiters of both sides, in any order.
func sides(rng *rand.Rand) string {
	all := []string{"G", "G", "G", "J", "J", "J"}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all, "")
}
