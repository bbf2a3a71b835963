package history

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeases: what a lease may be, by what was asked for.
func TestLeases(t *testing.T) {
	const (
		grant = "lock a#1 lease100; "
		plain = "lock a#1 lease100 plain; "
		inner = plain + "reenter a#1 lease100; "
		last  = "unlock a#1 plain till1000"
	)
	for _, c := range []struct {
		what, ops string
		bad       bool
	}{
		{"as asked for", grant + "state a#1 seen=a rest100", false},
		{"rounded up to a millisecond", grant + "state a#1 seen=a rest1000000", false},
		{"longer", grant + "state a#1 seen=a rest1000001", true},
		{"another's", grant + "state a#1 seen=b rest9000000", false},
		{"extended", grant + "extend a#1 lease2000000; state a#1 seen=a rest2000000", false},
		{"extended, perhaps", grant + "extend a#1 lease2000000 unknown; state a#1 seen=a rest2000000", false},
		{"entered for longer", grant + "reenter a#1 lease2000000; state a#1 seen=a rest2000000", false},
		{"plain", plain + "unlock a#1 plain till102", false},
		{"plain, and it goes on", plain + "unlock a#1 plain till103", true},
		{"plain, and lost before", plain + "end a#1 lost till", false},
		{"renewed", grant + last, false},
		{"renewed within", inner + last, false},
		{"renewed within, and ended", inner + "leave a#1; unlock a#1 plain till106", false},
		{"it goes on after that", inner + "leave a#1; unlock a#1 plain till107", true},
		{"nobody knows whether it ended", inner + "leave a#1 unknown; " + last, false},
		{"entered without renewal either", plain + "reenter a#1 lease100 plain; " + last, true},
	} {
		require.Equal(t, c.bad, len(Leases(story(Locks, c.ops), Config{})) > 0, c.what)
	}
	claimed := story(Locks, grant+"state a#1 seen=a rest2000000")
	require.NotEmpty(t, Leases(claimed, Config{}))
	require.Empty(t, Leases(claimed, Config{Claim: 2e6}), "a claim")
}

// TestKinds: another kind is refused as long as the name is held.
func TestKinds(t *testing.T) {
	for ops, wrong := range map[string]int{
		"mixed a#1 refused; unlock a#1": 0, "mixed a#1 denied; unlock a#1": 1, "mixed a#1; unlock a#1": 1,
		"end a#1 lost; mixed a#1 left": 0, // not held any more
	} {
		require.Len(t, Forbidden(story(Locks, "lock a#1; "+ops), Config{}), wrong, ops)
	}
}

// TestOvertaken: who is handed the lock came before all who wait in its client.
func TestOvertaken(t *testing.T) {
	const handed, waits = "lock x#1 handed @50-60; ", "lock y#2 @10-100"
	for _, c := range []struct {
		what, ops string
		wrong     int
	}{
		{"waits", waits, 1},
		{"later", "lock y#2 @51-100", 0},
		{"at once", "lock y#2 @45-100", 0},
		{"left before", "lock left @10-60", 0},
		{"another client", "1: " + waits, 0},
		{"does not wait", "try y#2 @10-100", 0},
	} {
		require.Len(t, Overtaken(story(Locks, handed+c.ops), Config{Slack: 5}), c.wrong, c.what)
	}
	for at, wrong := range map[int64]int{8: 1, 9: 0, 60: 0, 61: 1} { // 1 to recover
		c := Config{Slack: 5, Recovery: 1, Local: map[int][]Window{0: {{at, at}}}}
		require.Len(t, Overtaken(story(Locks, handed+waits), c), wrong, at)
	}
}

// TestPeriods: who is granted a lock that was to stay taken, and when.
func TestPeriods(t *testing.T) {
	const (
		first  = "lock x#1 lease202 least101 till218 @1-21; "
		short  = "lock x#1 lease10 least101 till26 @1-21; "
		unlock = "unlock x#1 @23-24; "
		lost   = "unlock x#1 unknown @23-24; "
	)
	for _, c := range []struct {
		what, ops string
		config    Config
		bad       bool
	}{
		{"when it is over", first + unlock + "lock y#2 @2-121", Config{}, false},
		{"too early", first + unlock + "lock y#2 @2-120", Config{}, true},
		{"of a short lease", short + unlock + "lock y#2 @2-116", Config{}, false},
		{"or too early", short + unlock + "lock y#2 @2-115", Config{}, true},
		{"while it is held", first + "lock y#2 @2-23", Config{}, true},
		{"not unlocked: by the server", first + lost + "lock y#2 @2-116", Config{}, false},
		{"but not earlier", first + lost + "lock y#2 @2-115", Config{}, true},
		{"not to stay", "lock x#1 lease202 till218 @1-21; " + unlock + "lock y#2 @2-31", Config{}, false},
		{"by a clock that jumped", first + unlock + "lock y#2 @2-116", Config{Jumps: 5}, false},
		{"and not so far", first + unlock + "lock y#2 @2-115", Config{Jumps: 5}, true},
		{"data were lost", first + unlock + "lock y#2 @2-120", Config{Lapses: []Window{{121, 131}}}, false},
		{"but before", first + unlock + "lock y#2 @2-120", Config{Lapses: []Window{{-9, -1}}}, true},
		{"forced out", first + "force @22-23; lock y#2 @2-23", Config{}, false},
	} {
		require.Equal(t, c.bad, len(Periods(story(Locks, c.ops), c.config)) > 0, c.what)
	}
}

