package remote

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClosedBySlowClock: what the server would still execute is not taken for refused, however long
// ago it said what its clock shows: that one may be slower than ours by nearly a per cent.
func TestClosedBySlowClock(t *testing.T) {
	for _, rate := range []float64{0.991, 1, 1.009} {
		for _, silence := range []time.Duration{0, time.Second, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server := func(at time.Time) int64 { return int64(float64(at.Sub(start).Microseconds()) * rate) }
				k := Clock{start: start, attempt: transit + usualRead}
				for range 20 { // answers narrow the interval down, more than the rates allow
					sent := time.Now()
					time.Sleep(5 * time.Millisecond)
					micros := server(time.Now())
					time.Sleep(5 * time.Millisecond)
					k.Saw(sent, strconv.FormatInt(micros, 10))
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(silence)
				until := k.Limit()
				require.Less(t, until, server(k.closed()), "rate %v, %v later", rate, silence)
			})
		}
	}
}
