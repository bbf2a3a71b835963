package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// TestClockThatIsMoved: a server's clock is set while it is looked at, either way. The control is the
// same server before: however busy the machine, its clock is not called wrong.
func TestClockThatIsMoved(t *testing.T) {
	srv := redistest.Start(t, redistest.Clock())
	rdb := srv.Client(t)
	look := func(between func()) Finding {
		p := admitted(t, rdb, Settings{Span: time.Millisecond})
		between()
		return only(t, clock(t.Context(), p))
	}
	require.NotEqual(t, Error, look(func() {}).Level, "control")
	expect(t, look(func() { srv.MoveClock(t, time.Hour) }), Error, "another rate", "NTP")
	expect(t, look(func() { srv.MoveClock(t, -2*time.Hour) }), Error, "another rate", "NTP")
	require.NotEqual(t, Error, look(func() {}).Level, "what it shows does not matter")
}

func TestClockIsRefused(t *testing.T) {
	p := admitted(t, user(t, redistest.Shared(t), "~* +@all -time"), Settings{})
	expect(t, only(t, clock(t.Context(), p)), Unknown, "+time")
}

// TestJudgeClock: readings of which both ends of a round trip are known.
func TestJudgeClock(t *testing.T) {
	began := time.Now()
	at := func(passed, theirs, apart, within time.Duration) []Finding {
		return judgeClock(reading{began.Add(apart), began, within},
			reading{began.Add(apart + theirs), began.Add(passed), within})
	}
	const ms = time.Millisecond
	expect(t, only(t, at(time.Second, time.Second, 0, ms)), OK, "shows our time")
	expect(t, only(t, at(time.Second, 1011*ms, 0, ms)), OK) // within a per cent and the round trips
	expect(t, only(t, at(time.Second, 1013*ms, 0, ms)), Error, "went on by 1.01s")
	expect(t, only(t, at(time.Second, 985*ms, 0, ms)), Error)
	expect(t, only(t, at(time.Second, time.Second, 3*time.Second, ms)), OK, "3s more than ours")
	expect(t, only(t, at(time.Second, time.Second, -3*time.Hour, ms)), Note, "3h0m0s less than ours", "do not mind")
	expect(t, only(t, at(time.Second, time.Second, 0, 6*ms)), Unknown, "nearer")
}

// TestLatency: the same round trips are fine for a long lease, and too long for a short one.
func TestLatency(t *testing.T) {
	rdb := redistest.Shared(t).Client(t)
	expect(t, only(t, latency(t.Context(), admitted(t, rdb, Settings{Lease: time.Hour}))), OK, "(p50)", "(p99)")
	expect(t, only(t, latency(t.Context(), admitted(t, rdb, Settings{Lease: time.Microsecond}))), Error, "a longer lease")
	took := make([]time.Duration, 100)
	for i := range took {
		took[i] = time.Duration(i+1) * time.Millisecond
	}
	expect(t, only(t, judgeLatency(took, 4*time.Second)), OK,
		"round trips of 51ms (p50) and 99ms (p99); a renewal may take 400ms")
	expect(t, only(t, judgeLatency(took, 3*time.Second)), Warning, "from 3.96s up")
	expect(t, only(t, judgeLatency(took, 900*time.Millisecond)), Error, "holds are lost")
	expect(t, only(t, judgeLatency(took[:1], time.Second)), OK, "1ms (p50) and 1ms (p99)")
}