// TestProgress: a lock that is free and wanted is granted within 10, to anybody.
func TestProgress(t *testing.T) {
	const left = "1: lock left @30-36; 1: lock left @37-43; 2: lock left @42-50"
	for _, c := range []struct {
		what, ops string
		bad       bool
	}{
		{"granted", "lock a#1 @1-2; unlock a#1 @3-4; 1: lock b#2 @5-14", false},
		{"to one who waited too long", "lock a#1 @1-2; unlock a#1 @3-4; 1: lock b#2 @5-17", true},
		{"to nobody", left, true},
		{"while another had it", "lock a#1 @1-2; " + left + "; unlock a#1 @51-52", false},
		{"for a part of the time", "lock a#1 @1-2; unlock a#1 @38-42; " + left, false},
		{"to callers who have no time", "1: lock left @30-33; 1: lock left @34-37; 2: lock left @37-40; 1: lock left @40-43", false},
		{"of whom one does not wait for the other", "1: lock left @30-36; 2: lock left @39-45", false},
		{"in the time after a fault", "1: lock left @3-14", false},
	} {
		config := Config{Lease: lease, Window: 10, Serving: 4, Recovery: 5, Faults: []Window{{-9, 1}}}
		require.Equal(t, c.bad, len(Progress(story(Locks, c.ops), config)) > 0, c.what)
	}
}

// TestGhosts: who may be named as the holder, and when.
func TestGhosts(t *testing.T) {
	const (
		mine, other = "uuid:h1", "uuid:h2"
		grant       = "lock uuid:h2#1 @10-20; "
		held        = grant + "unlock uuid:h2#1 @100-110"
		left        = held + "; lock left asked=uuid:h1 @30-40"
		lost        = grant + "end uuid:h2#1 lost @60-60"
		again       = lost + "; reenter uuid:h2#0 lost asked=uuid:h1 @65-75" // its hold ended first
		killed      = grant + "crash @50-51"
	)
	fault, closed := Config{Local: map[int][]Window{0: {{25, 45}}}}, Config{Closed: map[int][]Window{0: {{41, Forever}}}}
	for _, c := range []struct {
		what, ops, owner string
		at               int64
		config           Config
		ghost            bool
	}{
		{"while it asks", held, other, 10, Config{}, false},
		{"while it holds", held, other, 60, Config{}, false},
		{"before it asked", held, other, 9, Config{}, true},
		{"just after", held, other, 120, Config{}, false},
		{"long after", held, other, 121, Config{}, true},
		{"long after a loss", lost, other, 71, Config{}, true},
		{"a call that failed", left, mine, 50, Config{}, false},
		{"long after a call that failed", left, mine, 51, Config{}, true},
		{"another's call", left, "uuid:h3", 35, Config{}, true},
		{"a call of an owner that was not seen", held + "; lock left @30-40", mine, 35, Config{}, false},
		{"a re-entry of what was lost", again, mine, 80, Config{}, false},
		{"long after one", again, mine, 86, Config{}, true},
		{"a client that was never granted anything", "lock left asked=uuid:h1 @30-40", mine, 99, Config{}, false},
		{"recovers from a fault", left, mine, 60, fault, false},
		{"has recovered", left, mine, 61, fault, true},
		{"killed", killed, other, 51 + 2*lease, Config{}, false},
		{"killed long ago", killed, other, 52 + 2*lease, Config{}, true},
		{"closed", left, mine, 200, closed, false},
	} {
		c.config.Lease, c.config.Recovery, c.config.Undo, c.config.Samples = lease, 5, 10, []Sample{{c.at, "a", c.owner}}
		require.Equal(t, c.ghost, len(Ghosts(story(Locks, c.ops), c.config)) > 0, c.what)
	}
}

const (
	// keeps are two grants of a client of which the second was of the kept lock.
	keeps  = "lock uuid:k7#1 keep50 @10-20; unlock uuid:k7#1 @30-40; lock uuid:k7#2 keep50 handed @60-61; unlock uuid:k7#2 @70-80"
	queued = "; 1: lock left @90-200" // in another client
)

