package grantrate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func micro(t time.Time) uint64 { return uint64(t.UnixMicro()) } //nolint:gosec // of this century

// granting are looks each second at a lock that is granted each period, from the time of the server on.
func granting(period time.Duration, looks int) Track {
	begin := time.Unix(1_700_000_000, 0)
	var t Track
	for n := range looks {
		at := begin.Add(time.Duration(n)*time.Second + 317*time.Millisecond)
		last := begin.Add(at.Sub(begin).Truncate(period))
		t = t.See(at, micro(last))
	}
	return t
}

// TestRateIsCounted: as long as grants come more rarely than looks, it is what it is.
func TestRateIsCounted(t *testing.T) {
	r := granting(5*time.Second, 26).Rate()
	require.True(t, r.Known)
	require.False(t, r.Guessed)
	require.InDelta(t, 0.2, r.PerSecond, 0.001)
	r = granting(time.Hour, 10).Rate()
	require.Equal(t, Rate{Known: true}, r)
}

// TestRateIsGuessed: where every look finds another token it is said from how long ago the grants were.
func TestRateIsGuessed(t *testing.T) {
	for _, period := range []time.Duration{7 * time.Millisecond, 53 * time.Millisecond, 171 * time.Millisecond} {
		r := granting(period, 40).Rate()
		require.True(t, r.Guessed, period)
		truth := 1 / period.Seconds()
		require.InDelta(t, truth, r.PerSecond, truth/2, period)
	}
	require.False(t, granting(7*time.Millisecond, guessFrom).Rate().Guessed, "too few looks")
	require.Equal(t, Rate{}, granting(time.Second, 1).Rate(), "one says nothing")
	require.Equal(t, Rate{}, Track(nil).Rate())
}

// TestRateOfNumbers: tokens that are not times count the grants: Redisson's, and ours after the server's clock was set back.
func TestRateOfNumbers(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	for what, first := range map[string]uint64{"small": 17, "of a clock before": micro(begin.Add(-time.Hour)), "ahead": micro(begin.Add(time.Hour))} {
		var tr Track
		for n := range uint64(11) {
			tr = tr.See(begin.Add(time.Duration(n)*time.Second), first+40*n) //nolint:gosec // small
		}
		r := tr.Rate()
		require.False(t, r.Guessed, what)
		require.InDelta(t, 40, r.PerSecond, 0.001, what)
	}
}

// TestRateForgets: looks of long ago do not count, nor those before the token was gone; one soon after another is left out.
func TestRateForgets(t *testing.T) {
	tr := granting(time.Second, 100)
	require.LessOrEqual(t, len(tr), mostLooks)
	last := tr[len(tr)-1]
	require.Equal(t, tr, tr.See(last.at.Add(time.Millisecond), last.token+1))
	require.Len(t, tr.See(last.at.Add(time.Hour), last.token), 1)
	require.Len(t, tr.See(last.at.Add(time.Second), last.token-1), 1)
}

// TestRateIsNotKnown: another token at looks that are far apart says nothing of how many grants there were, and neither do a few
// looks of which each finds another one. The same token says that there was none, however far apart the looks are.
func TestRateIsNotKnown(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	granted := micro(begin.Add(-time.Hour))
	idle := Track(nil).See(begin, granted).See(begin.Add(20*time.Second), granted)
	require.Equal(t, Rate{Known: true}, idle.Rate())
	late := begin.Add(29 * time.Second)
	busy := idle.See(late, micro(late.Add(-time.Millisecond)))
	require.Equal(t, Rate{}, busy.Rate(), "one grant in 29 seconds, or one each millisecond of the last nine")
	require.True(t, idle.See(begin.Add(21*time.Second), micro(begin.Add(20500*time.Millisecond))).Rate().Known, "control: soon after")

	for looks := range guessFrom {
		require.Equal(t, Rate{}, granting(7*time.Millisecond, looks+1).Rate())
	}
	require.True(t, granting(7*time.Millisecond, guessFrom+1).Rate().Known, "control")
}

func TestString(t *testing.T) {
	for want, r := range map[string]Rate{
		"-": {}, "0": {Known: true}, "0.2": {Known: true, PerSecond: 0.2}, "0.01": {Known: true, PerSecond: 0.0001},
		"~140": {Known: true, Guessed: true, PerSecond: 140.4}, "3.1": {Known: true, PerSecond: 3.14},
	} {
		require.Equal(t, want, r.String())
	}
}
