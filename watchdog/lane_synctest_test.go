package watchdog

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fleet are holders whose leases are at several servers, of which number 0 does not answer.
type fleet struct {
	holders []*holder
	hang    time.Duration // after which its renewals come back all the same

	mu      sync.Mutex // guards the rest
	at      map[Owner]int
	healthy bool // number 0 answers again
}

func (f *fleet) lane(o Owner) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[o]
}

func (f *fleet) move(h *holder, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[h] = to
}

func (f *fleet) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healthy = true
}

// hangs reports whether a renewal of any of them does not come back.
func (f *fleet) hangs(batch []Renewal) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.healthy && slices.ContainsFunc(batch, func(r Renewal) bool { return f.at[r.Owner] == 0 })
}

// renew is a pipeline: all of it comes back with its last part.
func (f *fleet) renew(ctx context.Context, batch []Renewal) {
	if f.hangs(batch) {
		time.Sleep(f.hang)
		return
	}
	confirm(ctx, batch)
}

// lost is how many of the leases at a server were lost.
func (f *fleet) lost(server int) (n int) {
	for _, h := range f.holders {
		if told, _ := h.told(); f.lane(h) == server && len(told) > 0 {
			n++
		}
	}
	return n
}

// run has n leases of each of three servers watched for so long that each is renewed several times, or lost.
func (f *fleet) run(t *testing.T, n int, lanes bool, during func(*Watchdog)) {
	f.at = make(map[Owner]int)
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Renew: f.renew, MaxBatch: 10}
		if lanes {
			cfg.Lane = f.lane
		}
		w := New(cfg)
		defer w.Join()
		defer w.Stop()
		for i := range 3 * n {
			h := &holder{}
			f.move(h, i%3)
			f.holders = append(f.holders, h)
			require.True(t, w.Watch(&h.lease, h, time.Now(), lease, true))
		}
		during(w)
		time.Sleep(10 * lease)
	})
}

// filled is after what time all places of a lane are taken by attempts that hang, and its leases wait.
const filled = lease/3 + maxInFlight*lease/12 + lease/24

// TestHungLane: a hanging server keeps neither verdicts nor places from others, however many leases hang there.
func TestHungLane(t *testing.T) {
	for _, n := range []int{1, 200} {
		f := &fleet{hang: time.Hour}
		f.run(t, n, true, func(*Watchdog) {})
		require.Equal(t, n, f.lost(0))
		require.Zero(t, f.lost(1)+f.lost(2))
		control := &fleet{hang: time.Hour}
		control.run(t, n, false, func(*Watchdog) {})
		require.Positive(t, control.lost(1)+control.lost(2), "control: lost although their servers answer")
	}
}

// TestLaneLeft: what waits for a place beside a hanging server is renewed by its new server once an attempt has come back.
func TestLaneLeft(t *testing.T) {
	f := &fleet{hang: lease / 2}
	f.run(t, 1, true, func(w *Watchdog) {
		time.Sleep(filled)
		w.mu.Lock()
		require.Len(t, w.lanes[0].parked, 1)
		w.mu.Unlock()
		f.move(f.holders[0], 2)
	})
	require.Zero(t, f.lost(1)+f.lost(2))
}

// TestParkedForgotten: a lease that waits for a place can be forgotten, confirmed elsewhere and watched anew.
func TestParkedForgotten(t *testing.T) {
	f := &fleet{hang: lease}
	f.run(t, 3, true, func(w *Watchdog) {
		time.Sleep(filled)
		w.mu.Lock()
		require.Len(t, w.lanes[0].parked, 3)
		w.mu.Unlock()
		f.heal()
		a, b, c := f.holders[0], f.holders[3], f.holders[6]
		require.True(t, w.Forget(&a.lease))
		require.True(t, w.Confirm(&b.lease, time.Now(), lease, true))
		require.True(t, w.Watch(&c.lease, c, time.Now(), lease, true))
	})
	require.Zero(t, f.lost(0))
}

// TestLaneLeftByMany: the same where far more wait than go together, and all of them leave.
func TestLaneLeftByMany(t *testing.T) {
	f := &fleet{hang: lease / 4}
	f.run(t, 200, true, func(w *Watchdog) {
		time.Sleep(filled)
		for i, h := range f.holders {
			if i%3 == 0 {
				f.move(h, 7)
			}
		}
		f.heal()
		time.Sleep(3 * lease)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, ln := range w.lanes {
			require.Empty(t, ln.parked)
		}
	})
	require.Zero(t, f.lost(7))
}
