package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

func TestJain(t *testing.T) {
	require.InDelta(t, 1, jain([]float64{7, 7, 7}), 1e-9)
	require.InDelta(t, 0.25, jain([]float64{0, 9, 0, 0}), 1e-9)
	require.InDelta(t, 0.9, jain([]float64{1, 2}), 1e-9)
	require.Zero(t, jain([]float64{0, 0}))
}

// counted is a result of goroutines that each waited 1, 2, ... n milliseconds, and handed over after 10 µs.
func counted(t *testing.T, process, n int, grants ...int) *result {
	win := window{0, 1e12}
	var tallies []*tally
	for i, each := range grants {
		one := newTally(win)
		for k := range each {
			wait := int64(k%n+1) * 1e6
			one.grant(newParticipant(process, i), 1e9, 1e9+wait, handover{newParticipant(9, 9), 1e9 + wait - 10e3})
		}
		tallies = append(tallies, one)
	}
	r, err := merge(tallies)
	require.NoError(t, err)
	return r
}

func TestResultsOfProcessesAreOneDistribution(t *testing.T) {
	m, err := summarise([]*result{counted(t, 0, 100, 100, 100), counted(t, 1, 100, 100, 300)}, 2, 1)
	require.NoError(t, err)
	require.InDelta(t, 300, m[metricRate], 1e-9)
	require.InEpsilon(t, 0.0505, m[metricWaitMean], 1e-9, "means are exact")
	require.InEpsilon(t, 0.050, m[metricWaitP50], 0.002)
	require.InEpsilon(t, 0.099, m[metricWaitP99], 0.002)
	require.InEpsilon(t, 10e-6, m[metricGapP99], 0.002)
	require.InEpsilon(t, 0.1, m[metricLongest], 1e-9)
	require.InDelta(t, 1, m[metricMoved], 1e-9)
	require.InDelta(t, jain([]float64{100, 100, 100, 300}), m[metricJain], 1e-9)
	require.InDelta(t, jain([]float64{200, 400}), m[metricJainProcesses], 1e-9)
	require.InDelta(t, 200/300., m[metricLeastShare], 1e-9, "of a fair share")
	require.InDelta(t, 100/150., m[metricLeastGoroutine], 1e-9)
	require.InDelta(t, 300/150., m[metricMostGoroutine], 1e-9)
}

func TestOnlyTheWindowCounts(t *testing.T) {
	me, other := newParticipant(0, 0), newParticipant(0, 1)
	one := newTally(window{100, 200})
	one.grant(me, 50, 99, handover{})
	one.grant(me, 90, 110, handover{other, 95})   // counts, but its gap began before
	one.grant(me, 120, 130, handover{other, 125}) // counts
	one.grant(me, 140, 150, handover{me, 145})    // counts, and went to the same one
	one.grant(me, 190, 200, handover{other, 195})
	require.EqualValues(t, 3, one.count)
	require.EqualValues(t, 5, one.Entries)
	require.EqualValues(t, 2, one.Handover)
	require.EqualValues(t, 1, one.Moved)
	require.EqualValues(t, 10, one.GapSum)
	require.EqualValues(t, 20, one.Longest)
}

func TestRoundsBeginWithAnotherEach(t *testing.T) {
	all := []string{"a", "b", "c"}
	require.Equal(t, []string{"a", "b", "c"}, rotated(all, 0))
	require.Equal(t, []string{"b", "c", "a"}, rotated(all, 1))
	require.Equal(t, []string{"a", "b", "c"}, rotated(all, 3))
	require.Equal(t, []string{"a", "b", "c"}, all, "the list itself stays")
	require.Empty(t, rotated([]string{}, 1))
}

func TestChoose(t *testing.T) {
	all := []string{"a", "b", "c"}
	self := func(s string) string { return s }
	picked, err := choose("x", "c,a", all, self)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, picked)
	picked, err = choose("x", "", all, self)
	require.NoError(t, err)
	require.Equal(t, all, picked)
	_, err = choose("x", "a,d", all, self)
	require.ErrorContains(t, err, `-x: there is no "d"`)
}

