package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func pairsAndWait(rate, wait float64) map[string]float64 {
	return map[string]float64{metricRate: rate, metricWaitP50: wait}
}

func TestAQuorumIsComparedLockByLock(t *testing.T) {
	r := &report{Samples: []sample{
		one("quorum", "floor-5", 1, pairsAndWait(1000, 0.002)), one("quorum", "floor-5", 2, pairsAndWait(1000, 0.002)),
		one("quorum", "floor", 1, pairsAndWait(2000, 0.001)), one("quorum", "floor", 2, pairsAndWait(4000, 0.001)),
		one("quorum", "redsync-5", 1, pairsAndWait(500, 0.004)),
		one("quorum", "minority", 1, pairsAndWait(1500, 0.001)), // the test's lock of Holdfast
	}}
	require.Empty(t, r.ratios(scenarios), "they are not compared twice")
	found := map[string]string{}
	for _, x := range r.versus(scenarios) {
		found[x.lock+" "+x.metric+" "+x.against] = x.spread.String()
	}
	require.Equal(t, map[string]string{
		"floor-5 pairs/s floor": "0.375 (0.250..0.500)", "floor-5 wait p50 ms floor": "0.500",
		"redsync-5 pairs/s floor": "0.250", "redsync-5 wait p50 ms floor": "0.250",
		"minority pairs/s floor": "0.750", "minority wait p50 ms floor": "1.00",
		"minority pairs/s floor-5": "1.50", "minority wait p50 ms floor-5": "2.00",
		"minority pairs/s redsync-5": "3.00", "minority wait p50 ms redsync-5": "4.00",
	}, found)
	require.Contains(t, r.markdown(), "| quorum | pairs/s | minority | redsync-5 | 3.00 |")
}