// TestKept: what was handed off to one who waited is not counted.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		is, was string
		n       int
	}{{"", "", 1}, {"@60-61", "@35-61", 0}, {" handed", "", 0}} {
		require.Equal(t, c.n, Kept(story(Locks, strings.Replace(keeps, c.is, c.was, 1))), c.is)
	}
}

// TestKeptIsNoGhost: a lock stands for nobody for as long as it may be kept, and no longer.
func TestKeptIsNoGhost(t *testing.T) {
	for at, ghosts := range map[int64]int{140: 0, 141: 1} {
		require.Len(t, Ghosts(story(Locks, keeps), Config{Lease: lease, Recovery: 5, Undo: 10, Samples: []Sample{{at, "a", "uuid:k7"}}}), ghosts)
	}
}

// TestKeptAndWaitedFor: who waits calls a kept lock back, but not where a fault meets its client.
func TestKeptAndWaitedFor(t *testing.T) {
	c := Config{Lease: lease, Recovery: 5, Bound: 20}
	require.NotEmpty(t, WakeUps(story(Locks, keeps+queued), c))
	c.Local = map[int][]Window{0: {{100, 110}}}
	require.Empty(t, WakeUps(story(Locks, keeps+queued), c))
}

// TestKeptRefuses: a kept lock is a reason for a refusal, and that its client was killed later does not change that.
func TestKeptRefuses(t *testing.T) {
	for more, wrong := range map[string]int{"try denied @100-101": 0, "try denied @150-151": 1, "try denied @100-101; crash @110-111": 0} {
		require.Len(t, Linearizable(story(Locks, keeps+"; "+more), Config{Lease: lease, Recovery: 5}), wrong, more)
	}
}

// TestRefusals: what a refusal has to say, and when.
func TestRefusals(t *testing.T) {
	const owner = "4bb565b9-7975-530a-16d4-42315f83f777:h7"
	const thing, names = "foreign seen=no+lock @500s-600s; ", "try denied error=held+by+" + owner + ",+whose+lease @1s-2s"
	for _, c := range []struct {
		what, ops string
		wrong     int
	}{
		{"names the holder", names, 0},
		{"does not", "try denied error=not+acquired @1s-2s", 1},
		{"says what is there", "try denied error=that+is+no+lock @550s-551s", 0},
		{"says so with an error", "try refused error=that+is+no+lock @550s-551s", 0},
		{"says what is not there", "try denied error=held+by+" + owner + " @550s-551s", 1},
		{"was granted all the same", "try @550s-551s", 1},
		{"may have come before it", "try @499s-500s", 0},
		{"or been refused before it", "try denied @499s-500s", 0},
		{"has no answer", "try unknown error=timeout @550s-551s", 0},
	} {
		require.Len(t, Refusals(story(Locks, thing+c.ops)), c.wrong, c.what)
	}
	require.Equal(t, []Sample{{At: 2e9, Name: "a", Owner: owner}}, Named(story(Locks, names)))
}

// TestOutages: who is told that no server answers did not hear an answer a moment ago.
func TestOutages(t *testing.T) {
	const told, answer = "lock left outage error=no+answer", "state @900-910; try denied @920-930; "
	c := Config{Recovery: 10, Faults: []Window{{100, 120}}, Local: map[int][]Window{1: {{100, 1200}}}}
	for ops, wrong := range map[string]int{
		answer + told + " @940-950":                                         1,
		"try denied @900-910; try unknown outage error=no+answer @910-950":  1,
		answer + told + " @99000000-100000000":                              1,
		answer + told + " @1000000940-1000000950":                           0,
		answer + told + " @940-100000940":                                   0,
		answer + "lock left outage error=refused @940-950":                  0,
		answer + "lock left @940-950":                                       0,
		"state @900-945; try denied @920-947; " + told + " @940-950":        0,
		"lock @900-910; state lost @920-930; " + told + " @940-950":         0,
		"2: state @900-910; " + told + " @940-950":                          0,
		"state @10-20; " + told + " @110-130":                               0,
		"1: state @900-910; 1: lock left outage error=no+answer @1205-1208": 0,
		"1: state @900-910; 1: lock left outage error=no+answer @1215-1218": 1,
	} {
		require.Len(t, Outages(story(Locks, ops), c), wrong, ops)
	}
}

const (
	place  = "1: queue a#0 @4-5; " // of one that surely had its place at 5
	first  = place + "1: lock a#2 @4-40; "
	stays  = place + "1: lock unknown @4-; "
	second = "2: queue b#0 @6-7; 2: lock b#1 @6-20"
)