func TestSpread(t *testing.T) {
	for want, of := range map[string][]float64{
		"2.00 (1.00..3.00)":   {3, 1, 2},
		"7.00":                {7},
		"12300 (9880..12300)": {12345, 9876, 12345},
		"0.0123 (0..0.0123)":  {0.01234, 0, 0.01234},
		"15.0 (10.0..20.0)":   {10, 20},
		"100 (99.9..100)":     {100, 99.94, 100},
	} {
		require.Equal(t, want, spreadOf(of).String())
	}
}

// Of readers beside a writer only the longest read is asked, and the waits are the writer's.
func TestReadersBesideAWriter(t *testing.T) {
	win := window{100, 200}
	writer, reader := newTally(win), newTally(win)
	reader.aside, reader.Longest = true, 150
	writer.grant(newParticipant(0, 0), 120, 160, handover{})
	reader.read(50, 99)   // before the window
	reader.read(90, 110)  // some of it within
	reader.read(150, 180) // the longest
	reader.read(200, 290) // behind the window
	r, err := merge([]*tally{writer, reader})
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Entries)
	m, err := summarise([]*result{r}, 1, 1)
	require.NoError(t, err)
	require.InDelta(t, 1, m[metricRate], 0)
	require.InDelta(t, 2, m[metricReads], 0)
	require.InEpsilon(t, 30e-9, m[metricLongestRead], 1e-9)
	require.InEpsilon(t, 40e-9, m[metricLongest], 1e-9, "not the reader's")
	require.InEpsilon(t, 10e-9, m[metricBeyondRead], 1e-9)
}

func TestCallsOf(t *testing.T) {
	const info = "# Commandstats\r\ncmdstat_evalsha:calls=7,usec=1\r\ncmdstat_eval:calls=2,usec=1\r\ncmdstat_publish:calls=5,usec=1\r\n"
	require.InDelta(t, 9, callsOf(info, scriptCommands...), 0)
	require.InDelta(t, 5, callsOf(info, "publish", "spublish"), 0)
	require.Zero(t, callsOf(info, "get"))
}

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

func one(scenario, lock string, round int, metrics map[string]float64) sample {
	c, _ := contenderNamed(lock)
	return sample{Scenario: scenario, Contender: lock, Group: c.group, Round: round, Metrics: metrics}
}

func rate(x float64) map[string]float64 { return map[string]float64{metricRate: x} }

func gap(x, moved float64) map[string]float64 {
	return map[string]float64{metricGapMean: x, metricMoved: moved}
}

// invented is a report of numbers that are easy to divide.
func invented() *report {
	return &report{
		Config: config{Rounds: 2, Time: time.Second},
		Absent: []string{"redisson: no java"},
		Samples: []sample{
			one("clients", "rlock", 1, rate(200)), one("clients", "redsync", 1, rate(50)),
			one("clients", "redislock", 1, rate(100)),
			one("clients", "rlock", 2, rate(300)), one("clients", "redsync", 2, rate(75)),
			one("clients", "redislock", 2, rate(60)),
			one("clients", "floor", 1, rate(400)), one("clients", "floor", 2, rate(300)),
			one("gap16", "fairlock", 1, gap(100e-6, 1)), one("gap16", "redsync", 1, gap(50e-6, 0.06)),
			one("gap16", "rueidislock", 1, gap(170e-6, 1)),
			one("gap16", "rlock", 1, gap(100e-6, 0.05)),
		},
	}
}

