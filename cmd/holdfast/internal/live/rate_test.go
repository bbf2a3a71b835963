package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
)

// look is what a look at a moment finds: the token of the last grant.
func look(at time.Time, token uint64) *inspect.Lock { return &inspect.Lock{At: at, Token: token} }

func micro(t time.Time) uint64 { return uint64(t.UnixMicro()) } //nolint:gosec // of this century

// granting are looks each second at a lock that is granted each period, from the time of the server on.
func granting(period time.Duration, looks int) track {
	begin := time.Unix(1_700_000_000, 0)
	var t track
	for n := range looks {
		at := begin.Add(time.Duration(n)*time.Second + 317*time.Millisecond)
		last := begin.Add(at.Sub(begin).Truncate(period))
		t = t.see(look(at, micro(last)))
	}
	return t
}

// TestRateIsCounted: as long as grants come more rarely than looks, it is what it is.
func TestRateIsCounted(t *testing.T) {
	r := granting(5*time.Second, 26).rate()
	require.True(t, r.Known)
	require.False(t, r.Guessed)
	require.InDelta(t, 0.2, r.PerSecond, 0.001)
	r = granting(time.Hour, 10).rate()
	require.Equal(t, Rate{Known: true}, r)
}

// TestRateIsGuessed: where every look finds another token it is said from how long ago the grants were.
func TestRateIsGuessed(t *testing.T) {
	for _, period := range []time.Duration{7 * time.Millisecond, 53 * time.Millisecond, 171 * time.Millisecond} {
		r := granting(period, 40).rate()
		require.True(t, r.Guessed, period)
		truth := 1 / period.Seconds()
		require.InDelta(t, truth, r.PerSecond, truth/2, period)
	}
	require.False(t, granting(7*time.Millisecond, guessFrom).rate().Guessed, "too few looks")
	require.Equal(t, Rate{}, granting(time.Second, 1).rate(), "one says nothing")
	require.Equal(t, Rate{}, track(nil).rate())
}

// TestRateOfNumbers: tokens that are no times count the grants themselves: Redisson's, and those of this library after
// the server's clock was set back.
func TestRateOfNumbers(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	for what, first := range map[string]uint64{"small": 17, "of a clock before": micro(begin.Add(-time.Hour)), "ahead": micro(begin.Add(time.Hour))} {
		var tr track
		for n := range uint64(11) {
			tr = tr.see(look(begin.Add(time.Duration(n)*time.Second), first+40*n)) //nolint:gosec // small
		}
		r := tr.rate()
		require.False(t, r.Guessed, what)
		require.InDelta(t, 40, r.PerSecond, 0.001, what)
	}
}

// TestRateForgets: looks of long ago do not count, nor those before the token was gone; one soon after
// another is left out.
func TestRateForgets(t *testing.T) {
	tr := granting(time.Second, 100)
	require.LessOrEqual(t, len(tr), rateLooks)
	last := tr[len(tr)-1]
	require.Equal(t, tr, tr.see(look(last.at.Add(time.Millisecond), last.token+1)))
	require.Len(t, tr.see(look(last.at.Add(time.Hour), last.token)), 1)
	require.Len(t, tr.see(look(last.at.Add(time.Second), last.token-1)), 1)
}