// TestFifo: two waiters, of which the first surely had its place at 5. What the second does decides.
func TestFifo(t *testing.T) {
	for _, c := range []struct {
		what, ops string
		wrong     bool
	}{
		{"in order", place + "1: lock a#1 @4-20; 2: queue b#0 @6-7; 2: lock b#2 @6-40", false},
		{"overtaken", first + second, true},
		{"both asked at one time", first + "2: queue b#0 @5-7; 2: lock b#1 @5-20", false},
		{"called late, but asked early", first + "2: queue b#0 @6-7; 2: lock b#1 @3-20", true},
		{"passed by one that never waited", first + "2: try b#1 @6-7", true},
		{"which called before", first + "2: try b#1 @5-7", false},
		{"granted what it had before it asked for a place", first + "2: queue b#0 denied @6-7; 2: lock b#1 @3-7", false},
		{"overtaken, and left after that", place + "1: lock left @4-30; " + second, true},
		{"left, and then the other was granted it", place + "1: lock left @4-15; " + second, false},
		{"still waits", stays + second, true},
		{"died", stays + "1: crash @15-16; " + second, false},
		{"died later", stays + "1: crash @25-26; " + second, true},
		{"another died", first + "3: crash @15-16; " + second, true},
		{"never surely had one", "1: queue unknown @4-5; 1: lock a#2 @3-40; " + second, false},
		{"the data was lost", first + "wipe @10-11; " + second, false},
		{"its client lost the lock", first + "1: end z#1 lost @10-10; " + second, false},
		{"its client lost it before", first + "1: end z#1 lost @4-4; " + second, true},
		{"its client lost it later", first + "1: end z#1 lost @21-21; " + second, true},
		{"another client lost it", first + "3: end z#1 lost @10-10; " + second, true},
	} {
		require.Equal(t, c.wrong, len(Fifo(story(Locks, c.ops), Config{Recovery: 5})) > 0, c.what)
	}
	other := story(Locks, first+"2: try b#1 @6-7")
	other[2].Name = "b"
	require.Empty(t, Fifo(other, Config{Recovery: 5}), "another lock")
}

// TestFifoExcuses: who could not be reached while it waited may be passed over. That others could not does not matter.
func TestFifoExcuses(t *testing.T) {
	ops := story(Locks, first+second)
	for _, c := range []struct {
		what  string
		fault Window
		wrong bool
	}{
		{"meanwhile", Window{10, 12}, false},
		{"before, and it had not recovered", Window{1, 2}, false},
		{"long before", Window{-5, -2}, true},
		{"after it was overtaken", Window{21, 22}, true},
	} {
		local := func(client int) Config { return Config{Recovery: 5, Local: map[int][]Window{client: {c.fault}}} }
		require.Equal(t, c.wrong, len(Fifo(ops, Config{Recovery: 5, Faults: []Window{c.fault}})) > 0, "all: "+c.what)
		require.Equal(t, c.wrong, len(Fifo(ops, local(1))) > 0, "it: "+c.what)
		require.Len(t, Fifo(ops, local(2)), 1, "the other: "+c.what)
	}
	left := story(Locks, place+"1: lock left @4-30; "+second)
	require.Len(t, Fifo(left, Config{Slack: 9}), 1)
	for _, c := range []Config{{Slack: 10}, {Leaving: 10}} {
		require.Empty(t, Fifo(left, c), "it may have left long before it said so")
	}
}

// TestRefusedForTheQueue: a fair lock that is free refuses who does not wait while somebody else has a place.
func TestRefusedForTheQueue(t *testing.T) {
	for _, c := range []struct {
		what, ops string
		wrong     bool
	}{
		{"somebody has a place", "1: queue a#0 @40-41; 1: lock a#1 @40-50; try denied @45-46", false},
		{"nobody had a place yet", "1: queue a#0 @40-41; 1: lock a#1 @40-50; try denied @20-21", true},
		{"its place is being given back", "1: queue @40-41; 1: lock left @40-50; try denied @54-55", false},
		// The Lock that left is a ghost too, for as long as a lease may stand; so a refusal after that.
		{"it is long gone", "1: queue @40-41; 1: lock left @40-50; try denied @200-201", true},
		{"a lock without a queue", "try denied @45-46", true},
	} {
		found := Linearizable(story(Locks, c.ops), Config{Lease: lease, Recovery: 5, Place: 20})
		require.Equal(t, c.wrong, len(found) > 0, c.what)
	}
}

// TestFifoOfPermits: who was handed permits and asks again has a new token and no known turn. Who waits for too many has none.
func TestFifoOfPermits(t *testing.T) {
	for more, wrong := range map[string]int{"": 1, "; 1: queue a#0 denied @30-31": 0, "; set of1 @10-11": 0, "; set of2 @10-11": 1} {
		require.Len(t, Fifo(story(Permits, place+"1: lock a#2 of2 @4-40; "+second+more), Config{}), wrong, more)
	}
}