func TestRatiosArePerRound(t *testing.T) {
	found := map[string]ratio{}
	for _, x := range invented().ratios(scenarios) {
		found[x.scenario+" "+x.lock+" "+x.against] = x
	}
	require.Len(t, found, 4)
	x := found["clients rlock best peer"]
	require.Equal(t, "3.00 (2.00..4.00)", x.spread.String(), "another peer is the best in each round")
	require.Equal(t, []string{"redislock", "redsync"}, x.best)
	require.Equal(t, "0.750 (0.500..1.00)", found["clients rlock floor"].spread.String())
	x = found["gap16 fairlock best peer"]
	require.Equal(t, "1.70", x.spread.String(), "less is better")
	require.Equal(t, []string{"rueidislock"}, x.best, "who takes it again itself is not compared with")
	x = found["gap16 rlock best peer"]
	require.Equal(t, "0.500", x.spread.String(), "unless ours does it too")
	require.Equal(t, []string{"redsync"}, x.best)
}

func TestAllIsWritten(t *testing.T) {
	dir, r := t.TempDir(), invented()
	var terminal strings.Builder
	require.NoError(t, r.write(config{Out: dir}, &terminal))
	require.Contains(t, terminal.String(), "rlock")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	lines, err := csv.NewReader(strings.NewReader(read("results.csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+len(r.Samples))
	var again report
	require.NoError(t, json.Unmarshal([]byte(read("results.json")), &again))
	require.Equal(t, r.Samples, again.Samples)
	md := read("table.md")
	for _, want := range []string{"### clients", "| rlock | 250 (200..300) |", "Left out: redisson: no java",
		"Nobody was inside together"} {
		require.Contains(t, md, want)
	}
	require.Contains(t, read("clients.svg"), "<svg")
	require.NoFileExists(t, filepath.Join(dir, "single.svg"), "nobody measured it")
}

// What a lock of Holdfast must not do ends the program with 1; of others it is only shown.
func TestTheExitCode(t *testing.T) {
	for what, spoil := range map[string]func(*sample){
		"overlap":  func(s *sample) { s.Safety.Overlaps = 1 },
		"disorder": func(s *sample) { s.Safety.Disorder = 1 },
		"lost":     func(s *sample) { s.Lost = 1 },
		"errors":   func(s *sample) { s.Errors = 1 },
		"failed":   func(s *sample) { s.Error = "no answer" },
	} {
		r := invented()
		require.Zero(t, r.code(), what)
		spoil(&r.Samples[1])
		require.Equal(t, "redsync", r.Samples[1].Contender)
		require.Zero(t, r.code(), what)
		require.Contains(t, r.markdown(), "clients, redsync, round 1:", what)
		spoil(&r.Samples[0])
		require.Equal(t, 1, r.code(), what)
		require.Contains(t, r.markdown(), "clients, rlock, round 1:", what)
	}
}

// TestMain makes workers of this binary as main does of the program, with two locks more, which do not lock.
func TestMain(m *testing.M) {
	contenders = append(contenders, contender{name: "broken", group: own, open: openBroken},
		contender{name: "minority", group: own, open: openMinority, needs: needMasters},
		contender{name: "broken-writer", group: own, kind: aReadWrite, open: openBroken},
		contender{name: "broken-semaphore", group: own, kind: aSemaphore, open: openBroken},
		contender{name: "broken-latch", group: own, kind: aLatch, open: openBroken})
	if len(os.Args) > 1 && os.Args[1] == workerArg {
		os.Exit(workerMain())
	}
	redistest.Main(m)
}

// openMinority is the floor on several masters that is content with two votes of five.
func openMinority(j job) (client, error) { return newQuorumFloor(j, 2), nil }

// brokenClient is the control: it lets everybody in and gives everybody the same token.
type brokenClient struct{}

func openBroken(job) (client, error) { return brokenClient{}, nil }

func (brokenClient) locker(context.Context, string) (locker, error) {
	return func(context.Context) (func() error, uint64, error) {
		return func() error { return nil }, 1, nil
	}, nil
}

// reader is [readable].
func (c brokenClient) reader(ctx context.Context, name string) (locker, error) {
	return c.locker(ctx, name)
}

func (brokenClient) set(context.Context, string, int) error { return nil }

func (brokenClient) countDown(context.Context, string) error { return nil }

func (brokenClient) wait(context.Context, string) error { return nil }

func (brokenClient) close() error { return nil }

func testPage(t *testing.T) *page {
	p, err := createPage(filepath.Join(t.TempDir(), "page"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	return p
}

func TestTokensOutOfOrderAreCountedWithoutOverlap(t *testing.T) {
	p := testPage(t)
	me := newParticipant(0, 0)
	for _, token := range []uint64{1, 2, 2, 1, 3, 0} { // 0: the lock has none
		p.slot(0).enter(me, token)
		p.slot(0).leave(me)
	}
	require.Equal(t, safety{Entries: 6, Disorder: 2}, p.safety())
}

// Who is killed leaves itself inside; that is no overlap of the next one. Of anybody else it is.
func TestAHolderThatWasKilledIsNotMet(t *testing.T) {
	for condemned, overlaps := range map[int]int64{0: 0, 2: 1} {
		p := testPage(t)
		p.condemn(condemned)
		p.slot(0).enter(newParticipant(0, 0), 0)
		p.slot(0).enter(newParticipant(1, 0), 0)
		p.slot(0).leave(newParticipant(1, 0))
		require.Equal(t, overlaps, p.safety().Overlaps, condemned)
	}
}

func TestHandoversNameTheReleaser(t *testing.T) {
	p := testPage(t)
	a, b := newParticipant(0, 0), newParticipant(1, 0)
	require.Zero(t, p.slot(1).enter(a, 0))
	p.slot(1).leave(a)
	h := p.slot(1).enter(b, 0)
	require.Equal(t, a, h.from)
	require.LessOrEqual(t, h.at, now())
	require.Zero(t, p.slot(2).enter(a, 0), "each name has its own slot")
}

// Those who share may be inside together, so many at most, and nobody beside them who is alone.
func TestThoseWhoShareAreCounted(t *testing.T) {
	me := newParticipant(0, 0)
	for name, c := range map[string]struct {
		does func(s slot)
		want safety
	}{
		"two of two": {func(s slot) { s.share(2, 0); s.share(2, 0); s.unshare() }, safety{Entries: 2}},
		"three of two": {func(s slot) { s.share(2, 0); s.share(2, 0); s.share(2, 0) },
			safety{Entries: 3, Overlaps: 1}},
		"one after the other": {func(s slot) { s.share(1, 0); s.unshare(); s.share(1, 0) }, safety{Entries: 2}},
		"a reader behind a writer": {func(s slot) { s.enter(me, 5); s.leave(me); s.share(9, 5) },
			safety{Entries: 2}},
		"a reader beside a writer": {func(s slot) { s.enter(me, 5); s.share(9, 5) }, safety{Entries: 2, Overlaps: 1}},
		"a writer beside a reader": {func(s slot) { s.share(9, 5); s.enter(me, 6) }, safety{Entries: 2, Overlaps: 1}},
		"a token from before the last write": {func(s slot) { s.enter(me, 5); s.leave(me); s.share(9, 4) },
			safety{Entries: 2, Disorder: 1}},
	} {
		p := testPage(t)
		c.does(p.slot(0))
		require.Equal(t, c.want, p.safety(), name)
	}
}

// TestDistance: bytes arrive in order, and not before their time. What is sent at once takes no longer than one piece does.
func TestDistance(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	got := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		buf := make([]byte, 6)
		for n := 0; n < len(buf); {
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
		}
		got <- string(buf)
	}()
	const oneWay = 20 * time.Millisecond
	d, err := newDistance(ln.Addr().String(), oneWay)
	require.NoError(t, err)
	defer d.close()
	c, err := net.Dial("tcp", d.addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	began := time.Now()
	for _, text := range []string{"ab", "cd", "ef"} {
		_, err = c.Write([]byte(text))
		require.NoError(t, err)
	}
	require.Equal(t, "abcdef", <-got)
	require.GreaterOrEqual(t, time.Since(began), oneWay)
}
