package suspend

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// machine is one whose clocks are set by a test.
type machine struct {
	now    time.Time
	asleep time.Duration
	ahead  time.Duration
	counts bool // the system counts the time that it slept
	asked  int
}

func newMachine(counts bool) (*machine, *Clock) {
	m := &machine{now: time.Now(), asleep: time.Hour, counts: counts}
	return m, New(Source{
		Now:    func() time.Time { return m.now },
		Ahead:  func(time.Time) time.Duration { return m.ahead },
		Asleep: func() (time.Duration, bool) { m.asked++; return m.asleep, m.counts },
	})
}

func (m *machine) sleep(d time.Duration) { m.asleep, m.ahead = m.asleep+d, m.ahead+d }

// pass is time in which it is awake.
func (m *machine) pass(d time.Duration) time.Time {
	m.now = m.now.Add(d)
	return m.now
}

// TestSleepIsNoticed: by whoever looks first, and what was before that counts as from before the sleep.
func TestSleepIsNoticed(t *testing.T) {
	m, c := newMachine(true)
	first := c.Now()
	m.pass(time.Second)
	require.Zero(t, c.SleptBy(c.Now()))
	m.sleep(time.Minute)
	between := m.pass(time.Millisecond)
	require.Zero(t, c.SleptBy(between), "nobody has looked")
	noticed := func() time.Time { m.pass(time.Millisecond); return c.Now() }()
	require.Equal(t, time.Minute, c.SleptBy(noticed))
	require.Equal(t, time.Minute, c.SleptBy(m.pass(time.Second)))
	require.Zero(t, c.SleptBy(between))
	require.Zero(t, c.SleptBy(first))
	m.sleep(time.Second)
	second := c.Now()
	require.Equal(t, time.Minute+time.Second, c.SleptBy(second))
	require.Equal(t, time.Minute+time.Second, c.Slept())
	require.Equal(t, time.Minute, c.SleptBy(noticed))
	require.Zero(t, c.SleptBy(between))
	require.Zero(t, c.Doubts())
}

// TestManySleeps: not all are remembered, and what was before the ones that are counts as from before all.
func TestManySleeps(t *testing.T) {
	m, c := newMachine(true)
	for range 3 * most {
		m.sleep(time.Second)
		m.pass(time.Second)
		c.Now()
	}
	require.Len(t, c.list(), most)
	require.Equal(t, 3*most*time.Second, c.SleptBy(m.now))
	require.Equal(t, (3*most-1)*time.Second, c.SleptBy(m.now.Add(-1)))
	require.Zero(t, c.SleptBy(m.now.Add(-most*time.Second)))
}

// TestForget: a clock that forgot is as one that was made then.
func TestForget(t *testing.T) {
	m, c := newMachine(true)
	m.sleep(time.Second)
	m.pass(time.Second)
	c.Now()
	m.sleep(time.Second) // which nobody has noticed
	c.Forget()
	require.Zero(t, c.SleptBy(c.Now()))
	m.sleep(time.Minute)
	require.Equal(t, time.Minute, c.SleptBy(c.Now()))
}

// TestSetClock: setting a wall clock is not sleep, where the system knows; elsewhere setting it forward is a doubt.
func TestSetClock(t *testing.T) {
	for _, counts := range []bool{true, false} {
		m, c := newMachine(counts)
		for _, by := range []time.Duration{-time.Hour, 10 * time.Microsecond, jump / 2, -jump} {
			m.ahead += by
			c.Now()
		}
		require.Zero(t, c.Doubts())
		m.ahead += jump
		c.Now()
		require.EqualValues(t, 1, c.Doubts(), "what no other clock shows, as where a virtual machine was stopped")
		m.sleep(time.Minute)
		c.Now()
		require.Equal(t, counts, c.SleptBy(m.now) == time.Minute)
		require.Equal(t, !counts, c.Doubts() == 2)
	}
}

// TestNothingHappens: a look that finds nothing asks for nothing.
func TestNothingHappens(t *testing.T) {
	m, c := newMachine(true)
	for range 1000 {
		m.pass(time.Second)
		m.ahead += 100 * time.Nanosecond
		c.Now()
	}
	require.Equal(t, 1, m.asked, "when the clock was made")
}

// TestSystem: the clocks of this machine can be read.
func TestSystem(t *testing.T) {
	total, ok := asleep()
	require.Equal(t, runtime.GOOS == "linux", ok)
	require.GreaterOrEqual(t, total, time.Duration(0))
	require.Less(t, ahead(time.Now()), time.Hour)
	require.WithinDuration(t, time.Now(), System.Now(), time.Hour)
}
