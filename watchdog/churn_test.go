package watchdog

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
	"github.com/holdfast-go/holdfast/internal/testkit/level"
)

// checkHeap: no entry is before its parent, and each lease knows its place.
func checkHeap(t *testing.T, h *leases) {
	for i, e := range h.entries {
		require.Equal(t, i+1, e.l.place[h.kind])
		if i > 0 {
			require.LessOrEqual(t, h.entries[(i-1)/children].at, e.at)
		}
	}
}

// churn puts or removes a lease of a small set, or takes the first, for each byte, and compares with a map.
func churn(t *testing.T, ops []byte) {
	for _, kind := range []int{ends, turns} {
		h := leases{kind: kind}
		all := make([]Lease, 16)
		model := map[*Lease]time.Duration{}
		for i, op := range ops {
			l := &all[op%16]
			switch at := time.Duration(ops[(i+1)%len(ops)]); {
			case op < 144:
				h.put(l, at)
				model[l] = at
			case op < 208:
				h.remove(l) // also when it is not there
				delete(model, l)
			case h.len() > 0:
				first := h.entries[0]
				for _, at := range model {
					require.LessOrEqual(t, first.at, at)
				}
				h.remove(first.l)
				delete(model, first.l)
			}
			require.Equal(t, len(model), h.len())
			checkHeap(t, &h)
			for i := range all {
				at, in := model[&all[i]]
				require.Equal(t, in, all[i].place[kind] != 0)
				require.Zero(t, all[i].place[1-kind])
				if in {
					require.Equal(t, at, h.entries[all[i].place[kind]-1].at)
				}
			}
		}
	}
}

func TestHeapChurn(t *testing.T) {
	rnd := level.Rand(t)
	for range 5 {
		ops := make([]byte, 200)
		for i := range ops {
			ops[i] = byte(rnd.IntN(256))
		}
		churn(t, ops)
	}
}

func FuzzHeap(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 150, 255, 17})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 0 {
			churn(t, ops[:min(len(ops), 300)])
		}
	})
}

func TestTrust(t *testing.T) {
	require.Equal(t, 29698*time.Millisecond, Trust(30*time.Second))
	require.Zero(t, Trust(time.Millisecond), "never negative")
	require.Positive(t, Trust(math.MaxInt64))
}

// TestDurations: at any length several attempts fit before the deadline, and no batch takes a lease twice.
func TestDurations(t *testing.T) {
	require.Equal(t, 20*time.Millisecond, patience(100*time.Millisecond))
	require.Equal(t, 500*time.Millisecond, patience(5*time.Second))
	require.Equal(t, 2*time.Second, patience(time.Hour))
	for length := time.Millisecond; length < 1000*time.Hour; length = length*5/4 + 1 {
		require.Greater(t, overdue(length), slack(length))
		require.LessOrEqual(t, slack(length), length/30)
		if length >= 200*time.Millisecond {
			require.GreaterOrEqual(t, (Trust(length)-length/3)/overdue(length), time.Duration(4))
		}
		last := time.Duration(0)
		for range 50 {
			next := nextBackoff(last, length)
			require.Positive(t, next)
			require.GreaterOrEqual(t, next, last)
			require.LessOrEqual(t, next, max(min(length/10, time.Second), time.Millisecond))
			j := jitter(next)
			require.True(t, j >= next/2 && j <= next)
			last = next
		}
	}
}

func TestMain(m *testing.M) { leak.Main(m) }
